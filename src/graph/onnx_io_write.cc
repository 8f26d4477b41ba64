// SPDX-License-Identifier: Apache-2.0
//
// Writing a ModelProto. What was read and not changed is written as it came;
// unknown fields stand before the known ones of the same message, so that
// these win.
//
// Messages are built as strings from the inside out, since protozero leaves
// out an empty sub-message (a shape of rank 0, an unknown dimension). Only
// the outermost graph is written in place, so that weights are copied once.
#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "base/path_text.h"
#include "base/throw.h"
#include "graph/onnx_io.h"
#include "graph/onnx_io_wire.h"
#include "graph/opset_forms.h"

namespace strop {
namespace {

using namespace onnx;
using protozero::data_view;
using protozero::pbf_writer;
using GraphPtr = std::shared_ptr<const Graph>;

// A protobuf message may not reach 2 GB.
constexpr uint64_t kMostBytes = (uint64_t{1} << 31) - 1;

// Tensors in the external file start at multiples of this.
constexpr uint64_t kExternalAlignment = 64;
constexpr std::byte kZeros[kExternalAlignment] = {};

// What goes to the external file, as tensors are given to it.
struct ExternalFile {
  std::string location;
  size_t threshold = 0;
  uint64_t size = 0;
  std::vector<std::span<const std::byte>> parts;

  uint64_t Append(std::span<const std::byte> bytes) {
    const uint64_t padding =
        (kExternalAlignment - size % kExternalAlignment) % kExternalAlignment;
    if (padding > 0) parts.emplace_back(kZeros, padding);
    const uint64_t offset = size + padding;
    parts.push_back(bytes);
    size = offset + bytes.size();
    return offset;
  }
};

data_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void AddString(std::string& to, uint32_t field, const std::string& text) {
  if (!text.empty()) pbf_writer(to).add_string(field, text);
}

std::string EncodeDimension(const Dimension& dim) {
  std::string message;
  if (dim.value) {
    pbf_writer(message).add_int64(dim_field::kValue, *dim.value);
  } else {
    AddString(message, dim_field::kParam, dim.symbol);
  }
  return message;
}

// A TypeProto for a tensor.
std::string EncodeTensorType(const ValueType& type) {
  std::string tensor;
  pbf_writer to(tensor);
  to.add_int32(tensor_type_field::kElement, static_cast<int32_t>(type.element));
  if (type.dims) {
    std::string shape;
    for (const Dimension& dim : *type.dims)
      pbf_writer(shape).add_message(shape_field::kDim, EncodeDimension(dim));
    to.add_message(tensor_type_field::kShape, shape);
  }
  std::string message;
  pbf_writer(message).add_message(type_field::kTensor, tensor);
  return message;
}

std::string EncodeType(const ValueType& type) {
  if (!type.encoded.empty()) return type.encoded;
  std::string message;
  if (type.kind == ValueType::Kind::kTensor) return EncodeTensorType(type);
  if (type.kind == ValueType::Kind::kTensorList) {
    std::string list;
    pbf_writer(list).add_message(sequence_type_field::kElement,
                                 EncodeTensorType(type));
    pbf_writer(message).add_message(type_field::kSequence, list);
  }
  return message;
}

std::string EncodeValueInfo(const Value& value) {
  std::string message = value.unknown;
  pbf_writer to(message);
  to.add_string(value_info_field::kName, value.name);
  const std::string type = EncodeType(value.type);
  if (!type.empty()) to.add_message(value_info_field::kType, type);
  return message;
}

void AddEntry(std::string& to, std::string_view key, std::string_view value) {
  std::string entry;
  pbf_writer(entry).add_string(entry_field::kKey, View(key));
  pbf_writer(entry).add_string(entry_field::kValue, View(value));
  pbf_writer(to).add_message(tensor_field::kExternalData, entry);
}

class Encoder {
 public:
  explicit Encoder(ExternalFile* external) : external_(external) {}

  void AppendGraph(std::string& to, const Graph& graph);

 private:
  void AppendTensor(std::string& to, uint32_t field, const TensorData& tensor,
                    const std::string& name, bool may_be_external);
  std::string EncodeNode(const Graph& graph, const Node& node);
  std::string EncodeAttribute(const Attribute& attribute);
  std::string EncodeGraph(const Graph& graph) {
    std::string message;
    AppendGraph(message, graph);
    return message;
  }

  // The overloads of EncodeAttribute, one a kind of value.
  void AddValue(std::string&, std::monostate) {}
  void AddValue(std::string& to, int64_t value);
  void AddValue(std::string& to, float value);
  void AddValue(std::string& to, const std::string& value);
  void AddValue(std::string& to, const TensorData& value);
  void AddValue(std::string& to, const GraphPtr& value);
  void AddValue(std::string& to, const std::vector<int64_t>& values);
  void AddValue(std::string& to, const std::vector<float>& values);
  void AddValue(std::string& to, const std::vector<std::string>& values);
  void AddValue(std::string& to, const std::vector<GraphPtr>& values);
  static void AddType(std::string& to, uint64_t type) {
    pbf_writer(to).add_enum(attribute_field::kType, static_cast<int32_t>(type));
  }

  ExternalFile* external_;
};

void Encoder::AddValue(std::string& to, int64_t value) {
  pbf_writer(to).add_int64(attribute_field::kInt, value);
  AddType(to, kTypeInt);
}

void Encoder::AddValue(std::string& to, float value) {
  pbf_writer(to).add_float(attribute_field::kFloat, value);
  AddType(to, kTypeFloat);
}

void Encoder::AddValue(std::string& to, const std::string& value) {
  pbf_writer(to).add_bytes(attribute_field::kString, value);
  AddType(to, kTypeString);
}

void Encoder::AddValue(std::string& to, const TensorData& value) {
  AppendTensor(to, attribute_field::kTensor, value, value.name,
               /*may_be_external=*/false);
  AddType(to, kTypeTensor);
}

void Encoder::AddValue(std::string& to, const GraphPtr& value) {
  pbf_writer(to).add_message(attribute_field::kGraph, EncodeGraph(*value));
  AddType(to, kTypeGraph);
}

void Encoder::AddValue(std::string& to, const std::vector<int64_t>& values) {
  for (const int64_t value : values)
    pbf_writer(to).add_int64(attribute_field::kInts, value);
  AddType(to, kTypeInts);
}

void Encoder::AddValue(std::string& to, const std::vector<float>& values) {
  for (const float value : values)
    pbf_writer(to).add_float(attribute_field::kFloats, value);
  AddType(to, kTypeFloats);
}

void Encoder::AddValue(std::string& to,
                       const std::vector<std::string>& values) {
  for (const std::string& value : values)
    pbf_writer(to).add_bytes(attribute_field::kStrings, value);
  AddType(to, kTypeStrings);
}

void Encoder::AddValue(std::string& to, const std::vector<GraphPtr>& values) {
  for (const GraphPtr& value : values)
    pbf_writer(to).add_message(attribute_field::kGraphs, EncodeGraph(*value));
  AddType(to, kTypeGraphs);
}

std::string Encoder::EncodeAttribute(const Attribute& attribute) {
  std::string message = attribute.encoded;
  pbf_writer(message).add_string(attribute_field::kName, attribute.name);
  AddString(message, attribute_field::kRefAttrName, attribute.ref_attr_name);
  std::visit([&](const auto& value) { AddValue(message, value); },
             attribute.value);
  return message;
}

std::string Encoder::EncodeNode(const Graph& graph, const Node& node) {
  std::string message = node.unknown;
  pbf_writer to(message);
  for (const ValueId input : node.inputs)
    to.add_string(node_field::kInput, graph.value_name(input));
  for (const ValueId output : node.outputs)
    to.add_string(node_field::kOutput, graph.value_name(output));
  AddString(message, node_field::kName, node.name);
  AddString(message, node_field::kOpType, node.op_type);
  AddString(message, node_field::kDomain, node.domain);
  AddString(message, node_field::kOverload, node.overload);
  for (const Attribute& attribute : node.attributes)
    to.add_message(node_field::kAttribute, EncodeAttribute(attribute));
  return message;
}

void Encoder::AppendTensor(std::string& to, uint32_t field,
                           const TensorData& tensor, const std::string& name,
                           bool may_be_external) {
  const bool external = may_be_external && external_ != nullptr &&
                        !tensor.bytes.empty() &&
                        tensor.bytes.size() >= external_->threshold;
  std::string head, tail;
  if (!tensor.encoded.empty() && !external) {
    // The last of two names counts.
    if (tensor.name != name)
      pbf_writer(tail).add_string(tensor_field::kName, name);
    pbf_writer(to).add_bytes_vectored(field, View(tensor.encoded), View(tail));
    return;
  }
  if (tensor.type == DataType::kString) {
    Throw(ErrorCode::kInvalidArgument,
          "tensor \"{}\" of strings cannot be written: it was not read from a "
          "file",
          name);
  }
  head = tensor.unknown;
  pbf_writer message(head);
  for (const int64_t dim : tensor.dims)
    message.add_int64(tensor_field::kDims, dim);
  message.add_int32(tensor_field::kDataType, static_cast<int32_t>(tensor.type));
  AddString(head, tensor_field::kName, name);
  if (!external) {
    pbf_writer(tail).add_bytes(tensor_field::kRawData,
                               View(TextOf(tensor.bytes)));
    pbf_writer(to).add_bytes_vectored(field, View(head), View(tail));
    return;
  }
  const uint64_t offset = external_->Append(tensor.bytes);
  AddEntry(head, "location", external_->location);
  AddEntry(head, "offset", fmt::format("{}", offset));
  AddEntry(head, "length", fmt::format("{}", tensor.bytes.size()));
  message.add_enum(tensor_field::kDataLocation,
                   static_cast<int32_t>(kLocationExternal));
  pbf_writer(to).add_message(field, head);
}

void Encoder::AppendGraph(std::string& to, const Graph& graph) {
  to += graph.unknown;
  for (const NodeId id : graph.order()) {
    pbf_writer(to).add_message(graph_field::kNode,
                               EncodeNode(graph, graph.node(id)));
  }
  AddString(to, graph_field::kName, graph.name);
  for (const ValueId id : graph.initializers()) {
    const Value& value = graph.value(id);
    AppendTensor(to, graph_field::kInitializer, *value.initializer, value.name,
                 /*may_be_external=*/true);
  }
  auto add = [&](uint32_t field, ValueId id) {
    pbf_writer(to).add_message(field, EncodeValueInfo(graph.value(id)));
  };
  for (const ValueId id : graph.inputs()) add(graph_field::kInput, id);
  for (const ValueId id : graph.outputs()) add(graph_field::kOutput, id);
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    const Value& value = graph.value(id);
    // A value that lost its source is of no graph any more.
    const bool alive = value.producer || value.is_input || value.initializer ||
                       value.is_sparse_initializer;
    if (value.has_value_info && alive) add(graph_field::kValueInfo, id);
  }
}

std::string EncodeOpset(const std::string& domain, int64_t version) {
  std::string opset, field;
  pbf_writer(opset).add_string(opset_field::kDomain, domain);
  pbf_writer(opset).add_int64(opset_field::kVersion, version);
  pbf_writer(field).add_message(model_field::kOpsetImport, opset);
  return field;
}

// The imports as they were read unless the graph's versions moved on.
std::string EncodeOpsets(const Model& model) {
  auto wanted = model.graph.opset_imports;
  wanted.erase(std::string(kInternal));
  const bool as_read = wanted == MergedOpsets(model);
  std::string message;
  for (const OpsetImport& import : model.opset_imports) {
    if (as_read && !import.encoded.empty()) {
      message += import.encoded;
      wanted.erase(std::string(CanonicalDomain(import.domain)));
      continue;
    }
    auto found = wanted.find(CanonicalDomain(import.domain));
    if (found == wanted.end()) continue;
    message += EncodeOpset(import.domain, found->second);
    wanted.erase(found);
  }
  for (const auto& [domain, version] : wanted)
    message += EncodeOpset(domain, version);
  return message;
}

uint64_t SizeOf(const TensorData& tensor) {
  return std::max(tensor.encoded.size(), tensor.bytes.size());
}

// Bytes of the tensors in a graph; initializers may lie outside the model.
struct TensorBytes {
  uint64_t initializers = 0;
  uint64_t attributes = 0;

  uint64_t all() const { return initializers + attributes; }

  void Add(const Graph& graph) {
    for (const ValueId id : graph.initializers())
      initializers += SizeOf(*graph.value(id).initializer);
    for (const NodeId id : graph.order())
      for (const Attribute& attribute : graph.node(id).attributes)
        Add(attribute.value);
  }
  void Add(const Attribute::Value& value) {
    if (const auto* tensor = std::get_if<TensorData>(&value))
      attributes += SizeOf(*tensor);
    if (const auto* one = std::get_if<GraphPtr>(&value)) Add(**one);
    if (const auto* many = std::get_if<std::vector<GraphPtr>>(&value))
      for (const GraphPtr& graph : *many) Add(*graph);
  }
};

void CheckFits(uint64_t bytes) {
  if (bytes <= kMostBytes) return;
  Throw(ErrorCode::kInvalidArgument,
        "the model takes {} bytes, an ONNX file may have {} beside external "
        "data",
        bytes, kMostBytes);
}

// Up to IR version 3 every initializer is an input too.
void ListInitializersAsInputs(Graph& graph) {
  std::vector<ValueId> inputs(graph.inputs().begin(), graph.inputs().end());
  for (const ValueId id : graph.initializers())
    if (!graph.value(id).is_input) inputs.push_back(id);
  graph.SetInputs(std::move(inputs));
}

Graph InSpellingOfFile(const Model& model) {
  Graph graph = model.graph;
  RestoreForms(graph);
  if (model.ir_version > 0 && model.ir_version < 4)
    ListInitializersAsInputs(graph);
  return graph;
}

// `graph`: that of the model, in the spelling of the file.
std::string Encode(const Model& model, const Graph& graph,
                   ExternalFile* external) {
  std::string message = model.unknown;
  pbf_writer to(message);
  if (model.ir_version != 0)
    to.add_int64(model_field::kIrVersion, model.ir_version);
  AddString(message, model_field::kProducerName, model.producer_name);
  AddString(message, model_field::kProducerVersion, model.producer_version);
  AddString(message, model_field::kDomain, model.model_domain);
  if (model.model_version != 0)
    to.add_int64(model_field::kModelVersion, model.model_version);
  message += EncodeOpsets(model);
  const size_t before = message.size();
  {
    pbf_writer nested(to, model_field::kGraph);
    Encoder(external).AppendGraph(message, graph);
  }
  if (message.size() == before) {
    to.add_message(model_field::kGraph, std::string());
  }
  for (const ModelFunction& function : model.functions)
    to.add_message(model_field::kFunctions, function.encoded);
  CheckFits(message.size());
  return message;
}

}  // namespace

std::string EncodeOnnx(const Model& model) {
  TensorBytes tensors;
  tensors.Add(model.graph);
  CheckFits(tensors.all());
  return Encode(model, InSpellingOfFile(model), nullptr);
}

EncodedOnnx EncodeOnnx(const Model& model, const std::string& file_name,
                       const OnnxWriteOptions& options) {
  ExternalFile external;
  external.location = file_name + ".data";
  external.threshold = options.external_threshold;
  TensorBytes tensors;
  tensors.Add(model.graph);
  CheckFits(tensors.attributes);
  const bool split =
      options.force_external || tensors.all() > options.most_bytes;
  auto graph = std::make_shared<const Graph>(InSpellingOfFile(model));
  EncodedOnnx encoded;
  encoded.bytes = Encode(model, *graph, split ? &external : nullptr);
  encoded.data = std::move(external.parts);
  encoded.owner = std::move(graph);
  return encoded;
}

void WriteOnnx(const Model& model, const std::filesystem::path& path,
               FileSystem& files, const OnnxWriteOptions& options) {
  EncodedOnnx encoded = EncodeOnnx(model, PathText(path.filename()), options);
  std::vector<FileToWrite> to_write;
  // The data come first: a reader that sees the new model finds them.
  if (!encoded.data.empty()) {
    std::filesystem::path data_path = path;
    data_path += ".data";
    to_write.push_back({std::move(data_path), std::move(encoded.data)});
  }
  to_write.push_back({path, {std::as_bytes(std::span(encoded.bytes))}});
  files.Write(to_write);
}

}  // namespace strop
