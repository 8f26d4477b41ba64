// SPDX-License-Identifier: Apache-2.0
#include "ops/infer_shapes.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/throw.h"
#include "ops/shape_probe.h"

namespace strop {
namespace {

constexpr std::string_view kDerived = "derived_size_";

// Sizes for the symbols of a graph: symbol i is first + i * step.
struct Family {
  int64_t first[2], step[2];
  // One size for the first dimension of all inputs.
  bool one_batch;
};

constexpr Family kFamilies[] = {
    {{64, 160}, {32, 96}, false},  {{64, 160}, {32, 96}, true},
    {{7, 23}, {2, 6}, false},      {{7, 23}, {2, 6}, true},
    {{224, 416}, {64, 192}, true}, {{2, 3}, {2, 3}, true},
};

// What a graph is given: its inputs, and what a sub-graph captures.
std::vector<ValueId> SourcesOf(const Graph& graph) {
  std::vector<ValueId> sources(graph.inputs().begin(), graph.inputs().end());
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    if (graph.value(id).outer) sources.push_back(id);
  }
  return sources;
}

// Symbols of the inputs, a name for each dimension that is no number.
class Symbols {
 public:
  explicit Symbols(const Graph& graph) {
    for (const ValueId id : SourcesOf(graph)) {
      const Value& input = graph.value(id);
      if (!input.type.dims) continue;
      for (size_t axis = 0; axis < input.type.dims->size(); ++axis) {
        const Dimension& dimension = (*input.type.dims)[axis];
        if (dimension.value) continue;
        const std::string name = NameOf(input.name, axis, dimension);
        const auto [place, is_new] =
            index_.emplace(name, static_cast<int64_t>(index_.size()));
        if (is_new) is_batch_.push_back(axis == 0);
      }
    }
  }

  // A dimension without a symbol is one of its own.
  static std::string NameOf(const std::string& input, size_t axis,
                            const Dimension& dimension) {
    return dimension.symbol.empty() ? fmt::format("{}.{}", input, axis)
                                    : dimension.symbol;
  }

  int64_t Size(const std::string& name, const Family& family,
               size_t probe) const {
    const int64_t i = index_.at(name);
    const bool shared = family.one_batch && is_batch_[static_cast<size_t>(i)];
    return family.first[probe] + (shared ? 0 : (i + 1) * family.step[probe]);
  }

  // The symbols that had these sizes: with one batch size for all there may
  // be several, of which nobody knows which is meant.
  std::vector<std::string> Find(const Family& family, int64_t first,
                                int64_t second) const {
    std::vector<std::string> found;
    for (const auto& [name, i] : index_) {
      if (Size(name, family, 0) == first && Size(name, family, 1) == second)
        found.push_back(name);
    }
    return found;
  }

  bool empty() const { return index_.empty(); }

 private:
  std::map<std::string, int64_t> index_;
  std::vector<bool> is_batch_;
};

// The two runs with one family of sizes.
struct Probes {
  const Family* family = nullptr;
  std::unique_ptr<ShapeProbe> runs[2];

  size_t failures() const {
    return runs[0]->errors().size() + runs[1]->errors().size();
  }
};

Probes RunProbes(const Graph& graph, const Symbols& symbols,
                 const Family& family,
                 std::span<const CustomOpDomain* const> custom) {
  Probes probes;
  probes.family = &family;
  for (size_t i = 0; i < 2; ++i) {
    // Sizes that nothing else has.
    constexpr int64_t kUnknownCounts[] = {19, 37};
    probes.runs[i] =
        std::make_unique<ShapeProbe>(graph, custom, kUnknownCounts[i]);
    for (const ValueId id : SourcesOf(graph)) {
      const Value& input = graph.value(id);
      if (input.type.kind != ValueType::Kind::kTensor || !input.type.dims)
        continue;
      std::vector<int64_t> dims;
      for (size_t axis = 0; axis < input.type.dims->size(); ++axis) {
        const Dimension& dimension = (*input.type.dims)[axis];
        dims.push_back(
            dimension.value
                ? *dimension.value
                : symbols.Size(Symbols::NameOf(input.name, axis, dimension),
                               family, i));
      }
      probes.runs[i]->SetInput(id, {input.type.element, Shape(dims)});
    }
    probes.runs[i]->Run();
  }
  return probes;
}

// Turns the sizes of two runs into dimensions.
class Writer {
 public:
  Writer(Graph& graph, const Symbols& symbols, const Probes& probes)
      : graph_(graph), symbols_(symbols), probes_(probes) {}

  void Write() {
    for (size_t i = 0; i < graph_.value_count(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      const Value& value = graph_.value(id);
      if (value.is_input || value.outer || value.initializer) continue;
      const ValueInfo* a = probes_.runs[0]->info(id);
      const ValueInfo* b = probes_.runs[1]->info(id);
      if (a == nullptr || b == nullptr || a->is_list || b->is_list) continue;
      WriteValue(id, a->tensor, b->tensor);
    }
  }

 private:
  void WriteValue(ValueId id, const TensorInfo& a, const TensorInfo& b) {
    ValueType& type = graph_.value(id).type;
    std::optional<std::vector<Dimension>> dims;
    if (a.shape.rank() == b.shape.rank()) {
      dims.emplace();
      for (size_t axis = 0; axis < a.shape.rank(); ++axis)
        dims->push_back(DimensionOf(a.shape[axis], b.shape[axis]));
    }
    type = ValueType::OfTensor(a.type, std::move(dims));
  }

  Dimension DimensionOf(int64_t a, int64_t b) {
    if (a == b) return {.value = a, .symbol = {}};
    const auto symbols = symbols_.Find(*probes_.family, a, b);
    if (symbols.size() > 1) return {};
    std::string symbol = symbols.empty() ? "" : symbols[0];
    if (symbol.empty()) {
      const auto [place, is_new] = derived_.emplace(std::pair(a, b), "");
      if (is_new)
        place->second = fmt::format("{}{}", kDerived, derived_.size());
      symbol = place->second;
    }
    return {.value = std::nullopt, .symbol = std::move(symbol)};
  }

  Graph& graph_;
  const Symbols& symbols_;
  const Probes& probes_;
  std::map<std::pair<int64_t, int64_t>, std::string> derived_;
};

using NodeErrors = std::vector<ShapeProbe::NodeError>;

// Errors that came in every run up to now, with the same text.
class CommonErrors {
 public:
  void Meet(const NodeErrors& errors) {
    std::set<std::string> texts;
    for (const auto& error : errors) texts.insert(error.text);
    if (!is_first_)
      std::erase_if(texts, [&](const auto& t) { return !texts_.contains(t); });
    texts_ = std::move(texts);
    is_first_ = false;
  }
  bool Contain(const std::string& text) const { return texts_.contains(text); }

 private:
  std::set<std::string> texts_;
  bool is_first_ = true;
};

InferenceReport ReportOf(const NodeErrors& errors, const CommonErrors& common) {
  InferenceReport report;
  for (const auto& [node, code, text] : errors) {
    report.errors.push_back(text);
    if (code == ErrorCode::kInvalidGraph || common.Contain(text))
      report.faults.push_back({node, text});
  }
  return report;
}

}  // namespace

bool IsDerivedSymbol(std::string_view symbol) {
  return symbol.starts_with(kDerived);
}

InferenceReport InferShapes(Graph& graph,
                            std::span<const CustomOpDomain* const> custom) {
  const Symbols symbols(graph);
  std::optional<Probes> best;
  CommonErrors common;
  for (const Family& family : kFamilies) {
    Probes probes = RunProbes(graph, symbols, family, custom);
    for (const auto& run : probes.runs) common.Meet(run->errors());
    if (!best || probes.failures() < best->failures()) best = std::move(probes);
    if (best->failures() == 0 || symbols.empty()) break;
  }
  Writer(graph, symbols, *best).Write();
  return ReportOf(best->runs[0]->errors(), common);
}

}  // namespace strop
