// SPDX-License-Identifier: Apache-2.0
//
// The graph that every part of Strop works on. One owner, ids inside: a
// Graph holds its nodes and values in vectors and refers to them by typed
// id, so it can be copied, printed and compared.
//
// What the reader does not interpret (documentation, metadata, unknown
// fields, types other than tensors) is carried as encoded protobuf bytes and
// written back as it came.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "strop/tensor.h"

namespace strop {

class Graph;

inline constexpr std::string_view kOnnx = "";
inline constexpr std::string_view kMicrosoft = "com.microsoft";
inline constexpr std::string_view kStrop = "strop";
// Ops that Specialize makes; never written to a file.
inline constexpr std::string_view kInternal = "strop.internal";

struct ValueId {
  int32_t index = -1;  // -1: an optional input or output that is left out
  explicit operator bool() const { return index >= 0; }
  friend auto operator<=>(ValueId, ValueId) = default;
};

struct NodeId {
  int32_t index = -1;
  explicit operator bool() const { return index >= 0; }
  friend auto operator<=>(NodeId, NodeId) = default;
};

// A dimension: a number, a symbol (equal symbols are equal sizes), or unknown.
struct Dimension {
  std::optional<int64_t> value;
  std::string symbol;
};

struct ValueType {
  enum class Kind { kUnknown, kTensor, kTensorList, kOther };
  Kind kind = Kind::kUnknown;
  DataType element = DataType::kUndefined;
  std::optional<std::vector<Dimension>> dims;  // absent: rank unknown
  // The TypeProto as it was read; empty: written from the fields above.
  // Whoever changes the fields clears it.
  std::string encoded;

  static ValueType OfTensor(DataType element,
                            std::optional<std::vector<Dimension>> dims);
};

// The value of an initializer or of a tensor attribute.
struct TensorData {
  std::string name;
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;
  // Row-major elements, aligned for `type` (mapped from the file where it
  // allows, else copied once). Empty for strings, which live in `encoded`.
  // Packed 4-bit types stay packed.
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps `bytes` alive
  // The TensorProto as it was read; empty: written from the fields above as
  // raw_data. Whoever changes the fields clears it.
  std::string_view encoded;
  std::shared_ptr<const void> encoded_owner;
  std::string unknown;  // fields not interpreted, for when `encoded` is empty

  // Copies the bytes of `tensor`.
  static TensorData Copy(std::string name, const Tensor& tensor);
  // A view; throws kNotImplemented for strings and packed types.
  Tensor view() const;
};

// An attribute. Empty `value` (monostate): a kind that Strop does not
// interpret, kept in `encoded`.
struct Attribute {
  using Value =
      std::variant<std::monostate, int64_t, float, std::string, TensorData,
                   std::shared_ptr<const Graph>, std::vector<int64_t>,
                   std::vector<float>, std::vector<std::string>,
                   std::vector<std::shared_ptr<const Graph>>>;
  std::string name;
  Value value;
  std::string ref_attr_name;  // inside a local function: the formal attribute
  std::string encoded;        // fields not interpreted, or all of it
};

struct Spelling;  // opset_forms.h

struct Node {
  std::string name;
  std::string op_type;
  std::string domain;  // "" is ONNX's own ("ai.onnx" is read as "")
  std::string overload;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Attribute> attributes;
  std::string unknown;  // encoded fields that Strop does not interpret
  bool removed = false;
  std::shared_ptr<const Spelling> spelling;  // null: as in the file, or new

  const Attribute* FindAttribute(std::string_view name) const;
  // Adds the attribute or replaces the one of that name.
  void SetAttribute(std::string_view name, Attribute::Value value);
  void RemoveAttribute(std::string_view name);

  // The input or output at `i`, or an invalid id when it is left out.
  ValueId input(size_t i) const {
    return i < inputs.size() ? inputs[i] : ValueId{};
  }
  ValueId output(size_t i) const {
    return i < outputs.size() ? outputs[i] : ValueId{};
  }
};

struct Value {
  std::string name;
  ValueType type;
  NodeId producer;  // invalid: an input, an initializer or `outer`
  bool is_input = false;
  bool is_output = false;
  bool outer = false;  // inside a sub-graph: a name of the graph around
  bool has_value_info = false;         // listed in the file's value_info
  bool is_sparse_initializer = false;  // its data lie in Graph::unknown
  std::optional<TensorData> initializer;
  std::string unknown;  // encoded fields of its ValueInfoProto
};

class Graph {
 public:
  std::string name;
  std::string unknown;  // encoded GraphProto fields not interpreted
  // Versions of the domains in use; kInternal is always 1. A missing domain
  // gives 0. Sub-graphs hold a copy.
  std::map<std::string, int64_t, std::less<>> opset_imports;
  int64_t opset(std::string_view domain) const;
  // Nodes are spelt as in the file, not in the newest way (opset_forms.h).
  bool file_spelling = false;

  // --- Values. Names are unique.
  // Adds a value; throws kInvalidGraph if the name is taken.
  ValueId AddValue(std::string name, ValueType type = {});
  ValueId AddInput(std::string name, ValueType type);
  // The value `data.name`; an input of that name gets a default (IR 3).
  ValueId AddInitializer(TensorData data);
  void MarkOutput(ValueId id);  // appends to outputs()
  void SetOutputs(std::vector<ValueId> outputs);
  void SetInputs(std::vector<ValueId> inputs);
  ValueId Find(std::string_view name) const;  // invalid if there is none
  // Gives a value that no sub-graph reads another name; throws kInvalidGraph
  // if it is taken.
  void Rename(ValueId id, std::string name);
  // `stem`, or `stem` with a number behind it that makes it unique, in
  // sub-graphs too.
  std::string FreshName(std::string_view stem) const;

  Value& value(ValueId id) { return values_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  const std::string& value_name(ValueId id) const;  // "" if invalid
  size_t value_count() const { return values_.size(); }
  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const ValueId> outputs() const { return outputs_; }
  // In the order of the file.
  std::span<const ValueId> initializers() const { return initializers_; }
  void RemoveInitializer(ValueId id);

  // --- Nodes, in an order in which producers come before consumers (after
  // SortNodes; the reader calls it).
  // The node is appended; the outputs' producer is set.
  NodeId AddNode(Node node);
  // Inserts before `position` in order().
  NodeId InsertNode(size_t position, Node node);
  Node& node(NodeId id) { return nodes_[id.index]; }
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  std::span<const NodeId> order() const { return order_; }
  size_t node_count() const { return nodes_.size(); }  // with removed ones
  // Gives order() another order; every node that is there must be in it.
  void SetOrder(std::vector<NodeId> order) { order_ = std::move(order); }
  // Takes the node out of order(); its outputs lose their producer.
  void RemoveNode(NodeId id);
  // Makes every consumer of `from` (and the output list) use `to`.
  void ReplaceUses(ValueId from, ValueId to);
  // Nodes that read each value, by value index, in order; a node that reads
  // a value twice is listed twice. Sub-graphs' uses of outer names count for
  // the node that holds the sub-graph.
  std::vector<std::vector<NodeId>> Consumers() const;
  // What a node reads: its inputs that are there, and what its sub-graphs
  // read of this graph. A value that is read twice is listed twice.
  std::vector<ValueId> Reads(const Node& node) const;
  // Orders nodes by their dependencies, keeping the given order where it is
  // free. Throws kInvalidGraph naming the nodes of a cycle, and a value that
  // is read but comes from nowhere.
  void SortNodes();

  // The names of the graph around that nodes and outputs of this sub-graph
  // read, those of its own sub-graphs included; one entry a use.
  std::vector<std::string> OuterUses() const;

 private:
  void KeepNames(const Graph& subgraph);
  void ReplaceHere(ValueId from, ValueId to);
  void RenameOuter(const std::string& from, const std::string& to);
  static void RenameInSubgraphs(Node& node, const std::string& from,
                                const std::string& to);
  void CheckHasSource(ValueId id, const Node* reader) const;
  [[noreturn]] void ThrowCycle(const std::vector<int>& waits_for) const;

  // References to their elements hold while others are added.
  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<NodeId> order_;
  std::vector<ValueId> inputs_, outputs_, initializers_;
  std::unordered_map<std::string, ValueId> by_name_;
  std::unordered_set<std::string> inner_names_;  // of sub-graphs
};

// A local function, kept as it was read; calls are inlined on request.
struct ModelFunction {
  std::string domain, name, overload;
  std::string encoded;  // FunctionProto
};

struct OpsetImport {
  std::string domain;  // as written: "" or "ai.onnx"
  int64_t version = 0;
  // The field of ModelProto as it was read, written back where the graph's
  // versions are still those of the file. Clear it when changing the above.
  std::string encoded = {};
};

struct Model {
  int64_t ir_version = 0;
  std::string producer_name, producer_version, model_domain;
  int64_t model_version = 0;
  std::vector<OpsetImport> opset_imports;  // file order
  Graph graph;
  std::vector<ModelFunction> functions;
  std::string unknown;  // encoded ModelProto fields not interpreted
};

// How errors speak of a node: [MatMul "fc1"], or the first output's name
// where the node has none.
std::string Describe(const Graph& graph, const Node& node);

}  // namespace strop
