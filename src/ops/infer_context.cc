// SPDX-License-Identifier: Apache-2.0
#include "base/throw.h"
#include "strop/op.h"

namespace strop {
namespace {

const ValueInfo& Require(const InferContext& c,
                         std::span<const ValueInfo* const> inputs, size_t i) {
  if (!c.has_input(i)) {
    c.node().Fail(fmt::format("input {} is missing", i),
                  ErrorCode::kInvalidGraph);
  }
  return *inputs[i];
}

}  // namespace

const TensorInfo& InferContext::input(size_t i) const {
  const ValueInfo& info = Require(*this, inputs_, i);
  if (info.is_list) {
    node_.Fail(fmt::format("input {} must be a tensor, not a list", i),
               ErrorCode::kInvalidGraph);
  }
  return info.tensor;
}

std::span<const TensorInfo> InferContext::list(size_t i) const {
  const ValueInfo& info = Require(*this, inputs_, i);
  if (!info.is_list) {
    node_.Fail(fmt::format("input {} must be a list of tensors", i),
               ErrorCode::kInvalidGraph);
  }
  return info.list;
}

const Tensor& InferContext::value(size_t i) const {
  const ValueInfo& info = Require(*this, inputs_, i);
  if (info.known == nullptr) {
    node_.Fail(fmt::format("the value of input {} must be known before the "
                           "step runs",
                           i),
               ErrorCode::kNotImplemented);
  }
  return *info.known;
}

std::vector<int64_t> InferContext::IntValues(size_t i) const {
  const Tensor& tensor = value(i);
  std::vector<int64_t> result;
  const bool ok = DispatchType(Indices{}, tensor.type(), [&]<class T>() {
    const auto values = tensor.values<T>();
    result.assign(values.begin(), values.end());
  });
  if (!ok) {
    node_.Fail(fmt::format("input {} must be int64 or int32, not {}", i,
                           DataTypeName(tensor.type())),
               ErrorCode::kInvalidGraph);
  }
  return result;
}

void InferContext::SetOutput(size_t i, DataType type, const Shape& shape) {
  if (!has_output(i)) return;
  outputs_[i]->is_list = false;
  outputs_[i]->tensor = {type, shape};
}

void InferContext::SetListOutput(size_t i, std::vector<TensorInfo> tensors) {
  if (!has_output(i)) return;
  outputs_[i]->is_list = true;
  outputs_[i]->list = std::move(tensors);
}

}  // namespace strop
