// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/op_util.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

void InferDet(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const size_t rank = x.rank();
  if (rank < 2 || x[rank - 2] != x[rank - 1]) {
    Fail(c.node(), "wants square matrices, not the shape {}", x.ToString());
  }
  c.SetOutput(0, c.input(0).type, Shape(x.dims().first(rank - 2)));
}

// Elimination below the diagonal, each time with the row that has the largest
// number in the column; the matrix is overwritten.
double Determinant(double* a, int64_t n) {
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    }
    if (pivot != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
      product = -product;
    }
    const double* row = a + k * n;
    product *= row[k];
    if (row[k] == 0) return product;
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / row[k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * row[j];
    }
  }
  return product;
}

template <class T>
void Det(const KernelContext& c) {
  const Shape& x = c.input(0).shape();
  const int64_t n = x[x.rank() - 1];
  const T* from = c.in<T>(0).data();
  auto* matrix = reinterpret_cast<double*>(c.scratch());
  for (T& y : c.out<T>(0)) {
    for (int64_t i = 0; i < n * n; ++i)
      matrix[i] = static_cast<double>(from[i]);
    y = static_cast<T>(Determinant(matrix, n));
    from += n * n;
  }
}

}  // namespace

// The determinants of the matrices (..., n, n).
extern constexpr OpDef kDet = {
    .name = "Det",
    .infer = InferDet,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Det<T>(c); },
        [](const KernelRequest& request) {
          const Shape& x = request.inputs[0].info.shape;
          return x.element_count() == 0 ? 0
                                        : static_cast<size_t>(x.element_count(
                                              x.rank() - 2, x.rank())) *
                                              sizeof(double);
        })};

}  // namespace strop::ops
