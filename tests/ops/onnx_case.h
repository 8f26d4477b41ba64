// SPDX-License-Identifier: Apache-2.0
//
// ONNX's test cases on disk: a folder holds model.onnx and data sets
// test_data_set_N with the tensors input_I.pb and output_I.pb.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "strop/environment.h"
#include "strop/execution_provider.h"

namespace strop {

struct CaseResult {
  enum class Kind { kPassed, kFailed, kLeftOut };
  Kind kind = Kind::kPassed;
  // Short, for counting: "strings", "no op Foo", "values differ".
  std::string reason = {};
  std::string details = {};
};

// Runs the case as users would run the model, on the kernels of `providers`
// and the reference kernels. Cases that hold other than dense tensors of
// ordinary types are left out.
CaseResult RunOnnxCase(
    const std::filesystem::path& folder, const Environment& environment,
    const std::vector<std::shared_ptr<ExecutionProvider>>& providers);

}  // namespace strop
