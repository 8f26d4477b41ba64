// SPDX-License-Identifier: Apache-2.0
//
// GraphProto and what lies in it: values, types, nodes, attributes.
//
// A field that is written only when it is not empty, but stands in the file
// as an empty one, is kept among the unknown fields: these are written first,
// so that a later change of the field wins.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/throw.h"
#include "graph/onnx_io_wire.h"

namespace strop::onnx {
namespace {

using GraphPtr = std::shared_ptr<const Graph>;

constexpr int kMaxDepth = 64;
// A node takes two bytes in a file and hundreds here: a bound on what a
// hostile file can make of itself, far above any real graph.
constexpr size_t kMostNodes = size_t{1} << 22;

// A node whose inputs and outputs are still names.
struct NamedNode {
  Node node;
  std::vector<std::string_view> inputs, outputs;
};

// A ValueInfoProto.
struct NamedType {
  std::string_view name;
  std::string_view raw;  // the field, tag and all
  ValueType type;
  std::string unknown;
};

// Stores a string field; an explicit empty one stays among the unknown.
void TakeString(const FieldReader& fields, std::string& to,
                std::string& unknown) {
  to = fields.Bytes();
  if (to.empty()) unknown += fields->raw;
}

std::vector<Dimension> DecodeShape(std::string_view message,
                                   const Where& where) {
  std::vector<Dimension> dims;
  FieldReader fields(message, where);
  while (fields.Next()) {
    if (fields->number != shape_field::kDim) continue;
    Dimension dim;
    FieldReader parts(fields.Bytes(), where);
    while (parts.Next()) {
      if (parts->number == dim_field::kValue) {
        // Some exporters write -1 for unknown.
        const auto value = static_cast<int64_t>(parts.Varint());
        dim.symbol.clear();
        dim.value.reset();
        if (value >= 0) dim.value = value;
      } else if (parts->number == dim_field::kParam) {
        dim.value.reset();
        dim.symbol = parts.Bytes();
      }
    }
    dims.push_back(std::move(dim));
  }
  return dims;
}

// A TypeProto.Tensor into `type`.
void DecodeTensorType(std::string_view message, const Where& where,
                      ValueType& type) {
  FieldReader fields(message, where);
  while (fields.Next()) {
    if (fields->number == tensor_type_field::kElement) {
      type.element =
          static_cast<DataType>(static_cast<int32_t>(fields.Varint()));
    } else if (fields->number == tensor_type_field::kShape) {
      type.dims = DecodeShape(fields.Bytes(), where);
    }
  }
}

// The type of a list's elements; false if they are not tensors.
bool DecodeListElement(std::string_view message, const Where& where,
                       ValueType& type) {
  bool is_tensor = false;
  FieldReader fields(message, where);
  while (fields.Next()) {
    if (fields->number != sequence_type_field::kElement) continue;
    FieldReader parts(fields.Bytes(), where);
    while (parts.Next()) {
      if (parts->number == type_field::kTensor) {
        is_tensor = true;
        DecodeTensorType(parts.Bytes(), where, type);
      }
    }
  }
  return is_tensor;
}

ValueType DecodeType(std::string_view message, const Where& where) {
  ValueType type;
  type.encoded = message;
  FieldReader fields(message, where);
  while (fields.Next()) {
    switch (fields->number) {
      case type_field::kTensor:
        type.kind = ValueType::Kind::kTensor;
        DecodeTensorType(fields.Bytes(), where, type);
        break;
      case type_field::kSequence:
        type.kind = DecodeListElement(fields.Bytes(), where, type)
                        ? ValueType::Kind::kTensorList
                        : ValueType::Kind::kOther;
        break;
      case type_field::kDenotation:
        break;
      default:
        type.kind = ValueType::Kind::kOther;
    }
  }
  return type;
}

NamedType DecodeValueInfo(const Field& field, const Where& where) {
  NamedType info;
  info.raw = field.raw;
  FieldReader fields(field.Bytes(where), where);
  while (fields.Next()) {
    if (fields->number == value_info_field::kName) {
      info.name = fields.Bytes();
    } else if (fields->number == value_info_field::kType) {
      info.type = DecodeType(fields.Bytes(), where);
      if (info.type.encoded.empty()) info.unknown += fields->raw;
    } else {
      info.unknown += fields->raw;
    }
  }
  return info;
}

// Everything of an AttributeProto that says its value.
struct RawAttribute {
  uint64_t type = kTypeUndefined;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::optional<std::string_view> tensor;
  std::vector<float> floats;
  std::vector<uint64_t> ints;
  std::vector<std::string> strings;
  std::vector<std::string_view> graphs;  // one or many
  std::string value_fields;              // the above as they were read
  std::string other_fields;
};

// Files of the first years have no type: the field that is there tells it.
uint64_t TypeOfField(uint32_t number) {
  switch (number) {
    case attribute_field::kFloat:
      return kTypeFloat;
    case attribute_field::kInt:
      return kTypeInt;
    case attribute_field::kString:
      return kTypeString;
    case attribute_field::kTensor:
      return kTypeTensor;
    case attribute_field::kGraph:
      return kTypeGraph;
    case attribute_field::kFloats:
      return kTypeFloats;
    case attribute_field::kInts:
      return kTypeInts;
    case attribute_field::kStrings:
      return kTypeStrings;
    case attribute_field::kGraphs:
      return kTypeGraphs;
    default:
      return kTypeUndefined;
  }
}

void TakeAttributeField(const FieldReader& fields, const Where& where,
                        RawAttribute& raw) {
  switch (fields->number) {
    case attribute_field::kFloat:
      raw.f = fields->Float(where);
      break;
    case attribute_field::kInt:
      raw.i = static_cast<int64_t>(fields.Varint());
      break;
    case attribute_field::kString:
      raw.s = fields.Bytes();
      break;
    case attribute_field::kTensor:
      raw.tensor = fields.Bytes();
      break;
    case attribute_field::kGraph:
    case attribute_field::kGraphs:
      raw.graphs.push_back(fields.Bytes());
      break;
    case attribute_field::kFloats:
      fields->AppendFloats(where, raw.floats);
      break;
    case attribute_field::kInts:
      fields->AppendVarints(where, raw.ints);
      break;
    case attribute_field::kStrings:
      raw.strings.push_back(fields.String());
      break;
    default:
      raw.other_fields += fields->raw;
      return;
  }
  raw.value_fields += fields->raw;
}

Attribute::Value ValueOf(RawAttribute& raw, const Where& where,
                         ReadContext& context, int depth) {
  switch (raw.type) {
    case kTypeFloat:
      return raw.f;
    case kTypeInt:
      return raw.i;
    case kTypeString:
      return std::move(raw.s);
    case kTypeFloats:
      return std::move(raw.floats);
    case kTypeInts:
      return std::vector<int64_t>(raw.ints.begin(), raw.ints.end());
    case kTypeStrings:
      return std::move(raw.strings);
    case kTypeTensor:
      if (!raw.tensor) where.Fail("the tensor is missing");
      return DecodeTensor(*raw.tensor, where, context);
    case kTypeGraph:
      if (raw.graphs.size() != 1) {
        where.Fail(
            fmt::format("one graph is wanted, {} came", raw.graphs.size()));
      }
      return std::make_shared<const Graph>(
          DecodeGraph(raw.graphs.front(), where, context, depth + 1));
    case kTypeGraphs: {
      std::vector<GraphPtr> graphs;
      for (std::string_view graph : raw.graphs) {
        graphs.push_back(std::make_shared<const Graph>(
            DecodeGraph(graph, where, context, depth + 1)));
      }
      return graphs;
    }
    default:
      return std::monostate();
  }
}

}  // namespace

Attribute DecodeAttribute(std::string_view message, const Where& place,
                          ReadContext& context, int depth) {
  Attribute attribute;
  RawAttribute raw;
  std::string type_field;
  uint64_t found_type = kTypeUndefined;
  FieldReader fields(message, place);
  while (fields.Next()) {
    switch (fields->number) {
      case attribute_field::kName:
        attribute.name = fields.Bytes();
        break;
      case attribute_field::kRefAttrName:
        TakeString(fields, attribute.ref_attr_name, raw.other_fields);
        break;
      case attribute_field::kType:
        raw.type = fields.Varint();
        type_field = fields->raw;
        break;
      default:
        if (found_type == kTypeUndefined)
          found_type = TypeOfField(fields->number);
        TakeAttributeField(fields, place, raw);
    }
  }
  const std::string who = fmt::format("attribute \"{}\"", attribute.name);
  const Where where{&place, who};
  if (raw.type == kTypeUndefined) raw.type = found_type;
  if (attribute.ref_attr_name.empty())
    attribute.value = ValueOf(raw, where, context, depth);
  attribute.encoded = std::move(raw.other_fields);
  if (std::holds_alternative<std::monostate>(attribute.value))
    attribute.encoded += type_field + raw.value_fields;
  return attribute;
}

namespace {

NamedNode DecodeNode(std::string_view message, const Where& where,
                     ReadContext& context, int depth) {
  NamedNode named;
  Node& node = named.node;
  FieldReader fields(message, where);
  while (fields.Next()) {
    switch (fields->number) {
      case node_field::kInput:
        named.inputs.push_back(fields.Bytes());
        break;
      case node_field::kOutput:
        named.outputs.push_back(fields.Bytes());
        break;
      case node_field::kName:
        TakeString(fields, node.name, node.unknown);
        break;
      case node_field::kOpType:
        TakeString(fields, node.op_type, node.unknown);
        break;
      case node_field::kDomain:
        node.domain = CanonicalDomain(fields.Bytes());
        if (node.domain.empty()) node.unknown += fields->raw;
        break;
      case node_field::kOverload:
        TakeString(fields, node.overload, node.unknown);
        break;
      case node_field::kAttribute:
        node.attributes.push_back(
            DecodeAttribute(fields.Bytes(),
                            Where{&where, "attribute",
                                  static_cast<int64_t>(node.attributes.size())},
                            context, depth));
        break;
      default:
        node.unknown += fields->raw;
    }
  }
  return named;
}

// The parts of a graph or a function body while names become ids.
class GraphBuilder {
 public:
  GraphBuilder(const Where& where, ReadContext& context, int depth)
      : where_(where), context_(context), depth_(depth) {
    graph_.opset_imports = context.opset_imports;
    graph_.file_spelling = true;
  }

  Graph& graph() { return graph_; }

  void TakeNode(const FieldReader& fields) {
    const Where where{&where_, "node", static_cast<int64_t>(nodes_.size())};
    if (nodes_.size() == kMostNodes)
      where.Fail(fmt::format("a graph has at most {} nodes", kMostNodes));
    nodes_.push_back(DecodeNode(fields.Bytes(), where, context_, depth_));
  }

  void TakeInitializer(const FieldReader& fields) {
    const Where where{&where_, "initializer",
                      static_cast<int64_t>(initializers_.size())};
    initializers_.push_back(DecodeTensor(fields.Bytes(), where, context_));
    if (initializers_.back().name.empty()) where.Fail("it has no name");
  }

  void TakeSparseInitializer(const FieldReader& fields);

  void TakeInput(NamedType info) { inputs_.push_back(std::move(info)); }
  void TakeOutput(NamedType info) { outputs_.push_back(std::move(info)); }
  void TakeValueInfo(NamedType info) { infos_.push_back(std::move(info)); }

  NamedType ReadValueInfo(const FieldReader& fields, std::string_view what,
                          size_t index) const {
    const Where where{&where_, what, static_cast<int64_t>(index)};
    NamedType info = DecodeValueInfo(fields.field(), where);
    if (info.name.empty() && what != "value_info") where.Fail("no name");
    return info;
  }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  size_t info_count() const { return infos_.size(); }

  Graph Build();

 private:
  void AddValueInfos();
  void AddOuterNames();
  ValueId FindOrAdd(std::string_view name) {
    const ValueId id = graph_.Find(name);
    return id ? id : graph_.AddValue(std::string(name));
  }

  const Where& where_;
  ReadContext& context_;
  const int depth_;
  Graph graph_;
  std::vector<NamedNode> nodes_;
  std::vector<TensorData> initializers_;
  std::vector<std::pair<std::string, ValueType>> sparse_;
  std::vector<NamedType> inputs_, outputs_, infos_;
};

void GraphBuilder::TakeSparseInitializer(const FieldReader& fields) {
  // Only its name and type are of interest: the field itself is carried.
  const Where where{&where_, "sparse_initializer",
                    static_cast<int64_t>(sparse_.size())};
  std::string name;
  ValueType type = ValueType::OfTensor(DataType::kUndefined, std::nullopt);
  std::vector<uint64_t> dims;
  FieldReader parts(fields.Bytes(), where);
  while (parts.Next()) {
    if (parts->number == sparse_field::kDims) parts->AppendVarints(where, dims);
    if (parts->number != sparse_field::kValues) continue;
    FieldReader values(parts.Bytes(), where);
    while (values.Next()) {
      if (values->number == tensor_field::kName) name = values.Bytes();
      if (values->number == tensor_field::kDataType) {
        type.element =
            static_cast<DataType>(static_cast<int32_t>(values.Varint()));
      }
    }
  }
  if (name.empty()) where.Fail("it has no name");
  type.dims.emplace();
  for (const uint64_t dim : dims)
    type.dims->push_back({.value = static_cast<int64_t>(dim), .symbol = {}});
  sparse_.emplace_back(std::move(name), std::move(type));
  graph_.unknown += fields->raw;
}

// Values that value_info lists come first and in its order, which so is kept
// without being stored. What names nothing of this graph is only carried.
void GraphBuilder::AddValueInfos() {
  std::unordered_set<std::string_view> defined;
  std::unordered_map<std::string_view, std::string_view> listed;
  for (const NamedNode& node : nodes_)
    defined.insert(node.outputs.begin(), node.outputs.end());
  for (const TensorData& tensor : initializers_) defined.insert(tensor.name);
  for (const auto& [name, type] : sparse_) defined.insert(name);
  for (const auto* list : {&inputs_, &outputs_}) {
    for (const NamedType& info : *list) {
      defined.insert(info.name);
      listed.emplace(info.name, info.raw.substr(1));  // without its tag
    }
  }
  for (NamedType& info : infos_) {
    const auto other = listed.emplace(info.name, info.raw.substr(1)).first;
    const bool once = !info.name.empty() && defined.contains(info.name) &&
                      !graph_.Find(info.name) &&
                      other->second == info.raw.substr(1);
    if (!once) {
      graph_.unknown += info.raw;
      continue;
    }
    Value& value = graph_.value(graph_.AddValue(std::string(info.name)));
    value.type = std::move(info.type);
    value.unknown = std::move(info.unknown);
    value.has_value_info = true;
  }
}

// Names that nothing here defines are of the graph around; at the outermost
// graph SortNodes reports them.
void GraphBuilder::AddOuterNames() {
  auto mark = [&](ValueId id) {
    Value& value = graph_.value(id);
    value.outer = !value.producer && !value.is_input && !value.initializer &&
                  !value.is_sparse_initializer;
  };
  for (NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    if (depth_ > 0) {
      for (ValueId input : node.inputs)
        if (input) mark(input);
    }
    for (const Attribute& attribute : node.attributes) {
      std::vector<GraphPtr> inner;
      if (auto* one = std::get_if<GraphPtr>(&attribute.value)) {
        inner.push_back(*one);
      } else if (auto* many =
                     std::get_if<std::vector<GraphPtr>>(&attribute.value)) {
        inner = *many;
      }
      for (const GraphPtr& graph : inner) {
        for (const std::string& name : graph->OuterUses()) {
          const ValueId here = FindOrAdd(name);
          if (depth_ > 0) mark(here);
        }
      }
    }
  }
  if (depth_ > 0)
    for (ValueId id : graph_.outputs()) mark(id);
}

Graph GraphBuilder::Build() {
  AddValueInfos();
  std::vector<ValueId> inputs, outputs;
  auto take = [&](NamedType& info) {
    const ValueId id = FindOrAdd(info.name);
    Value& value = graph_.value(id);
    if (!value.has_value_info && value.type.encoded.empty()) {
      value.type = std::move(info.type);
      value.unknown = std::move(info.unknown);
    }
    return id;
  };
  for (NamedType& info : inputs_) inputs.push_back(take(info));
  graph_.SetInputs(std::move(inputs));
  for (TensorData& tensor : initializers_)
    graph_.AddInitializer(std::move(tensor));
  for (auto& [name, type] : sparse_) {
    Value& value = graph_.value(FindOrAdd(name));
    value.is_sparse_initializer = true;
    if (value.type.kind == ValueType::Kind::kUnknown)
      value.type = std::move(type);
  }
  for (NamedNode& named : nodes_) {
    auto ids = [&](const std::vector<std::string_view>& names) {
      std::vector<ValueId> found;
      for (std::string_view name : names)
        found.push_back(name.empty() ? ValueId{} : FindOrAdd(name));
      return found;
    };
    named.node.inputs = ids(named.inputs);
    named.node.outputs = ids(named.outputs);
    graph_.AddNode(std::move(named.node));
  }
  for (NamedType& info : outputs_) outputs.push_back(take(info));
  graph_.SetOutputs(std::move(outputs));
  AddOuterNames();
  graph_.SortNodes();
  return std::move(graph_);
}

}  // namespace

Graph DecodeGraph(std::string_view message, const Where& where,
                  ReadContext& context, int depth) {
  if (depth > kMaxDepth) {
    where.Fail(
        fmt::format("sub-graphs are nested more than {} deep", kMaxDepth));
  }
  GraphBuilder builder(where, context, depth);
  FieldReader fields(message, where);
  while (fields.Next()) {
    switch (fields->number) {
      case graph_field::kNode:
        builder.TakeNode(fields);
        break;
      case graph_field::kName:
        TakeString(fields, builder.graph().name, builder.graph().unknown);
        break;
      case graph_field::kInitializer:
        builder.TakeInitializer(fields);
        break;
      case graph_field::kSparseInitializer:
        builder.TakeSparseInitializer(fields);
        break;
      case graph_field::kInput:
        builder.TakeInput(
            builder.ReadValueInfo(fields, "input", builder.input_count()));
        break;
      case graph_field::kOutput:
        builder.TakeOutput(
            builder.ReadValueInfo(fields, "output", builder.output_count()));
        break;
      case graph_field::kValueInfo:
        builder.TakeValueInfo(
            builder.ReadValueInfo(fields, "value_info", builder.info_count()));
        break;
      default:
        builder.graph().unknown += fields->raw;
    }
  }
  return builder.Build();
}

OpsetImport DecodeOpset(const FieldReader& import, const Where& where) {
  OpsetImport opset;
  opset.encoded = import->raw;
  FieldReader fields(import.Bytes(), where);
  while (fields.Next()) {
    if (fields->number == opset_field::kDomain) opset.domain = fields.Bytes();
    if (fields->number == opset_field::kVersion)
      opset.version = static_cast<int64_t>(fields.Varint());
  }
  return opset;
}

Function DecodeFunction(std::string_view message, const Where& where,
                        ReadContext context) {
  Function function;
  // The body's own imports; known before its nodes are read.
  context.opset_imports.clear();
  FieldReader imports(message, where);
  while (imports.Next()) {
    if (imports->number != function_field::kOpsetImport) continue;
    const OpsetImport import = DecodeOpset(imports, where);
    context.opset_imports[std::string(CanonicalDomain(import.domain))] =
        import.version;
  }
  GraphBuilder builder(where, context, 0);
  FieldReader fields(message, where);
  while (fields.Next()) {
    switch (fields->number) {
      case function_field::kInput:
      case function_field::kOutput: {
        NamedType info;
        info.name = fields.Bytes();
        info.raw = fields->raw;
        if (info.name.empty()) where.Fail("an input or output has no name");
        if (fields->number == function_field::kInput)
          builder.TakeInput(std::move(info));
        else
          builder.TakeOutput(std::move(info));
        break;
      }
      case function_field::kAttribute:
        function.attributes.push_back(fields.String());
        break;
      case function_field::kAttributeProto:
        function.defaults.push_back(
            DecodeAttribute(fields.Bytes(), where, context, 0));
        break;
      case function_field::kNode:
        builder.TakeNode(fields);
        break;
      default:
        break;  // the function is written back as it was read
    }
  }
  function.body = builder.Build();
  return function;
}

}  // namespace strop::onnx
