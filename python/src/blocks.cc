// SPDX-License-Identifier: Apache-2.0
//
// What strop.onnxblock leaves to the core: types of a model that blocks build,
// its faults, and checkpoints from and to TensorProtos.
#include <algorithm>
#include <array>

#include "artifacts/faults.h"
#include "artifacts/training_graphs.h"
#include "graph/onnx_io_wire.h"
#include "objects.h"
#include "ops/infer_shapes.h"
#include "ops/registry.h"

namespace strop::python {

using namespace nb::literals;

nb::tuple TensorOf(const std::string& name, const Tensor& value) {
  const Shape& shape = value.shape();
  return nb::make_tuple(name, static_cast<int>(value.type()),
                        std::vector<int64_t>(shape.begin(), shape.end()),
                        nb::bytes(value.bytes().data(), value.bytes().size()));
}

namespace {

nb::object DimsOf(const std::optional<std::vector<Dimension>>& dims) {
  if (!dims) return nb::none();
  nb::list result;
  for (const Dimension& dimension : *dims) {
    if (dimension.value)
      result.append(*dimension.value);
    else if (dimension.symbol.empty() || IsDerivedSymbol(dimension.symbol))
      result.append(nb::none());
    else
      result.append(dimension.symbol);
  }
  return result;
}

struct BlockFaults {
  std::vector<std::string> faults;
  // Operators that Strop does not have: (domain, operator, text). They may be
  // the user's own, or fit where no gradient passes.
  std::vector<std::array<std::string, 3>> unknown;
};

// Nodes whose results nobody reads yet count like all others.
BlockFaults FaultsOfBlocks(Graph graph, const InferenceReport& inference) {
  const auto consumers = graph.Consumers();
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (const NodeId id : order)
    for (const ValueId output : graph.node(id).outputs)
      if (output && consumers[static_cast<size_t>(output.index)].empty() &&
          !graph.value(output).is_output)
        graph.MarkOutput(output);
  BlockFaults found;
  for (const Fault& fault : FaultsOf(graph, inference, {})) {
    const Node& node = graph.node(fault.node);
    if (FindOp(node.domain, node.op_type, graph.opset(node.domain)) != nullptr)
      found.faults.push_back(fault.text);
    else
      found.unknown.push_back({node.domain, node.op_type, fault.text});
  }
  return found;
}

nb::tuple InferTypes(nb::bytes bytes) {
  Model model;
  BlockFaults found;
  {
    const std::span source(reinterpret_cast<const std::byte*>(bytes.data()),
                           bytes.size());
    const nb::gil_scoped_release release;
    model = ReadOnnx(source);
    const InferenceReport inference = InferShapes(model.graph);
    found = FaultsOfBlocks(model.graph, inference);
  }
  nb::list types;
  for (size_t i = 0; i < model.graph.value_count(); ++i) {
    const Value& value = model.graph.value(ValueId{static_cast<int32_t>(i)});
    const ValueType& type = value.type;
    const bool is_list = type.kind == ValueType::Kind::kTensorList;
    if ((type.kind != ValueType::Kind::kTensor && !is_list) ||
        type.element == DataType::kUndefined)
      continue;
    types.append(nb::make_tuple(value.name, is_list,
                                static_cast<int>(type.element),
                                DimsOf(type.dims)));
  }
  nb::list unknown;
  for (const auto& [domain, op, text] : found.unknown) {
    nb::list entry;
    for (const std::string& part : {domain, op, text}) entry.append(part);
    unknown.append(entry);
  }
  return nb::make_tuple(types, found.faults, unknown);
}

// Views of serialized TensorProtos, whose data `kept` owns.
void AddTensors(const nb::list& protos, bool requires_grad,
                std::vector<TensorData>& kept, ParameterStore& store) {
  for (const nb::handle proto : protos) {
    const nb::bytes bytes = nb::cast<nb::bytes>(proto);
    onnx::ReadContext context;
    kept.push_back(onnx::DecodeTensor({bytes.c_str(), bytes.size()},
                                      {nullptr, "parameters"}, context));
    strop::Parameter parameter;
    parameter.name = kept.back().name;
    if (store.Find(parameter.name) != nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the parameter \"" + parameter.name + "\" is there twice");
    }
    parameter.requires_grad = requires_grad;
    parameter.value = kept.back().view();
    store.parameters.push_back(std::move(parameter));
    std::ranges::sort(store.parameters, {}, &strop::Parameter::name);
  }
}

void SaveCheckpoint(const nb::list& trainable, const nb::list& frozen,
                    nb::handle path, bool nominal) {
  const std::filesystem::path to = PathOf(path);
  std::vector<TensorData> kept;
  CheckpointState state(ProcessEnvironment());
  AddTensors(trainable, true, kept, state.store());
  AddTensors(frozen, false, kept, state.store());
  if (nominal) state.store() = NominalOf(state.store());
  const nb::gil_scoped_release release;
  state.Save(to);
}

nb::list CheckpointTensors(const CheckpointState& state) {
  nb::list tensors;
  for (const std::string& name : state.ParameterNames())
    tensors.append(TensorOf(name, state.ParameterValue(name)));
  return tensors;
}

}  // namespace

void BindBlocks(nb::module_& module) {
  module.def(
      "infer_types", &InferTypes, "model"_a,
      nb::sig("def infer_types(model: bytes) -> tuple[list[tuple[str, bool, "
              "int, list[int | str | None] | None]], list[str], "
              "list[list[str]]]"),
      "([(name, is a list, element type, dims or None)], [faults], [[domain, "
      "unknown operator, text]]).");
  module.def("save_checkpoint", &SaveCheckpoint, "trainable"_a, "frozen"_a,
             "path"_a, "nominal"_a,
             nb::sig("def save_checkpoint(trainable: list[bytes], frozen: "
                     "list[bytes], path: object, nominal: bool) -> None"),
             "Writes serialized TensorProtos as a checkpoint.");
  module.def("checkpoint_tensors", &CheckpointTensors, "state"_a,
             nb::sig("def checkpoint_tensors(state: CheckpointState) -> "
                     "list[tuple[str, int, list[int], bytes]]"),
             "[(name, element type, dims, bytes)].");
}

}  // namespace strop::python
