// SPDX-License-Identifier: Apache-2.0
//
// Reading a ModelProto. The reader is in parts: onnx_io_wire (fields of a
// message), onnx_io_tensor, onnx_io_graph; onnx_io_write writes.
#include "graph/onnx_io.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/path_text.h"
#include "base/throw.h"
#include "graph/onnx_io_wire.h"
#include "graph/opset_forms.h"

namespace strop {
namespace {

using namespace onnx;

constexpr int64_t kNewestIrVersion = 14;

ModelFunction DecodeFunctionName(std::string_view message, const Where& where) {
  ModelFunction function;
  function.encoded = message;
  FieldReader fields(message, where);
  while (fields.Next()) {
    if (fields->number == function_field::kName) function.name = fields.Bytes();
    if (fields->number == function_field::kDomain)
      function.domain = CanonicalDomain(fields.Bytes());
    if (fields->number == function_field::kOverload)
      function.overload = fields.Bytes();
  }
  return function;
}

// Everything but the graph, which is left for when the opsets are known.
std::optional<std::string_view> DecodeModel(std::string_view message,
                                            const Where& where, Model& model) {
  std::optional<std::string_view> graph;
  FieldReader fields(message, where);
  auto take = [&](std::string& to) {
    to = fields.Bytes();
    if (to.empty()) model.unknown += fields->raw;
  };
  while (fields.Next()) {
    switch (fields->number) {
      case model_field::kIrVersion:
        model.ir_version = static_cast<int64_t>(fields.Varint());
        break;
      case model_field::kProducerName:
        take(model.producer_name);
        break;
      case model_field::kProducerVersion:
        take(model.producer_version);
        break;
      case model_field::kDomain:
        take(model.model_domain);
        break;
      case model_field::kModelVersion:
        model.model_version = static_cast<int64_t>(fields.Varint());
        if (model.model_version == 0) model.unknown += fields->raw;
        break;
      case model_field::kGraph:
        if (graph) where.Fail("there are two graphs");
        graph = fields.Bytes();
        break;
      case model_field::kOpsetImport:
        model.opset_imports.push_back(DecodeOpset(fields, where));
        break;
      case model_field::kFunctions:
        model.functions.push_back(DecodeFunctionName(fields.Bytes(), where));
        break;
      default:
        model.unknown += fields->raw;
    }
  }
  return graph;
}

Model Decode(std::span<const std::byte> bytes, ReadContext& context,
             const OnnxReadOptions& options) {
  const std::string_view message(reinterpret_cast<const char*>(bytes.data()),
                                 bytes.size());
  const Where where{nullptr, "model"};
  Model model;
  const std::optional<std::string_view> graph =
      DecodeModel(message, where, model);
  if (!graph) where.Fail("there is no graph: not an ONNX file, or truncated");
  if (model.ir_version > kNewestIrVersion && options.log) {
    options.log(LogLevel::kWarning,
                fmt::format("the model has IR version {}, the newest that "
                            "Strop knows is {}: trying",
                            model.ir_version, kNewestIrVersion));
  }
  context.opset_imports = MergedOpsets(model);
  const Where graph_place{nullptr, "graph"};
  model.graph = DecodeGraph(*graph, graph_place, context, 0);
  if (options.inline_functions && !model.functions.empty())
    InlineFunctions(model, context);
  if (options.normalize) NormalizeForms(model.graph);
  return model;
}

// A copy that DecodeTensor may point into.
std::shared_ptr<std::byte> CopyBytes(std::span<const std::byte> bytes) {
  constexpr std::align_val_t kAlignment{64};
  auto* memory = static_cast<std::byte*>(
      ::operator new(std::max<size_t>(bytes.size(), 1), kAlignment));
  std::shared_ptr<std::byte> copy(
      memory, [](std::byte* p) { ::operator delete(p, kAlignment); });
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  return copy;
}

}  // namespace

namespace onnx {

std::map<std::string, int64_t, std::less<>> MergedOpsets(const Model& model) {
  std::map<std::string, int64_t, std::less<>> merged;
  for (const OpsetImport& import : model.opset_imports) {
    int64_t& kept = merged[std::string(CanonicalDomain(import.domain))];
    kept = std::max(kept, import.version);
  }
  return merged;
}

}  // namespace onnx

Model ReadOnnx(const std::filesystem::path& path, FileSystem& files,
               const OnnxReadOptions& options) {
  const FileContents contents = files.Open(path);
  ReadContext context;
  context.owner = contents.owner;
  context.files = &files;
  context.folder = path.parent_path();
  try {
    return Decode(contents.bytes, context, options);
  } catch (const std::bad_alloc&) {
    Throw(ErrorCode::kOutOfMemory, "{}: no memory for the model",
          PathText(path));
  } catch (const Error& e) {
    throw Error(e.code(), PathText(path) + ": " + e.what());
  }
}

Model ReadOnnx(std::span<const std::byte> bytes,
               const OnnxReadOptions& options) {
  const std::shared_ptr<std::byte> copy = CopyBytes(bytes);
  ReadContext context;
  context.owner = copy;
  return Decode({copy.get(), bytes.size()}, context, options);
}

}  // namespace strop
