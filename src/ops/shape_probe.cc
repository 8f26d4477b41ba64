// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_probe.h"

#include <algorithm>
#include <optional>

#include "base/throw.h"
#include "ops/fold.h"
#include "ops/registry.h"

namespace strop {
namespace {

// Shape arithmetic is small; nothing else is worth computing here.
constexpr int64_t kMostElements = 1024;

Shape WithFirst(int64_t first, const Shape& rest) {
  std::vector<int64_t> dims = {first};
  dims.insert(dims.end(), rest.begin(), rest.end());
  return Shape(dims);
}

Shape WithoutAxis(const Shape& shape, size_t axis) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return Shape(dims);
}

Shape WithAxis(const Shape& shape, size_t axis, int64_t size) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), size);
  return Shape(dims);
}

}  // namespace

ShapeProbe::ShapeProbe(const Graph& graph,
                       std::span<const CustomOpDomain* const> custom,
                       int64_t unknown_count)
    : graph_(graph),
      custom_(custom),
      unknown_count_(unknown_count),
      infos_(graph.value_count()) {
  for (const ValueId id : graph.initializers()) {
    const TensorData& data = *graph.value(id).initializer;
    if (DataTypeSize(data.type) == 0) continue;
    SetKnown(id, data.view());
  }
}

void ShapeProbe::Set(ValueId id, TensorInfo info) {
  infos_[static_cast<size_t>(id.index)] = {.tensor = std::move(info),
                                           .is_list = false,
                                           .list = {},
                                           .known = nullptr};
}

void ShapeProbe::SetKnown(ValueId id, const Tensor& tensor) {
  Set(id, {tensor.type(), tensor.shape()});
  known_.push_back(tensor);
  infos_[static_cast<size_t>(id.index)]->known = &known_.back();
}

const ValueInfo* ShapeProbe::info(ValueId id) const {
  if (!id) return nullptr;
  const auto& info = infos_[static_cast<size_t>(id.index)];
  return info ? &*info : nullptr;
}

void ShapeProbe::Run() {
  for (const NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    running_ = id;
    try {
      RunNode(node);
    } catch (const Error& error) {
      errors_.push_back({id, error.code(), error.what()});
      for (const ValueId output : node.outputs)
        if (output) infos_[static_cast<size_t>(output.index)].reset();
    }
  }
}

void ShapeProbe::RunNode(const Node& node) {
  if (node.domain == kOnnx) {
    if (node.op_type == "If") return RunIf(node);
    if (node.op_type == "Loop") return RunLoop(node);
    if (node.op_type == "Scan")
      return RunScan(node, /*has_batch_axis=*/graph_.opset(kOnnx) < 9);
  }
  const OpDef* op =
      FindOp(node.domain, node.op_type, graph_.opset(node.domain), custom_);
  if (op == nullptr || op->infer == nullptr || !InputsKnown(node, *op)) return;
  Infos inputs;
  for (const ValueId input : node.inputs) inputs.push_back(info(input));
  std::vector<ValueInfo*> outputs;
  for (const ValueId output : node.outputs) {
    auto& info = infos_[static_cast<size_t>(std::max(output.index, 0))];
    if (output) info.emplace();
    outputs.push_back(output ? &*info : nullptr);
  }
  InferContext context(OpNode(graph_, node), inputs, outputs);
  Infer(*op, context);
  Fold(node, *op);
}

bool ShapeProbe::InputsKnown(const Node& node, const OpDef& op) const {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]) continue;
    const ValueInfo* known = info(node.inputs[i]);
    if (known == nullptr) return false;
    if (op.value_inputs.contains(i) && known->known == nullptr) return false;
  }
  return true;
}

void ShapeProbe::Fold(const Node& node, const OpDef& op) {
  if (op.is_random || !op.mutates.empty() || op.reference.run == nullptr)
    return;
  for (const ValueId output : node.outputs) {
    if (output && (info(output)->is_list ||
                   info(output)->tensor.shape.element_count() > kMostElements))
      return;
  }
  auto results = Compute(node, op);
  if (!results) return;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i]) continue;
    SetKnown(node.outputs[i], (*results)[i]->view());
    computed_.push_back(std::move((*results)[i]));
  }
}

std::optional<std::vector<std::unique_ptr<OwnedTensor>>> ShapeProbe::Compute(
    const Node& node, const OpDef& op) {
  std::vector<KernelInput> inputs(node.inputs.size());
  std::vector<Tensor> tensors(node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!node.inputs[i]) continue;
    const ValueInfo& input = *info(node.inputs[i]);
    const bool shape_only = op.shape_inputs.contains(i);
    if (input.is_list || (input.known == nullptr && !shape_only))
      return std::nullopt;
    if (input.known != nullptr && !shape_only &&
        input.known->element_count() > kMostElements)
      return std::nullopt;
    inputs[i].info = input.tensor;
    inputs[i].constant = input.known;
    tensors[i] = input.known != nullptr
                     ? *input.known
                     : Tensor(input.tensor.type, input.tensor.shape, nullptr);
  }
  std::vector<TensorInfo> outputs(node.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    if (node.outputs[i]) outputs[i] = info(node.outputs[i])->tensor;
  const KernelRequest request = {.node = OpNode(graph_, node),
                                 .op = op,
                                 .inputs = inputs,
                                 .outputs = outputs};
  return RunReferenceNow(request, tensors);
}

// --- Sub-graphs

std::unique_ptr<ShapeProbe> ShapeProbe::BodyOf(const Node& node,
                                               std::string_view attribute) {
  const Attribute* found = node.FindAttribute(attribute);
  const auto* body =
      found ? std::get_if<std::shared_ptr<const Graph>>(&found->value)
            : nullptr;
  if (body == nullptr || *body == nullptr) return nullptr;
  auto probe = std::make_unique<ShapeProbe>(**body, custom_, unknown_count_);
  for (size_t i = 0; i < (*body)->value_count(); ++i) {
    const ValueId inner{static_cast<int32_t>(i)};
    if (!(*body)->value(inner).outer) continue;
    if (const ValueInfo* captured =
            info(graph_.Find((*body)->value(inner).name)))
      probe->infos_[i] = *captured;
  }
  return probe;
}

void ShapeProbe::RunBody(const Node& holder, ShapeProbe& body) {
  body.Run();
  for (const NodeError& error : body.errors()) {
    if (error.code != ErrorCode::kInvalidGraph) continue;
    errors_.push_back(
        {running_, error.code,
         fmt::format("{}, in {}", error.text, Describe(graph_, holder))});
  }
}

// What both branches give alike; a size that differs is one that nothing else
// has. Where the condition is known its branch counts alone.
void ShapeProbe::RunIf(const Node& node) {
  std::unique_ptr<ShapeProbe> branches[2] = {BodyOf(node, "then_branch"),
                                             BodyOf(node, "else_branch")};
  for (const auto& branch : branches) {
    if (branch == nullptr) return;
    RunBody(node, *branch);
  }
  const ValueInfo* condition = info(node.input(0));
  if (condition != nullptr && condition->known != nullptr &&
      condition->tensor.type == DataType::kBool &&
      condition->known->element_count() == 1) {
    const bool chosen = condition->known->values<bool>()[0];
    branches[chosen ? 1 : 0].reset();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i]) continue;
    std::optional<TensorInfo> common;
    bool agree = true;
    for (const auto& branch : branches) {
      if (branch == nullptr) continue;
      const auto outputs = branch->graph_.outputs();
      const ValueInfo* inner =
          i < outputs.size() ? branch->info(outputs[i]) : nullptr;
      if (inner == nullptr || inner->is_list) {
        agree = false;
      } else if (!common) {
        common = inner->tensor;
      } else {
        agree = agree && Meet(*common, inner->tensor);
      }
    }
    if (agree && common) Set(node.outputs[i], *common);
  }
}

bool ShapeProbe::Meet(TensorInfo& common, const TensorInfo& other) {
  if (common.type != other.type || common.shape.rank() != other.shape.rank())
    return false;
  std::vector<int64_t> dims(common.shape.begin(), common.shape.end());
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != other.shape[axis])
      dims[axis] = 1000 * unknown_count_ + ++unknown_sizes_;
  common.shape = Shape(dims);
  return true;
}

// Carried values keep the shape that they come in with.
void ShapeProbe::RunLoop(const Node& node) {
  const auto body = BodyOf(node, "body");
  if (body == nullptr) return;
  const auto inputs = body->graph_.inputs();
  if (inputs.size() != node.inputs.size() || inputs.size() < 2) return;
  body->Set(inputs[0], {DataType::kInt64, {}});
  body->Set(inputs[1], {DataType::kBool, {}});
  for (size_t i = 2; i < inputs.size(); ++i) {
    if (const ValueInfo* initial = info(node.inputs[i]))
      if (!initial->is_list) body->Set(inputs[i], initial->tensor);
  }
  RunBody(node, *body);
  int64_t count = unknown_count_;
  if (const ValueInfo* most = info(node.input(0)))
    if (most->known != nullptr && most->tensor.type == DataType::kInt64 &&
        most->known->element_count() == 1)
      count = most->known->values<int64_t>()[0];
  // Many a loop runs until its condition ends it.
  constexpr int64_t kMostIterations = int64_t{1} << 31;
  if (count < 0 || count > kMostIterations) count = unknown_count_;
  const size_t carried = inputs.size() - 2;
  const auto outputs = body->graph_.outputs();
  for (size_t i = 0; i < node.outputs.size() && i + 1 < outputs.size(); ++i) {
    const ValueInfo* inner = body->info(outputs[i + 1]);
    if (!node.outputs[i] || inner == nullptr || inner->is_list) continue;
    TensorInfo info = inner->tensor;
    if (i >= carried) info.shape = WithFirst(count, info.shape);
    Set(node.outputs[i], info);
  }
}

void ShapeProbe::RunScan(const Node& node, bool has_batch_axis) {
  const auto body = BodyOf(node, "body");
  if (body == nullptr || has_batch_axis) return;
  const OpNode op(graph_, node);
  const auto inputs = body->graph_.inputs();
  const auto scans = static_cast<size_t>(std::clamp<int64_t>(
      op.Int("num_scan_inputs", 0), 0, static_cast<int64_t>(inputs.size())));
  if (inputs.size() != node.inputs.size()) return;
  const size_t states = inputs.size() - scans;
  const auto axis_at = [&](std::string_view attribute, size_t i, size_t rank) {
    const auto axes = op.Ints(attribute);
    int64_t axis = i < axes.size() ? axes[i] : 0;
    if (axis < 0) axis += static_cast<int64_t>(rank);
    return static_cast<size_t>(
        std::clamp<int64_t>(axis, 0, static_cast<int64_t>(rank) - 1));
  };
  int64_t count = unknown_count_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueInfo* outer = info(node.inputs[i]);
    if (outer == nullptr || outer->is_list) continue;
    TensorInfo inner = outer->tensor;
    if (i >= states) {
      if (inner.shape.rank() == 0) return;
      const size_t axis =
          axis_at("scan_input_axes", i - states, inner.shape.rank());
      count = inner.shape[axis];
      inner.shape = WithoutAxis(inner.shape, axis);
    }
    body->Set(inputs[i], inner);
  }
  RunBody(node, *body);
  const auto outputs = body->graph_.outputs();
  for (size_t i = 0; i < std::min(outputs.size(), node.outputs.size()); ++i) {
    const ValueInfo* inner = body->info(outputs[i]);
    if (!node.outputs[i] || inner == nullptr || inner->is_list) continue;
    TensorInfo result = inner->tensor;
    if (i >= states) {
      const size_t axis =
          axis_at("scan_output_axes", i - states, result.shape.rank() + 1);
      result.shape = WithAxis(result.shape, axis, count);
    }
    Set(node.outputs[i], result);
  }
}

}  // namespace strop
