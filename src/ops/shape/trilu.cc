// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

void InferTrilu(InferContext& c) {
  if (c.input(0).shape.rank() < 2) {
    Fail(c.node(), "wants matrices, not the shape {}",
         c.input(0).shape.ToString());
  }
  if (c.has_input(1)) {
    RequireType(c, 1, DataType::kInt64);
    RequireOneElement(c, 1);
  }
  SameAsInput(c);
}

constexpr ReferenceKernel kTriluKernel =
    Instantiate<AllTypes>([]<class T>(const KernelContext& c) {
      const bool upper = c.node().Int("upper", 1) != 0;
      const Shape& shape = c.input(0).shape();
      const int64_t rows = shape[shape.rank() - 2];
      const int64_t columns = shape[shape.rank() - 1];
      // Beyond the corners all values of k do the same.
      const int64_t k = c.has_input(1) ? std::clamp(c.scalar<int64_t>(1),
                                                    -rows - 1, columns + 1)
                                       : 0;
      const T* x = c.in<T>(0).data();
      T* y = c.out<T>(0).data();
      const int64_t count = shape.element_count();
      for (int64_t i = 0; i < count; ++i) {
        const int64_t column = i % columns;
        const int64_t row = i / columns % rows;
        const bool keep = upper ? column >= row + k : column <= row + k;
        y[i] = keep ? x[i] : T{};
      }
    });

}  // namespace

namespace {

// --- Gradients

// The same triangle.
void TriluGradient(GradientContext& c) {
  c.Set(0, c.build().Op("Trilu", {c.dy(), c.x(1)}, c.attributes(),
                        std::string(c.node().domain())));
}

}  // namespace

// Keeps the elements of each matrix on and above (upper) or on and below the
// k-th diagonal; the others become 0.
extern constexpr OpDef kTrilu = {.name = "Trilu",
                                 .inputs = {1, 2},
                                 .infer = InferTrilu,
                                 .reference = kTriluKernel,
                                 .may_overwrite = {0},
                                 .gradient = Rule(TriluGradient),
                                 .stops_gradient = {1}};

extern constexpr OpDef kTriluMicrosoft = {.name = "Trilu",
                                          .domain = kMicrosoft,
                                          .inputs = {1, 2},
                                          .infer = InferTrilu,
                                          .reference = kTriluKernel,
                                          .may_overwrite = {0},
                                          .gradient = Rule(TriluGradient),
                                          .stops_gradient = {1}};

}  // namespace strop::ops
