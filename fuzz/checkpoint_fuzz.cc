// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>

#include "strop/checkpoint_state.h"

// Any bytes give a state, whose parameters can be read, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const strop::Environment environment;
  try {
    const strop::CheckpointState state = strop::CheckpointState::LoadFromBuffer(
        std::as_bytes(std::span(data, size)), environment);
    for (const std::string& name : state.ParameterNames())
      state.RequiresGrad(name);
  } catch (const strop::Error&) {
  }
  return 0;
}
