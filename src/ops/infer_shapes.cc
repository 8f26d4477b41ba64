// SPDX-License-Identifier: Apache-2.0
#include "ops/infer_shapes.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/throw.h"
#include "ops/probe_texts.h"
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
        if (!dimension.symbol.empty()) declared_.insert(name);
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

  // Whether all symbols that had these sizes are first dimensions.
  bool IsBatch(const Family& family, int64_t first, int64_t second) const {
    const std::vector<std::string> found = Find(family, first, second);
    return !found.empty() && std::ranges::all_of(found, [&](const auto& name) {
      return is_batch_[static_cast<size_t>(index_.at(name))];
    });
  }
  bool IsDeclared(const std::string& name) const {
    return declared_.contains(name);
  }

  bool empty() const { return index_.empty(); }

 private:
  std::map<std::string, int64_t> index_;
  std::set<std::string> declared_;
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

const ShapeProbe::NodeError* ErrorOf(const NodeErrors& errors, NodeId node,
                                     ErrorCode code) {
  for (const auto& error : errors)
    if (error.node == node && error.code == code) return &error;
  return nullptr;
}

// With symbols for the sizes that are no part of the model.
std::string TextOf(const ShapeProbe::NodeError& error, const Symbols& symbols,
                   const Probes& probes) {
  const auto* other = ErrorOf(probes.runs[1]->errors(), error.node, error.code);
  if (other == nullptr) return error.text;
  const auto merged =
      MergeTexts(error.text, other->text, [&](int64_t first, int64_t second) {
        const auto found = symbols.Find(*probes.family, first, second);
        const bool is_known = found.size() == 1 && symbols.IsDeclared(found[0]);
        return is_known ? found[0] : "?";
      });
  return merged ? merged->text : error.text;
}

// Errors that came in every run up to now and that no sizes mend: their texts
// are the same but for sizes of batches.
class CommonErrors {
 public:
  explicit CommonErrors(const Symbols& symbols) : symbols_(symbols) {}

  void Meet(const Probes& probes) {
    std::map<NodeId, MergedText> errors;
    for (const auto& error : probes.runs[0]->errors()) {
      const auto* other =
          ErrorOf(probes.runs[1]->errors(), error.node, error.code);
      if (other == nullptr) continue;
      auto merged = Merged(error.text, other->text, *probes.family);
      if (merged) errors.emplace(error.node, std::move(*merged));
    }
    if (!is_first_) {
      std::erase_if(errors, [&](const auto& entry) {
        const auto before = errors_.find(entry.first);
        return before == errors_.end() ||
               before->second.text != entry.second.text;
      });
    }
    errors_ = std::move(errors);
    is_first_ = false;
  }

  // The sizes that batches would have to be for the errors to go.
  std::set<int64_t> SizesToTry() const {
    std::set<int64_t> sizes;
    for (const auto& [node, merged] : errors_)
      if (merged.text.find(kBatch) != std::string::npos)
        sizes.insert(merged.constants.begin(), merged.constants.end());
    sizes.erase(0);
    return sizes;
  }
  void KeepThoseOf(const NodeErrors& errors) {
    std::erase_if(errors_, [&](const auto& entry) {
      return std::ranges::none_of(
          errors, [&](const auto& error) { return error.node == entry.first; });
    });
  }

  bool Contain(NodeId node) const { return errors_.contains(node); }

 private:
  static constexpr std::string_view kBatch = "<batch>";

  // Nothing where a size is in the text that other symbols decide.
  std::optional<MergedText> Merged(const std::string& a, const std::string& b,
                                   const Family& family) const {
    bool all_are_batches = true;
    auto merged = MergeTexts(a, b, [&](int64_t first, int64_t second) {
      all_are_batches =
          all_are_batches && symbols_.IsBatch(family, first, second);
      return std::string(kBatch);
    });
    return all_are_batches ? merged : std::nullopt;
  }

  const Symbols& symbols_;
  std::map<NodeId, MergedText> errors_;
  bool is_first_ = true;
};

// Gives batches the sizes that stand in the texts of errors.
void TrySizes(const Graph& graph, const Symbols& symbols,
              std::span<const CustomOpDomain* const> custom,
              CommonErrors& common) {
  constexpr size_t kMost = 32;
  const std::set<int64_t> sizes = common.SizesToTry();
  if (sizes.size() > kMost) return;
  for (const int64_t size : sizes) {
    const Family family = {{size, size}, {32, 96}, true};
    const Probes probes = RunProbes(graph, symbols, family, custom);
    common.KeepThoseOf(probes.runs[0]->errors());
  }
}

InferenceReport ReportOf(const Symbols& symbols, const Probes& probes,
                         const CommonErrors& common) {
  InferenceReport report;
  for (const auto& error : probes.runs[0]->errors()) {
    report.errors.push_back(TextOf(error, symbols, probes));
    if (error.code == ErrorCode::kInvalidGraph || common.Contain(error.node))
      report.faults.push_back({error.node, report.errors.back()});
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
  CommonErrors common(symbols);
  for (const Family& family : kFamilies) {
    Probes probes = RunProbes(graph, symbols, family, custom);
    common.Meet(probes);
    if (!best || probes.failures() < best->failures()) best = std::move(probes);
    if (best->failures() == 0 || symbols.empty()) break;
  }
  TrySizes(graph, symbols, custom, common);
  Writer(graph, symbols, *best).Write();
  return ReportOf(symbols, *best, common);
}

}  // namespace strop
