// SPDX-License-Identifier: Apache-2.0
//
// Builds protobuf messages by hand, without the code under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strop::test {

class Proto {
 public:
  Proto& Varint(uint32_t field, uint64_t value) {
    Append(uint64_t{field} << 3);
    Append(value);
    return *this;
  }
  Proto& Int(uint32_t field, int64_t value) {
    return Varint(field, static_cast<uint64_t>(value));
  }
  Proto& Bytes(uint32_t field, std::string_view bytes) {
    Append(uint64_t{field} << 3 | 2);
    Append(bytes.size());
    text_ += bytes;
    return *this;
  }
  Proto& Message(uint32_t field, const Proto& message) {
    return Bytes(field, message.text_);
  }
  Proto& Float(uint32_t field, float value) {
    Append(uint64_t{field} << 3 | 5);
    return Raw(value);
  }
  Proto& Double(uint32_t field, double value) {
    Append(uint64_t{field} << 3 | 1);
    return Raw(value);
  }
  template <class T>
  Proto& PackedVarints(uint32_t field, const std::vector<T>& values) {
    Proto packed;
    for (const T value : values)
      packed.Append(static_cast<uint64_t>(static_cast<int64_t>(value)));
    return Message(field, packed);
  }
  template <class T>
  Proto& PackedFixed(uint32_t field, const std::vector<T>& values) {
    return Bytes(field, AsText(values));
  }

  template <class T>
  static std::string AsText(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()),
            values.size() * sizeof(T)};
  }

  const std::string& text() const { return text_; }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(text_));
  }

 private:
  void Append(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  template <class T>
  Proto& Raw(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    text_.append(raw, sizeof(T));
    return *this;
  }

  std::string text_;
};

// The field numbers of onnx.proto that the tests use.
namespace num {
inline constexpr uint32_t kIrVersion = 1, kModelGraph = 7, kOpsetImport = 8,
                          kMetadata = 14, kTrainingInfo = 20, kFunctions = 25;
inline constexpr uint32_t kGraphNode = 1, kGraphName = 2, kInitializer = 5,
                          kGraphInput = 11, kGraphOutput = 12, kValueInfo = 13,
                          kQuantization = 14, kSparse = 15;
inline constexpr uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3,
                          kOpType = 4, kAttribute = 5, kNodeDomain = 7;
inline constexpr uint32_t kDims = 1, kType = 2, kFloatData = 4, kInt32Data = 5,
                          kStringData = 6, kInt64Data = 7, kTensorName = 8,
                          kRawData = 9, kDoubleData = 10, kUint64Data = 11,
                          kTensorDoc = 12, kExternal = 13, kLocation = 14;
}  // namespace num

inline Proto ValueInfoProto(std::string_view name, int element,
                            const std::vector<int64_t>& dims) {
  Proto shape;
  for (const int64_t dim : dims) shape.Message(1, Proto().Int(1, dim));
  const Proto tensor = Proto().Int(1, element).Message(2, shape);
  return Proto().Bytes(1, name).Message(2, Proto().Message(1, tensor));
}

inline Proto NodeProto(std::string_view op,
                       const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs,
                       const std::vector<Proto>& attributes = {}) {
  Proto node;
  for (const std::string& input : inputs) node.Bytes(num::kNodeInput, input);
  for (const std::string& output : outputs)
    node.Bytes(num::kNodeOutput, output);
  node.Bytes(num::kOpType, op);
  for (const Proto& attribute : attributes)
    node.Message(num::kAttribute, attribute);
  return node;
}

inline Proto IntAttribute(std::string_view name, int64_t value) {
  return Proto().Bytes(1, name).Int(3, value).Int(20, 2);
}

inline Proto GraphAttribute(std::string_view name, const Proto& graph) {
  return Proto().Bytes(1, name).Message(6, graph).Int(20, 5);
}

inline Proto ModelProto(const Proto& graph, int64_t opset = 17) {
  return Proto()
      .Int(num::kIrVersion, 8)
      .Message(num::kModelGraph, graph)
      .Message(num::kOpsetImport, Proto().Bytes(1, "").Int(2, opset));
}

}  // namespace strop::test
