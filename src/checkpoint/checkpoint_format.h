// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint file of ONNX Runtime's on-device training, both ways. The
// layout stands in schema/checkpoint.fbs; this is what its fields mean:
//
// - Parameters are in two lists, trainable and frozen. A name that comes twice
//   counts once: the first, and trainable before frozen.
// - A state may keep the bytes of its parameters in a second file named
//   `<checkpoint>.data`; moments always stay in the first.
// - A nominal state has names only; its tensors are placeholders.
// - The current learning rate has no field. Strop keeps it as the property
//   `strop.learning_rate.<group>` where it is not the group's initial rate,
//   and beside it the step at which it was written. ONNX Runtime carries
//   properties along as they are: where the group's step is another one, the
//   rate is of the past and does not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/parameter_store.h"
#include "strop/environment.h"

namespace strop {

inline constexpr int32_t kCheckpointVersion = 2;

// `<checkpoint>.data`
std::filesystem::path ExternalDataPath(const std::filesystem::path& checkpoint);

// "strop.learning_rate.<group>"
std::string LearningRateProperty(std::string_view group);
// "strop.learning_rate_step.<group>"
std::string LearningRateStepProperty(std::string_view group);

// Reads a checkpoint of version 1 or 2. `path` is where `bytes` came from; an
// empty path means memory, and then external data is refused. Throws
// kInvalidFile, and kNoSuchFile for missing external data. Memory use is
// bounded by the size of the file, whatever is in it.
ParameterStore ParseCheckpoint(std::span<const std::byte> bytes,
                               const std::filesystem::path& path,
                               const Environment& environment);

// The files to write. The parts of external data are views of the store.
struct SerializedCheckpoint {
  std::span<const std::byte> bytes;
  bool has_external_data = false;
  std::vector<std::span<const std::byte>> external_data;
  std::shared_ptr<const void> owner;  // of `bytes`
};

// Parameters of more bytes than this go outside: FlatBuffers end at 2 GiB.
inline constexpr uint64_t kMaxInlineBytes = uint64_t{1800} << 20;

// Writes version 2. The same store gives the same bytes, and those that ONNX
// Runtime 1.19.2 writes for it, apart from properties under "strop.", which
// go with the optimizer state only. External data is written where the store
// came with external data, or does not fit.
SerializedCheckpoint SerializeCheckpoint(
    const ParameterStore& store, bool include_optimizer_state,
    uint64_t max_inline_bytes = kMaxInlineBytes);

}  // namespace strop
