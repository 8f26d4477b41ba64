// SPDX-License-Identifier: Apache-2.0
//
// Damaged models: every truncation and many random mutations of a golden
// model give a model or one Error, never anything else.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "graph/onnx_io.h"
#include "graph/print.h"

namespace strop {
namespace {

std::vector<std::byte> Golden(const std::string& name) {
  const FileContents contents =
      FileSystem::Default()->Open(STROP_TEST_DATA "/golden/" + name);
  return {contents.bytes.begin(), contents.bytes.end()};
}

const char* const kModels[] = {"clip_grad_norm/training_model.onnx",
                               "clip_grad_norm/optimizer_model.onnx",
                               "trap_clip_attributes/model.onnx"};

// What is read must also print and be written; true if it was read.
bool Try(std::span<const std::byte> bytes) {
  try {
    const Model model = ReadOnnx(bytes);
    Print(model.graph);
    EncodeOnnx(model);
    return true;
  } catch (const Error& e) {
    EXPECT_NE(e.code(), ErrorCode::kInternal) << e.what();
    EXPECT_STRNE(e.what(), "");
    return false;
  }
}

TEST(OnnxBadInput, EveryTruncation) {
  for (const char* name : kModels) {
    const std::vector<std::byte> bytes = Golden(name);
    ASSERT_TRUE(Try(bytes));
    size_t read = 0;
    for (size_t length = 0; length < bytes.size(); ++length) {
      // A copy of just that length, for the address sanitizer.
      const std::vector<std::byte> part(
          bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
      read += Try(part);
    }
    // Only cuts between the fields of ModelProto behind the graph are legal.
    EXPECT_LT(read, 20u) << name;
  }
}

TEST(OnnxBadInput, RandomMutations) {
  const char* text = std::getenv("STROP_MUTATION_SECONDS");
  const std::chrono::duration<double> budget(text ? std::atof(text) : 10.0);
  const auto start = std::chrono::steady_clock::now();
  std::mt19937 random(20240917);
  std::vector<std::vector<std::byte>> originals;
  for (const char* name : kModels) originals.push_back(Golden(name));
  size_t tries = 0, read = 0;
  while (std::chrono::steady_clock::now() - start < budget) {
    std::vector<std::byte> bytes = originals[tries % originals.size()];
    const unsigned changes = 1 + random() % 8;
    for (unsigned i = 0; i < changes; ++i) {
      const auto at = static_cast<std::ptrdiff_t>(random() % bytes.size());
      switch (random() % 4) {
        case 0:
          bytes[static_cast<size_t>(at)] = std::byte(random());
          break;
        case 1:
          bytes[static_cast<size_t>(at)] ^= std::byte(1 << random() % 8);
          break;
        case 2:
          bytes.insert(bytes.begin() + at, std::byte(random()));
          break;
        default:
          bytes.erase(bytes.begin() + at);
      }
    }
    read += Try(bytes);
    ++tries;
  }
  RecordProperty("tries", static_cast<int>(tries));
  RecordProperty("read", static_cast<int>(read));
  EXPECT_GT(tries, 10u);
}

}  // namespace
}  // namespace strop
