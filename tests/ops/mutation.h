// SPDX-License-Identifier: Apache-2.0
//
// Cases that are almost like valid ones: one thing about them is changed.
// The same in every run.
#pragma once

#include <functional>
#include <string>

#include "ops/op_runner.h"

namespace strop {

using MutantFunction =
    std::function<void(const std::string& what, const OpCase& mutant)>;

// Calls `see` for each way to spoil an input (rank, size, type, elements,
// presence), an output or an attribute (removed, other kind, hostile value)
// of the case. `type` is the type of inputs that have no type of their own.
void ForEachMutant(const OpCase& op_case, DataType type,
                   const MutantFunction& see);

// Calls `see` for each way to take all elements from an input: each
// dimension, and all dimensions of one size at once, become 0. Inputs that
// the op wants by value stay.
void ForEachEmptied(const OpCase& op_case, const OpDef& op,
                    const MutantFunction& see);

// Gives the input a type of its own, and the nearest numbers that it holds.
void SetType(CaseInput& input, DataType type);

// The case with tensors of rank 0 for the inputs without a type of their own,
// and for those of the same shapes.
OpCase WithScalars(const OpCase& op_case);

}  // namespace strop
