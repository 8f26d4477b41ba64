// SPDX-License-Identifier: Apache-2.0
//
// The tensors that a model brings, and which of them are weights.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace strop {

struct Weights {
  // Float initializers that may be trained, those that were Constant nodes
  // among them.
  std::vector<ValueId> parameters;
  // Floats of Constant nodes that no layer reads as its weight: means and
  // deviations of a prologue, masks, positions. Angles of rotary embeddings.
  std::vector<ValueId> tables;
  // Floats that a formula needs: scalars, exponents, scales of quantization,
  // Constant nodes of one number throughout; each with the reason.
  std::map<ValueId, std::string> numbers;
  // Initializers of few bits, which pass the gradient on.
  std::vector<ValueId> quantized;
  // How a layer comes to read them, where that is not plain: "the value of a
  // Constant node", "read through Identity, Transpose", or both.
  std::map<ValueId, std::string> origins;
  // Initializers that the file merges with an equal one; they have values of
  // their own now.
  std::vector<ValueId> untied;

  // A number of a Constant node that no layer reads as its weight: there may
  // be hundreds.
  static constexpr std::string_view kInFormula = "a number in a formula";

  std::string OriginOf(ValueId id) const {
    const auto found = origins.find(id);
    return found == origins.end() ? "" : found->second;
  }
};

// Values of Constant nodes become initializers, initializers are no inputs any
// more, and those that are merged are untied. Throws kNotImplemented for opsets
// that Strop only carries.
Weights FindWeights(Graph& graph);

// An Identity of a float initializer that something else reads too becomes an
// initializer of its own, under the name of what the Identity gives; so does
// (under a new name) a running statistic that is something else elsewhere. A
// running statistic behind Identities that nobody else reads is read directly.
// Returns the new initializers and which ones they were merged with.
std::map<ValueId, std::string> UntieMerged(Graph& graph);

// --- The roles that layers give to what they read.

class WeightRoles {
 public:
  explicit WeightRoles(const Graph& graph)
      : graph_(graph), consumers_(graph.Consumers()) {}

  // A layer (MatMul, Conv, LSTM, ...) multiplies by the value or normalizes
  // with it, or it is the bias that is added to what a layer gives; perhaps
  // behind Identity, Transpose, Cast and the like.
  bool IsWeight(ValueId id) const;
  // DequantizeLinear or MatMulNBits reads it as the weight.
  bool IsQuantizedWeight(ValueId id) const;
  // The ops between the value and the first node that computes with it, as
  // far as nothing else reads what they give.
  std::vector<std::string> PathOf(ValueId id) const;

 private:
  using Role = bool (*)(const Graph&, const Node&, ValueId);
  bool IsReadAs(Role role, ValueId start) const;
  bool IsReadInside(Role role, const Node& node, ValueId id) const;

  const Graph& graph_;
  std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace strop
