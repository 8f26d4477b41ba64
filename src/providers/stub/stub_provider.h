// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "strop/execution_provider.h"

namespace strop {

// An execution provider in one screen, to be copied: it serves Neg on float32
// and declines everything else.
std::shared_ptr<ExecutionProvider> StubExecutionProvider();

}  // namespace strop
