// SPDX-License-Identifier: Apache-2.0
#include "ops/number.h"

namespace strop::ops {
namespace {

void InferEyeLike(InferContext& c) {
  const TensorInfo& x = c.input(0);
  if (x.shape.rank() != 2) {
    Fail(c.node(), "wants a matrix, not the shape {}", x.shape.ToString());
  }
  c.SetOutput(0, TypeAttribute(c.node(), "dtype", x.type), x.shape);
}

template <class T>
void EyeLike(const KernelContext& c) {
  FillZero(c.output(0));
  const int64_t rows = c.output(0).shape()[0];
  const int64_t columns = c.output(0).shape()[1];
  const int64_t k = c.node().Int("k", 0);
  if (k >= columns || k <= -rows) return;
  T* y = c.out<T>(0).data();
  for (int64_t i = std::max<int64_t>(0, -k); i < rows && i + k < columns; ++i) {
    y[i * columns + i + k] = FromDouble<T>(1);
  }
}

}  // namespace

// A matrix of the input's shape with ones on the k-th diagonal.
extern constexpr OpDef kEyeLike = {
    .name = "EyeLike",
    .infer = InferEyeLike,
    .reference = Instantiate<AllTypes, -1>(
        []<class T>(const KernelContext& c) { EyeLike<T>(c); }),
    .shape_inputs = {0},
    .stops_gradient = {0}};

}  // namespace strop::ops
