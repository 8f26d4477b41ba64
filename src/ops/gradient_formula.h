// SPDX-License-Identifier: Apache-2.0
//
// Rules by way of other ops. A formula writes once more what a node computes,
// as nodes of ops that have rules, and those give the gradients:
//
//   // y = (x + bias) sigmoid(x + bias)
//   std::vector<Var> BiasSwish(GradientContext& c) {
//     const Var x = c.x(0) + c.x(1);
//     return {x * c.build().Op("Sigmoid", {x})};
//   }
//   ... .gradient = Rule(FromFormula<BiasSwish>)
//
// Nodes of which no gradient reads anything are dead and go with the others.
#pragma once

#include <vector>

#include "ops/gradient.h"

namespace strop {

// Writes the outputs; one that needs no gradient may be left out, or be no
// value.
using Formula = std::vector<Var> (*)(GradientContext&);

void DifferentiateFormula(GradientContext& c, Formula formula);

template <Formula formula>
void FromFormula(GradientContext& c) {
  DifferentiateFormula(c, formula);
}

}  // namespace strop
