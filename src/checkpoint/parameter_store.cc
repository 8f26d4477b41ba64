// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/parameter_store.h"

#include <algorithm>
#include <limits>

#include "base/throw.h"

namespace strop {

TensorBlock::TensorBlock(const std::vector<TensorInfo>& tensors) {
  constexpr uint64_t kAlignment = 64;
  constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max() / 4;

  std::vector<uint64_t> offsets;
  uint64_t end = 0;
  for (const TensorInfo& info : tensors) {
    offsets.push_back(end);
    const uint64_t size = DataTypeSize(info.type);
    if (size == 0) continue;
    const auto count = static_cast<uint64_t>(info.shape.element_count());
    if (count > (kMaxBytes - end) / size) {
      Throw(ErrorCode::kOutOfMemory,
            "tensors of more than {} bytes are asked for, the last of type {} "
            "and shape {}",
            kMaxBytes, DataTypeName(info.type), info.shape.ToString());
    }
    end += count * size;
    end = (end + kAlignment - 1) / kAlignment * kAlignment;
  }
  memory_ = OwnedTensor(DataType::kUint8, Shape{static_cast<int64_t>(end)});

  auto* base = static_cast<std::byte*>(memory_.view().data());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& info = tensors[i];
    tensors_.push_back(DataTypeSize(info.type) == 0
                           ? Tensor()
                           : Tensor(info.type, info.shape, base + offsets[i]));
  }
}

Parameter* ParameterStore::Find(std::string_view name) {
  const auto it = std::lower_bound(
      parameters.begin(), parameters.end(), name,
      [](const Parameter& p, std::string_view n) { return p.name < n; });
  return it != parameters.end() && it->name == name ? &*it : nullptr;
}

Parameter& ParameterStore::Get(std::string_view name) {
  if (Parameter* parameter = Find(name)) return *parameter;
  Throw(ErrorCode::kNotFound,
        "the checkpoint has no parameter \"{}\" among its {} parameters", name,
        parameters.size());
}

void ParameterStore::RequireValues(std::string_view what) const {
  if (!is_nominal) return;
  Throw(ErrorCode::kFailedState,
        "{}: the checkpoint is nominal: its parameters have names, but no "
        "values. Please load the model parameters first.",
        what);
}

void ParameterStore::AllocateValues(const std::vector<TensorInfo>& infos) {
  STROP_CHECK(infos.size() == parameters.size());
  std::vector<TensorInfo> tensors = infos;
  for (TensorInfo& info : tensors) {
    // What no graph knows has no value: it stays as an empty tensor.
    if (info.type == DataType::kUndefined) {
      info = {DataType::kFloat32, Shape{0}};
    }
  }
  values = TensorBlock(tensors);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].value = values.tensors()[i];
  }
  is_nominal = false;
}

void ParameterStore::AttachGradients() {
  if (!gradients.tensors().empty()) return;
  std::vector<TensorInfo> infos;
  for (const Parameter& parameter : parameters) {
    if (!parameter.requires_grad) continue;
    infos.push_back({parameter.value.type(), parameter.value.shape()});
  }
  gradients = TensorBlock(infos);
  auto gradient = gradients.tensors().begin();
  for (Parameter& parameter : parameters) {
    if (parameter.requires_grad) parameter.gradient = *gradient++;
  }
}

}  // namespace strop
