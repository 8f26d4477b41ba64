// SPDX-License-Identifier: Apache-2.0
#include "graph/print.h"

#include <fmt/format.h>

#include <cstring>

#include "strop/tensor.h"

namespace strop {
namespace {

constexpr int64_t kMostElements = 8;  // longer tensors print type and shape

std::string ListOf(size_t count, auto&& text_of) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += text_of(i);
  }
  return text;
}

std::string Quoted(const std::string& bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (code < 0x20 || code == 0x7f) {
      text += fmt::format("\\x{:02x}", code);
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string TypeText(const ValueType& type) {
  if (type.kind == ValueType::Kind::kUnknown) return "";
  if (type.kind == ValueType::Kind::kOther) return "other";
  std::string text = DataTypeName(type.element);
  if (!type.dims) {
    text += "[*]";
  } else {
    const auto& dims = *type.dims;
    text += '[' +
            ListOf(dims.size(),
                   [&](size_t i) {
                     if (dims[i].value)
                       return fmt::format("{}", *dims[i].value);
                     return dims[i].symbol.empty() ? "?" : dims[i].symbol;
                   }) +
            ']';
  }
  if (type.kind == ValueType::Kind::kTensorList) return "list(" + text + ")";
  return text;
}

template <class T>
std::string ElementsText(std::span<const std::byte> bytes) {
  return ListOf(bytes.size() / sizeof(T), [&](size_t i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    return fmt::format("{}", element);
  });
}

// "float32[2] {1, 2}"; long tensors and types that do not print: no braces.
std::string TensorText(const TensorData& tensor) {
  std::string text =
      DataTypeName(tensor.type) + '[' +
      ListOf(tensor.dims.size(),
             [&](size_t i) { return fmt::format("{}", tensor.dims[i]); }) +
      ']';
  const size_t size = DataTypeSize(tensor.type);
  if (size == 0 || tensor.bytes.size() > size * kMostElements) return text;
  auto with = [&](std::string elements) {
    return text + " {" + std::move(elements) + "}";
  };
  switch (tensor.type) {
    case DataType::kFloat32:
      return with(ElementsText<float>(tensor.bytes));
    case DataType::kFloat64:
      return with(ElementsText<double>(tensor.bytes));
    case DataType::kInt8:
      return with(ElementsText<int8_t>(tensor.bytes));
    case DataType::kInt16:
      return with(ElementsText<int16_t>(tensor.bytes));
    case DataType::kInt32:
      return with(ElementsText<int32_t>(tensor.bytes));
    case DataType::kInt64:
      return with(ElementsText<int64_t>(tensor.bytes));
    case DataType::kUint8:
    case DataType::kBool:
      return with(ElementsText<uint8_t>(tensor.bytes));
    case DataType::kUint16:
      return with(ElementsText<uint16_t>(tensor.bytes));
    case DataType::kUint32:
      return with(ElementsText<uint32_t>(tensor.bytes));
    case DataType::kUint64:
      return with(ElementsText<uint64_t>(tensor.bytes));
    default:
      return text;
  }
}

std::string GraphText(const Graph& graph, const std::string& indent);

struct AttributeText {
  const std::string& indent;

  std::string operator()(std::monostate) const { return "?"; }
  std::string operator()(int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(float x) const { return fmt::format("{}", x); }
  std::string operator()(const std::string& x) const { return Quoted(x); }
  std::string operator()(const TensorData& x) const { return TensorText(x); }
  std::string operator()(const std::shared_ptr<const Graph>& x) const {
    return x ? GraphText(*x, indent) : "?";
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    return '[' +
           ListOf(list.size(), [&](size_t i) { return (*this)(list[i]); }) +
           ']';
  }
};

std::string Names(const Graph& graph, std::span<const ValueId> ids) {
  return ListOf(ids.size(), [&](size_t i) {
    return ids[i] ? graph.value_name(ids[i]) : std::string("_");
  });
}

std::string NodeText(const Graph& graph, const Node& node,
                     const std::string& indent) {
  std::string text = Names(graph, node.outputs);
  text += text.empty() ? "" : " = ";
  if (!node.domain.empty()) text += node.domain + '.';
  text += node.op_type + '(' + Names(graph, node.inputs) + ')';
  if (node.attributes.empty()) return text;
  const auto& attributes = node.attributes;
  return text + " {" +
         ListOf(
             attributes.size(),
             [&](size_t i) {
               const Attribute& attribute = attributes[i];
               return attribute.name + " = " +
                      (attribute.ref_attr_name.empty()
                           ? std::visit(AttributeText{indent}, attribute.value)
                           : '@' + attribute.ref_attr_name);
             }) +
         '}';
}

std::string GraphText(const Graph& graph, const std::string& indent) {
  const std::string inner = indent + "  ";
  std::string text =
      "(" +
      ListOf(graph.inputs().size(),
             [&](size_t i) {
               const Value& value = graph.value(graph.inputs()[i]);
               const std::string type = TypeText(value.type);
               return value.name + (type.empty() ? "" : ": " + type);
             }) +
      ") {\n";
  for (ValueId id : graph.initializers()) {
    const Value& value = graph.value(id);
    text += inner + value.name + " = " + TensorText(*value.initializer) + '\n';
  }
  for (NodeId id : graph.order())
    text += inner + NodeText(graph, graph.node(id), inner) + '\n';
  return text + indent + "} (" + Names(graph, graph.outputs()) + ")";
}

}  // namespace

std::string Print(const Graph& graph) { return GraphText(graph, "") + '\n'; }

}  // namespace strop
