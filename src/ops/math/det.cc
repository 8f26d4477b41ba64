// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/gradient.h"
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

// --- Gradients

// Copies a without row i and column j.
void CopyMinor(const double* a, int64_t n, int64_t i, int64_t j, double* to) {
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      if (row != i && column != j) *to++ = a[row * n + column];
    }
  }
}

// det(a) times the transposed inverse of a, by elimination above and below
// the diagonal. Both a and `inverse` are overwritten; false where a pivot is
// so small that nothing can be said.
bool CofactorsByInverse(double* a, double* inverse, int64_t n,
                        double* cofactors) {
  double largest = 0;
  for (int64_t i = 0; i < n * n; ++i)
    largest = std::max(largest, std::abs(a[i]));
  for (int64_t i = 0; i < n * n; ++i) inverse[i] = i % (n + 1) == 0 ? 1 : 0;
  double determinant = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    }
    if (!(std::abs(a[pivot * n + k]) > 1e-10 * largest)) return false;
    if (pivot != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
      std::swap_ranges(inverse + k * n, inverse + (k + 1) * n,
                       inverse + pivot * n);
      determinant = -determinant;
    }
    const double head = a[k * n + k];
    determinant *= head;
    for (int64_t j = 0; j < n; ++j) {
      a[k * n + j] /= head;
      inverse[k * n + j] /= head;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double factor = a[i * n + k];
      if (i == k || factor == 0) continue;
      for (int64_t j = 0; j < n; ++j) {
        a[i * n + j] -= factor * a[k * n + j];
        inverse[i * n + j] -= factor * inverse[k * n + j];
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j)
      cofactors[i * n + j] = determinant * inverse[j * n + i];
  }
  return true;
}

// d det / d a[i][j] is the cofactor of a[i][j], which exists for matrices
// without an inverse as well: there it is taken from the determinants of
// n^2 smaller matrices.
void Cofactors(const double* a, int64_t n, double* scratch, double* cofactors) {
  std::copy_n(a, n * n, scratch);
  if (CofactorsByInverse(scratch, scratch + n * n, n, cofactors)) return;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      CopyMinor(a, n, i, j, scratch);
      const double minor = Determinant(scratch, n - 1);
      cofactors[i * n + j] = (i + j) % 2 == 0 ? minor : -minor;
    }
  }
}

// dY, X -> dX
void InferDetGrad(InferContext& c) {
  const TensorInfo& x = c.input(1);
  RequireSameType(c, 0, 1);
  if (x.shape.rank() < 2 ||
      x.shape[x.shape.rank() - 2] != x.shape[x.shape.rank() - 1]) {
    Fail(c.node(), "wants square matrices, not the shape {}",
         x.shape.ToString());
  }
  RequireShape(c, 0, Shape(x.shape.dims().first(x.shape.rank() - 2)));
  c.SetOutput(0, x.type, x.shape);
}

// A matrix and its cofactors, and room for two more matrices.
constexpr int64_t kDetGradMatrices = 4;

template <class T>
void DetGrad(const KernelContext& c) {
  const Shape& x = c.input(1).shape();
  const int64_t n = x[x.rank() - 1];
  const T* from = c.in<T>(1).data();
  T* to = c.out<T>(0).data();
  auto* matrix = reinterpret_cast<double*>(c.scratch());
  double *cofactors = matrix + n * n, *rest = cofactors + n * n;
  for (const T dy : c.in<T>(0)) {
    for (int64_t i = 0; i < n * n; ++i)
      matrix[i] = static_cast<double>(from[i]);
    Cofactors(matrix, n, rest, cofactors);
    for (int64_t i = 0; i < n * n; ++i)
      to[i] = static_cast<T>(static_cast<double>(dy) * cofactors[i]);
    from += n * n;
    to += n * n;
  }
}

// Bytes of `count` matrices like those of input i.
size_t MatrixBytes(const KernelRequest& request, size_t i, int64_t count) {
  const Shape& x = request.inputs[i].info.shape;
  if (x.element_count() == 0) return 0;
  return static_cast<size_t>(count * x.element_count(x.rank() - 2, x.rank())) *
         sizeof(double);
}

}  // namespace

// The determinants of the matrices (..., n, n).
extern constexpr OpDef kDet = {
    .name = "Det",
    .infer = InferDet,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Det<T>(c); },
        [](const KernelRequest& r) { return MatrixBytes(r, 0, 1); }),
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().Op("DetGrad", {c.dy(), c.x()}, {}, kStrop));
    })};

// dY, X -> dX: the cofactors of the matrices, times dY
extern constexpr OpDef kDetGrad = {
    .name = "DetGrad",
    .domain = kStrop,
    .inputs = {2, 2},
    .infer = InferDetGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { DetGrad<T>(c); },
        [](const KernelRequest& r) {
          return MatrixBytes(r, 1, kDetGradMatrices);
        })};

}  // namespace strop::ops
