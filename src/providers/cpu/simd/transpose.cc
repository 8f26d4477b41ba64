// SPDX-License-Identifier: Apache-2.0
//
// Transpose. Axes that stay neighbours are merged. What is left either moves
// runs of elements, or is a matrix to transpose for each index of the other
// axes.
#include "providers/cpu/simd/transpose.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/round.h"
#include "ops/strided_copy.h"
#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/transpose.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

void Matrix(const float* x, int64_t x_stride, int64_t rows, int64_t columns,
            float* y, int64_t y_stride) {
  TransposeBlock(x, x_stride, rows, columns, y, y_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {
HWY_EXPORT(Matrix);
}  // namespace

void TransposeMatrix(const float* x, int64_t x_stride, int64_t rows,
                     int64_t columns, float* y, int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(Matrix)(x, x_stride, rows, columns, y, y_stride);
}

namespace {

// An axis as the two tensors walk along it.
struct Axis {
  int64_t size = 1;
  int64_t from = 0;
  int64_t to = 0;
};

struct TransposePlan {
  std::vector<Axis> outer;  // the last one varies fastest
  // Elements that lie next to each other in both tensors.
  int64_t run = 1;
  // Or a matrix: `rows` lies next to each other in y, `columns` in x.
  bool is_matrix = false;
  Axis rows;
  Axis columns;
};

std::vector<Axis> MergedAxes(const OpNode& node, const Shape& x,
                             const Shape& y) {
  const auto rank = static_cast<int64_t>(x.rank());
  const auto perm = node.Ints("perm");
  ops::StridedCopy copy;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t axis = perm.empty() ? rank - 1 - i : perm[static_cast<size_t>(i)];
    if (axis < 0) axis += rank;
    const auto from = static_cast<size_t>(axis), to = static_cast<size_t>(i);
    copy.AddAxis(y[to], x.element_count(from + 1, x.rank()),
                 y.element_count(to + 1, y.rank()));
  }
  std::vector<Axis> axes;
  for (size_t i = 0; i < copy.rank; ++i) {
    axes.push_back({copy.dims[i], copy.from_strides[i], copy.to_strides[i]});
  }
  return axes;
}

TransposePlan PlanTranspose(std::vector<Axis> axes) {
  TransposePlan plan;
  if (axes.empty()) return plan;  // one element
  const Axis last = axes.back();
  axes.pop_back();
  if (last.from == 1) {
    plan.run = last.size;
  } else {
    const auto columns = std::find_if(
        axes.begin(), axes.end(), [](const Axis& a) { return a.from == 1; });
    plan.is_matrix = true;
    plan.rows = last;
    plan.columns = *columns;
    axes.erase(columns);
  }
  plan.outer = std::move(axes);
  return plan;
}

class TransposeKernel final : public Kernel {
 public:
  explicit TransposeKernel(TransposePlan plan) : plan_(std::move(plan)) {
    for (const Axis& axis : plan_.outer) count_ *= axis.size;
    if (plan_.is_matrix) blocks_ = CeilDiv(plan_.rows.size, kBlock);
  }

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    float* y = static_cast<float*>(context.output(0).data());
    const int64_t size =
        plan_.is_matrix ? std::min(kBlock, plan_.rows.size) * plan_.columns.size
                        : plan_.run;
    context.ParallelFor(count_ * blocks_, 2 + 0.25 * static_cast<double>(size),
                        [&](int64_t begin, int64_t end) {
                          plan_.is_matrix ? MoveMatrices(begin, end, x, y)
                                          : MoveRuns(begin, end, x, y);
                        });
  }

 private:
  // Rows that a thread takes at a time: whole cache lines of y.
  static constexpr int64_t kBlock = 64;

  // Moves x and y to the `index`-th position of the outer axes.
  void Seek(int64_t index, const float*& x, float*& y) const {
    for (size_t i = plan_.outer.size(); i-- > 0;) {
      const Axis& axis = plan_.outer[i];
      const int64_t at = index % axis.size;
      index /= axis.size;
      x += at * axis.from;
      y += at * axis.to;
    }
  }

  void MoveRuns(int64_t begin, int64_t end, const float* x, float* y) const {
    const size_t bytes = static_cast<size_t>(plan_.run) * sizeof(float);
    // The last outer axis is walked without divisions.
    const Axis inner = plan_.outer.empty() ? Axis{} : plan_.outer.back();
    for (int64_t i = begin; i < end;) {
      const float* from = x;
      float* to = y;
      Seek(i, from, to);
      const int64_t count = std::min(end - i, inner.size - i % inner.size);
      for (int64_t j = 0; j < count; ++j) {
        std::memcpy(to + j * inner.to, from + j * inner.from, bytes);
      }
      i += count;
    }
  }

  void MoveMatrices(int64_t begin, int64_t end, const float* x,
                    float* y) const {
    for (int64_t i = begin; i < end; ++i) {
      const float* from = x;
      float* to = y;
      Seek(i / blocks_, from, to);
      const int64_t row = i % blocks_ * kBlock;
      TransposeMatrix(from + row * plan_.rows.from, plan_.rows.from,
                      std::min(kBlock, plan_.rows.size - row),
                      plan_.columns.size, to + row, plan_.columns.to);
    }
  }

  TransposePlan plan_;
  int64_t count_ = 1;
  int64_t blocks_ = 1;  // of a matrix
};

}  // namespace

KernelChoice ChooseTranspose(const KernelRequest& request) {
  const TensorInfo& x = request.inputs[0].info;
  if (x.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.type));
  }
  const Shape& y = request.outputs[0].shape;
  if (y.element_count() == 0) return KernelChoice::Decline("no elements");
  KernelChoice choice;
  choice.kernel = std::make_unique<TransposeKernel>(
      PlanTranspose(MergedAxes(request.node, x.shape, y)));
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
