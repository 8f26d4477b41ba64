// SPDX-License-Identifier: Apache-2.0
//
// ConvTranspose and its gradient against plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "providers/cpu/conv/kernels.h"
#include "providers/layout_runner.h"

namespace strop {
namespace {

struct TransposeCase {
  int64_t channels, filters, groups, size, kernel, stride, pad, extra;

  int64_t out() const { return (size - 1) * stride + kernel - 2 * pad + extra; }
  Shape x() const { return {2, channels, size, size}; }
  Shape w() const { return {channels, filters / groups, kernel, kernel}; }
  Shape y() const { return {2, filters, out(), out()}; }
  std::string Describe() const {
    return x().ToString() + " by " + w().ToString() + " stride " +
           std::to_string(stride);
  }
};

const TransposeCase kCases[] = {
    {16, 16, 1, 5, 2, 2, 0, 0}, {32, 16, 1, 4, 2, 2, 0, 0},
    {5, 7, 1, 6, 3, 1, 1, 0},   {6, 4, 2, 4, 3, 2, 1, 1},
    {8, 8, 8, 5, 3, 2, 1, 0},   {3, 20, 1, 4, 4, 2, 1, 0},
};
const Layout kLayouts[] = {Layout::kPlain, Layout::kBlocked8,
                           Layout::kBlocked16};

// Calls run(x index, w index, y index) for all products.
template <class F>
void ForEachProduct(const TransposeCase& c, F&& run) {
  const int64_t in = c.channels / c.groups, out = c.filters / c.groups;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t ch = 0; ch < c.channels; ++ch) {
      for (int64_t i = 0; i < c.size * c.size; ++i) {
        for (int64_t m = 0; m < out; ++m) {
          for (int64_t k = 0; k < c.kernel * c.kernel; ++k) {
            const int64_t h = i / c.size * c.stride - c.pad + k / c.kernel;
            const int64_t v = i % c.size * c.stride - c.pad + k % c.kernel;
            if (h < 0 || v < 0 || h >= c.out() || v >= c.out()) continue;
            const int64_t filter = ch / in * out + m;
            run((n * c.channels + ch) * c.size * c.size + i,
                (ch * out + m) * c.kernel * c.kernel + k,
                ((n * c.filters + filter) * c.out() + h) * c.out() + v);
          }
        }
      }
    }
  }
}

void SetAttributes(LayoutRunner& runner, const TransposeCase& c) {
  runner.Set("strides", std::vector<int64_t>{c.stride, c.stride})
      .Set("pads", std::vector<int64_t>{c.pad, c.pad, c.pad, c.pad})
      .Set("group", c.groups)
      .Set("output_padding", std::vector<int64_t>{c.extra, c.extra});
}

void ExpectNear(std::span<const float> have, const std::vector<double>& want) {
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(have[i], want[i], 2e-5 * (1 + std::abs(want[i]))) << i;
  }
}

template <class F>
void ForAll(F&& test) {
  for (const TransposeCase& c : kCases) {
    for (const Layout layout : kLayouts) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(testing::Message()
                     << c.Describe() << " " << LayoutName(layout));
        test(c, layout, threads);
      }
    }
  }
}

TEST(ConvTransposeKernel, AgreesWithThePlainLoops) {
  ForAll([](const TransposeCase& c, Layout layout, int threads) {
    const auto x = RandomFloats(c.x().element_count(), 1);
    const auto w = RandomFloats(c.w().element_count(), 2);
    const auto bias = RandomFloats(c.filters, 3);
    std::vector<double> y(c.y().element_count());
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = bias[static_cast<int64_t>(i) / (c.out() * c.out()) % c.filters];
    }
    ForEachProduct(c, [&](int64_t xi, int64_t wi, int64_t yi) {
      y[yi] += double{x[xi]} * w[wi];
    });
    LayoutRunner runner(kOnnx, "ConvTranspose");
    SetAttributes(runner, c);
    runner.Floats(c.x(), x, layout).Floats(c.w(), w).Floats({c.filters}, bias);
    const LayoutRun run =
        runner.Output(c.y()).Run(ChooseConvTranspose, threads);
    ASSERT_TRUE(run.accepted) << run.reason;
    ExpectNear(run.out(0), y);
  });
}

TEST(ConvTransposeGradKernel, AgreesWithThePlainLoops) {
  ForAll([](const TransposeCase& c, Layout layout, int threads) {
    const auto x = RandomFloats(c.x().element_count(), 1);
    const auto w = RandomFloats(c.w().element_count(), 2);
    const auto dy = RandomFloats(c.y().element_count(), 3);
    std::vector<double> dx(x.size()), dw(w.size()), db(c.filters);
    for (size_t i = 0; i < dy.size(); ++i) {
      db[static_cast<int64_t>(i) / (c.out() * c.out()) % c.filters] += dy[i];
    }
    ForEachProduct(c, [&](int64_t xi, int64_t wi, int64_t yi) {
      dx[xi] += double{dy[yi]} * w[wi];
      dw[wi] += double{dy[yi]} * x[xi];
    });
    LayoutRunner runner(kMicrosoft, "ConvTransposeGrad");
    SetAttributes(runner, c);
    runner.Floats(c.y(), dy, layout).Floats(c.x(), x, layout);
    runner.Floats(c.w(), w).Output(c.x()).Output(c.w()).Output({c.filters});
    const LayoutRun run = runner.Run(ChooseConvTransposeGrad, threads);
    ASSERT_TRUE(run.accepted) << run.reason;
    ExpectNear(run.out(0), dx);
    ExpectNear(run.out(1), dw);
    ExpectNear(run.out(2), db);
  });
}

TEST(ConvTransposeGradKernel, MakesWhatIsWanted) {
  const TransposeCase& c = kCases[0];
  const auto x = RandomFloats(c.x().element_count(), 1);
  const auto w = RandomFloats(c.w().element_count(), 2);
  const auto dy = RandomFloats(c.y().element_count(), 3);
  std::vector<double> dw(w.size());
  ForEachProduct(c, [&](int64_t xi, int64_t wi, int64_t yi) {
    dw[wi] += double{dy[yi]} * x[xi];
  });
  LayoutRunner runner(kMicrosoft, "ConvTransposeGrad");
  SetAttributes(runner, c);
  runner.Floats(c.y(), dy).Floats(c.x(), x).Floats(c.w(), w);
  runner.NoOutput().Output(c.w()).NoOutput();
  const LayoutRun run = runner.Run(ChooseConvTransposeGrad, 1);
  ASSERT_TRUE(run.accepted) << run.reason;
  ExpectNear(run.out(1), dw);
}

}  // namespace
}  // namespace strop
