// SPDX-License-Identifier: Apache-2.0
#include "strop/checkpoint_state.h"

#include <cstring>
#include <utility>

#include "base/throw.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint/parameter_store.h"

namespace strop {

CheckpointState::CheckpointState(const Environment& environment)
    : store_(std::make_unique<ParameterStore>(environment)) {}
CheckpointState::~CheckpointState() = default;
CheckpointState::CheckpointState(CheckpointState&&) noexcept = default;
CheckpointState& CheckpointState::operator=(CheckpointState&&) noexcept =
    default;

CheckpointState CheckpointState::Load(const std::filesystem::path& path,
                                      const Environment& environment) {
  const FileContents file = environment.files().Open(path);
  CheckpointState state(environment);
  *state.store_ = ParseCheckpoint(file.bytes, path, environment);
  return state;
}

CheckpointState CheckpointState::LoadFromBuffer(
    std::span<const std::byte> bytes, const Environment& environment) {
  CheckpointState state(environment);
  // The caller's buffer may start at any address; the format counts on 8.
  std::vector<std::byte> aligned;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0) {
    aligned.assign(bytes.begin(), bytes.end());
    bytes = aligned;
  }
  *state.store_ = ParseCheckpoint(bytes, /*path=*/{}, environment);
  return state;
}

void CheckpointState::Save(const std::filesystem::path& path,
                           bool include_optimizer_state) const {
  SerializedCheckpoint checkpoint =
      SerializeCheckpoint(*store_, include_optimizer_state);
  std::vector<FileToWrite> files;
  if (checkpoint.has_external_data) {
    files.push_back(
        {ExternalDataPath(path), std::move(checkpoint.external_data)});
  }
  files.push_back({path, {checkpoint.bytes}});
  store_->environment->files().Write(files);
}

bool CheckpointState::is_nominal() const { return store_->is_nominal; }

std::vector<std::string> CheckpointState::ParameterNames() const {
  std::vector<std::string> names;
  names.reserve(store_->parameters.size());
  for (const Parameter& parameter : store_->parameters) {
    names.push_back(parameter.name);
  }
  return names;
}

bool CheckpointState::HasParameter(std::string_view name) const {
  return store_->Find(name) != nullptr;
}

bool CheckpointState::RequiresGrad(std::string_view name) const {
  return store_->Get(name).requires_grad;
}

Tensor CheckpointState::ParameterValue(std::string_view name) const {
  Parameter& parameter = store_->Get(name);
  if (store_->is_nominal) {
    Throw(ErrorCode::kFailedState,
          "parameter \"{}\" of a nominal checkpoint has no value. Please load "
          "the parameter states first.",
          name);
  }
  return parameter.value;
}

void CheckpointState::UpdateParameter(std::string_view name,
                                      const Tensor& value) {
  Parameter& parameter = store_->Get(name);
  if (store_->is_nominal) {
    Throw(ErrorCode::kFailedState,
          "parameter \"{}\" of a nominal checkpoint cannot be updated. Please "
          "load all the parameter states first.",
          name);
  }
  const Tensor& target = parameter.value;
  if (value.type() != target.type()) {
    Throw(ErrorCode::kTypeMismatch,
          "parameter \"{}\" is {}, the new value is {}", name,
          DataTypeName(target.type()), DataTypeName(value.type()));
  }
  if (!(value.shape() == target.shape())) {
    Throw(ErrorCode::kInvalidArgument,
          "parameter \"{}\" has shape {}, the new value has {}", name,
          target.shape().ToString(), value.shape().ToString());
  }
  if (target.byte_count() == 0) return;
  if (value.data() == nullptr) {
    Throw(ErrorCode::kInvalidArgument,
          "the new value of parameter \"{}\" has no data", name);
  }
  // May be the parameter's own memory.
  std::memmove(target.data(), value.data(), target.byte_count());
}

std::optional<Tensor> CheckpointState::Gradient(std::string_view name) const {
  const Parameter& parameter = store_->Get(name);
  if (parameter.gradient.type() == DataType::kUndefined) return std::nullopt;
  return parameter.gradient;
}

void CheckpointState::SetProperty(std::string_view name, Property value) {
  store_->properties.insert_or_assign(std::string(name), std::move(value));
}

bool CheckpointState::HasProperty(std::string_view name) const {
  return store_->properties.contains(name);
}

Property CheckpointState::GetProperty(std::string_view name) const {
  const auto it = store_->properties.find(name);
  if (it == store_->properties.end()) {
    Throw(ErrorCode::kNotFound, "no property named \"{}\" is in the checkpoint",
          name);
  }
  return it->second;
}

std::vector<std::string> CheckpointState::PropertyNames() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : store_->properties) {
    if (!IsHiddenProperty(name)) names.push_back(name);
  }
  return names;
}

}  // namespace strop
