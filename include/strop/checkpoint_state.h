// SPDX-License-Identifier: Apache-2.0
//
// The state of a training run: parameters, optimizer state, properties.
//
//   strop::Environment environment;
//   auto state = strop::CheckpointState::Load("checkpoint", environment);
//   state.SetProperty("epoch", int64_t{3});
//   state.Save("checkpoint", /*include_optimizer_state=*/true);
//
// Module and Optimizer keep a pointer to the state: one shared state, an
// update through any of them is visible to all at once. The state outlives
// them; it may be moved meanwhile. Not thread-safe: one step or one access
// at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strop/environment.h"
#include "strop/tensor.h"

namespace strop {

using Property = std::variant<int64_t, float, std::string>;

struct ParameterStore;

class STROP_EXPORT CheckpointState {
 public:
  // Reads ONNX Runtime's checkpoint file, version 1 or 2; tensors that the
  // file keeps outside are read from `<path>.data`. Throws kNoSuchFile or
  // kInvalidFile.
  static CheckpointState Load(const std::filesystem::path& path,
                              const Environment& environment);
  // The same from memory. A file with external data throws.
  static CheckpointState LoadFromBuffer(std::span<const std::byte> bytes,
                                        const Environment& environment);
  // A state without anything in it.
  explicit CheckpointState(const Environment& environment);
  ~CheckpointState();
  CheckpointState(CheckpointState&&) noexcept;
  CheckpointState& operator=(CheckpointState&&) noexcept;

  // Writes version 2, atomically. A state that was loaded with external data,
  // or is beyond 2 GiB, is written as `path` and `<path>.data`. Without the
  // optimizer state, properties under "strop." are left out as well. ONNX
  // Runtime 1.18 and newer load the file. Throws kIo; the old file is then
  // whole.
  void Save(const std::filesystem::path& path,
            bool include_optimizer_state = false) const;

  // True for a state that has names only: values come later through
  // Module::CopyBufferToParameters. Reading parameters throws kFailedState
  // until then.
  bool is_nominal() const;

  // --- Parameters, in ascending order of their names (bytes).
  std::vector<std::string> ParameterNames() const;
  bool HasParameter(std::string_view name) const;
  // The functions below throw kNotFound for an unknown name.
  bool RequiresGrad(std::string_view name) const;
  // The value itself, in place: reading it is always current, writing to it
  // is seen by the next step. Valid while the state lives.
  Tensor ParameterValue(std::string_view name) const;
  // Copies `value` into the parameter. Throws kTypeMismatch or
  // kInvalidArgument where type or shape are not equal.
  void UpdateParameter(std::string_view name, const Tensor& value);
  // The gradient buffer; nullopt for a frozen parameter and before a Module
  // was made.
  std::optional<Tensor> Gradient(std::string_view name) const;

  // --- Properties: int64, float or string by name, "" included.
  // Adds or overwrites, also with another type.
  void SetProperty(std::string_view name, Property value);
  bool HasProperty(std::string_view name) const;
  Property GetProperty(std::string_view name) const;  // throws kNotFound
  // Ascending; names under "strop." are Strop's own and not listed.
  std::vector<std::string> PropertyNames() const;

  // For Strop's own sources: the type is not public.
  ParameterStore& store() const { return *store_; }

 private:
  std::unique_ptr<ParameterStore> store_;
};

}  // namespace strop
