// SPDX-License-Identifier: Apache-2.0
//
// Compares the gradients that Strop writes for the one node of an OpCase with
// central differences, in float64 on the reference kernels.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/one_node.h"
#include "ops/op_runner.h"

namespace strop {

struct GradientCheck {
  std::string failure;        // "" where all agree
  size_t compared = 0;        // elements of inputs
  size_t at_kinks = 0;        // compared with the derivatives of both sides
  bool has_gradient = false;  // of at least one input
};

// `shapes` says whether the graph declares the shapes of its inputs, or they
// are found when it runs. Relative tolerance 1e-6.
// With `may_jump`, an element at which the function jumps, which has no
// derivative, is not compared.
// With `only_output` the others are no part of the function.
GradientCheck CheckGradient(const OpCase& op_case, KnownShapes shapes,
                            bool may_jump = false,
                            std::optional<size_t> only_output = std::nullopt);

// The gradients of <seed, outputs> by each float input, in the order of the
// inputs, as the graph that Differentiate writes gives them; an empty list
// where there is none. The seeds are the same numbers in every run.
std::vector<Numbers64> GradientsOf(const OpCase& op_case,
                                   DataType type = DataType::kFloat64,
                                   KnownShapes shapes = KnownShapes::kAll);

}  // namespace strop
