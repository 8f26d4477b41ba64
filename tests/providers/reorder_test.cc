// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/reorder.h"

#include <gtest/gtest.h>

#include <cstring>

#include "providers/layout_runner.h"

namespace strop {
namespace {

constexpr Layout kLayouts[] = {Layout::kPlain, Layout::kBlocked8,
                               Layout::kBlocked16};

// Bytes that tell every element from the others.
OwnedTensor Numbered(DataType type, const Shape& shape) {
  OwnedTensor tensor(type, shape);
  const size_t size = DataTypeSize(type);
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    std::memcpy(static_cast<char*>(tensor.view().data()) + i * size, &i, size);
  }
  return tensor;
}

void CheckAllLayouts(const Shape& shape, DataType type) {
  const OwnedTensor x = Numbered(type, shape);
  for (const Layout from : kLayouts) {
    for (const Layout to : kLayouts) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(shape.ToString() + " " + DataTypeName(type) + " " +
                     std::string(LayoutName(from)) + " to " +
                     std::string(LayoutName(to)));
        LayoutRunner runner("strop.internal", "Reorder");
        runner.Set("layout", static_cast<int64_t>(to));
        const LayoutRun run = runner.Input(x, from)
                                  .Output(shape, type)
                                  .Run(ChooseReorder, threads);
        ASSERT_TRUE(run.accepted) << run.reason;
        EXPECT_EQ(run.layouts[0], to);
        EXPECT_EQ(std::memcmp(run.outputs[0].view().data(), x.view().data(),
                              x.view().byte_count()),
                  0);
      }
    }
  }
}

TEST(Reorder, KeepsEveryElementAndClearsPadding) {
  for (const int64_t channels : {1, 3, 6, 8, 9, 16, 17, 40}) {
    CheckAllLayouts({2, channels, 3, 5}, DataType::kFloat32);
  }
}

TEST(Reorder, ServesAllRanks) {
  CheckAllLayouts({3, 6}, DataType::kFloat32);
  CheckAllLayouts({2, 17, 7}, DataType::kFloat32);
  CheckAllLayouts({1, 11, 2, 3, 4}, DataType::kFloat32);
}

TEST(Reorder, ServesAllElementSizes) {
  CheckAllLayouts({2, 6, 3, 3}, DataType::kInt64);
  CheckAllLayouts({2, 6, 3, 3}, DataType::kFloat16);
  CheckAllLayouts({2, 6, 3, 3}, DataType::kBool);
}

TEST(Reorder, ServesEmptyTensors) {
  CheckAllLayouts({0, 6, 3, 3}, DataType::kFloat32);
  CheckAllLayouts({2, 6, 0, 3}, DataType::kFloat32);
}

TEST(Reorder, DeclinesWhatCannotBeBlocked) {
  LayoutRunner runner("strop.internal", "Reorder");
  runner.Set("layout", int64_t{1}).Floats({4}, {1, 2, 3, 4}).Output({4});
  EXPECT_FALSE(runner.Run(ChooseReorder, 1).accepted);
}

}  // namespace
}  // namespace strop
