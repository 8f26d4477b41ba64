// SPDX-License-Identifier: Apache-2.0
//
// Builds nodes at the end of a graph. A Var is a value together with the
// builder that made it, so that formulas read as they are written:
//
//   const Var t = b.Op("Tanh", {x});
//   return dy * (1 - t * t);
//
// The builder knows the element type of each value that it makes, and its
// dimensions where it was told. Constants become initializers of rank 0 or 1,
// shared by all builders of a graph that make equal ones.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace strop {

class GraphBuilder;

struct Var {
  GraphBuilder* builder = nullptr;
  ValueId id;

  explicit operator bool() const { return static_cast<bool>(id); }
};

using Attributes = std::vector<std::pair<std::string, Attribute::Value>>;

class GraphBuilder {
 public:
  // Names of nodes and values begin with `prefix`.
  GraphBuilder(Graph& graph, std::string prefix)
      : graph_(graph), prefix_(std::move(prefix)) {}

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }

  Var Of(ValueId id) { return {this, id}; }

  // A node and its output 0, whose type is that of input 0 if `type` is not
  // given. Inputs that are no value are left out.
  Var Op(std::string_view op_type, std::span<const Var> inputs,
         const Attributes& attributes = {}, std::string_view domain = kOnnx,
         DataType type = DataType::kUndefined);
  Var Op(std::string_view op_type, std::initializer_list<Var> inputs,
         const Attributes& attributes = {}, std::string_view domain = kOnnx,
         DataType type = DataType::kUndefined) {
    return Op(op_type, std::span(inputs.begin(), inputs.size()), attributes,
              domain, type);
  }
  Var MicrosoftOp(std::string_view op_type, std::initializer_list<Var> inputs,
                  const Attributes& attributes = {},
                  DataType type = DataType::kUndefined) {
    return Op(op_type, inputs, attributes, kMicrosoft, type);
  }
  // A node with an output for each type; kUndefined: the output is left out.
  std::vector<Var> Ops(std::string_view op_type, std::span<const Var> inputs,
                       std::span<const DataType> types,
                       const Attributes& attributes = {},
                       std::string_view domain = kOnnx);

  // Constants: of any element type, and int64 lists.
  Var Scalar(double value, DataType type);
  Var Ints(std::vector<int64_t> values);
  Var Int(int64_t value);  // rank 0
  Var Constant(std::string_view name, const Tensor& tensor);

  // --- Frequent nodes
  Var Shape(Var x);  // int64[rank]
  Var Cast(Var x, DataType type);
  Var Reshape(Var x, Var shape);
  Var Unsqueeze(Var x, std::vector<int64_t> axes);
  Var Squeeze(Var x, std::vector<int64_t> axes);
  Var Transpose(Var x, std::vector<int64_t> perm);
  // Sum over the axes, or over all when there are none.
  Var ReduceSum(Var x, std::vector<int64_t> axes, bool keepdims);
  Var ReduceSumAxes(Var x, Var axes, bool keepdims);
  Var Where(Var condition, Var a, Var b);
  Var Compare(std::string_view op_type, Var a, Var b);  // bool
  // Zeros of the shape (int64[rank]).
  Var Zeros(Var shape, DataType type);
  Var ZerosLike(Var x) { return Zeros(Shape(x), type(x)); }

  // --- What is known of values
  DataType type(Var x) const;
  const std::optional<std::vector<Dimension>>& dims(Var x) const;
  void SetDims(Var x, std::optional<std::vector<Dimension>> dims) {
    graph_.value(x.id).type.dims = std::move(dims);
  }
  std::optional<size_t> rank(Var x) const;
  // All dimensions, where each is a number.
  std::optional<std::vector<int64_t>> static_dims(Var x) const;
  // The elements of a constant int32 or int64 tensor.
  std::optional<std::vector<int64_t>> ConstantInts(Var x) const;

  // The one number of a constant of any numeric type.
  std::optional<double> ConstantScalar(Var x) const;

  // `gradient` has the shape of `full`, to which `target` was broadcast: the
  // sums over the axes along which it was, in the shape of `target`. Where
  // the shapes are not known, the axes are found when the graph runs.
  Var ReduceToShapeOf(Var gradient, Var full, Var target);

 private:
  const TensorData* ConstantData(Var x) const;
  Var AddConstant(std::string_view stem, const Tensor& tensor);
  Var ReduceDynamically(Var gradient, Var full, Var target);
  Var ReshapeLiterally(Var x, Var shape);

  Graph& graph_;
  std::string prefix_;
  int emitted_ = 0;
};

// True if the two are surely of the same size.
bool SameDimension(const Dimension& a, const Dimension& b);

Var operator+(Var a, Var b);
Var operator-(Var a, Var b);
Var operator*(Var a, Var b);
Var operator/(Var a, Var b);
Var operator-(Var a);
Var operator+(Var a, double b);
Var operator+(double a, Var b);
Var operator-(Var a, double b);
Var operator-(double a, Var b);
Var operator*(Var a, double b);
Var operator*(double a, Var b);
Var operator/(Var a, double b);
Var operator/(double a, Var b);

}  // namespace strop
