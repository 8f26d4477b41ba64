// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the ONNX reader and writer share: the field numbers of
// onnx.proto and a reader of protobuf messages that fails with a place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx_io.h"
#include "strop/platform.h"

namespace strop::onnx {

// Field numbers, one scope per message. What is not named is carried opaquely.
namespace model_field {
enum : uint32_t {
  kIrVersion = 1,
  kProducerName = 2,
  kProducerVersion = 3,
  kDomain = 4,
  kModelVersion = 5,
  kGraph = 7,
  kOpsetImport = 8,
  kFunctions = 25,
};
}
namespace opset_field {
enum : uint32_t { kDomain = 1, kVersion = 2 };
}
namespace graph_field {
enum : uint32_t {
  kNode = 1,
  kName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12,
  kValueInfo = 13,
  kSparseInitializer = 15,
};
}
namespace sparse_field {
enum : uint32_t { kValues = 1, kDims = 3 };
}
namespace node_field {
enum : uint32_t {
  kInput = 1,
  kOutput = 2,
  kName = 3,
  kOpType = 4,
  kAttribute = 5,
  kDomain = 7,
  kOverload = 8,
};
}
namespace attribute_field {
enum : uint32_t {
  kName = 1,
  kFloat = 2,
  kInt = 3,
  kString = 4,
  kTensor = 5,
  kGraph = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kGraphs = 11,
  kType = 20,
  kRefAttrName = 21,
};
}
// AttributeProto.AttributeType
enum : uint64_t {
  kTypeUndefined = 0,
  kTypeFloat = 1,
  kTypeInt = 2,
  kTypeString = 3,
  kTypeTensor = 4,
  kTypeGraph = 5,
  kTypeFloats = 6,
  kTypeInts = 7,
  kTypeStrings = 8,
  kTypeGraphs = 10,
};
namespace tensor_field {
enum : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
};
}
constexpr uint64_t kLocationExternal = 1;  // TensorProto.DataLocation
namespace entry_field {                    // StringStringEntryProto
enum : uint32_t { kKey = 1, kValue = 2 };
}
namespace value_info_field {
enum : uint32_t { kName = 1, kType = 2 };
}
namespace type_field {
enum : uint32_t { kTensor = 1, kSequence = 4, kDenotation = 6 };
}
namespace tensor_type_field {
enum : uint32_t { kElement = 1, kShape = 2 };
}
namespace sequence_type_field {
enum : uint32_t { kElement = 1 };
}
namespace shape_field {
enum : uint32_t { kDim = 1 };
}
namespace dim_field {
enum : uint32_t { kValue = 1, kParam = 2 };
}
namespace function_field {
enum : uint32_t {
  kName = 1,
  kInput = 4,
  kOutput = 5,
  kAttribute = 6,
  kNode = 7,
  kOpsetImport = 9,
  kDomain = 10,
  kAttributeProto = 11,
  kValueInfo = 12,
  kOverload = 13,
};
}

// A place in the file: a chain that lives on the stack of the reader.
struct Where {
  const Where* around = nullptr;
  std::string_view what;
  int64_t index = -1;

  // "graph, node 3, attribute 0"
  std::string Text() const;
  [[noreturn]] void Fail(std::string_view text) const;  // kInvalidFile
};

// One field of a message.
struct Field {
  uint32_t number = 0;
  uint32_t wire_type = 0;
  std::string_view raw;    // tag and all
  std::string_view bytes;  // what a length stands before
  uint64_t bits = 0;       // varint or fixed-width value

  std::string_view Bytes(const Where& where) const;
  uint64_t Varint(const Where& where) const;
  float Float(const Where& where) const;
  // Repeated numbers, packed or not. Varints() counts without storing.
  size_t CountVarints(const Where& where) const;
  void AppendVarints(const Where& where, std::vector<uint64_t>& to) const;
  void AppendFloats(const Where& where, std::vector<float>& to) const;
  // Fixed-width numbers of `width` bytes as they lie in the file.
  std::string_view FixedBytes(const Where& where, size_t width) const;
};

// The fields of a message, in order.
class FieldReader {
 public:
  FieldReader(std::string_view message, const Where& where)
      : rest_(message), where_(where) {}
  bool Next();
  const Field& field() const { return field_; }
  const Field* operator->() const { return &field_; }

  std::string_view Bytes() const { return field_.Bytes(where_); }
  std::string String() const { return std::string(Bytes()); }
  uint64_t Varint() const { return field_.Varint(where_); }

 private:
  std::string_view rest_;
  const Where& where_;
  Field field_;
};

// What reading needs to know beside the bytes at hand.
struct ReadContext {
  std::shared_ptr<const void> owner;  // keeps the file's bytes alive
  FileSystem* files = nullptr;        // null: external data is an error
  std::filesystem::path folder;       // where external data may lie
  std::map<std::string, FileContents> external;  // opened so far
  std::map<std::string, int64_t, std::less<>> opset_imports;
};

TensorData DecodeTensor(std::string_view message, const Where& where,
                        ReadContext& context);

Graph DecodeGraph(std::string_view message, const Where& where,
                  ReadContext& context, int depth);

Attribute DecodeAttribute(std::string_view message, const Where& where,
                          ReadContext& context, int depth);

// A local function as a graph whose inputs have no types.
struct Function {
  Graph body;
  std::vector<std::string> attributes;  // formal, without default
  std::vector<Attribute> defaults;      // formal, with default
};
Function DecodeFunction(std::string_view message, const Where& where,
                        ReadContext context);

// Replaces the calls of local functions and empties the list of functions.
void InlineFunctions(Model& model, ReadContext& context);

// The field that `import` stands at.
OpsetImport DecodeOpset(const FieldReader& import, const Where& where);

// The model's imports with the names of the default domain made one.
std::map<std::string, int64_t, std::less<>> MergedOpsets(const Model& model);

// "ai.onnx" is another name of the default domain.
inline std::string_view CanonicalDomain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

}  // namespace strop::onnx
