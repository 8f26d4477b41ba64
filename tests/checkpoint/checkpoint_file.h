// SPDX-License-Identifier: Apache-2.0
//
// Checkpoint files for tests: the known one, golden ones, and ones built field
// by field, so that any field can be wrong or missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/parameter_store.h"
#include "strop/checkpoint_state.h"

namespace strop {

using Bytes = std::vector<std::byte>;

// The 560 bytes that ONNX Runtime 1.19.2 wrote for: trainable w float[2],
// frozen f float[1] = 0.5, epoch = 3, best = 0.25, tag = "hi", group0 after
// one AdamW step at rate 0.125, with moments.
Bytes KnownFile();

// Folders of tests/data/golden that have `file`.
std::vector<std::filesystem::path> GoldenFiles(std::string_view file);
Bytes ReadFile(const std::filesystem::path& path);

// Two digits for each byte: what a failed comparison prints.
std::string Hex(std::span<const std::byte> bytes);

// --- Fields of a file; nullopt: the field is missing.

struct FileTensor {
  std::optional<std::string> name = "w";
  std::optional<std::vector<int64_t>> dims = std::vector<int64_t>{};
  int type = 1;
  std::optional<Bytes> raw = std::nullopt;
  int64_t external_offset = -1;
};
using FileTensors = std::optional<std::vector<FileTensor>>;

struct FileMoments {
  std::optional<std::string> parameter = "w";
  FileTensors tensors = std::vector<FileTensor>{};
};

struct FileGroup {
  std::optional<std::string> name = "group0";
  int64_t step = 0;
  float initial_learning_rate = 0;
  std::optional<std::vector<FileMoments>> states = std::vector<FileMoments>{};
};

struct FileProperty {
  std::optional<std::string> name = "p";
  // nullopt: a string property without a value.
  std::optional<Property> value = std::nullopt;
};

struct CheckpointFile {
  int version = 2;
  bool has_module_state = true;
  FileTensors trainable = std::vector<FileTensor>{};
  FileTensors frozen = std::vector<FileTensor>{};
  bool is_nominal = false;
  bool has_external_data = false;
  std::vector<FileGroup> groups = {};
  std::vector<FileProperty> properties = {};
};

Bytes Build(const CheckpointFile& file);

template <class T>
Bytes BytesOf(std::initializer_list<T> values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

// A float32 tensor of rank 1.
FileTensor Floats1D(std::string name, std::initializer_list<float> values);

// --- What was loaded

std::vector<float> FloatValues(const Tensor& tensor);

// Fails the test where two stores differ, gradients and versions apart.
void ExpectSameContent(const ParameterStore& actual,
                       const ParameterStore& expected);

// What a call of `fn` throws; fails the test if it throws nothing.
template <class F>
std::string ErrorOf(ErrorCode code, const F& fn);

// The text of the Error, prefixed when the code is another.
std::string DescribeError(ErrorCode wanted, const Error& error);

template <class F>
std::string ErrorOf(ErrorCode code, const F& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return DescribeError(code, error);
  }
  return "(nothing was thrown)";
}

}  // namespace strop
