// SPDX-License-Identifier: Apache-2.0
#include "providers/stub/stub_provider.h"

#include <gtest/gtest.h>

#include <vector>

#include "providers/kernel_runner.h"

namespace strop {
namespace {

TEST(StubProviderTest, ServesNeg) {
  const std::vector<float> x = {1, -2, 0, 4.5f};
  for (const int threads : {1, 2}) {
    std::vector<float> y = Nans(4);
    KernelRunner(kOnnx, "Neg")
        .Input(Tensor(Shape{2, 2}, x.data()))
        .Output(Tensor(Shape{2, 2}, y.data()))
        .Run(threads, *StubExecutionProvider());
    EXPECT_EQ(y, (std::vector<float>{-1, 2, 0, -4.5f}));
  }
}

TEST(StubProviderTest, SaysWhyItDeclines) {
  const auto provider = StubExecutionProvider();
  float value = 1;
  const KernelChoice other = KernelRunner(kOnnx, "Abs")
                                 .Input(Tensor(Shape{}, &value))
                                 .Output(Tensor(Shape{}, &value))
                                 .Choose(*provider);
  EXPECT_EQ(other.kernel, nullptr);
  EXPECT_EQ(other.reason, "only Neg");

  double wide = 1;
  const KernelChoice type = KernelRunner(kOnnx, "Neg")
                                .Input(Tensor(Shape{}, &wide))
                                .Output(Tensor(Shape{}, &wide))
                                .Choose(*provider);
  EXPECT_EQ(type.kernel, nullptr);
  EXPECT_EQ(type.reason, "only float32, not float64");
}

}  // namespace
}  // namespace strop
