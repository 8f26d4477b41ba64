// SPDX-License-Identifier: Apache-2.0
#include "ops/graph_runner.h"

#include <vector>

#include "base/throw.h"
#include "ops/registry.h"

namespace strop {
namespace {

class Runner {
 public:
  Runner(const Graph& graph, NamedTensors& inputs)
      : graph_(graph),
        memory_(graph.value_count()),
        arguments_(graph.value_count()),
        infos_(graph.value_count()) {
    for (const ValueId id : graph.initializers()) {
      Bind(id, graph.value(id).initializer->view());
    }
    for (const ValueId id : graph.inputs()) {
      const auto found = inputs.find(graph.value(id).name);
      if (found != inputs.end()) Bind(id, found->second.view());
    }
  }

  void Run(const Node& node) {
    const OpNode op_node(graph_, node);
    const OpDef* op =
        FindOp(node.domain, node.op_type, graph_.opset(node.domain));
    if (op == nullptr || op->reference.run == nullptr) {
      op_node.Fail("is not known", ErrorCode::kNotImplemented);
    }
    std::vector<const ValueInfo*> in;
    std::vector<ValueInfo*> out;
    for (const ValueId id : node.inputs) {
      in.push_back(id ? &infos_[id.index] : nullptr);
    }
    for (const ValueId id : node.outputs) {
      out.push_back(id ? &infos_[id.index] : nullptr);
    }
    InferContext infer(op_node, in, out);
    Infer(*op, infer);
    std::vector<const Argument*> arguments_in, arguments_out;
    for (const ValueId id : node.inputs) {
      arguments_in.push_back(id ? &arguments_[id.index] : nullptr);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id) Allocate(*op, node, i);
      arguments_out.push_back(id ? &arguments_[id.index] : nullptr);
    }
    op->reference.run(KernelContext(op_node, arguments_in, arguments_out));
  }

  NamedTensors Outputs() const {
    NamedTensors outputs;
    for (const ValueId id : graph_.outputs()) {
      outputs.emplace(graph_.value(id).name,
                      OwnedTensor(arguments_[id.index].tensor));
    }
    return outputs;
  }

 private:
  void Bind(ValueId id, const Tensor& tensor) {
    arguments_[id.index].tensor = tensor;
    infos_[id.index].tensor = {tensor.type(), tensor.shape()};
    infos_[id.index].known = &arguments_[id.index].tensor;
  }

  void Allocate(const OpDef& op, const Node& node, size_t output) {
    const ValueId id = node.outputs[output];
    for (const Alias& alias : op.aliases) {
      if (alias.output != static_cast<int>(output)) continue;
      return Bind(id, arguments_[node.inputs[alias.input].index].tensor);
    }
    const TensorInfo& info = infos_[id.index].tensor;
    memory_[id.index] = OwnedTensor(info.type, info.shape);
    Bind(id, memory_[id.index].view());
  }

  const Graph& graph_;
  std::vector<OwnedTensor> memory_;
  std::vector<Argument> arguments_;
  std::vector<ValueInfo> infos_;
};

}  // namespace

NamedTensors RunGraph(const Graph& graph, NamedTensors& inputs) {
  Runner runner(graph, inputs);
  for (const NodeId id : graph.order()) runner.Run(graph.node(id));
  return runner.Outputs();
}

}  // namespace strop
