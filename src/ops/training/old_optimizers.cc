// SPDX-License-Identifier: Apache-2.0
//
// The optimizers of ONNX Runtime's retired trainer: one node for each weight.
// What a node updates is written in place, and its outputs hold the same.
#include <cmath>

#include "base/half.h"
#include "ops/number.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

// Input i, which may be left out: one element.
void CheckScalar(const InferContext& c, size_t i) {
  if (c.has_input(i)) RequireOneElement(c, i);
}
void CheckFlag(const InferContext& c, size_t i) {
  CheckScalar(c, i);
  if (c.has_input(i)) RequireType(c, i, DataType::kBool);
}

// Input i, a 16-bit copy of input `weights`, may be left out.
void CheckHalf(const InferContext& c, size_t i, size_t weights) {
  if (!c.has_input(i)) return;
  RequireShape(c, i, c.input(weights).shape);
  if (!IsHalf(c.input(i).type)) {
    Fail(c.node(), "input {} must be float16 or bfloat16, not {}", i,
         DataTypeName(c.input(i).type));
  }
}

void SetLikeInput(InferContext& c, size_t output, size_t input) {
  if (!c.has_output(output)) return;
  c.SetOutput(output, c.input(input).type, c.input(input).shape);
}

void CopyIfThere(const KernelContext& c, size_t input, size_t output) {
  if (c.has_input(input) && c.has_output(output)) {
    CopyBytes(c.input(input), c.output(output));
  }
}

double OptionalScalar(const KernelContext& c, size_t i, double fallback) {
  return c.has_input(i) ? ScalarAsDouble(c.node(), c.input(i)) : fallback;
}

// What gradients are divided by: the scale of the loss or, where their norm is
// beyond the limit, what brings them down to it. `norm` and `scale` are
// inputs; the norm is that of the gradients as they come, scaled.
double GradientDivisor(const KernelContext& c, size_t scale, size_t norm,
                       double max_norm) {
  const double loss_scale = OptionalScalar(c, scale, 1);
  const double length = OptionalScalar(c, norm, 0);
  return length > loss_scale * max_norm ? length / max_norm : loss_scale;
}

// 1 - decay^step
double Correction(float decay, int64_t step, bool is_on) {
  return is_on ? 1 - std::pow(static_cast<double>(decay),
                              static_cast<double>(step))
               : 1;
}

template <class T>
T* Mutable(const KernelContext& c, size_t i) {
  return c.input(i).values<T>().data();
}

// Writes weights into their 16-bit copy.
template <class T>
void NarrowInto(const KernelContext& c, size_t weights, size_t copy) {
  if (!c.has_input(copy)) return;
  const T* from = c.in<T>(weights).data();
  // float where the executor has widened the copy, and narrows it afterwards.
  using Copies = TypeList<Float16, Bfloat16, float>;
  DispatchType(Copies{}, c.input(copy).type(), [&]<class H>() {
    const auto to = c.input(copy).values<H>();
    for (size_t i = 0; i < to.size(); ++i) {
      const float x = static_cast<float>(from[i]);
      if constexpr (std::is_same_v<H, float>) {
        to[i] = x;
      } else if constexpr (std::is_same_v<H, Float16>) {
        to[i] = ToFloat16(x);
      } else {
        to[i] = ToBfloat16(x);
      }
    }
  });
}

// --- SGDOptimizer: dw = -rate g, w += dw

// rate, weights, gradient -> weights, dw
void InferSgd(InferContext& c) {
  RequireOneElement(c, 0);
  RequireSame(c, 1, 2);
  SetLikeInput(c, 0, 1);
  SetLikeInput(c, 1, 2);
}

template <class T>
void Sgd(const KernelContext& c) {
  const T rate = static_cast<T>(ScalarAsDouble(c.node(), c.input(0)));
  T* w = c.has_output(0) ? c.out<T>(0).data() : nullptr;
  T* dw = c.has_output(1) ? c.out<T>(1).data() : nullptr;
  const T* g = c.in<T>(2).data();
  c.ParallelFor(c.input(2).element_count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T step = -rate * g[i];
      if (w) w[i] += step;
      if (dw) dw[i] = step;
    }
  });
}

// --- AdamOptimizer

// rate, step, weights, gradient, moments 1 and 2, 16-bit weights, scale of
// the loss, norm of all gradients, update (the last four may be left out) ->
// step, moments 1 and 2, weights, dw, 16-bit weights
enum AdamInput : size_t {
  kRate,
  kStep,
  kWeights,
  kGradient,
  kMoment1,
  kMoment2,
  kHalfWeights,
  kLossScale,
  kNorm,
  kUpdate,
};
constexpr size_t kAdamOutputs[] = {kStep,    kMoment1,  kMoment2,
                                   kWeights, kGradient, kHalfWeights};
constexpr size_t kAdamDelta = 4;  // the output in kGradient's place

void InferAdam(InferContext& c) {
  RequireOneElement(c, kRate);
  RequireOneElement(c, kStep);
  RequireType(c, kStep, DataType::kInt64);
  for (const AdamInput i : {kGradient, kMoment1, kMoment2}) {
    RequireSame(c, kWeights, i);
  }
  CheckHalf(c, kHalfWeights, kWeights);
  CheckScalar(c, kLossScale);
  CheckScalar(c, kNorm);
  CheckFlag(c, kUpdate);
  const int64_t mode = c.node().Int("weight_decay_mode", 0);
  if (mode != 0 && mode != 1) {
    Fail(c.node(), "attribute weight_decay_mode is {}", mode);
  }
  for (size_t i = 0; i < std::size(kAdamOutputs); ++i) {
    SetLikeInput(c, i, kAdamOutputs[i]);
  }
}

template <class T>
void UpdateAdam(const KernelContext& c) {
  const OpNode& node = c.node();
  const float alpha = node.Float("alpha", 0.9f);
  const float beta = node.Float("beta", 0.999f);
  const T epsilon = node.Float("epsilon", 1e-8f);
  const T decay = node.Float("lambda", 0);
  const bool corrects = node.Int("do_bias_correction", 1) != 0;
  const bool decays_last = node.Int("weight_decay_mode", 0) == 1;
  const int64_t step = c.scalar<int64_t>(kStep);
  if (step < 1 && corrects) {
    Fail(node, "the step must be at least 1, it is {}", step);
  }
  const T rate = static_cast<T>(ScalarAsDouble(node, c.input(kRate)));
  const double c1 = Correction(alpha, step, corrects);
  const double c2 = Correction(beta, step, corrects);
  const T scale1 = static_cast<T>(1 / c1), scale2 = static_cast<T>(1 / c2);
  const T rate2 =
      static_cast<T>(static_cast<double>(rate) * std::sqrt(c2) / c1);
  const T divide =
      static_cast<T>(1 / GradientDivisor(c, kLossScale, kNorm,
                                         node.Float("max_norm_clip", 1)));
  T* w = Mutable<T>(c, kWeights);
  T* g = Mutable<T>(c, kGradient);
  T* m = Mutable<T>(c, kMoment1);
  T* v = Mutable<T>(c, kMoment2);
  const bool wants_delta = c.has_output(kAdamDelta);
  c.ParallelFor(
      c.input(kWeights).element_count(), 5, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T gradient = g[i] * divide;
          m[i] = alpha * m[i] + (1 - alpha) * gradient;
          v[i] = beta * v[i] + (1 - beta) * gradient * gradient;
          T delta;
          if (decays_last) {
            const T moved = -rate2 * m[i] / (std::sqrt(v[i]) + epsilon);
            delta = moved - rate * decay * (w[i] + moved);
          } else {
            delta =
                -rate * (m[i] * scale1 / (std::sqrt(v[i] * scale2) + epsilon) +
                         decay * w[i]);
          }
          w[i] += delta;
          if (wants_delta) g[i] = delta;
        }
      });
  *Mutable<int64_t>(c, kStep) = step + 1;
  NarrowInto<T>(c, kWeights, kHalfWeights);
}

template <class T>
void Adam(const KernelContext& c) {
  if (FlagInput(c, kUpdate, true)) UpdateAdam<T>(c);
  for (size_t i = 0; i < std::size(kAdamOutputs); ++i) {
    CopyIfThere(c, kAdamOutputs[i], i);
  }
}

// --- LambOptimizer

// update, scale of the loss, norm of all gradients, rate, step (all may be
// left out), then for each group: weights, gradient, moments 1 and 2, 16-bit
// weights -> step, then the groups; a group's gradient becomes its dw
constexpr size_t kLambUpdate = 0, kLambScale = 1, kLambNorm = 2, kLambRate = 3,
                 kLambStep = 4, kFirstGroup = 5, kGroupSize = 5;

size_t GroupCount(size_t inputs) {
  return (inputs - std::min(inputs, kFirstGroup) + kGroupSize - 1) / kGroupSize;
}

// A group's value of a list.
float GroupValue(const OpNode& node, std::string_view name, size_t group,
                 float fallback) {
  const auto values = node.Floats(name);
  return group < values.size() ? values[group] : fallback;
}

void InferLamb(InferContext& c) {
  CheckFlag(c, kLambUpdate);
  for (const size_t i : {kLambScale, kLambNorm, kLambRate, kLambStep}) {
    CheckScalar(c, i);
  }
  if (!c.has_input(kLambRate)) Fail(c.node(), "the rate, input 3, is missing");
  if (c.has_input(kLambStep)) {
    RequireType(c, kLambStep, DataType::kInt64);
    SetLikeInput(c, 0, kLambStep);
  } else if (c.has_output(0)) {
    Fail(c.node(), "has an output for the step and no step");
  }
  for (size_t i = 1; i < c.output_count(); ++i) {
    if (c.has_output(i) && !c.has_input(kFirstGroup + i - 1)) {
      Fail(c.node(), "output {} has no input {}", i, kFirstGroup + i - 1);
    }
  }
  for (size_t group = 0; group < GroupCount(c.input_count()); ++group) {
    const size_t first = kFirstGroup + group * kGroupSize;
    RequireSameType(c, kFirstGroup, first);
    for (size_t i = first + 1; i < first + 4; ++i) RequireSame(c, first, i);
    CheckHalf(c, first + 4, first);
    for (size_t i = 0; i < kGroupSize; ++i) {
      SetLikeInput(c, first + i - kFirstGroup + 1, first + i);
    }
  }
}

// The directions of the largest group.
size_t LambScratch(const KernelRequest& request) {
  size_t bytes = 0;
  for (size_t i = kFirstGroup; i < request.inputs.size(); i += kGroupSize) {
    const TensorInfo& weights = request.inputs[i].info;
    bytes = std::max(bytes, static_cast<size_t>(weights.shape.element_count()) *
                                DataTypeSize(weights.type));
  }
  return bytes;
}

// Moves the moments and returns the direction; where it is not finite the
// moments stay and it is 0.
template <class T>
struct LambStep {
  T alpha, beta, epsilon, decay, divide;
  T scale1, scale2;  // corrections of the moments

  T operator()(T w, T g, T& m, T& v) const {
    g *= divide;
    const T m_new = alpha * m + (1 - alpha) * g;
    const T v_new = beta * v + (1 - beta) * g * g;
    const T direction =
        decay * w + m_new * scale1 / (std::sqrt(v_new * scale2) + epsilon);
    if (!std::isfinite(direction)) return 0;
    m = m_new;
    v = v_new;
    return direction;
  }
};

template <class T>
double SquareSum(const KernelContext& c, const T* x, int64_t n) {
  return OrderedSum(c, n, 0.5, [&](int64_t begin, int64_t end) {
    double part = 0;
    for (int64_t i = begin; i < end; ++i) {
      part += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    return part;
  });
}

template <class T>
LambStep<T> ReadLambStep(const KernelContext& c, size_t group) {
  const OpNode& node = c.node();
  const auto value = [&](std::string_view name, float fallback) {
    return GroupValue(node, name, group, fallback);
  };
  const int64_t step =
      c.has_input(kLambStep) ? c.scalar<int64_t>(kLambStep) : 1;
  const bool corrects = node.Int("do_bias_correction", 1) != 0;
  if (step < 1 && corrects) {
    Fail(node, "the step must be at least 1, it is {}", step);
  }
  const float alpha = value("alpha", 0.9f), beta = value("beta", 0.999f);
  const double divisor =
      GradientDivisor(c, kLambScale, kLambNorm, value("max_norm_clip", 1));
  return {.alpha = alpha,
          .beta = beta,
          .epsilon = value("epsilon", 1e-6f),
          .decay = value("lambda", 0),
          .divide = static_cast<T>(1 / divisor),
          .scale1 = static_cast<T>(1 / Correction(alpha, step, corrects)),
          .scale2 = static_cast<T>(1 / Correction(beta, step, corrects))};
}

template <class T>
void UpdateLambGroup(const KernelContext& c, size_t group) {
  const OpNode& node = c.node();
  const size_t first = kFirstGroup + group * kGroupSize;
  const LambStep<T> step = ReadLambStep<T>(c, group);
  const int64_t n = c.input(first).element_count();
  T* w = Mutable<T>(c, first);
  T* g = Mutable<T>(c, first + 1);
  T* m = Mutable<T>(c, first + 2);
  T* v = Mutable<T>(c, first + 3);
  T* direction = reinterpret_cast<T*>(c.scratch());
  c.ParallelFor(n, 5, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      direction[i] = step(w[i], g[i], m[i], v[i]);
    }
  });
  const double w_norm = std::sqrt(SquareSum(c, w, n));
  const double d_norm = std::sqrt(SquareSum(c, direction, n));
  double ratio = 1;
  if (w_norm != 0 && d_norm != 0) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const double low = node.Float("ratio_min", -kInfinity);
    const double high = node.Float("ratio_max", kInfinity);
    ratio = std::max(low, std::min(high, w_norm / d_norm));
  }
  const T factor =
      static_cast<T>(-ratio * ScalarAsDouble(node, c.input(kLambRate)));
  const bool wants_delta = c.has_output(first - kFirstGroup + 2);
  c.ParallelFor(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T delta = factor * direction[i];
      w[i] += delta;
      if (wants_delta) g[i] = delta;
    }
  });
  NarrowInto<T>(c, first, first + 4);
}

template <class T>
void Lamb(const KernelContext& c) {
  const size_t groups = GroupCount(c.input_count());
  if (FlagInput(c, kLambUpdate, true)) {
    for (size_t group = 0; group < groups; ++group) {
      UpdateLambGroup<T>(c, group);
    }
    if (c.has_input(kLambStep)) ++*Mutable<int64_t>(c, kLambStep);
  }
  CopyIfThere(c, kLambStep, 0);
  for (size_t i = 0; i < groups * kGroupSize; ++i) {
    CopyIfThere(c, kFirstGroup + i, i + 1);
  }
}

}  // namespace

extern constexpr OpDef kSGDOptimizer = {
    .name = "SGDOptimizer",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .outputs = {0, 2},
    .infer = InferSgd,
    .reference = Instantiate<Floats, 1>(
        []<class T>(const KernelContext& c) { Sgd<T>(c); }),
    .aliases = {{0, 1}, {1, 2}},
    .mutates = {1, 2}};

extern constexpr OpDef kAdamOptimizer = {
    .name = "AdamOptimizer",
    .domain = kMicrosoft,
    .inputs = {6, 10},
    .outputs = {0, 6},
    .infer = InferAdam,
    .reference = Instantiate<Floats, kWeights>(
        []<class T>(const KernelContext& c) { Adam<T>(c); }),
    .mutates = {kStep, kWeights, kGradient, kMoment1, kMoment2, kHalfWeights}};

extern constexpr OpDef kLambOptimizer = {
    .name = "LambOptimizer",
    .domain = kMicrosoft,
    .inputs = {0, Arity::kVariadic},
    .outputs = {0, Arity::kVariadic},
    .infer = InferLamb,
    .reference = Instantiate<Floats, kFirstGroup>(
        []<class T>(const KernelContext& c) { Lamb<T>(c); }, LambScratch),
    .mutates = {4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}};

}  // namespace strop::ops
