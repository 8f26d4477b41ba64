// SPDX-License-Identifier: Apache-2.0
//
// `strop check` over all models of Debian's libonnx-testdata: it never
// crashes, and counts how many can be trained.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "strop/artifacts.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

TEST(CheckModels, OfDebianAreReadOrRefused) {
  const fs::path root = STROP_ONNX_DATA;
  if (!fs::exists(root)) GTEST_SKIP() << root << " is not installed";
  const Environment environment;
  size_t models = 0, train = 0, blocked = 0, without = 0, refused = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() != "model.onnx") continue;
    ++models;
    try {
      const TrainabilityReport report =
          CheckTrainability(entry.path(), environment);
      if (report.can_train()) {
        ++train;
      } else if (report.blockers.empty()) {
        ++without;
      } else {
        ++blocked;
      }
    } catch (const Error& error) {
      ++refused;
      EXPECT_NE(std::string_view(error.what()), "");
    }
  }
  std::printf(
      "%zu models: %zu can train, %zu have no float parameter on the way to "
      "an output, %zu are blocked, %zu cannot be read\n",
      models, train, without, blocked, refused);
  EXPECT_GT(models, 1000u);
  // Two more hold nothing but a table in a Constant node.
  EXPECT_GE(train, 47u);
}

}  // namespace
}  // namespace strop
