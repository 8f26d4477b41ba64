// SPDX-License-Identifier: Apache-2.0
#include "training/parameter_buffer.h"

#include <cstring>

#include "base/overflow.h"
#include "base/throw.h"

namespace strop {
namespace {

TensorInfo InfoOf(const ParameterSlot& slot, ParameterStore& store) {
  if (store.is_nominal) {
    if (slot.declared.type == DataType::kUndefined) {
      Throw(ErrorCode::kFailedState,
            "the training graph does not declare the size of the parameter "
            "\"{}\", and a nominal checkpoint does not have it",
            slot.name);
    }
    return slot.declared;
  }
  const Tensor& value = store.Get(slot.name).value;
  return {value.type(), value.shape()};
}

void CheckBuffer(std::span<const ParameterSlot> slots, ParameterStore& store,
                 const Tensor& buffer, bool trainable_only) {
  if (buffer.type() != DataType::kFloat32) {
    Throw(ErrorCode::kTypeMismatch,
          "parameters are copied as float32, the buffer is {}",
          DataTypeName(buffer.type()));
  }
  for (const ParameterSlot& slot : slots) {
    if (trainable_only && !slot.requires_grad) continue;
    const TensorInfo info = InfoOf(slot, store);
    if (info.type == DataType::kFloat32) continue;
    Throw(ErrorCode::kTypeMismatch,
          "data types must match: the buffer is float32, the parameter \"{}\" "
          "is {}",
          slot.name, DataTypeName(info.type));
  }
  const int64_t wanted = ParametersSize(slots, store, trainable_only);
  if (buffer.element_count() != wanted ||
      (wanted > 0 && buffer.data() == nullptr)) {
    Throw(ErrorCode::kInvalidArgument,
          "the {}parameters have {} elements, the buffer has {}",
          trainable_only ? "trainable " : "", wanted,
          buffer.data() == nullptr ? 0 : buffer.element_count());
  }
}

void GiveValues(std::span<const ParameterSlot> slots, ParameterStore& store) {
  std::vector<TensorInfo> infos(store.parameters.size());
  for (const ParameterSlot& slot : slots) {
    infos[static_cast<size_t>(store.Find(slot.name) -
                              store.parameters.data())] = slot.declared;
  }
  store.AllocateValues(infos);
}

}  // namespace

int64_t ParametersSize(std::span<const ParameterSlot> slots,
                       ParameterStore& store, bool trainable_only) {
  int64_t total = 0;
  for (const ParameterSlot& slot : slots) {
    if (trainable_only && !slot.requires_grad) continue;
    if (AddOverflows(total, InfoOf(slot, store).shape.element_count(),
                     &total)) {
      Throw(ErrorCode::kInvalidGraph,
            "the parameters of the training graph have more elements than "
            "fit into 63 bits");
    }
  }
  return total;
}

void CopyToBuffer(std::span<const ParameterSlot> slots, ParameterStore& store,
                  const Tensor& buffer, bool trainable_only) {
  store.RequireValues("CopyParametersToBuffer");
  CheckBuffer(slots, store, buffer, trainable_only);
  auto* target = static_cast<std::byte*>(buffer.data());
  for (const ParameterSlot& slot : slots) {
    if (trainable_only && !slot.requires_grad) continue;
    const Tensor& value = store.Get(slot.name).value;
    if (value.byte_count() == 0) continue;
    std::memcpy(target, value.data(), value.byte_count());
    target += value.byte_count();
  }
}

void CopyFromBuffer(std::span<const ParameterSlot> slots, ParameterStore& store,
                    const Tensor& buffer, bool trainable_only) {
  if (store.is_nominal && trainable_only) {
    Throw(ErrorCode::kFailedState,
          "CopyBufferToParameters: the checkpoint is nominal, so values of all "
          "parameters are wanted: trainable_only must be false");
  }
  CheckBuffer(slots, store, buffer, trainable_only);
  if (store.is_nominal) GiveValues(slots, store);
  const auto* source = static_cast<const std::byte*>(buffer.data());
  for (const ParameterSlot& slot : slots) {
    if (trainable_only && !slot.requires_grad) continue;
    Parameter& parameter = store.Get(slot.name);
    const size_t bytes = parameter.value.byte_count();
    if (bytes == 0) continue;
    std::memcpy(parameter.value.data(), source, bytes);
    source += bytes;
  }
}

}  // namespace strop
