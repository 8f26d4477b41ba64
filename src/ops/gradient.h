// SPDX-License-Identifier: Apache-2.0
//
// What a gradient rule sees: one node of the forward graph and the gradients
// that arrive at its outputs. It writes nodes and says which of their values
// are the gradients of the inputs:
//
//   // y = exp(x)
//   void ExpGradient(GradientContext& c) { c.Set(0, c.dy() * c.y()); }
//
// A rule may take for granted that some output has a gradient and that some
// input wants one. An input without a gradient after the rule has gradient 0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/throw.h"
#include "ops/graph_builder.h"
#include "strop/op.h"

namespace strop {

class GradientContext {
 public:
  GradientContext(GraphBuilder& builder, NodeId node, std::vector<bool> needs,
                  std::vector<ValueId> output_gradients);

  GraphBuilder& build() { return builder_; }
  OpNode node() const { return {builder_.graph(), forward()}; }
  int64_t opset() const { return builder_.graph().opset(kOnnx); }

  size_t input_count() const { return forward().inputs.size(); }
  size_t output_count() const { return forward().outputs.size(); }
  bool has_input(size_t i) const { return bool{forward().input(i)}; }
  bool has_output(size_t i) const { return bool{forward().output(i)}; }
  Var x(size_t i = 0) { return builder_.Of(forward().input(i)); }
  Var y(size_t i = 0) { return builder_.Of(forward().output(i)); }
  // Output i, which the node gets where it lacks it (a mask, indices).
  Var AddedOutput(size_t i, std::string_view stem, DataType type);

  // Makes the node another op with the same inputs, outputs and meaning.
  void Become(std::string_view op_type, std::string_view domain);

  // Whether the gradient of input i is asked for.
  bool needs(size_t i) const { return i < needs_.size() && needs_[i]; }
  // The gradient of output i; no value where none arrives, which is zero.
  Var dy(size_t i = 0);
  bool has_dy(size_t i) const {
    return i < output_gradients_.size() && output_gradients_[i];
  }
  Var dy_or_zeros(size_t i);

  // The gradient of input i, in its shape. Does nothing where it is not
  // asked for, so that a rule may set all that one node gives.
  void Set(size_t i, Var gradient);
  // The same for a gradient in the shape of output 0, to which the input was
  // broadcast.
  void SetReduced(size_t i, Var gradient);

  // The node's attributes, for a gradient node that takes the same.
  Attributes attributes() const;

  // Throws kNotImplemented: "[Op "name"] text".
  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> text, Args&&... args) {
    node().Fail(fmt::format(text, std::forward<Args>(args)...),
                ErrorCode::kNotImplemented);
  }

  std::span<const ValueId> gradients() const { return gradients_; }

 private:
  const Node& forward() const { return builder_.graph().node(node_); }

  GraphBuilder& builder_;
  NodeId node_;
  std::vector<bool> needs_;
  std::vector<ValueId> output_gradients_, gradients_;
};

// The type to compute in where a node's floats may be of several: float64 if
// one is, else float32.
DataType WidestFloat(GradientContext& c);

}  // namespace strop
