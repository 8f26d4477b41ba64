// SPDX-License-Identifier: Apache-2.0
//
// ONNX's own test cases must give the values that stand beside them, with
// the fast kernels and with the reference kernels alone.
//
//   onnx_node_test --failures[=TEXT]
//
// names each case that fails, or those with TEXT in their names, and why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "ops/onnx_case.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

// How many cases of each collection pass, of how many that hold dense tensors
// only. These numbers stand in README.md and may never fall; raise them with
// what you add, and when newer data comes.
struct Floor {
  int passed, total;
};
constexpr Floor kDebian = {883, 887};    // libonnx-testdata 1.12
constexpr Floor kNewest = {1626, 1626};  // onnx 1.23.2

std::optional<std::string> failures_to_list;

// Declines every node: the reference kernels run.
class NoKernels : public ExecutionProvider {
 public:
  std::string_view name() const override { return "none"; }
  KernelChoice Choose(const KernelRequest&) const override {
    return KernelChoice::Decline("no kernels");
  }
};

CaseResult RunBothWays(const fs::path& folder, const Environment& environment) {
  CaseResult result =
      RunOnnxCase(folder, environment, {CpuExecutionProvider()});
  if (result.kind != CaseResult::Kind::kPassed) return result;
  result = RunOnnxCase(folder, environment, {std::make_shared<NoKernels>()});
  result.details += " (reference kernels)";
  return result;
}

struct Tally {
  int passed = 0, total = 0;
  std::map<std::string, int> failed, left_out;  // by reason
};

void ListFailure(const std::string& name, const CaseResult& result) {
  if (!failures_to_list || name.find(*failures_to_list) == std::string::npos) {
    return;
  }
  std::cout << "  FAILED " << name << ": " << result.reason << ": "
            << result.details << "\n";
}

Tally RunAll(const fs::path& root) {
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.insert(entry.path());
  }
  const Environment environment(
      {.num_threads = 1, .log = [](LogLevel, std::string_view) {}});
  Tally tally;
  for (const fs::path& folder : folders) {
    const CaseResult result = RunBothWays(folder, environment);
    if (result.kind == CaseResult::Kind::kLeftOut) {
      ++tally.left_out[result.reason];
      continue;
    }
    ++tally.total;
    if (result.kind == CaseResult::Kind::kPassed) {
      ++tally.passed;
    } else {
      ++tally.failed[result.reason];
      ListFailure(folder.filename(), result);
    }
  }
  return tally;
}

void Print(const std::string& title, const Tally& tally) {
  fmt::print("{}: {} / {} passed\n", title, tally.passed, tally.total);
  for (const auto& [reason, count] : tally.failed) {
    fmt::print("  {} failed: {}\n", count, reason);
  }
  for (const auto& [reason, count] : tally.left_out) {
    fmt::print("  {} left out: {}\n", count, reason);
  }
  std::fflush(stdout);
}

void ExpectFloor(const Tally& tally, const Floor& floor) {
  EXPECT_GT(tally.total, 0);
  EXPECT_GE(100 * tally.passed, 95 * tally.total);
  // Cases that are newly left out count as lost too.
  EXPECT_GE(tally.total, floor.total);
  EXPECT_GE(tally.passed, floor.passed);
}

TEST(OnnxNodeTests, OfDebianPass) {
  const fs::path root = fs::path(STROP_ONNX_DATA) / "node";
  if (!fs::exists(root)) GTEST_SKIP() << root << " is not installed";
  const Tally tally = RunAll(root);
  Print("node cases of Debian", tally);
  ExpectFloor(tally, kDebian);
}

TEST(OnnxNodeTests, OfTheNewestOnnxPass) {
  const fs::path root = STROP_ONNX_CASES;
  std::string version;
  if (!(std::ifstream(root / "VERSION.txt") >> version)) {
    GTEST_SKIP() << "the Python package onnx is not installed: "
                    "scripts/install-deps test";
  }
  const Tally tally = RunAll(root / ("onnx-" + version));
  Print("node cases of onnx " + version, tally);
  ExpectFloor(tally, kNewest);
}

// Small models that PyTorch exported long ago (opset 6), and some by hand.
TEST(OnnxNodeTests, ModelsOfDebianPass) {
  const fs::path root = STROP_ONNX_DATA;
  if (!fs::exists(root)) GTEST_SKIP() << root << " is not installed";
  for (const char* folder :
       {"pytorch-converted", "pytorch-operator", "simple"}) {
    const Tally tally = RunAll(root / folder);
    Print(std::string("models of Debian, ") + folder, tally);
    EXPECT_GT(tally.total, 0) << folder;
    EXPECT_EQ(tally.passed, tally.total) << folder;
  }
}

}  // namespace
}  // namespace strop

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string flag = "--failures";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == flag) strop::failures_to_list = "";
    if (argument.starts_with(flag + "=")) {
      strop::failures_to_list = argument.substr(flag.size() + 1);
    }
  }
  return RUN_ALL_TESTS();
}
