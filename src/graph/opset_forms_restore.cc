// SPDX-License-Identifier: Apache-2.0
//
// Back from the newest spelling to that of the graph's own opset.
#include <algorithm>
#include <optional>
#include <string_view>

#include "base/half.h"
#include "graph/opset_form_rewriter.h"
#include "graph/subgraphs.h"

namespace strop {
namespace opset_forms {
namespace {

// One node on its way back to the spelling of its graph's opset.
class Restorer : public NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;
  void Restore();
  // The inputs that the node gave up; they may have no reader any more.
  const std::vector<ValueId>& dropped() const { return dropped_; }

 private:
  bool RestoreSpelling();
  void MoveToAttributes();
  void MoveToAttribute(const MovedAttribute& row);
  void RestoreBatchNormalization();
  void DropInputsFrom(size_t position);
  [[noreturn]] void Fail(std::string_view why);
  // The constant that an input holds; null where it is none.
  const TensorData* Constant(size_t position);

  std::vector<ValueId> dropped_;
};

void Restorer::Fail(std::string_view why) {
  Throw(ErrorCode::kNotImplemented,
        "{} has no spelling in opset {}: {}; a newer opset has one",
        Describe(graph_, node()), opset_, why);
}

// Undoes exactly what Normalize did; false where somebody changed it since.
bool Restorer::RestoreSpelling() {
  const std::shared_ptr<const Spelling> spelling = node().spelling;
  if (!spelling || spelling->op_type_now != op()) return false;
  if (!SameAttributes(spelling->attributes_now, node().attributes)) {
    return false;
  }
  for (const auto& [name, owner] : spelling->made) {
    const ValueId id = graph_.Find(name);
    if (!id || !graph_.value(id).initializer ||
        graph_.value(id).initializer->owner != owner) {
      return false;
    }
  }
  // Inputs that the rewrite left alone may be others by now.
  const std::vector<std::string> current = InputNames(graph_, node());
  if (current.size() != spelling->inputs_now.size()) return false;
  std::vector<ValueId> inputs(spelling->inputs.size());
  for (size_t i = 0; i < current.size(); ++i) {
    const bool kept =
        i < inputs.size() && spelling->inputs[i] == spelling->inputs_now[i];
    if (!kept && current[i] != spelling->inputs_now[i]) return false;
    if (i >= inputs.size()) {
      dropped_.push_back(node().input(i));
    } else if (kept) {
      inputs[i] = node().input(i);
    } else {
      dropped_.push_back(node().input(i));
      inputs[i] = graph_.Find(spelling->inputs[i]);
      if (!inputs[i] && !spelling->inputs[i].empty()) return false;
    }
  }
  node().inputs = std::move(inputs);
  node().op_type = spelling->op_type;
  node().attributes = spelling->attributes;
  return true;
}

const TensorData* Restorer::Constant(size_t position) {
  const ValueId id = node().input(position);
  if (!id) return nullptr;
  const Value& value = graph_.value(id);
  if (value.initializer && !value.is_input) return &*value.initializer;
  if (!value.producer) return nullptr;
  const Node& producer = graph_.node(value.producer);
  if (producer.op_type != "Constant" || !producer.domain.empty())
    return nullptr;
  const Attribute* attribute = producer.FindAttribute("value");
  return attribute ? std::get_if<TensorData>(&attribute->value) : nullptr;
}

template <class T>
std::vector<T> Elements(const TensorData& tensor) {
  const Tensor view = tensor.view();
  const std::span<T> values = view.values<T>();
  return {values.begin(), values.end()};
}

float ScalarOf(const TensorData& tensor) {
  const Tensor view = tensor.view();
  if (view.element_count() != 1) {
    Throw(ErrorCode::kInvalidGraph, "tensor \"{}\" should be a scalar",
          tensor.name);
  }
  switch (view.type()) {
    case DataType::kFloat32:
      return view.values<float>()[0];
    case DataType::kFloat64:
      return static_cast<float>(view.values<double>()[0]);
    case DataType::kFloat16:
      return ToFloat(view.values<Float16>()[0]);
    case DataType::kBfloat16:
      return ToFloat(view.values<Bfloat16>()[0]);
    default:
      Throw(ErrorCode::kNotImplemented,
            "tensor \"{}\" of {} cannot become a float attribute", tensor.name,
            DataTypeName(view.type()));
  }
}

void Restorer::MoveToAttribute(const MovedAttribute& row) {
  if (!node().input(row.position)) return;
  const TensorData* tensor = Constant(row.position);
  if (tensor == nullptr)
    Fail(fmt::format("its input {} is not constant", row.attribute));
  switch (row.kind) {
    case Kind::kInts:
      node().SetAttribute(row.attribute, Elements<int64_t>(*tensor));
      break;
    case Kind::kOneInt: {
      const std::vector<int64_t> one = Elements<int64_t>(*tensor);
      if (one.size() != 1) Fail(fmt::format("{} is no number", row.attribute));
      node().SetAttribute(row.attribute, one.front());
      break;
    }
    case Kind::kFloats:
      node().SetAttribute(row.attribute, Elements<float>(*tensor));
      break;
    case Kind::kFloat:
    case Kind::kDataScalar:
      node().SetAttribute(row.attribute, ScalarOf(*tensor));
      break;
  }
}

void Restorer::DropInputsFrom(size_t position) {
  std::vector<ValueId>& inputs = node().inputs;
  for (size_t i = position; i < inputs.size(); ++i)
    if (inputs[i]) dropped_.push_back(inputs[i]);
  if (inputs.size() > position) inputs.resize(position);
}

void Restorer::MoveToAttributes() {
  std::optional<size_t> first, last;
  for (const MovedAttribute& row : kMovedAttributes) {
    if (row.op != op() || opset_ >= row.since) continue;
    if (!first) first = row.position;
    last = row.position;
    MoveToAttribute(row);
  }
  if (!first) return;
  // What newer opsets added behind the inputs that were attributes.
  for (size_t i = *last + 1; i < node().inputs.size(); ++i) {
    if (!node().input(i)) continue;
    const TensorData* tensor = Constant(i);
    bool is_default = false;
    if (tensor != nullptr && op() == "Slice") {  // steps
      const std::vector<int64_t> steps = Elements<int64_t>(*tensor);
      is_default = std::all_of(steps.begin(), steps.end(),
                               [](int64_t step) { return step == 1; });
    } else if (tensor != nullptr && op() == "Dropout") {  // training_mode
      const bool training = Elements<bool>(*tensor).at(0);
      is_default = opset_ < 7 || !training;
      if (opset_ < 7 && !training) node().SetAttribute("is_test", int64_t{1});
    }
    if (!is_default) Fail(fmt::format("its input {} is newer", i));
  }
  DropInputsFrom(*first);
  // Attributes that came with the inputs.
  if (Int("noop_with_empty_axes", 0) != 0) {
    const Attribute* axes = node().FindAttribute("axes");
    if (axes == nullptr || std::get<std::vector<int64_t>>(axes->value).empty())
      Fail("noop_with_empty_axes is newer");
  }
  node().RemoveAttribute("noop_with_empty_axes");
  if (op() == "Split") node().RemoveAttribute("num_outputs");
  if (op() == "TopK") {
    if (Int("largest", 1) != 1) Fail("largest = 0 is newer");
    node().RemoveAttribute("largest");
    node().RemoveAttribute("sorted");
  }
}

void Restorer::RestoreBatchNormalization() {
  if (opset_ >= 14) return;
  const bool training = Int("training_mode", 0) != 0;
  node().RemoveAttribute("training_mode");
  if (opset_ < 7) {
    if (!training) node().SetAttribute("is_test", int64_t{1});
    return;
  }
  constexpr size_t kTrainingOutputs = 5;
  if (!training) {
    for (size_t i = 1; i < node().outputs.size(); ++i)
      if (node().output(i)) Fail("outputs beyond the first mean training");
    return;
  }
  for (size_t i = 1; i < kTrainingOutputs; ++i) {
    if (node().outputs.size() <= i) node().outputs.emplace_back();
    if (node().output(i)) continue;
    const ValueId id = graph_.AddValue(NameFor(fmt::format("output{}", i)));
    node().outputs[i] = id;
    graph_.value(id).producer = id_;
  }
}

void Restorer::Restore() {
  if (RestoreSpelling()) return;
  for (const Renamed& row : kRenamed)
    if (row.after == op() && opset_ < row.since) node().op_type = row.before;
  MoveToAttributes();
  if (op() == "BatchNormalization") RestoreBatchNormalization();
  if (op() == "Split" && opset_ < 18) node().RemoveAttribute("num_outputs");
  // Without `broadcast` shapes must be equal; with it they may be.
  if (opset_ < 7 && (Contains(kBroadcasting, op()) || op() == "Gemm"))
    node().SetAttribute("broadcast", int64_t{1});
}

// Takes away what nobody reads any more: initializers, and the Unsqueeze
// nodes of InsertUnsqueeze.
void RemoveUnread(Graph& graph, std::vector<ValueId> candidates) {
  std::vector<size_t> readers(graph.value_count());
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  for (size_t i = 0; i < consumers.size(); ++i)
    readers[i] = consumers[i].size();
  while (!candidates.empty()) {
    const ValueId id = candidates.back();
    candidates.pop_back();
    if (!id) continue;  // an optional input that was left out
    const Value& value = graph.value(id);
    if (readers[id.index] > 0 || value.is_output || value.is_input) continue;
    if (value.initializer) {
      graph.RemoveInitializer(id);
    } else if (value.producer &&
               graph.node(value.producer).op_type == "Unsqueeze") {
      const NodeId producer = value.producer;
      const std::vector<ValueId> inputs = graph.node(producer).inputs;
      graph.RemoveNode(producer);
      for (const ValueId input : inputs)
        if (input) --readers[input.index];
      if (inputs.size() > 1 && inputs[1]) candidates.push_back(inputs[1]);
    }
  }
}

}  // namespace
}  // namespace opset_forms

void RestoreForms(Graph& graph) {
  const int64_t opset = graph.opset(kOnnx);
  if (graph.file_spelling || opset < opset_forms::kOldestOpset) return;
  graph.file_spelling = true;
  std::vector<ValueId> dropped;
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  // Backwards: an inserted node loses its reader before its own turn.
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    RewriteSubgraphs(graph.node(*id), RestoreForms);
    if (!graph.node(*id).domain.empty()) continue;
    opset_forms::Restorer restorer(graph, *id, opset);
    restorer.Restore();
    dropped.insert(dropped.end(), restorer.dropped().begin(),
                   restorer.dropped().end());
  }
  if (!dropped.empty()) opset_forms::RemoveUnread(graph, std::move(dropped));
}

}  // namespace strop
