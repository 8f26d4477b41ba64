// SPDX-License-Identifier: Apache-2.0
//
// The menu of ops. op_list.inc names them all, one a line.
#pragma once

#include <span>
#include <string_view>

#include "strop/op.h"

namespace strop {

// The op of that name with the largest `since` not above `opset`, or null.
// Ops of `custom` are looked up first.
const OpDef* FindOp(std::string_view domain, std::string_view name,
                    int64_t opset,
                    std::span<const CustomOpDomain* const> custom = {});

// All ops of Strop, internal ones too, ordered by domain, name and since.
std::span<const OpDef* const> AllOps();

// Throws kInvalidGraph if the node has too few or too many inputs or outputs
// for the op, or leaves one out that the op must have.
void CheckArity(const OpDef& op, const OpNode& node);

// Runs op.infer after checking that the node has the inputs and outputs that
// the op wants. Every Error names the node.
void Infer(const OpDef& op, InferContext& context);

}  // namespace strop
