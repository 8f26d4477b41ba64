// SPDX-License-Identifier: Apache-2.0
//
// Inputs made up for plans and measurements, where only shapes matter.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strop/module.h"
#include "strop/tensor.h"

namespace strop {

struct ExampleShapes {
  int64_t batch_size = 32;
  std::vector<std::string> given;  // NAME=1x28x28
};

// The options --batch-size and --shape.
void AddExampleShapes(CLI::App& verb, ExampleShapes* shapes);

// Zeros for each input. Open dimensions are the batch size (the first) or 1,
// unless --shape says more. Throws UsageError where it names no input, and
// for an input of unknown rank that it does not name.
std::vector<OwnedTensor> ExampleInputs(std::span<const Module::InputInfo> infos,
                                       const ExampleShapes& shapes);

}  // namespace strop
