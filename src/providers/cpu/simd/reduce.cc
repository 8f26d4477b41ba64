// SPDX-License-Identifier: Apache-2.0
//
// Sums over axes: ReduceSum, ReduceMean, and ReduceSumAccumulate, which adds
// into a gradient buffer.
//
// Float sums of many terms lose digits. Columns are therefore summed in
// blocks of rows, rows in runs whose sums are added as double; either way
// the order depends on the shape alone.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/reduce.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// Up to `vectors` * Lanes columns of x (rows x stride). The last vector may
// be a tail of `rest` lanes.
template <int vectors, class Load, class Store>
HWY_INLINE void SumColumnBlock(const float* x, int64_t rows, int64_t stride,
                               Load load, Store store) {
  constexpr int64_t kBlock = 64;
  const FloatTag d;
  FloatVec sum[vectors];
  for (int j = 0; j < vectors; ++j) sum[j] = hn::Zero(d);
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t end = std::min(rows, begin + kBlock);
    FloatVec part[vectors];
    for (int j = 0; j < vectors; ++j) part[j] = hn::Zero(d);
    for (int64_t i = begin; i < end; ++i) {
      for (int j = 0; j < vectors; ++j) {
        part[j] = hn::Add(part[j], load(x + i * stride, j));
      }
    }
    for (int j = 0; j < vectors; ++j) sum[j] = hn::Add(sum[j], part[j]);
  }
  for (int j = 0; j < vectors; ++j) store(sum[j], j);
}

// y[j] = scale * sum over i of x[i][j], added to y[j] if wanted.
void SumColumns(const float* x, int64_t rows, int64_t columns, int64_t stride,
                float scale, bool accumulate, float* y) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  const auto scaled = [=](FloatVec sum, FloatVec old)
                          HWY_ATTR { return hn::MulAdd(sum, factor, old); };
  int64_t j = 0;
  const auto whole = [&](auto v) HWY_ATTR {
    for (; j + v * lanes <= columns; j += v * lanes) {
      SumColumnBlock<v>(
          x + j, rows, stride,
          [=](const float* row, int k)
              HWY_ATTR { return hn::LoadU(d, row + k * lanes); },
          [=](FloatVec sum, int k) HWY_ATTR {
            float* to = y + j + k * lanes;
            const auto old = accumulate ? hn::LoadU(d, to) : hn::Zero(d);
            hn::StoreU(scaled(sum, old), d, to);
          });
    }
  };
  whole(std::integral_constant<int, 4>());
  whole(std::integral_constant<int, 1>());
  if (j < columns) {
    const size_t rest = static_cast<size_t>(columns - j);
    SumColumnBlock<1>(
        x + j, rows, stride,
        [=](const float* row, int) HWY_ATTR { return LoadTail(d, row, rest); },
        [=](FloatVec sum, int) HWY_ATTR {
          const auto old = accumulate ? LoadTail(d, y + j, rest) : hn::Zero(d);
          StoreTail(scaled(sum, old), d, y + j, rest);
        });
  }
}

// The sum of x[0, n). A lane adds up as many numbers before they go to the
// total whatever the width of vectors, so that narrow ones round no worse.
double SumRun(const float* x, int64_t n) {
  constexpr int64_t kAdditions = 32;
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t run = kAdditions * 4 * lanes;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += run) {
    const int64_t end = std::min(n, begin + run);
    FloatVec sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      for (int j = 0; j < 4; ++j) {
        sum[j] = hn::Add(sum[j], hn::LoadU(d, x + i + j * lanes));
      }
    }
    for (; i + lanes <= end; i += lanes) {
      sum[0] = hn::Add(sum[0], hn::LoadU(d, x + i));
    }
    if (i < end) {
      sum[1] =
          hn::Add(sum[1], LoadTail(d, x + i, static_cast<size_t>(end - i)));
    }
    total += hn::GetLane(hn::SumOfLanes(
        d, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(SumColumns);
HWY_EXPORT(SumRun);

// The shape with neighbouring axes of one kind merged is one of
//   outer x R x inner   R is summed; inner > 1            (kColumns)
//   R1 x kept x R2      both ends are summed              (kRows)
struct ReducePlan {
  bool by_columns = false;
  int64_t outer = 1;   // kColumns
  int64_t inner = 1;   // kColumns
  int64_t kept = 1;    // kRows
  int64_t repeat = 1;  // kRows: R1
  int64_t run = 1;     // R or R2
  float scale = 1;

  int64_t result_count() const { return by_columns ? outer * inner : kept; }
};

// Axes of size 1 are as good as kept and summed: they vanish.
std::optional<ReducePlan> MakePlan(const Shape& shape,
                                   const std::vector<bool>& summed) {
  struct Group {
    bool summed;
    int64_t size;
  };
  std::vector<Group> groups;
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    if (groups.empty() || groups.back().summed != summed[axis]) {
      groups.push_back({summed[axis], 1});
    }
    groups.back().size *= shape[axis];
  }
  ReducePlan plan;
  size_t i = 0;
  const auto take = [&](bool want_summed) -> int64_t {
    if (i == groups.size() || groups[i].summed != want_summed) return 1;
    return groups[i++].size;
  };
  const bool ends_summed = !groups.empty() && groups.back().summed;
  if (!ends_summed) {
    plan.by_columns = true;
    plan.outer = take(false);
    plan.run = take(true);
    plan.inner = take(false);
    if (plan.run == 1) std::swap(plan.outer, plan.inner);  // nothing summed
  } else {
    plan.repeat = take(true);
    plan.kept = take(false);
    plan.run = take(true);
    if (plan.kept == 1) std::swap(plan.repeat, plan.run);
  }
  if (i != groups.size()) return std::nullopt;
  return plan;
}

class ReduceKernel final : public Kernel {
 public:
  // A sum of everything is cut into chunks, for the threads' sake; their sums
  // stand in the scratch.
  static constexpr int64_t kChunk = 1 << 15;

  // `buffer_input` < 0: writes output 0. Else adds into that input, or
  // overwrites it where the flag in the next input says so.
  ReduceKernel(const ReducePlan& plan, int buffer_input)
      : plan_(plan), buffer_input_(buffer_input) {}

  size_t scratch_bytes() const {
    return IsChunked() ? static_cast<size_t>(ChunkCount()) * sizeof(double) : 0;
  }

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    const bool accumulate =
        buffer_input_ >= 0 && !context.scalar<bool>(buffer_input_ + 1);
    float* y = static_cast<float*>(
        (buffer_input_ >= 0 ? context.input(buffer_input_) : context.output(0))
            .data());
    if (plan_.by_columns) {
      SumByColumns(context, x, accumulate, y);
    } else if (IsChunked()) {
      SumChunks(context, x, accumulate, y);
    } else {
      SumByRows(context, x, accumulate, y);
    }
  }

 private:
  static constexpr double kCost = 0.1;  // nanoseconds an element

  bool IsChunked() const {
    return !plan_.by_columns && plan_.kept == 1 && plan_.repeat == 1 &&
           plan_.run > kChunk;
  }
  int64_t ChunkCount() const { return (plan_.run + kChunk - 1) / kChunk; }

  void Finish(double sum, bool accumulate, float* y) const {
    const float value = static_cast<float>(sum * plan_.scale);
    *y = accumulate ? *y + value : value;
  }

  void SumByColumns(const KernelContext& context, const float* x,
                    bool accumulate, float* y) const {
    // Threads share the columns of each outer part in steps of a cache line.
    constexpr int64_t kStep = 64;
    const int64_t steps = (plan_.inner + kStep - 1) / kStep;
    const int64_t size = plan_.run * plan_.inner;
    context.ParallelFor(
        plan_.outer * steps,
        kCost * static_cast<double>(plan_.run * std::min(kStep, plan_.inner)),
        [&](int64_t begin, int64_t end) {
          while (begin < end) {
            const int64_t outer = begin / steps;
            const int64_t first = begin % steps;
            const int64_t last = std::min(steps, first + end - begin);
            const int64_t column = first * kStep;
            const int64_t columns =
                std::min(plan_.inner, last * kStep) - column;
            HWY_DYNAMIC_DISPATCH(SumColumns)
            (x + outer * size + column, plan_.run, columns, plan_.inner,
             plan_.scale, accumulate, y + outer * plan_.inner + column);
            begin += last - first;
          }
        });
  }

  void SumByRows(const KernelContext& context, const float* x, bool accumulate,
                 float* y) const {
    context.ParallelFor(
        plan_.kept, kCost * static_cast<double>(plan_.repeat * plan_.run),
        [&](int64_t begin, int64_t end) {
          for (int64_t k = begin; k < end; ++k) {
            double sum = 0;
            for (int64_t r = 0; r < plan_.repeat; ++r) {
              sum += HWY_DYNAMIC_DISPATCH(SumRun)(
                  x + (r * plan_.kept + k) * plan_.run, plan_.run);
            }
            Finish(sum, accumulate, y + k);
          }
        });
  }

  void SumChunks(const KernelContext& context, const float* x, bool accumulate,
                 float* y) const {
    double* sums = reinterpret_cast<double*>(context.scratch());
    context.ParallelFor(ChunkCount(), kCost * kChunk,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const int64_t at = i * kChunk;
                            sums[i] = HWY_DYNAMIC_DISPATCH(SumRun)(
                                x + at, std::min(kChunk, plan_.run - at));
                          }
                        });
    double sum = 0;
    for (int64_t i = 0; i < ChunkCount(); ++i) sum += sums[i];
    Finish(sum, accumulate, y);
  }

  ReducePlan plan_;
  int buffer_input_;
};

// The axes from input 1 or from the attribute. False: not known yet.
bool FindAxes(const KernelRequest& request, std::vector<int64_t>& axes) {
  if (!request.has_input(1)) {
    const auto attribute = request.node.Ints("axes");
    axes.assign(attribute.begin(), attribute.end());
    return true;
  }
  const Tensor* constant = request.inputs[1].constant;
  if (constant == nullptr || constant->type() != DataType::kInt64) return false;
  const auto values = constant->values<int64_t>();
  axes.assign(values.begin(), values.end());
  return true;
}

KernelChoice ChooseReduce(const KernelRequest& request, int buffer_input,
                          bool mean) {
  const TensorInfo& x = request.inputs[0].info;
  if (x.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.type));
  }
  std::vector<int64_t> axes;
  if (!FindAxes(request, axes)) {
    return KernelChoice::Decline("axes are not constant");
  }
  if (axes.empty() && request.node.Int("noop_with_empty_axes", 0) != 0) {
    return KernelChoice::Decline("no axes");
  }
  const int64_t rank = static_cast<int64_t>(x.shape.rank());
  std::vector<bool> summed(x.shape.rank(), axes.empty());
  int64_t count = axes.empty() ? x.shape.element_count() : 1;
  for (const int64_t axis : axes) {
    if (axis < -rank || axis >= rank) {
      return KernelChoice::Decline("axis out of range");
    }
    const size_t i = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    if (summed[i]) return KernelChoice::Decline("axis named twice");
    summed[i] = true;
    count *= x.shape[i];
  }
  auto plan = MakePlan(x.shape, summed);
  if (!plan) return KernelChoice::Decline("axes alternate");
  if (mean) plan->scale = 1.0f / static_cast<float>(count);
  auto kernel = std::make_unique<ReduceKernel>(*plan, buffer_input);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.flops = static_cast<double>(x.shape.element_count());
  return choice;
}

}  // namespace

KernelChoice ChooseReduceSum(const KernelRequest& request) {
  return ChooseReduce(request, -1, false);
}

KernelChoice ChooseReduceMean(const KernelRequest& request) {
  return ChooseReduce(request, -1, true);
}

KernelChoice ChooseReduceSumAccumulate(const KernelRequest& request) {
  return ChooseReduce(request, 2, false);
}

}  // namespace strop
#endif  // HWY_ONCE
