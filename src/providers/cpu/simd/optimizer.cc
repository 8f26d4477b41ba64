// SPDX-License-Identifier: Apache-2.0
//
// What walks over parameters and gradients: gradient accumulation, clipping
// by norm, SGD and AdamW. All tensors of a list are one loop over chunks of
// fixed size.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/optimizer.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/adam_w.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// y += x
void AddTo(const float* x, float* y, int64_t n) {
  Map(x, y, y, n, [](auto, auto u, auto v) HWY_ATTR { return hn::Add(v, u); });
}

// y[i] = op(d, x[i], y[i]), where that leaves y as it was for an x of zero
// (not -0). Whole vectors of such an x leave y untouched.
template <class Op>
HWY_INLINE void UpdateWhereNonzero(const float* x, float* y, int64_t n, Op op) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    if (!IsZero(v)) hn::StoreU(op(d, v, hn::LoadU(d, y + i)), d, y + i);
  }
  Map(x + i, y + i, y + i, n - i, op);
}

// w -= rate * g
void SgdStep(float rate, const float* g, float* w, int64_t n) {
  const FloatTag d;
  const auto r = hn::Set(d, rate);
  const auto step = [=](auto, auto u, auto v)
                        HWY_ATTR { return hn::NegMulAdd(r, u, v); };
  if (IsZero(hn::Mul(r, hn::Zero(d)))) {
    UpdateWhereNonzero(g, w, n, step);
  } else {  // negative, infinite or NaN
    Map(g, w, w, n, step);
  }
}

// x *= factor
void Scale(float factor, float* x, int64_t n) {
  const FloatTag d;
  const auto f = hn::Set(d, factor);
  const auto scale = [=](auto, auto v, auto) HWY_ATTR { return hn::Mul(f, v); };
  if (IsZero(hn::Mul(f, hn::Zero(d)))) {
    UpdateWhereNonzero(x, x, n, scale);
  } else {  // negative or NaN, which spreads
    Map(x, x, x, n, scale);
  }
}

// A chunk's sum of squares; its length bounds the error of the float sums.
double SumOfSquares(const float* x, int64_t n) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    for (int j = 0; j < 4; ++j) {
      const auto v = hn::LoadU(d, x + i + j * lanes);
      sum[j] = hn::MulAdd(v, v, sum[j]);
    }
  }
  for (; i < n; i += lanes) {
    const auto v = i + lanes <= n
                       ? hn::LoadU(d, x + i)
                       : LoadTail(d, x + i, static_cast<size_t>(n - i));
    sum[0] = hn::MulAdd(v, v, sum[0]);
  }
  return hn::GetLane(hn::SumOfLanes(
      d, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
}

struct AdamWUpdate {
  FloatVec m, v, step;
};

// One vector of
//   m = alpha m + (1 - alpha) g
//   v = beta v + (1 - beta) g^2
//   step = step_size * m / (sqrt(v / v_correction) + epsilon)
HWY_INLINE AdamWUpdate MakeUpdate(const AdamWStep& s, FloatVec g, FloatVec m,
                                  FloatVec v) {
  const FloatTag d;
  m = hn::MulAdd(hn::Set(d, s.alpha), m,
                 hn::Mul(hn::Set(d, s.one_minus_alpha), g));
  v = hn::MulAdd(hn::Set(d, s.beta), v,
                 hn::Mul(hn::Set(d, s.one_minus_beta), hn::Mul(g, g)));
  const auto root = hn::Sqrt(hn::Mul(v, hn::Set(d, s.v_factor)));
  const auto step = hn::Div(hn::Mul(hn::Set(d, s.step_size), m),
                            hn::Add(root, hn::Set(d, s.epsilon)));
  return {m, v, step};
}

// One vector of
//   w -= rate * weight_decay * w    (mode 0)
//   w -= step
//   w -= rate * weight_decay * w    (mode 1)
template <bool decay_first>
HWY_INLINE FloatVec Descend(const AdamWStep& s, FloatVec w, FloatVec step) {
  const auto decay = hn::Set(FloatTag(), s.decay);
  if (decay_first) w = hn::NegMulAdd(decay, w, w);
  w = hn::Sub(w, step);
  if (!decay_first) w = hn::NegMulAdd(decay, w, w);
  return w;
}

// The numbers come by value: the stores cannot change them, so they stay in
// registers.
template <bool decay_first>
void AdamWChunk(AdamWStep s, const float* g, float* w, float* m, float* v,
                int64_t n) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  const AdamWUpdate of_zero = MakeUpdate(s, zero, zero, zero);
  // Not where a number of the step is negative, infinite or NaN.
  const bool zero_stays = IsZero(of_zero.m) && IsZero(of_zero.v);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto g_i = hn::LoadU(d, g + i);
    const auto m_i = hn::LoadU(d, m + i);
    const auto v_i = hn::LoadU(d, v + i);
    const auto before = hn::LoadU(d, w + i);
    if (zero_stays && IsZero(hn::Or(g_i, hn::Or(m_i, v_i)))) {
      const auto after = Descend<decay_first>(s, before, of_zero.step);
      // Without decay only -0 and infinities change.
      if (s.decay != 0 || !SameBits(before, after)) hn::StoreU(after, d, w + i);
      continue;
    }
    const AdamWUpdate x = MakeUpdate(s, g_i, m_i, v_i);
    hn::StoreU(Descend<decay_first>(s, before, x.step), d, w + i);
    hn::StoreU(x.m, d, m + i);
    hn::StoreU(x.v, d, v + i);
  }
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    const AdamWUpdate x =
        MakeUpdate(s, LoadTail(d, g + i, rest), LoadTail(d, m + i, rest),
                   LoadTail(d, v + i, rest));
    StoreTail(Descend<decay_first>(s, LoadTail(d, w + i, rest), x.step), d,
              w + i, rest);
    StoreTail(x.m, d, m + i, rest);
    StoreTail(x.v, d, v + i, rest);
  }
}

void RunAdamW(const AdamWStep& s, const float* g, float* w, float* m, float* v,
              int64_t n) {
  if (s.decay_first) {
    AdamWChunk<true>(s, g, w, m, v, n);
  } else {
    AdamWChunk<false>(s, g, w, m, v, n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(AddTo);
HWY_EXPORT(SgdStep);
HWY_EXPORT(Scale);
HWY_EXPORT(SumOfSquares);
HWY_EXPORT(RunAdamW);

struct Chunk {
  size_t tensor;
  int64_t begin;
  int64_t size;
};

// The lists' elements cut into chunks that never cross tensors.
std::vector<Chunk> MakeChunks(std::span<const TensorInfo> list) {
  constexpr int64_t kSize = 4096;
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t count = list[i].shape.element_count();
    for (int64_t begin = 0; begin < count; begin += kSize) {
      chunks.push_back({i, begin, std::min(kSize, count - begin)});
    }
  }
  return chunks;
}

double SumOfLargeSquares(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * double{x[i]};
  return sum;
}

float* At(std::span<const Tensor> list, const Chunk& chunk) {
  return static_cast<float*>(list[chunk.tensor].data()) + chunk.begin;
}

// Calls f(chunk, index) for every chunk.
template <class F>
void ForEachChunk(const KernelContext& context,
                  const std::vector<Chunk>& chunks, double element_cost, F f) {
  // Those of biases are short.
  int64_t elements = 0;
  for (const Chunk& chunk : chunks) elements += chunk.size;
  const auto count = static_cast<int64_t>(chunks.size());
  const double cost = element_cost * static_cast<double>(elements) /
                      static_cast<double>(std::max<int64_t>(count, 1));
  context.ParallelFor(count, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(chunks[i], i);
  });
}

// Whether the step is to happen; the flag output says so.
bool Signal(const KernelContext& context, size_t input) {
  const bool update = !context.has_input(input) || context.scalar<bool>(input);
  if (context.has_output(0)) {
    std::ranges::fill(context.out<bool>(0), update);
  }
  return update;
}

class AccumulatorKernel final : public Kernel {
 public:
  explicit AccumulatorKernel(int64_t size) : size_(size) {}

  void Run(const KernelContext& context) override {
    float* buffer = static_cast<float*>(context.input(0).data());
    const float* value = static_cast<const float*>(context.input(1).data());
    const bool overwrite = context.has_input(2) && context.scalar<bool>(2);
    context.ParallelFor(size_, 0.15, [=](int64_t begin, int64_t end) {
      if (overwrite) {
        std::memcpy(buffer + begin, value + begin,
                    static_cast<size_t>(end - begin) * sizeof(float));
      } else {
        HWY_DYNAMIC_DISPATCH(AddTo)
        (value + begin, buffer + begin, end - begin);
      }
    });
    if (context.has_output(0)) context.out<bool>(0)[0] = true;
  }

 private:
  int64_t size_;
};

class SgdKernel final : public Kernel {
 public:
  explicit SgdKernel(std::span<const TensorInfo> list)
      : chunks_(MakeChunks(list)) {}

  void Run(const KernelContext& context) override {
    if (!Signal(context, 3)) return;
    const float rate = context.scalar<float>(0);
    const auto weights = context.list(1);
    const auto gradients = context.list(2);
    ForEachChunk(context, chunks_, 0.2, [&](const Chunk& chunk, int64_t) {
      HWY_DYNAMIC_DISPATCH(SgdStep)
      (rate, At(gradients, chunk), At(weights, chunk), chunk.size);
    });
  }

 private:
  std::vector<Chunk> chunks_;
};

struct AdamWOptions {
  float alpha, beta, epsilon, weight_decay;
  bool correct_bias;
  bool decay_first;  // adam_mode 0
};

class AdamWKernel final : public Kernel {
 public:
  AdamWKernel(const AdamWOptions& options, std::span<const TensorInfo> list)
      : options_(options), chunks_(MakeChunks(list)) {}

  void Run(const KernelContext& context) override {
    if (!Signal(context, 6)) return;
    const int64_t t = context.scalar<int64_t>(1);
    if (t < 1) context.node().Fail("the step must be at least 1");
    const AdamWStep step = MakeStep(context.scalar<float>(0), t);
    const auto w = context.list(2);
    const auto g = context.list(3);
    const auto m = context.list(4);
    const auto v = context.list(5);
    ForEachChunk(context, chunks_, 0.6, [&](const Chunk& chunk, int64_t) {
      HWY_DYNAMIC_DISPATCH(RunAdamW)
      (step, At(g, chunk), At(w, chunk), At(m, chunk), At(v, chunk),
       chunk.size);
    });
  }

 private:
  // Both modes in one form. Mode 0 divides m by (1 - alpha^t) and v by
  // (1 - beta^t); mode 1 corrects the rate, sqrt(1 - beta^t) / (1 - alpha^t)
  // times, so that its epsilon meets the uncorrected root.
  AdamWStep MakeStep(float rate, int64_t t) const {
    const AdamWOptions& o = options_;
    float m_correction = 1;
    float v_correction = 1;
    if (o.correct_bias) {
      const double power = static_cast<double>(t);
      m_correction = static_cast<float>(1 - std::pow(double{o.alpha}, power));
      v_correction = static_cast<float>(1 - std::pow(double{o.beta}, power));
    }
    return {.alpha = o.alpha,
            .one_minus_alpha = 1 - o.alpha,
            .beta = o.beta,
            .one_minus_beta = 1 - o.beta,
            .v_factor = o.decay_first ? 1 / v_correction : 1,
            .epsilon = o.epsilon,
            .step_size = o.decay_first
                             ? rate / m_correction
                             : rate * std::sqrt(v_correction) / m_correction,
            .decay = rate * o.weight_decay,
            .decay_first = o.decay_first};
  }

  AdamWOptions options_;
  std::vector<Chunk> chunks_;
};

class ClipGradNormKernel final : public Kernel {
 public:
  ClipGradNormKernel(float max_norm, std::span<const TensorInfo> list)
      : max_norm_(max_norm), chunks_(MakeChunks(list)) {}

  size_t scratch_bytes() const { return chunks_.size() * sizeof(double); }

  void Run(const KernelContext& context) override {
    const auto gradients = context.list(0);
    double* sums = reinterpret_cast<double*>(context.scratch());
    ForEachChunk(context, chunks_, 0.1, [&](const Chunk& chunk, int64_t i) {
      sums[i] =
          HWY_DYNAMIC_DISPATCH(SumOfSquares)(At(gradients, chunk), chunk.size);
    });
    double total = 0;
    for (size_t i = 0; i < chunks_.size(); ++i) {
      // A float holds squares of numbers up to 1.8e19 only.
      if (!std::isfinite(sums[i])) {
        sums[i] = SumOfLargeSquares(At(gradients, chunks_[i]), chunks_[i].size);
      }
      total += sums[i];
    }
    const float norm = static_cast<float>(std::sqrt(total));
    const float factor = max_norm_ / (norm + 1e-6f);
    if (factor >= 1) return;  // not for NaN, which must spread
    ForEachChunk(context, chunks_, 0.1, [&](const Chunk& chunk, int64_t) {
      HWY_DYNAMIC_DISPATCH(Scale)
      (factor, At(gradients, chunk), chunk.size);
    });
  }

 private:
  float max_norm_;
  std::vector<Chunk> chunks_;
};

// Why lists [first, first + count) cannot be walked together; empty if they
// can.
std::string CheckLists(const KernelRequest& request, size_t first,
                       size_t count) {
  const auto list = request.inputs[first].list;
  for (size_t i = first; i < first + count; ++i) {
    if (!request.inputs[i].is_list) return "not a list";
    const auto other = request.inputs[i].list;
    if (other.size() != list.size()) return "lists of different lengths";
    for (size_t j = 0; j < list.size(); ++j) {
      if (other[j].type != DataType::kFloat32) {
        return DataTypeName(other[j].type);
      }
      if (other[j].shape != list[j].shape) return "shapes differ";
    }
  }
  return {};
}

}  // namespace

KernelChoice ChooseInPlaceAccumulator(const KernelRequest& request) {
  const TensorInfo& buffer = request.inputs[0].info;
  const TensorInfo& value = request.inputs[1].info;
  if (buffer.type != DataType::kFloat32 || value.type != buffer.type) {
    return KernelChoice::Decline(DataTypeName(buffer.type) + " and " +
                                 DataTypeName(value.type));
  }
  KernelChoice choice;
  choice.kernel =
      std::make_unique<AccumulatorKernel>(buffer.shape.element_count());
  return choice;
}

KernelChoice ChooseSgd(const KernelRequest& request) {
  std::string reason = CheckLists(request, 1, 2);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  KernelChoice choice;
  choice.kernel = std::make_unique<SgdKernel>(request.inputs[1].list);
  return choice;
}

KernelChoice ChooseAdamW(const KernelRequest& request) {
  std::string reason = CheckLists(request, 2, 4);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const OpNode& node = request.node;
  const AdamWOptions options = {
      .alpha = node.Float("alpha", 0.9f),
      .beta = node.Float("beta", 0.999f),
      .epsilon = node.Float("epsilon", 1e-8f),
      .weight_decay = node.Float("weight_decay", 1e-2f),
      .correct_bias = node.Int("correct_bias", 1) != 0,
      .decay_first = node.Int("adam_mode", 0) == 0};
  KernelChoice choice;
  choice.kernel =
      std::make_unique<AdamWKernel>(options, request.inputs[2].list);
  return choice;
}

KernelChoice ChooseClipGradNorm(const KernelRequest& request) {
  std::string reason = CheckLists(request, 0, 1);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  auto kernel = std::make_unique<ClipGradNormKernel>(
      request.node.Float("max_norm", 1.0f), request.inputs[0].list);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
