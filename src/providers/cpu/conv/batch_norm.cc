// SPDX-License-Identifier: Apache-2.0
//
// BatchNormalization, alone or with what follows it, and its gradient, in
// plain and blocked layouts. Statistics are sums over parts of fixed size,
// put together in a fixed order: the same bits for any number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "base/round.h"
#include "providers/cpu/conv/batch_norm_loops.h"
#include "providers/cpu/conv/conv_spec.h"
#include "providers/cpu/conv/kernels.h"

namespace strop {
namespace {

constexpr int64_t kFewPositions = 8;

// The tensor as units: one for each image and block of channels.
struct NormSpec {
  Layout layout = Layout::kPlain;
  int64_t batch = 0, channels = 0, positions = 0, blocks = 0;
  NormActivation activation = NormActivation::kNone;
  float low = 0, high = 0;
  double epsilon = 0;

  int lanes() const { return static_cast<int>(BlockSize(layout)); }
  int64_t units() const { return batch * blocks; }
  int64_t unit_size() const { return positions * lanes(); }
  double count() const { return static_cast<double>(batch * positions); }
  // Channels of the block that are there.
  int real_lanes(int64_t block) const {
    return static_cast<int>(
        std::min<int64_t>(lanes(), channels - block * lanes()));
  }
};

NormSpec MakeSpec(const KernelRequest& request, const Shape& x, Layout layout) {
  NormSpec spec;
  spec.layout = layout;
  spec.batch = x[0];
  spec.channels = x[1];
  spec.positions = x.element_count(2, x.rank());
  spec.blocks = CeilDiv(spec.channels, BlockSize(layout));
  spec.epsilon = request.node.Float("epsilon", 1e-5f);
  const std::string_view name = request.node.String("activation", "");
  if (name == "Relu") spec.activation = NormActivation::kRelu;
  if (name == "Clip") {
    spec.activation = NormActivation::kClip;
    const auto bounds = request.node.Floats("activation_params");
    spec.low = bounds[0];
    spec.high = bounds[1];
  }
  return spec;
}

std::string NormDeclines(const KernelRequest& request, const Shape& x) {
  for (const KernelInput& input : request.inputs) {
    if (input.info.type != DataType::kFloat32 &&
        input.info.type != DataType::kUndefined) {
      return DataTypeName(input.info.type);
    }
  }
  if (request.node.Int("spatial", 1) == 0) return "a channel per position";
  if (x.rank() < 2) return "no channels";
  if (x.element_count() == 0) return "no elements";
  return {};
}

// A plain channel of few positions is too short for the loops.
std::string LayoutDeclines(const NormSpec& spec) {
  return spec.layout == Layout::kPlain && spec.positions < kFewPositions
             ? "few positions"
             : "";
}

// The blocked layout of one of the tensors, else plain. Padding must come out
// as zero again.
Layout ChooseLayout(Layout x, Layout other, const KernelRequest& request) {
  const Layout layout = x != Layout::kPlain ? x : other;
  if (request.node.String("activation", "") == "Clip") {
    const auto bounds = request.node.Floats("activation_params");
    if (bounds[0] > 0 || bounds[1] < 0) return Layout::kPlain;
  }
  return layout;
}

const float* Input(const KernelContext& context, size_t i) {
  return context.has_input(i)
             ? static_cast<const float*>(context.input(i).data())
             : nullptr;
}

float* Output(const KernelContext& context, size_t i) {
  return context.has_output(i) ? static_cast<float*>(context.output(i).data())
                               : nullptr;
}

// Gathers a statistic from all units, then computes from it.
class NormBase : public Kernel {
 public:
  explicit NormBase(const NormSpec& spec)
      : spec_(spec), loops_(GetNormLoops(spec.layout, spec.activation)) {}

 protected:
  // gather(unit), finish(block) and apply(unit): each finish behind the
  // gathers of its block, each apply behind the finish of its block. A thread
  // takes whole blocks where that is no worse: what it gathered is then still
  // in its cache, the last of it most likely.
  template <class Gather, class Finish, class Apply>
  void RunPasses(const KernelContext& context, Gather&& gather, Finish&& finish,
                 Apply&& apply) const {
    const int64_t blocks = spec_.blocks, batch = spec_.batch;
    const double cost = 0.3 * static_cast<double>(spec_.unit_size());
    const int threads = context.num_threads();
    if (blocks % threads == 0 || blocks >= 8 * threads) {
      context.ParallelFor(blocks, 2 * cost * static_cast<double>(batch),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t b = begin; b < end; ++b) {
                              for (int64_t n = 0; n < batch; ++n)
                                gather(n * blocks + b);
                              finish(b);
                              for (int64_t n = batch; n-- > 0;)
                                apply(n * blocks + b);
                            }
                          });
      return;
    }
    const int64_t units = spec_.units();
    context.ParallelFor(units, cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) gather(i);
    });
    for (int64_t b = 0; b < blocks; ++b) finish(b);
    context.ParallelFor(units, cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = end; i-- > begin;) apply(i);
    });
  }

  int64_t BlockOf(int64_t unit) const { return unit % spec_.blocks; }

  NormUnit UnitOf(int64_t unit, const float* x) const {
    NormUnit u;
    u.x = x + unit * spec_.unit_size();
    u.positions = spec_.positions;
    u.low = spec_.low;
    u.high = spec_.high;
    return u;
  }

  // z = (x - center) factor + bias, with the rounding of both passes.
  void SetForward(NormLanes& lanes, int lane, float center, float inverse,
                  float scale, float bias) const {
    lanes.center[lane] = center;
    lanes.factor[lane] = scale * inverse;
    lanes.bias[lane] = bias;
  }

  NormSpec spec_;
  NormLoops loops_;
};

// Where mean and variance come from.
enum class Statistics {
  kBatch,    // the batch; running statistics are moved by it
  kRunning,  // inputs 3 and 4
  kSaved,    // inputs 3 and 4, the latter as 1 / sqrt(variance + epsilon)
};

// X, scale, bias, mean, variance, residual (optional)
class BatchNormKernel final : public NormBase {
 public:
  BatchNormKernel(const NormSpec& spec, Statistics statistics,
                  bool saves_inverse, double momentum)
      : NormBase(spec),
        statistics_(statistics),
        saves_inverse_(saves_inverse),
        momentum_(momentum) {
    lanes_ = scratch_.Add(sizeof(NormLanes) * static_cast<size_t>(spec.blocks));
    if (statistics == Statistics::kBatch) {
      moments_ =
          scratch_.Add(sizeof(NormMoments) * static_cast<size_t>(spec.units()));
    }
  }

  size_t scratch_bytes() const { return scratch_.total(); }

  void Run(const KernelContext& context) override {
    const float* x = Input(context, 0);
    auto* lanes = reinterpret_cast<NormLanes*>(context.scratch() + lanes_);
    auto* moments =
        reinterpret_cast<NormMoments*>(context.scratch() + moments_);
    const auto gather = [&](int64_t i) {
      if (statistics_ != Statistics::kBatch) return;
      moments[i] = loops_.moments(x + i * spec_.unit_size(), spec_.positions);
    };
    const auto finish = [&](int64_t b) {
      NormMoments all = {};
      if (statistics_ == Statistics::kBatch) {
        for (int64_t n = 0; n < spec_.batch; ++n) {
          MergeMoments(all, moments[n * spec_.blocks + b], spec_.lanes());
        }
      }
      Finish(context, b, all, lanes[b]);
    };
    const float* residual = Input(context, 5);
    float* y = Output(context, 0);
    const auto apply = [&](int64_t i) {
      NormUnit unit = UnitOf(i, x);
      unit.to = y + i * spec_.unit_size();
      if (residual) unit.residual = residual + i * spec_.unit_size();
      loops_.apply(unit, lanes[BlockOf(i)]);
    };
    RunPasses(context, gather, finish, apply);
  }

 private:
  void Finish(const KernelContext& context, int64_t block,
              const NormMoments& moments, NormLanes& lanes) const {
    lanes = {};
    const float* scale = Input(context, 1);
    const float* bias = Input(context, 2);
    const float* old_mean = Input(context, 3);
    const float* old_variance = Input(context, 4);
    const int real = spec_.real_lanes(block);
    for (int lane = 0; lane < real; ++lane) {
      const int64_t c = block * spec_.lanes() + lane;
      double mean = static_cast<double>(old_mean[c]);
      double variance = static_cast<double>(old_variance[c]);
      if (statistics_ == Statistics::kBatch) {
        mean = moments.mean[lane];
        variance = moments.square[lane] / spec_.count();
      }
      const double inverse = statistics_ == Statistics::kSaved
                                 ? variance
                                 : 1 / std::sqrt(variance + spec_.epsilon);
      SetForward(lanes, lane, static_cast<float>(mean),
                 static_cast<float>(inverse), scale[c], bias[c]);
      if (statistics_ != Statistics::kBatch) continue;
      const auto set = [&](size_t output, double value) {
        if (float* to = Output(context, output)) {
          to[c] = static_cast<float>(value);
        }
      };
      const double keep = momentum_;
      set(1, static_cast<double>(old_mean[c]) * keep + mean * (1 - keep));
      set(2,
          static_cast<double>(old_variance[c]) * keep + variance * (1 - keep));
      set(3, mean);
      set(4, saves_inverse_ ? inverse : variance);
    }
  }

  Statistics statistics_;
  bool saves_inverse_;
  double momentum_;
  ScratchLayout scratch_;
  size_t lanes_ = 0, moments_ = 0;
};

// dY, X, scale, mean, 1 / sqrt(variance + epsilon), and where an activation
// follows bias and, with a residual, Y; dX, dscale, dbias, dresidual.
class BatchNormGradKernel final : public NormBase {
 public:
  explicit BatchNormGradKernel(const NormSpec& spec) : NormBase(spec) {
    lanes_ = scratch_.Add(sizeof(NormLanes) * static_cast<size_t>(spec.blocks));
    sums_ = scratch_.Add(sizeof(NormSums) * static_cast<size_t>(spec.units()));
  }

  size_t scratch_bytes() const { return scratch_.total(); }

  void Run(const KernelContext& context) override {
    auto* lanes = reinterpret_cast<NormLanes*>(context.scratch() + lanes_);
    auto* sums = reinterpret_cast<NormSums*>(context.scratch() + sums_);
    StartLanes(context, lanes);
    const float* dy = Input(context, 0);
    const float* x = Input(context, 1);
    const float* y = Input(context, 6);
    float* dx = Output(context, 0);
    float* dz = Output(context, 3);
    const auto unit_of = [&](int64_t i) {
      const int64_t at = i * spec_.unit_size();
      NormUnit unit = UnitOf(i, x);
      unit.dy = dy + at;
      if (y) unit.y = y + at;
      if (dz) unit.dz = dz + at;
      if (dx) unit.to = dx + at;
      return unit;
    };
    const auto gather = [&](int64_t i) {
      sums[i] = {};
      loops_.sum(unit_of(i), lanes[BlockOf(i)], sums[i]);
    };
    const auto finish = [&](int64_t b) {
      NormSums all = {};
      for (int64_t n = 0; n < spec_.batch; ++n) {
        const NormSums& one = sums[n * spec_.blocks + b];
        for (int lane = 0; lane < spec_.lanes(); ++lane) {
          all.dz[lane] += one.dz[lane];
          all.slope[lane] += one.slope[lane];
        }
      }
      Finish(context, b, all, lanes[b]);
    };
    const auto apply = [&](int64_t i) {
      if (dx) loops_.grad(unit_of(i), lanes[BlockOf(i)]);
    };
    RunPasses(context, gather, finish, apply);
  }

 private:
  // What the forward pass computed with.
  void StartLanes(const KernelContext& context, NormLanes* lanes) const {
    const float* scale = Input(context, 2);
    const float* mean = Input(context, 3);
    const float* inverse = Input(context, 4);
    const float* bias = Input(context, 5);
    for (int64_t b = 0; b < spec_.blocks; ++b) {
      lanes[b] = {};
      for (int lane = 0; lane < spec_.real_lanes(b); ++lane) {
        const int64_t c = b * spec_.lanes() + lane;
        SetForward(lanes[b], lane, mean[c], inverse[c], scale[c],
                   bias ? bias[c] : 0.0f);
      }
    }
  }

  // With x^ = (x - mean) inverse and n values in a channel:
  //   dbias = sum(dz), dscale = sum(dz x^),
  //   dx = scale inverse (dz - dbias / n - x^ dscale / n)
  void Finish(const KernelContext& context, int64_t block, const NormSums& sums,
              NormLanes& lanes) const {
    float* dscale = Output(context, 1);
    float* dbias = Output(context, 2);
    const int real = spec_.real_lanes(block);
    for (int lane = 0; lane < real; ++lane) {
      const int64_t c = block * spec_.lanes() + lane;
      const double inverse = static_cast<double>(Input(context, 4)[c]);
      const double along = sums.slope[lane] * inverse;
      if (dscale) dscale[c] = static_cast<float>(along);
      if (dbias) dbias[c] = static_cast<float>(sums.dz[lane]);
      lanes.outer[lane] = lanes.factor[lane];
      lanes.shift[lane] = static_cast<float>(sums.dz[lane] / spec_.count());
      lanes.slope[lane] = static_cast<float>(along * inverse / spec_.count());
    }
  }

  ScratchLayout scratch_;
  size_t lanes_ = 0, sums_ = 0;
};

Statistics StatisticsOf(const KernelRequest& request) {
  if (request.op.name == "BatchNormApply") return Statistics::kSaved;
  bool trains = request.node.Int("training_mode", 0) != 0;
  for (size_t i = 1; i < request.outputs.size(); ++i) {
    trains = trains || request.has_output(i);
  }
  return trains ? Statistics::kBatch : Statistics::kRunning;
}

}  // namespace

KernelChoice ChooseBatchNorm(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  std::string reason = NormDeclines(request, x.info.shape);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const bool adds = request.has_input(5);
  const Layout other = adds ? request.inputs[5].layout : Layout::kPlain;
  const Layout layout = ChooseLayout(x.layout, other, request);
  const NormSpec spec = MakeSpec(request, x.info.shape, layout);
  reason = LayoutDeclines(spec);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  auto kernel = std::make_unique<BatchNormKernel>(
      spec, StatisticsOf(request), request.op.name != "BatchNormalization",
      request.node.Float("momentum", 0.9f));
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.input_layouts = {layout};
  choice.input_layouts.resize(5, Layout::kPlain);
  if (adds) choice.input_layouts.push_back(layout);
  choice.output_layouts = {layout};
  choice.flops = 8.0 * static_cast<double>(x.info.shape.element_count());
  return choice;
}

KernelChoice ChooseBatchNormGrad(const KernelRequest& request) {
  const KernelInput& x = request.inputs[1];
  std::string reason = NormDeclines(request, x.info.shape);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const Layout layout =
      ChooseLayout(x.layout, request.inputs[0].layout, request);
  const NormSpec spec = MakeSpec(request, x.info.shape, layout);
  reason = LayoutDeclines(spec);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  auto kernel = std::make_unique<BatchNormGradKernel>(spec);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.input_layouts = {layout, layout};
  choice.input_layouts.resize(6, Layout::kPlain);
  choice.input_layouts.push_back(layout);
  choice.output_layouts = {layout, Layout::kPlain, Layout::kPlain, layout};
  choice.flops = 10.0 * static_cast<double>(x.info.shape.element_count());
  return choice;
}

}  // namespace strop
