// SPDX-License-Identifier: Apache-2.0
//
// SoftmaxCrossEntropyLoss and its gradient for scores of N rows and C
// classes, without class weights.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "base/throw.h"
#include "providers/cpu/simd/kernels.h"
#include "providers/cpu/simd/log_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/softmax_cross_entropy.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/math-inl.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// Calls f(vector, mask, index) over x[0, n); lanes outside the mask are zero.
template <class F>
HWY_INLINE void Each(const float* x, int64_t n, F f) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto all = hn::FirstN(d, static_cast<size_t>(lanes));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(hn::LoadU(d, x + i), all);
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    f(LoadTail(d, x + i, rest), hn::FirstN(d, rest));
  }
}

// log(sum(exp(x))) is max + log_sum: kept apart, because their sum would
// round away digits of log_sum.
LogSum LogSumExp(const float* x, int64_t n) {
  const FloatTag d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto max = lowest;
  Each(x, n, [&](auto v, auto mask) HWY_ATTR {
    max = hn::Max(max, hn::IfThenElse(mask, v, lowest));
  });
  const auto shift = hn::MaxOfLanes(d, max);
  auto sum = hn::Zero(d);
  Each(x, n, [&](auto v, auto mask) HWY_ATTR {
    sum = hn::Add(sum, hn::IfThenElseZero(mask, Exp(d, hn::Sub(v, shift))));
  });
  return {hn::GetLane(shift), hn::GetLane(Log(d, hn::SumOfLanes(d, sum)))};
}

// y = x - max - log_sum
void LogSoftmax(const float* x, LogSum s, float* y, int64_t n) {
  const auto max = hn::Set(FloatTag(), s.max);
  const auto log_sum = hn::Set(FloatTag(), s.log_sum);
  Map(x, y, n,
      [=](auto, auto v) HWY_ATTR { return hn::Sub(hn::Sub(v, max), log_sum); });
}

// y = scale * exp(x)
void ScaledExp(const float* x, float scale, float* y, int64_t n) {
  const auto s = hn::Set(FloatTag(), scale);
  Map(x, y, n, [=](auto d, auto v) HWY_ATTR { return hn::Mul(s, Exp(d, v)); });
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(LogSumExp);
HWY_EXPORT(LogSoftmax);
HWY_EXPORT(ScaledExp);

enum class Reduction { kNone, kSum, kMean };

struct LossOptions {
  int64_t rows = 0;
  int64_t classes = 0;
  Reduction reduction = Reduction::kMean;
  std::optional<int64_t> ignore_index;

  bool Ignores(int64_t label) const {
    return ignore_index && label == *ignore_index;
  }
  double row_cost() const { return 1.0 * static_cast<double>(classes) + 20; }
};

// Reads labels of either type.
class Labels {
 public:
  explicit Labels(const Tensor& tensor)
      : data_(tensor.data()), is_int32_(tensor.type() == DataType::kInt32) {}
  int64_t operator[](int64_t i) const {
    return is_int32_ ? static_cast<const int32_t*>(data_)[i]
                     : static_cast<const int64_t*>(data_)[i];
  }

 private:
  const void* data_;
  bool is_int32_;
};

// Throws when a label names no class; returns how many rows count.
int64_t CheckLabels(const KernelContext& context, const LossOptions& options,
                    const Labels& labels) {
  int64_t counted = 0;
  for (int64_t i = 0; i < options.rows; ++i) {
    const int64_t label = labels[i];
    if (options.Ignores(label)) continue;
    if (label < 0 || label >= options.classes) [[unlikely]] {
      context.node().Fail(
          fmt::format("label {} in row {} is not one of {} classes", label, i,
                      options.classes));
    }
    ++counted;
  }
  return counted;
}

// loss = -log_prob[label], log_prob = x - log(sum(exp(x)))
class LossKernel final : public Kernel {
 public:
  explicit LossKernel(const LossOptions& options) : options_(options) {}

  // The rows' losses, where the output does not take them.
  size_t scratch_bytes() const {
    return options_.reduction == Reduction::kNone
               ? 0
               : static_cast<size_t>(options_.rows) * sizeof(float);
  }

  void Run(const KernelContext& context) override {
    const float* scores = static_cast<const float*>(context.input(0).data());
    const Labels labels(context.input(1));
    const int64_t counted = CheckLabels(context, options_, labels);
    float* output = static_cast<float*>(context.output(0).data());
    float* losses = options_.reduction == Reduction::kNone
                        ? output
                        : reinterpret_cast<float*>(context.scratch());
    float* log_prob = context.has_output(1)
                          ? static_cast<float*>(context.output(1).data())
                          : nullptr;
    context.ParallelFor(options_.rows, options_.row_cost(),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            losses[i] = RunRow(scores, i, labels[i], log_prob);
                          }
                        });
    if (options_.reduction == Reduction::kNone) return;
    double sum = 0;
    for (int64_t i = 0; i < options_.rows; ++i) sum += losses[i];
    if (options_.reduction == Reduction::kMean && counted > 0) {
      sum /= static_cast<double>(counted);
    }
    *output = static_cast<float>(sum);
  }

 private:
  float RunRow(const float* scores, int64_t row, int64_t label,
               float* log_prob) const {
    const int64_t n = options_.classes;
    const float* x = scores + row * n;
    const LogSum s = HWY_DYNAMIC_DISPATCH(LogSumExp)(x, n);
    const float loss =
        options_.Ignores(label) ? 0 : s.log_sum - (x[label] - s.max);
    if (log_prob != nullptr) {
      HWY_DYNAMIC_DISPATCH(LogSoftmax)(x, s, log_prob + row * n, n);
    }
    return loss;
  }

  LossOptions options_;
};

// dx = (exp(log_prob) - [class = label]) * s, where s is dy, for "mean"
// divided by the number of rows that count; 0 for an ignored row.
class LossGradKernel final : public Kernel {
 public:
  explicit LossGradKernel(const LossOptions& options) : options_(options) {}

  void Run(const KernelContext& context) override {
    const float* dy = static_cast<const float*>(context.input(0).data());
    const float* log_prob = static_cast<const float*>(context.input(1).data());
    const Labels labels(context.input(2));
    float* dx = static_cast<float*>(context.output(0).data());
    const int64_t counted = CheckLabels(context, options_, labels);
    float divisor = 1;
    if (options_.reduction == Reduction::kMean && counted > 0) {
      divisor = static_cast<float>(counted);
    }
    context.ParallelFor(
        options_.rows, options_.row_cost(), [&](int64_t begin, int64_t end) {
          const int64_t n = options_.classes;
          for (int64_t i = begin; i < end; ++i) {
            const int64_t label = labels[i];
            if (options_.Ignores(label)) {
              std::fill_n(dx + i * n, n, 0.0f);
              continue;
            }
            const float s =
                (options_.reduction == Reduction::kNone ? dy[i] : *dy) /
                divisor;
            HWY_DYNAMIC_DISPATCH(ScaledExp)
            (log_prob + i * n, s, dx + i * n, n);
            dx[i * n + label] -= s;
          }
        });
  }

 private:
  LossOptions options_;
};

// The options, or why the node is declined. `first` is the input that holds
// scores or log_prob; the labels and weights follow.
std::string ReadOptions(const KernelRequest& request, size_t first,
                        LossOptions& options) {
  const TensorInfo& x = request.inputs[first].info;
  const TensorInfo& labels = request.inputs[first + 1].info;
  if (x.type != DataType::kFloat32) return DataTypeName(x.type);
  if (labels.type != DataType::kInt32 && labels.type != DataType::kInt64) {
    return "labels of " + DataTypeName(labels.type);
  }
  if (x.shape.rank() != 2) return fmt::format("rank {}", x.shape.rank());
  if (request.has_input(first + 2)) return "class weights";
  options.rows = x.shape[0];
  options.classes = x.shape[1];
  const std::string_view reduction = request.node.String("reduction", "mean");
  options.reduction = reduction == "none"  ? Reduction::kNone
                      : reduction == "sum" ? Reduction::kSum
                                           : Reduction::kMean;
  if (request.node.Has("ignore_index")) {
    options.ignore_index = request.node.Int("ignore_index");
  }
  return {};
}

}  // namespace

KernelChoice ChooseSoftmaxCrossEntropyLoss(const KernelRequest& request) {
  LossOptions options;
  std::string reason = ReadOptions(request, 0, options);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  auto kernel = std::make_unique<LossKernel>(options);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  return choice;
}

KernelChoice ChooseSoftmaxCrossEntropyLossGrad(const KernelRequest& request) {
  LossOptions options;
  std::string reason = ReadOptions(request, 1, options);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  KernelChoice choice;
  choice.kernel = std::make_unique<LossGradKernel>(options);
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
