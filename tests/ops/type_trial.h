// SPDX-License-Identifier: Apache-2.0
//
// Which element types an op computes with, found by trying: what an op says
// of its kernel does not tell what its inference refuses.
#pragma once

#include "ops/op_runner.h"

namespace strop {

// Whether one of the op's cases, with `type` in place of the type that
// selects the kernel, runs and computes something.
bool RunsOn(const OpDef& op, DataType type);

}  // namespace strop
