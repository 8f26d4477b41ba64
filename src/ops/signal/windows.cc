// SPDX-License-Identifier: Apache-2.0
//
// Windows of N elements made of cosines: element n is
//   constant - first cos(2 pi n / N) + second cos(4 pi n / N),
// with N - 1 for N unless the window is periodic.
#include <numbers>

#include "ops/number.h"

namespace strop::ops {
namespace {

void InferWindow(InferContext& c) {
  RequireIndices(c, 0);
  RequireOneElement(c, 0);
  const DataType type =
      TypeAttribute(c.node(), "output_datatype", DataType::kFloat32);
  const int64_t size = IndexAt(c.value(0), 0);
  if (size < 0) Fail(c.node(), "the size is {}", size);
  c.SetOutput(0, type, {size});
}

struct Cosines {
  double constant, first, second;
};

template <class T>
void FillWindow(const KernelContext& c, const Cosines& factors) {
  const auto y = c.out<T>(0);
  const bool periodic = c.node().Int("periodic", 1) != 0;
  const double period = static_cast<double>(y.size()) - (periodic ? 0 : 1);
  for (size_t n = 0; n < y.size(); ++n) {
    // A lone element is the middle of its window.
    const double angle =
        period == 0 ? std::numbers::pi
                    : 2 * std::numbers::pi * static_cast<double>(n) / period;
    y[n] = FromDouble<T>(factors.constant - factors.first * std::cos(angle) +
                         factors.second * std::cos(2 * angle));
  }
}

template <class Factors>
constexpr OpDef WindowOp(std::string_view name, Factors) {
  return {.name = name,
          .infer = InferWindow,
          .reference =
              Instantiate<Numbers, -1>([]<class T>(const KernelContext& c) {
                FillWindow<T>(c, Factors{}());
              }),
          .value_inputs = {0},
          .stops_gradient = {0}};
}

}  // namespace

extern constexpr OpDef kHannWindow = WindowOp("HannWindow", [] {
  return Cosines{0.5, 0.5, 0};
});
extern constexpr OpDef kHammingWindow = WindowOp("HammingWindow", [] {
  return Cosines{25.0 / 46, 21.0 / 46, 0};
});
extern constexpr OpDef kBlackmanWindow = WindowOp("BlackmanWindow", [] {
  return Cosines{0.42, 0.5, 0.08};
});

}  // namespace strop::ops
