// SPDX-License-Identifier: Apache-2.0
//
// ConcatTraining tells the sizes of its inputs to the SplitTraining of its
// gradient. They come from the inputs' shapes instead, which are known before
// the step runs.
#include <vector>

#include "passes/passes.h"
#include "strop/op.h"

namespace strop {
namespace {

// A node of int64 numbers before `position`.
ValueId InsertInts(Graph& graph, size_t& position, Node node, int64_t count) {
  Dimension size;
  size.value = count;
  const ValueId made = graph.AddValue(
      graph.FreshName(node.name + "_sizes"),
      ValueType::OfTensor(DataType::kInt64, std::vector<Dimension>{size}));
  node.outputs = {made};
  graph.InsertNode(position++, std::move(node));
  return made;
}

// The sizes of the concatenation's inputs along its axis.
ValueId InsertSizes(Graph& graph, size_t& position, const Node& concat) {
  const int64_t axis = OpNode(graph, concat).Int("axis");
  const std::vector<ValueId> inputs = concat.inputs;
  Node join;
  join.name = concat.name;
  join.op_type = "Concat";
  join.SetAttribute("axis", int64_t{0});
  for (ValueId input : inputs) {
    Node shape;
    shape.name = join.name;
    shape.op_type = "Shape";
    shape.inputs = {input};
    shape.SetAttribute("start", axis);
    if (axis != -1) shape.SetAttribute("end", axis + 1);
    join.inputs.push_back(InsertInts(graph, position, std::move(shape), 1));
  }
  return InsertInts(graph, position, std::move(join),
                    static_cast<int64_t>(inputs.size()));
}

}  // namespace

void NameSplitSizes(Graph& graph) {
  for (size_t i = 0; i < graph.order().size(); ++i) {
    const NodeId id = graph.order()[i];
    const Node& split = graph.node(id);
    const bool splits =
        (split.op_type == "SplitTraining" && split.domain == kMicrosoft) ||
        (split.op_type == "Split" && split.domain == kOnnx);
    if (!splits) continue;
    const Node* concat =
        ProducerOf(graph, split.input(1), kMicrosoft, "ConcatTraining");
    if (concat == nullptr || concat->output(1) != split.input(1)) continue;
    const ValueId sizes = InsertSizes(graph, i, *concat);
    graph.node(id).inputs[1] = sizes;
  }
}

}  // namespace strop
