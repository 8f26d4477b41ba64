// SPDX-License-Identifier: Apache-2.0
//
// What the two directions of opset forms share: the tables of what changed,
// and a node on its way to another spelling.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/throw.h"
#include "graph/opset_forms.h"

namespace strop::opset_forms {

inline constexpr int64_t kOldestOpset = 6;

// How an attribute looks as an input.
enum class Kind {
  kInts,        // int64[n]
  kOneInt,      // int64[1]
  kFloats,      // float32[n]
  kFloat,       // float32[]
  kDataScalar,  // a scalar of the type of input 0
};

// From opset `since` on, `attribute` is the input at `position`.
struct MovedAttribute {
  std::string_view op;
  int64_t since;
  std::string_view attribute;
  size_t position;
  Kind kind;
};

// Rows of an op stand together, in the order of their positions.
inline constexpr MovedAttribute kMovedAttributes[] = {
    {"Clip", 11, "min", 1, Kind::kDataScalar},
    {"Clip", 11, "max", 2, Kind::kDataScalar},
    {"Dropout", 12, "ratio", 1, Kind::kFloat},
    {"Pad", 11, "pads", 1, Kind::kInts},
    {"Pad", 11, "value", 2, Kind::kDataScalar},
    {"ReduceL1", 18, "axes", 1, Kind::kInts},
    {"ReduceL2", 18, "axes", 1, Kind::kInts},
    {"ReduceLogSum", 18, "axes", 1, Kind::kInts},
    {"ReduceLogSumExp", 18, "axes", 1, Kind::kInts},
    {"ReduceMax", 18, "axes", 1, Kind::kInts},
    {"ReduceMean", 18, "axes", 1, Kind::kInts},
    {"ReduceMin", 18, "axes", 1, Kind::kInts},
    {"ReduceProd", 18, "axes", 1, Kind::kInts},
    {"ReduceSum", 13, "axes", 1, Kind::kInts},
    {"ReduceSumSquare", 18, "axes", 1, Kind::kInts},
    {"Slice", 10, "starts", 1, Kind::kInts},
    {"Slice", 10, "ends", 2, Kind::kInts},
    {"Slice", 10, "axes", 3, Kind::kInts},
    {"Split", 13, "split", 1, Kind::kInts},
    {"Squeeze", 13, "axes", 1, Kind::kInts},
    {"TopK", 10, "k", 1, Kind::kOneInt},
    {"Unsqueeze", 13, "axes", 1, Kind::kInts},
    {"Upsample", 9, "scales", 1, Kind::kFloats},
};

// From opset `since` on, an op has another name and the same meaning.
struct Renamed {
  std::string_view before, after;
  int64_t since;
};

inline constexpr Renamed kRenamed[] = {{"Scatter", "ScatterElements", 11}};

// Ops that broadcast as `broadcast` and `axis` say below opset 7.
inline constexpr std::string_view kBroadcasting[] = {
    "Add", "And", "Div", "Equal", "Greater", "Less",
    "Mul", "Or",  "Pow", "Sub",   "Xor"};

template <size_t n>
bool Contains(const std::string_view (&list)[n], std::string_view op) {
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

bool SameAttributes(const std::vector<Attribute>& a,
                    const std::vector<Attribute>& b);
std::vector<std::string> InputNames(const Graph& graph, const Node& node);

class NodeRewriter {
 public:
  NodeRewriter(Graph& graph, NodeId id, int64_t opset)
      : graph_(graph), id_(id), opset_(opset) {}

 protected:
  Node& node() { return graph_.node(id_); }
  const std::string& op() { return node().op_type; }
  int64_t Int(std::string_view name, int64_t fallback) {
    const Attribute* attribute = node().FindAttribute(name);
    if (attribute == nullptr) return fallback;
    const auto* value = std::get_if<int64_t>(&attribute->value);
    return value ? *value : fallback;
  }
  // A free name for a value that belongs to the node.
  std::string NameFor(std::string_view what) {
    const std::string& own = node().name;
    const std::string& stem =
        own.empty() ? graph_.value_name(node().output(0)) : own;
    return graph_.FreshName(fmt::format("{}_{}", stem, what));
  }

  Graph& graph_;
  const NodeId id_;
  const int64_t opset_;
};

}  // namespace strop::opset_forms
