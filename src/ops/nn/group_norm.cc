// SPDX-License-Identifier: Apache-2.0
//
// InstanceNormalization and GroupNormalization: the channels of a sample are
// normalized in groups. X is (N, C, ...), or (N, ..., C) where the op of ONNX
// Runtime says so.
#include <cmath>

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
    double mean = 0, squares = 0;
    ForEachOfGroup(s, group, [&](int64_t, int64_t at) {
      mean += static_cast<double>(x[at]);
    });
    mean /= count;
    ForEachOfGroup(s, group, [&](int64_t, int64_t at) {
      const double d = static_cast<double>(x[at]) - mean;
      squares += d * d;
    });
    const T center = static_cast<T>(mean);
    const T factor = static_cast<T>(1 / std::sqrt(squares / count + epsilon));
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

}  // namespace

extern constexpr OpDef kInstanceNormalization = {
    .name = "InstanceNormalization",
    .inputs = {3, 3},
    .infer = InferInstanceNorm,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { InstanceNorm<T>(c); }),
    .mixes_floats = true};

extern constexpr OpDef kGroupNormalization18 = {
    .name = "GroupNormalization",
    .since = 18,
    .inputs = {3, 3},
    .infer = InferGroupNorm<true>,
    .reference = GroupNormKernel<true>(),
    .mixes_floats = true};

extern constexpr OpDef kGroupNormalization21 = {
    .name = "GroupNormalization",
    .since = 21,
    .inputs = {3, 3},
    .infer = InferGroupNorm<false>,
    .reference = GroupNormKernel<false>(),
    .mixes_floats = true};

extern constexpr OpDef kGroupNormMicrosoft = {
    .name = "GroupNorm",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferMicrosoft,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Microsoft<T>(c); }),
    .mixes_floats = true};

}  // namespace strop::ops
