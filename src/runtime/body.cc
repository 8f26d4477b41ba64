// SPDX-License-Identifier: Apache-2.0
#include "runtime/body.h"

#include <algorithm>
#include <utility>

#include "base/throw.h"
#include "runtime/fixed_condition.h"
#include "runtime/segment.h"
#include "runtime/size.h"

namespace strop {

Body::Body(LoweredBody body, std::shared_ptr<Arena> arena,
           const ExecutorOptions& options)
    : has_fixed_condition_(HasFixedCondition(body)),
      captured_(std::move(body.captured)),
      input_count_(body.lowered.graph.inputs().size() - captured_.size()),
      executor_(std::move(body.lowered), std::move(arena), options) {
  arguments_.resize(input_count_ + captured_.size());
}

void Body::Capture(const std::function<const KnownValue&(ValueId)>& value_of) {
  ConstantInputs constants;
  for (size_t i = 0; i < captured_.size(); ++i) {
    const KnownValue& value = value_of(captured_[i]);
    const Tensor& tensor = *value.info.known;
    SetInput(input_count_ + i, tensor);
    if (!value.varies && tensor.byte_count() <= kFoldBytes) {
      constants.Add(input_count_ + i, tensor);
    }
  }
  executor_.SetConstants(std::move(constants));
}

OwnedTensor Body::EmptyStack(size_t i, int64_t axis) const {
  const ValueType& type = graph().value(graph().outputs()[i]).type;
  if (type.element == DataType::kUndefined) {
    Throw(ErrorCode::kInvalidGraph,
          "\"{}\" is stacked over no iterations, and its type is not known",
          output_name(i));
  }
  std::vector<int64_t> dims;
  if (type.dims) {
    for (const Dimension& dim : *type.dims) {
      dims.push_back(dim.value.value_or(0));
    }
  }
  const auto rank = static_cast<int64_t>(dims.size()) + 1;
  if (axis < 0) axis += rank;
  dims.insert(dims.begin() + std::clamp<int64_t>(axis, 0, rank - 1), 0);
  return OwnedTensor(type.element, Shape(dims));
}

}  // namespace strop
