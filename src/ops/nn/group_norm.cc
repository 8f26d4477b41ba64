// SPDX-License-Identifier: Apache-2.0
//
// InstanceNormalization and GroupNormalization: the channels of a sample are
// normalized in groups; and their gradient. X is (N, C, ...), or (N, ..., C)
// where the op of ONNX Runtime says so.
#include <cmath>

#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

struct GroupNormSizes {
  int64_t batch, channels, groups, inner;
  int64_t channel_step, inner_step;  // elements from one to the next

  int64_t group_channels() const { return channels / groups; }
};

GroupNormSizes ReadSizes(const OpNode& node, const Shape& x, int64_t groups,
                         bool channels_last = false) {
  if (x.rank() < 2) {
    Fail(node, "wants batch and channels, not the shape {}", x.ToString());
  }
  const int64_t channels = x[channels_last ? x.rank() - 1 : 1];
  const int64_t inner = channels_last ? x.element_count(1, x.rank() - 1)
                                      : x.element_count(2, x.rank());
  if (groups < 1 || channels % groups != 0) {
    Fail(node, "{} channels cannot be cut into {} groups", channels, groups);
  }
  return {x[0],
          channels,
          groups,
          inner,
          channels_last ? 1 : inner,
          channels_last ? channels : 1};
}

// X, scale, bias, which have `numbers` elements each
void InferNorm(InferContext& c, int64_t numbers) {
  for (size_t i = 1; i < 3; ++i) {
    RequireFloat(c, i);
    RequireShape(c, i, {numbers});
  }
  SameAsInput(c);
}

// Calls run(channel, element) for every element of a group, channel after
// channel.
template <class F>
void ForEachOfGroup(const GroupNormSizes& s, int64_t group, F&& run) {
  const int64_t sample = group / s.groups;
  const int64_t first = group % s.groups * s.group_channels();
  for (int64_t k = first; k < first + s.group_channels(); ++k) {
    const int64_t start = sample * s.channels * s.inner + k * s.channel_step;
    for (int64_t i = 0; i < s.inner; ++i) run(k, start + i * s.inner_step);
  }
}

struct GroupMoments {
  double mean = 0;
  double inverse = 0;  // 1 / sqrt(variance + epsilon)
};

template <class T>
GroupMoments MomentsOf(const GroupNormSizes& s, int64_t group, double epsilon,
                       const T* x) {
  const double count = static_cast<double>(s.group_channels() * s.inner);
  GroupMoments m;
  double squares = 0;
  ForEachOfGroup(s, group, [&](int64_t, int64_t at) {
    m.mean += static_cast<double>(x[at]);
  });
  m.mean /= count;
  ForEachOfGroup(s, group, [&](int64_t, int64_t at) {
    const double d = static_cast<double>(x[at]) - m.mean;
    squares += d * d;
  });
  m.inverse = 1 / std::sqrt(squares / count + epsilon);
  return m;
}

// y = activation((x - mean) / sqrt(variance + epsilon) scale + bias), with
// one scale per `channels_per_scale` channels.
template <class T, class F>
void GroupNorm(const KernelContext& c, const GroupNormSizes& s,
               int64_t channels_per_scale, F&& activation) {
  const double epsilon = c.node().Float("epsilon", 1e-5f);
  const double count = static_cast<double>(s.group_channels() * s.inner);
  const T* x = c.in<T>(0).data();
  const auto scale = c.in<T>(1), bias = c.in<T>(2);
  T* y = c.out<T>(0).data();
  const auto run_group = [&](int64_t group) {
    const GroupMoments m = MomentsOf(s, group, epsilon, x);
    const T center = static_cast<T>(m.mean), factor = static_cast<T>(m.inverse);
    ForEachOfGroup(s, group, [&](int64_t channel, int64_t at) {
      const int64_t k = channel / channels_per_scale;
      y[at] = activation((x[at] - center) * factor * scale[k] + bias[k]);
    });
  };
  c.ParallelFor(s.batch * s.groups, 4 * count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_group(i);
  });
}

constexpr auto kNoActivation = [](auto y) { return y; };

// --- One group per channel

void InferInstanceNorm(InferContext& c) {
  const Shape& x = c.input(0).shape;
  if (x.rank() < 2) ReadSizes(c.node(), x, 1);  // throws
  InferNorm(c, x[1]);
}

template <class T>
void InstanceNorm(const KernelContext& c) {
  const Shape& x = c.input(0).shape();
  if (x[1] == 0) return;
  GroupNorm<T>(c, ReadSizes(c.node(), x, x[1]), 1, kNoActivation);
}

// --- GroupNormalization; until opset 20 with a scale per group

GroupNormSizes ReadGroupNorm(const OpNode& node, const Shape& x) {
  return ReadSizes(node, x, node.Int("num_groups"));
}

template <bool scale_per_group>
void InferGroupNorm(InferContext& c) {
  const GroupNormSizes s = ReadGroupNorm(c.node(), c.input(0).shape);
  InferNorm(c, scale_per_group ? s.groups : s.channels);
}

template <bool scale_per_group>
constexpr ReferenceKernel GroupNormKernel() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const GroupNormSizes s = ReadGroupNorm(c.node(), c.input(0).shape());
    if (s.channels == 0) return;
    GroupNorm<T>(c, s, scale_per_group ? s.group_channels() : 1, kNoActivation);
  });
}

// --- ONNX Runtime's GroupNorm

GroupNormSizes ReadMicrosoft(const OpNode& node, const Shape& x) {
  return ReadSizes(node, x, node.Int("groups"),
                   node.Int("channels_last", 1) != 0);
}

void InferMicrosoft(InferContext& c) {
  const int64_t activation = c.node().Int("activation");
  if (activation != 0 && activation != 1) {
    Fail(c.node(), "attribute activation is {}, neither 0 (none) nor 1 (SiLU)",
         activation);
  }
  InferNorm(c, ReadMicrosoft(c.node(), c.input(0).shape).channels);
}

template <class T>
void Microsoft(const KernelContext& c) {
  const GroupNormSizes s = ReadMicrosoft(c.node(), c.input(0).shape());
  if (s.channels == 0) return;
  if (c.node().Int("activation") == 0) {
    return GroupNorm<T>(c, s, 1, kNoActivation);
  }
  GroupNorm<T>(c, s, 1, [](T y) { return y / (1 + std::exp(-y)); });
}

// --- The gradient of all of them

// num_groups = 0: each channel is a group.
GroupNormSizes ReadGrad(const OpNode& node, const Shape& x) {
  const bool channels_last = node.Int("channels_last", 0) != 0;
  int64_t groups = node.Int("num_groups", 0);
  if (groups == 0 && x.rank() >= 2)
    groups = std::max<int64_t>(1, x[channels_last ? x.rank() - 1 : 1]);
  return ReadSizes(node, x, groups, channels_last);
}

void InferGrad(InferContext& c) {
  const TensorInfo& x = c.input(1);
  const TensorInfo& scale = c.input(2);
  for (size_t i = 0; i < 3; ++i) RequireFloat(c, i);
  RequireShape(c, 0, x.shape);
  const GroupNormSizes s = ReadGrad(c.node(), x.shape);
  if (scale.shape.rank() != 1 ||
      (scale.shape[0] != s.channels && scale.shape[0] != s.groups)) {
    Fail(c.node(), "a scale of {} fits neither {} channels nor {} groups",
         scale.shape.ToString(), s.channels, s.groups);
  }
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, scale.type, scale.shape);
  c.SetOutput(2, scale.type, scale.shape);
}

// The groups of all samples that share scales, so that no two threads add to
// the same dscale. With n the normalized x, r its factor and g = dy scale:
//   dx = r (g - mean(g) - n mean(g n)), dscale = sum(dy n), dbias = sum(dy)
template <class T>
void GroupNormGrad(const KernelContext& c) {
  const GroupNormSizes s = ReadGrad(c.node(), c.input(1).shape());
  const double epsilon = c.node().Float("epsilon", 1e-5f);
  const double count = static_cast<double>(s.group_channels() * s.inner);
  const T* dy = c.in<T>(0).data();
  const T* x = c.in<T>(1).data();
  const auto scale = c.in<T>(2);
  const int64_t per_scale =
      static_cast<int64_t>(scale.size()) == s.channels ? 1 : s.group_channels();
  for (size_t i = 1; i < 3; ++i)
    if (c.has_output(i)) FillZero(c.output(i));
  const auto run = [&](int64_t group) {
    const GroupMoments m = MomentsOf(s, group, epsilon, x);
    double g_sum = 0, gn_sum = 0;
    ForEachOfGroup(s, group, [&](int64_t channel, int64_t at) {
      const int64_t k = channel / per_scale;
      const double n = (static_cast<double>(x[at]) - m.mean) * m.inverse;
      const double g = static_cast<double>(dy[at] * scale[k]);
      g_sum += g;
      gn_sum += g * n;
      if (c.has_output(1)) c.out<T>(1)[k] += static_cast<T>(dy[at] * n);
      if (c.has_output(2)) c.out<T>(2)[k] += dy[at];
    });
    if (!c.has_output(0)) return;
    T* dx = c.out<T>(0).data();
    ForEachOfGroup(s, group, [&](int64_t channel, int64_t at) {
      const double n = (static_cast<double>(x[at]) - m.mean) * m.inverse;
      const double g = static_cast<double>(dy[at] * scale[channel / per_scale]);
      dx[at] =
          static_cast<T>(m.inverse * (g - g_sum / count - n * gn_sum / count));
    });
  };
  c.ParallelFor(s.channels == 0 ? 0 : s.groups,
                8 * count * static_cast<double>(s.batch),
                [&](int64_t begin, int64_t end) {
                  for (int64_t group = begin; group < end; ++group)
                    for (int64_t n = 0; n < s.batch; ++n)
                      run(n * s.groups + group);
                });
}

// --- Gradients

void NormGradient(GradientContext& c, Var dy, int64_t groups,
                  bool channels_last = false) {
  GraphBuilder& b = c.build();
  DataType types[3];
  for (size_t i = 0; i < 3; ++i)
    types[i] = c.needs(i) ? b.type(c.x(i == 0 ? 0 : 1)) : DataType::kUndefined;
  const Var inputs[] = {dy, c.x(0), c.x(1)};
  const auto gradients = b.Ops("GroupNormalizationGrad", inputs, types,
                               {{"num_groups", groups},
                                {"channels_last", int64_t{channels_last}},
                                {"epsilon", c.node().Float("epsilon", 1e-5f)}},
                               kStrop);
  for (size_t i = 0; i < 2; ++i) c.Set(i, gradients[i]);
  if (c.needs(2)) c.Set(2, b.Cast(gradients[2], b.type(c.x(2))));
}

void InstanceNormGradient(GradientContext& c) { NormGradient(c, c.dy(), 0); }

void GroupNormGradient(GradientContext& c) {
  NormGradient(c, c.dy(), c.node().Int("num_groups"));
}

// SiLU is QuickGelu with alpha = 1; it wants the value before it once more.
void MicrosoftGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  Var dy = c.dy();
  if (c.node().Int("activation") != 0) {
    Attributes attributes = c.attributes();
    for (auto& [name, value] : attributes)
      if (name == "activation") value = int64_t{0};
    const Var z =
        b.MicrosoftOp("GroupNorm", {c.x(0), c.x(1), c.x(2)}, attributes);
    dy = b.MicrosoftOp("QuickGeluGrad", {dy, z}, {{"alpha", 1.0f}});
  }
  NormGradient(c, dy, c.node().Int("groups"),
               c.node().Int("channels_last", 1) != 0);
}

}  // namespace

extern constexpr OpDef kInstanceNormalization = {
    .name = "InstanceNormalization",
    .inputs = {3, 3},
    .infer = InferInstanceNorm,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { InstanceNorm<T>(c); }),
    .gradient = Rule(InstanceNormGradient),
    .mixes_floats = true};

extern constexpr OpDef kGroupNormalization18 = {
    .name = "GroupNormalization",
    .since = 18,
    .inputs = {3, 3},
    .infer = InferGroupNorm<true>,
    .reference = GroupNormKernel<true>(),
    .gradient = Rule(GroupNormGradient),
    .mixes_floats = true};

extern constexpr OpDef kGroupNormalization21 = {
    .name = "GroupNormalization",
    .since = 21,
    .inputs = {3, 3},
    .infer = InferGroupNorm<false>,
    .reference = GroupNormKernel<false>(),
    .gradient = Rule(GroupNormGradient),
    .mixes_floats = true};

extern constexpr OpDef kGroupNormMicrosoft = {
    .name = "GroupNorm",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferMicrosoft,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Microsoft<T>(c); }),
    .gradient = Rule(MicrosoftGradient),
    .mixes_floats = true};

// dY, X, scale (one for each channel or for each group) -> dX, dscale, dbias,
// each optional. Attributes: num_groups (0: as many as channels),
// channels_last (0), epsilon (1e-5).
extern constexpr OpDef kGroupNormalizationGrad = {
    .name = "GroupNormalizationGrad",
    .domain = kStrop,
    .inputs = {3, 3},
    .outputs = {0, 3},
    .infer = InferGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { GroupNormGrad<T>(c); }),
    .mixes_floats = true};

}  // namespace strop::ops
