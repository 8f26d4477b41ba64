// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing ONNX files. onnx_io.cc is the only file that knows the
// wire format.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "strop/platform.h"

namespace strop {

struct OnnxReadOptions {
  // Rewrite older spellings to the newest (opset_forms.h). Off: the graph
  // holds what the file says.
  bool normalize = true;
  // Replace calls of the model's local functions by their bodies.
  bool inline_functions = true;
  LogSink log = {};  // may be empty
};

// Reads a model. Tensor bytes stay in the mapped file where they are aligned.
// External data is looked for in the folder of `path` and may not leave it.
// Throws kNoSuchFile, kInvalidFile (truncated, not ONNX; the text says where)
// or kInvalidGraph (duplicate names, a cycle, a value from nowhere).
Model ReadOnnx(const std::filesystem::path& path, FileSystem& files,
               const OnnxReadOptions& options = {});

// The same from memory. `bytes` are copied where they must outlive the call.
// External data is an error.
Model ReadOnnx(std::span<const std::byte> bytes,
               const OnnxReadOptions& options = {});

struct OnnxWriteOptions {
  // Tensors of at least this many bytes go to `<file name>.data` beside the
  // model when the whole would pass `most_bytes`; 0 forces it for every
  // tensor.
  size_t external_threshold = 1024;
  bool force_external = false;
  // A protobuf message may not reach 2 GB; 64 MB are left for all that is no
  // tensor.
  uint64_t most_bytes = (uint64_t{1} << 31) - 1 - (uint64_t{64} << 20);
};

// The encoded model, with older spellings restored for its opsets. Throws
// kInvalidArgument if it passes 2 GB.
std::string EncodeOnnx(const Model& model);

// A model as the options say, and what `<file name>.data` beside it is to hold
// (nothing where the whole stands in the model). The parts live as long as
// `owner`.
struct EncodedOnnx {
  std::string bytes;
  std::vector<std::span<const std::byte>> data;
  std::shared_ptr<const void> owner;
};
EncodedOnnx EncodeOnnx(const Model& model, const std::string& file_name,
                       const OnnxWriteOptions& options);

// Writes atomically; external data as the options say.
void WriteOnnx(const Model& model, const std::filesystem::path& path,
               FileSystem& files, const OnnxWriteOptions& options = {});

}  // namespace strop
