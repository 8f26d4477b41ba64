// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "strop/execution_provider.h"

namespace strop {

// Runs the node's plain kernel now. `inputs`: one for each input of the
// request, without data where the op reads the shape only. Returns one tensor
// for each output, null where it is left out; nullopt where the op has no
// plain kernel for the element type.
std::optional<std::vector<std::unique_ptr<OwnedTensor>>> RunReferenceNow(
    const KernelRequest& request, std::span<const Tensor> inputs);

}  // namespace strop
