// SPDX-License-Identifier: Apache-2.0
//
// LayerNormalization, its form without the mean, and their gradients, seen as
// rows x columns.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "base/round.h"
#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/layer_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/row-inl.h"

#ifndef STROP_SIMD_LAYER_NORM_ARGUMENTS
#define STROP_SIMD_LAYER_NORM_ARGUMENTS
namespace strop {

struct LayerNormArguments {
  int64_t columns = 0;
  bool centered = true;
  float epsilon = 0;
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;  // may be null
  float* y = nullptr;
  float* mean = nullptr;     // may be null
  float* inverse = nullptr;  // may be null
};

struct LayerNormGradArguments {
  int64_t columns = 0;
  bool centered = true;
  const float* dy = nullptr;
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* mean = nullptr;  // null: not centered
  const float* inverse = nullptr;
  float* dx = nullptr;  // may be null
};

}  // namespace strop
#endif

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// y = (x - mean) inverse scale + bias in double, for a row whose squares
// float32 does not hold.
void LayerNormLargeRow(const LayerNormArguments& args, int64_t row) {
  const int64_t n = args.columns;
  const float* x = args.x + row * n;
  const auto count = static_cast<double>(n);
  double mean = 0;
  for (int64_t i = 0; args.centered && i < n; ++i) mean += x[i] / count;
  double variance = 0;
  for (int64_t i = 0; i < n; ++i) {
    variance += (x[i] - mean) * (x[i] - mean) / count;
  }
  const double inverse = 1 / std::sqrt(variance + args.epsilon);
  for (int64_t i = 0; i < n; ++i) {
    const double shift = args.bias == nullptr ? 0 : args.bias[i];
    args.y[row * n + i] =
        static_cast<float>((x[i] - mean) * inverse * args.scale[i] + shift);
  }
  if (args.mean != nullptr) args.mean[row] = static_cast<float>(mean);
  if (args.inverse != nullptr) args.inverse[row] = static_cast<float>(inverse);
}

// y = (x - mean) inverse scale + bias
void LayerNormRows(const LayerNormArguments& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t n = args.columns;
  const float* scale = args.scale;
  const float* bias = args.bias;
  for (int64_t row = begin; row < end; ++row) {
    const float* x = args.x + row * n;
    float* y = args.y + row * n;
    float mean = 0;
    float sum[1];
    if (args.centered) {
      SumOverRow(
          n,
          [=](auto at, FloatVec* sums)
              HWY_ATTR { sums[0] = hn::Add(sums[0], at.Load(x)); },
          sum);
      mean = sum[0] / static_cast<float>(n);
    }
    const auto center = hn::Set(d, mean);
    SumOverRow(
        n,
        [=](auto at, FloatVec* sums) HWY_ATTR {
          const auto v = at.Or(hn::Sub(at.Load(x), center), hn::Zero(d));
          sums[0] = hn::MulAdd(v, v, sums[0]);
        },
        sum);
    if (sum[0] > std::numeric_limits<float>::max()) {
      LayerNormLargeRow(args, row);
      continue;
    }
    const float inverse =
        1 / std::sqrt(sum[0] / static_cast<float>(n) + args.epsilon);
    const auto factor = hn::Set(d, inverse);
    ForEachVector(n, [=](auto at) HWY_ATTR {
      const auto normalized = hn::Mul(hn::Sub(at.Load(x), center), factor);
      const auto shift = bias == nullptr ? hn::Zero(d) : at.Load(bias);
      at.Store(hn::MulAdd(normalized, at.Load(scale), shift), y);
    });
    if (args.mean != nullptr) args.mean[row] = mean;
    if (args.inverse != nullptr) args.inverse[row] = inverse;
  }
}

// With n the normalized row and b = dy scale:
//   dx = inverse (b - mean(b) - n mean(b n)), without mean(b) if not centered
// and dscale += dy n, dbias += dy, in one visit of the rows.
void LayerNormGradRows(const LayerNormGradArguments& args, int64_t begin,
                       int64_t end, float* dscale, float* dbias) {
  const FloatTag d;
  const int64_t n = args.columns;
  const float* scale = args.scale;
  const auto per_column = hn::Set(d, 1 / static_cast<float>(n));
  for (int64_t row = begin; row < end; ++row) {
    const float* dy = args.dy + row * n;
    const float* x = args.x + row * n;
    const auto inverse = hn::Set(d, args.inverse[row]);
    // n = x inverse - shift
    const auto shift = args.centered ? hn::Set(d, args.mean[row]) : hn::Zero(d);
    const auto normalized = [=](auto at) HWY_ATTR {
      return hn::Mul(hn::Sub(at.Load(x), shift), inverse);
    };
    if (args.dx != nullptr) {
      float* dx = args.dx + row * n;
      float sums[2];
      SumOverRow(
          n,
          [=](auto at, FloatVec* parts) HWY_ATTR {
            // Zero beyond the row, because dy is.
            const auto b = hn::Mul(at.Load(dy), at.Load(scale));
            parts[0] = hn::Add(parts[0], b);
            parts[1] = hn::MulAdd(b, normalized(at), parts[1]);
          },
          sums);
      const auto mean = args.centered ? hn::Mul(hn::Set(d, sums[0]), per_column)
                                      : hn::Zero(d);
      const auto slope = hn::Mul(hn::Set(d, sums[1]), per_column);
      ForEachVector(n, [=](auto at) HWY_ATTR {
        const auto v = at.Load(dy);
        const auto u = normalized(at);
        const auto b = hn::Sub(hn::Mul(v, at.Load(scale)), mean);
        at.Store(hn::MulAdd(v, u, at.Load(dscale)), dscale);
        at.Store(hn::Add(v, at.Load(dbias)), dbias);
        at.Store(hn::Mul(inverse, hn::NegMulAdd(u, slope, b)), dx);
      });
    } else {
      ForEachVector(n, [=](auto at) HWY_ATTR {
        const auto v = at.Load(dy);
        at.Store(hn::MulAdd(v, normalized(at), at.Load(dscale)), dscale);
        at.Store(hn::Add(v, at.Load(dbias)), dbias);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(LayerNormRows);
HWY_EXPORT(LayerNormGradRows);

const float* Floats(const KernelContext& context, size_t input) {
  return static_cast<const float*>(context.input(input).data());
}

float* OutputOrNull(const KernelContext& context, size_t output) {
  return context.has_output(output)
             ? static_cast<float*>(context.output(output).data())
             : nullptr;
}

struct Sizes {
  int64_t rows = 0;
  int64_t columns = 0;
  size_t axis = 0;
};

Sizes SizesOf(const OpNode& node, const Shape& x) {
  int64_t axis = node.Int("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(x.rank());
  const auto split = static_cast<size_t>(axis);
  return {x.element_count(0, split), x.element_count(split, x.rank()), split};
}

// Whether input i has one number for each column.
bool IsPerColumn(const Shape& shape, const Shape& x, const Sizes& sizes) {
  if (shape.element_count() != sizes.columns) return false;
  const size_t rank = x.rank() - sizes.axis;  // of a row
  size_t ones = 0;
  while (ones < shape.rank() && shape[ones] == 1) ++ones;
  // Axes before the row's must have size 1.
  return shape.rank() <= rank || shape.rank() - ones <= rank;
}

// The reason to decline, or nothing.
std::string CheckFloats(const KernelRequest& request) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (request.has_input(i) &&
        request.inputs[i].info.type != DataType::kFloat32) {
      return DataTypeName(request.inputs[i].info.type);
    }
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    if (request.has_output(i) &&
        request.outputs[i].type != DataType::kFloat32) {
      return DataTypeName(request.outputs[i].type);
    }
  }
  return {};
}

class LayerNormKernel final : public Kernel {
 public:
  LayerNormKernel(const Sizes& sizes, float epsilon, bool centered,
                  bool has_bias)
      : sizes_(sizes),
        epsilon_(epsilon),
        centered_(centered),
        has_bias_(has_bias) {}

  void Run(const KernelContext& context) override {
    const LayerNormArguments args = {
        .columns = sizes_.columns,
        .centered = centered_,
        .epsilon = epsilon_,
        .x = Floats(context, 0),
        .scale = Floats(context, 1),
        .bias = has_bias_ ? Floats(context, 2) : nullptr,
        .y = static_cast<float*>(context.output(0).data()),
        .mean = centered_ ? OutputOrNull(context, 1) : nullptr,
        .inverse = OutputOrNull(context, centered_ ? 2 : 1)};
    context.ParallelFor(sizes_.rows,
                        10 + 0.4 * static_cast<double>(sizes_.columns),
                        [&](int64_t begin, int64_t end) {
                          HWY_DYNAMIC_DISPATCH(LayerNormRows)(args, begin, end);
                        });
  }

 private:
  Sizes sizes_;
  float epsilon_;
  bool centered_;
  bool has_bias_;
};

// The rows are cut into blocks, whose number depends on the shape alone. Each
// sums dscale and dbias for itself; the sums are then added in order.
class LayerNormGradKernel final : public Kernel {
 public:
  LayerNormGradKernel(const Sizes& sizes, bool centered)
      : sizes_(sizes),
        centered_(centered),
        blocks_(std::clamp<int64_t>(CeilDiv(sizes.rows, kBlockRows), 1,
                                    kMostBlocks)) {}

  size_t scratch_bytes() const {
    return static_cast<size_t>(2 * blocks_ * sizes_.columns) * sizeof(float);
  }

  void Run(const KernelContext& context) override {
    const int64_t n = sizes_.columns;
    const LayerNormGradArguments args = {
        .columns = n,
        .centered = centered_,
        .dy = Floats(context, 0),
        .x = Floats(context, 1),
        .scale = Floats(context, 2),
        .mean = centered_ ? Floats(context, 3) : nullptr,
        .inverse = Floats(context, centered_ ? 4 : 3),
        .dx = OutputOrNull(context, 0)};
    float* sums = reinterpret_cast<float*>(context.scratch());
    const double block_rows =
        static_cast<double>(sizes_.rows) / static_cast<double>(blocks_);
    context.ParallelFor(blocks_,
                        block_rows * (20 + 0.6 * static_cast<double>(n)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            float* dscale = sums + 2 * i * n;
                            std::fill_n(dscale, 2 * n, 0.0f);
                            HWY_DYNAMIC_DISPATCH(LayerNormGradRows)
                            (args, Begin(i), Begin(i + 1), dscale, dscale + n);
                          }
                        });
    AddUp(sums, OutputOrNull(context, 1));
    if (centered_) AddUp(sums + n, OutputOrNull(context, 2));
  }

 private:
  static constexpr int64_t kBlockRows = 64;
  static constexpr int64_t kMostBlocks = 64;

  int64_t Begin(int64_t block) const { return sizes_.rows * block / blocks_; }

  // to = the sum of the blocks' `sums`, which stand 2 columns_ apart.
  void AddUp(const float* sums, float* to) const {
    if (to == nullptr) return;
    const int64_t n = sizes_.columns;
    std::copy_n(sums, n, to);
    for (int64_t block = 1; block < blocks_; ++block) {
      const float* from = sums + 2 * block * n;
      for (int64_t i = 0; i < n; ++i) to[i] += from[i];
    }
  }

  Sizes sizes_;
  bool centered_;
  int64_t blocks_;
};

}  // namespace

KernelChoice ChooseLayerNorm(const KernelRequest& request, bool centered) {
  std::string reason = CheckFloats(request);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const Shape& x = request.inputs[0].info.shape;
  const Sizes sizes = SizesOf(request.node, x);
  const bool has_bias = centered && request.has_input(2);
  for (size_t i = 1; i < (has_bias ? 3u : 2u); ++i) {
    const Shape& shape = request.inputs[i].info.shape;
    if (!IsPerColumn(shape, x, sizes)) {
      return KernelChoice::Decline("a scale or bias of shape " +
                                   shape.ToString());
    }
  }
  KernelChoice choice;
  choice.kernel = std::make_unique<LayerNormKernel>(
      sizes, request.node.Float("epsilon", 1e-5f), centered, has_bias);
  return choice;
}

KernelChoice ChooseLayerNormGrad(const KernelRequest& request, bool centered) {
  std::string reason = CheckFloats(request);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  auto kernel = std::make_unique<LayerNormGradKernel>(
      SizesOf(request.node, request.inputs[1].info.shape), centered);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
