// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/direct_plan.h"

#include <algorithm>
#include <utility>

namespace strop {
namespace {

// How the outputs of one plan read an axis.
struct AxisTaps {
  int64_t first = 0, step = 1, count = 1;  // of the outputs
  std::vector<int64_t> taps;               // of the kernel
  std::vector<int64_t> reads;  // of each tap for the first output, padded
};

// How a padded axis comes about.
struct PaddedAxis {
  int64_t begin = 0, read = 1, phases = 1, size = 1;
};

struct AxisPlan {
  std::vector<AxisTaps> sets;
  PaddedAxis padded;
};

struct AxisSpec {
  int64_t kernel, output, stride, dilation, input, begin;
};

// With one tap, what strides pass over is left out of the padded axis.
AxisPlan ForwardAxis(const AxisSpec& a) {
  AxisPlan plan;
  const bool strided = a.kernel > 1 && a.stride > 1;
  plan.padded = {.begin = a.begin,
                 .read = a.kernel > 1 ? 1 : a.stride,
                 .phases = strided ? a.stride : 1,
                 .size = a.output};
  if (a.kernel > 1) {
    plan.padded.size =
        (a.output - 1) * a.stride + (a.kernel - 1) * a.dilation + 1;
  }
  AxisTaps set{
      .first = 0, .step = 1, .count = a.output, .taps = {}, .reads = {}};
  for (int64_t k = 0; k < a.kernel; ++k) {
    set.taps.push_back(k);
    set.reads.push_back(k * a.dilation);
  }
  plan.sets.push_back(std::move(set));
  return plan;
}

// Element p of dX is the sum over taps k of what o of dY gives, where
//   o * stride = p + begin - k * dilation.
// The elements that are alike modulo the stride have the same taps.
AxisPlan BackwardAxis(const AxisSpec& a) {
  AxisPlan plan;
  int64_t low = a.output, high = 0;
  for (int64_t first = 0; first < std::min(a.stride, a.input); ++first) {
    AxisTaps set{.first = first,
                 .step = a.stride,
                 .count = CeilDiv(a.input - first, a.stride),
                 .taps = {},
                 .reads = {}};
    for (int64_t k = 0; k < a.kernel; ++k) {
      const int64_t at = first + a.begin - k * a.dilation;
      if (at % a.stride != 0) continue;
      set.taps.push_back(k);
      set.reads.push_back(at / a.stride);
      low = std::min(low, at / a.stride);
      high = std::max(high, at / a.stride + set.count);
    }
    plan.sets.push_back(std::move(set));
  }
  if (high <= low) low = 0, high = 1;  // no taps at all
  for (AxisTaps& set : plan.sets) {
    for (int64_t& read : set.reads) read -= low;
  }
  plan.padded = {.begin = -low, .read = 1, .phases = 1, .size = high - low};
  return plan;
}

AxisSpec SpecOf(const ops::Window& w, size_t axis) {
  return {.kernel = w.kernel[axis],
          .output = w.output[axis],
          .stride = w.stride[axis],
          .dilation = w.dilation[axis],
          .input = w.input[axis],
          .begin = w.pad_begin[axis]};
}

// The first one of a single spatial axis.
constexpr AxisSpec kMissingAxis = {.kernel = 1,
                                   .output = 1,
                                   .stride = 1,
                                   .dilation = 1,
                                   .input = 1,
                                   .begin = 0};

struct ImageAxes {
  AxisSpec h, w;
  explicit ImageAxes(const ops::Window& window)
      : h(window.rank == 2 ? SpecOf(window, 0) : kMissingAxis),
        w(SpecOf(window, window.rank - 1)) {}
};

ImagePadding MakePadding(Layout image, Layout written, int64_t channels,
                         int64_t height, int64_t width, const PaddedAxis& h,
                         const PaddedAxis& w) {
  return {.layout = image,
          .padded_layout = image == written ? image : Layout::kPlain,
          .channels = channels,
          .height = height,
          .width = width,
          .begin_h = h.begin,
          .begin_w = w.begin,
          .read_h = h.read,
          .read_w = w.read,
          .phases = w.phases,
          .padded_h = h.size,
          .padded_w = w.size};
}

// Where in W the weights of a term lie.
struct WeightSteps {
  int64_t channel, filter;
  int64_t kernel_w;
};

// The terms of a block of channels, from `start` on, and row i of the kernel.
// Channels of a block lie side by side, and so do their terms.
void AddRowTerms(const ImagePadding& padding, int64_t start, const AxisTaps& h,
                 size_t i, const AxisTaps& w, const WeightSteps& steps,
                 DirectPlan& plan) {
  const int64_t block = BlockSize(padding.padded_layout);
  const int64_t end = std::min(start + block, padding.channels);
  for (size_t j = 0; j < w.taps.size(); ++j) {
    const int64_t column = w.reads[j] % padding.phases * padding.phase_w() +
                           w.reads[j] / padding.phases;
    const int64_t at = start / block * padding.plane() +
                       h.reads[i] * padding.row() + column * block;
    const int64_t tap = h.taps[i] * steps.kernel_w + w.taps[j];
    for (int64_t c = start; c < end; ++c) {
      plan.offsets.push_back(at + c - start);
      plan.sources.push_back(c * steps.channel + tap);
    }
  }
}

// Blocks of channels follow each other as they lie in the image; for plain
// outputs rows of the kernel do, so that some may be passed over.
void AddTerms(const ImagePadding& padding, const AxisTaps& h, const AxisTaps& w,
              const WeightSteps& steps, DirectPlan& plan) {
  const int64_t block = BlockSize(padding.padded_layout);
  const size_t kernel_h = h.taps.size();
  if (plan.layout != Layout::kPlain) {
    for (int64_t start = 0; start < padding.channels; start += block) {
      for (size_t i = 0; i < kernel_h; ++i) {
        AddRowTerms(padding, start, h, i, w, steps, plan);
      }
    }
    return;
  }
  for (size_t i = 0; i < kernel_h; ++i) {
    for (int64_t start = 0; start < padding.channels; start += block) {
      AddRowTerms(padding, start, h, i, w, steps, plan);
    }
  }
}

// What plan.rows says where AddTerms let it be.
KernelRows MakeKernelRows(const ImagePadding& padding, const AxisTaps& h,
                          int64_t h_stride) {
  const AxisRange inside(padding.height, padding.begin_h, padding.read_h,
                         padding.padded_h);
  return {.reads = h.reads,
          .stride = h_stride,
          .first = inside.first,
          .last = inside.last};
}

// Rows without a gap between them are one long row.
void JoinRows(DirectPlan& plan) {
  if (plan.x_row != plan.output_w * BlockSize(plan.x_layout) ||
      plan.y_row != plan.output_w * plan.y_step) {
    return;
  }
  plan.output_w *= plan.output_h;
  plan.output_h = 1;
  plan.rows = {};
}

DirectPlan MakePlan(Layout written, int64_t filters, int64_t width,
                    int64_t size, int64_t h_stride, const ImagePadding& padding,
                    const AxisTaps& h, const AxisTaps& w,
                    const WeightSteps& steps) {
  DirectPlan plan;
  plan.layout = written;
  plan.x_layout = padding.padded_layout;
  plan.filters = filters;
  plan.output_h = h.count;
  plan.output_w = w.count;
  plan.y_start = h.first * width + w.first;
  plan.y_row = h.step * width;
  plan.y_step = w.step;
  plan.y_size = size;
  plan.x_row = h_stride * padding.row();
  plan.filter_step = steps.filter;
  AddTerms(padding, h, w, steps, plan);
  if (written == Layout::kPlain) {
    plan.rows = MakeKernelRows(padding, h, h_stride);
  }
  JoinRows(plan);
  return plan;
}

double PassCost(const DirectPass& pass) {
  double cost = 0;
  for (const DirectPlan& plan : pass.plans) {
    cost += 2.0 / 60 * static_cast<double>(plan.packed_count()) *
            static_cast<double>(plan.output_size());
  }
  return cost;
}

}  // namespace

int64_t DirectPass::packed_count() const {
  int64_t count = 0;
  for (const DirectPlan& plan : plans) count += plan.packed_count();
  return count;
}

TermRange DirectPlan::TermsOfRows(int64_t first, int64_t last) const {
  const auto count = static_cast<int64_t>(rows.reads.size());
  if (count == 0) return {0, terms()};
  // Rows of the kernel read one further down, or up, than the one before.
  const auto reads_padding = [&](int64_t i) {
    const int64_t read = rows.reads[static_cast<size_t>(i)];
    return last * rows.stride + read < rows.first ||
           first * rows.stride + read >= rows.last;
  };
  int64_t begin = 0, end = count;
  while (begin < end && reads_padding(begin)) ++begin;
  while (begin < end && reads_padding(end - 1)) --end;
  return {begin * terms() / count, end * terms() / count};
}

std::string DirectDeclines(const ConvSpec& spec) {
  if (spec.groups != 1) return "groups";
  if (spec.window.rank > 2) return "more than 2 spatial axes";
  if (spec.is_empty()) return "no elements";
  return {};
}

bool DirectBeatsBlocks(const ConvSpec& spec, int64_t block) {
  // Kernels for the first layer of a net do without the padding of x.
  constexpr int64_t kFewChannels = 4;
  const bool pads_x = spec.channels > kFewChannels && spec.channels < block;
  return (pads_x || spec.filters <= 8) && DirectDeclines(spec).empty();
}

namespace {

// Of the vectors that the loops over rows compute, the part that is used; 0
// where they do not serve.
double FilledByRows(const DirectPass& pass) {
  double filled = 1;
  for (const DirectPlan& plan : pass.plans) {
    if (plan.y_step != 1) return 0;
    filled = std::min(
        filled, static_cast<double>(plan.output_w) /
                    static_cast<double>(RoundUp(plan.output_w, GetRowLanes())));
  }
  return filled;
}

// `by_rows`: a pass that writes a plain tensor of `channels`, of which the
// blocks of a vector hold at least 8. `other`: what the pass reads.
Layout FillingLayout(int64_t channels, const DirectPass& by_rows,
                     Layout other) {
  constexpr int64_t kBlock = 8;
  if (channels > kBlock) {
    return other == Layout::kBlocked16 ? other : GetDirectLayout();
  }
  const int64_t lanes = std::max(kBlock, GetRowLanes());
  const double filled =
      static_cast<double>(channels) / static_cast<double>(lanes);
  return FilledByRows(by_rows) > filled ? Layout::kPlain : Layout::kBlocked8;
}

}  // namespace

Layout ForwardLayout(const ConvSpec& spec, Layout x) {
  return FillingLayout(spec.filters, PlanForward(spec, x, Layout::kPlain), x);
}

Layout BackwardLayout(const ConvSpec& spec, Layout dy) {
  return FillingLayout(spec.channels, PlanBackward(spec, Layout::kPlain, dy),
                       dy);
}

namespace {

// The passes; rows of the padded image are made longer by `more_columns`.
DirectPass ForwardPass(const ConvSpec& spec, Layout x, Layout y,
                       int64_t more_columns) {
  const ImageAxes axes(spec.window);
  const AxisPlan h = ForwardAxis(axes.h);
  AxisPlan w = ForwardAxis(axes.w);
  w.padded.size += more_columns * w.padded.phases;
  DirectPass pass;
  pass.padding = MakePadding(x, y, spec.channels, axes.h.input, axes.w.input,
                             h.padded, w.padded);
  const int64_t taps = axes.h.kernel * axes.w.kernel;
  const int64_t h_stride = axes.h.kernel > 1 ? axes.h.stride : 1;
  pass.plans = {MakePlan(y, spec.filters, axes.w.output,
                         spec.window.output_size(), h_stride, pass.padding,
                         h.sets[0], w.sets[0],
                         {.channel = taps,
                          .filter = spec.channels * taps,
                          .kernel_w = axes.w.kernel})};
  return pass;
}

DirectPass BackwardPass(const ConvSpec& spec, Layout x, Layout dy,
                        int64_t more_columns) {
  const ImageAxes axes(spec.window);
  const AxisPlan h = BackwardAxis(axes.h);
  AxisPlan w = BackwardAxis(axes.w);
  w.padded.size += more_columns;
  DirectPass pass;
  pass.padding = MakePadding(dy, x, spec.filters, axes.h.output, axes.w.output,
                             h.padded, w.padded);
  const int64_t taps = axes.h.kernel * axes.w.kernel;
  for (const AxisTaps& rows : h.sets) {
    for (const AxisTaps& columns : w.sets) {
      pass.plans.push_back(MakePlan(x, spec.channels, axes.w.input,
                                    spec.window.input_size(), /*h_stride=*/1,
                                    pass.padding, rows, columns,
                                    {.channel = spec.channels * taps,
                                     .filter = taps,
                                     .kernel_w = axes.w.kernel}));
    }
  }
  return pass;
}

// What rows of `width` outputs lack of the vectors that row_loops.h reads.
int64_t MissingColumns(const DirectPass& pass, int64_t width) {
  for (const DirectPlan& plan : pass.plans) {
    const bool by_rows = plan.layout == Layout::kPlain;
    if (by_rows && plan.output_w < GetRowLanes()) {
      return std::max<int64_t>(0, GetRowLanes() - width);
    }
  }
  return 0;
}

}  // namespace

DirectPass PlanForward(const ConvSpec& spec, Layout x, Layout y) {
  DirectPass pass = ForwardPass(spec, x, y, 0);
  const int64_t width = spec.window.output[spec.window.rank - 1];
  const int64_t missing = MissingColumns(pass, width);
  return missing == 0 ? pass : ForwardPass(spec, x, y, missing);
}

DirectPass PlanBackward(const ConvSpec& spec, Layout x, Layout dy) {
  DirectPass pass = BackwardPass(spec, x, dy, 0);
  const int64_t width = spec.window.input[spec.window.rank - 1];
  const int64_t missing = MissingColumns(pass, width);
  return missing == 0 ? pass : BackwardPass(spec, x, dy, missing);
}

namespace {

// Terms [first, last) of block b. Few terms at a time, so that what is read
// and what is written stay in the cache.
void PackTerms(const DirectPlan& plan, int64_t b, int64_t first, int64_t last,
               const float* w, float* packed) {
  const int64_t block = plan.block();
  const int64_t real = std::min(block, plan.filters - b * block);
  float* to = packed + b * plan.packed_block();
  const int64_t* sources = plan.sources.data();
  if (real < block) std::fill(to + first * block, to + last * block, 0.0f);
  for (int64_t m = 0; m < real; ++m) {
    const float* from = w + (b * block + m) * plan.filter_step;
    for (int64_t t = first; t < last; ++t) to[t * block + m] = from[sources[t]];
  }
}

void PackPlan(const KernelContext& context, const DirectPlan& plan,
              const float* w, float* packed) {
  context.ParallelFor(
      plan.blocks(), static_cast<double>(plan.packed_block()),
      [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          for (int64_t t = 0; t < plan.terms(); t += 16) {
            PackTerms(plan, b, t, std::min(t + 16, plan.terms()), w, packed);
          }
        }
      });
}

// Filter m from terms [first, last).
void UnpackTerms(const DirectPlan& plan, int64_t m, int64_t first, int64_t last,
                 const float* packed, int64_t count, bool overwrite, float* w) {
  const int64_t block = plan.block();
  const float* from = packed + m / block * plan.packed_block() + m % block;
  float* to = w + m * plan.filter_step;
  for (int64_t t = first; t < last; ++t) {
    float sum = from[t * block];
    for (int64_t p = 1; p < count; ++p) {
      sum += from[p * plan.packed_count() + t * block];
    }
    float& target = to[plan.sources[static_cast<size_t>(t)]];
    target = overwrite ? sum : target + sum;
  }
}

}  // namespace

void PackWeights(const KernelContext& context, const DirectPass& pass,
                 const float* w, float* packed) {
  for (const DirectPlan& plan : pass.plans) {
    PackPlan(context, plan, w, packed);
    packed += plan.packed_count();
  }
}

void UnpackSum(const KernelContext& context, const DirectPlan& plan,
               const float* packed, int64_t count, bool overwrite, float* w) {
  const int64_t block = plan.block();
  context.ParallelFor(
      plan.blocks(), static_cast<double>(plan.packed_block() * count),
      [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t last = std::min((b + 1) * block, plan.filters);
          for (int64_t t = 0; t < plan.terms(); t += 16) {
            for (int64_t m = b * block; m < last; ++m) {
              UnpackTerms(plan, m, t, std::min(t + 16, plan.terms()), packed,
                          count, overwrite, w);
            }
          }
        }
      });
}

// Whether the weights stay in the cache as a whole. Then all of them pass by
// a part of an image at a time.
bool KeepsWeights(const DirectPass& pass) {
  constexpr int64_t kCached = 48 * 1024;  // floats
  return pass.packed_count() <= kCached;
}

int64_t ImagesAtATime(const DirectPass& pass, int64_t images) {
  constexpr int64_t kCached = 128 * 1024;  // floats
  const int64_t fit = kCached / pass.padding.padded_count();
  return std::clamp<int64_t>(fit, 1, std::max<int64_t>(1, images));
}

DirectRunner::DirectRunner(const DirectPass& pass, int64_t batch,
                           int num_threads)
    : pass_(pass), batch_(batch) {
  const DirectPlan& plan = pass.plans[0];
  if (plan.layout == Layout::kPlain) {
    run_rows_ = GetRowForward();
  } else {
    run_ = GetDirectForward(plan.layout);
  }
  if (batch < num_threads) block_parts_ = CeilDiv<int64_t>(plan.blocks(), 2);
  parts_ = std::min<int64_t>(num_threads, batch * block_parts_);
  images_ = block_parts_ == 1
                ? ImagesAtATime(pass, CeilDiv<int64_t>(batch, parts_))
                : 1;
}

void DirectRunner::Run(const KernelContext& context, const float* x,
                       const float* w, const float* bias, float* y,
                       float* scratch) const {
  const double cost = PassCost(pass_) * static_cast<double>(batch_) /
                      static_cast<double>(parts_);
  context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      RunPart(part, x, w, bias, y, scratch + part * part_scratch());
    }
  });
}

void DirectRunner::RunPart(int64_t part, const float* x, const float* w,
                           const float* bias, float* y, float* padded) const {
  const int64_t pairs = CeilDiv<int64_t>(pass_.plans[0].blocks(), 2);
  const int64_t units = batch_ * block_parts_;
  const int64_t last = PartStart(units, parts_, part + 1);
  for (int64_t u = PartStart(units, parts_, part); u < last;) {
    const int64_t n = u / block_parts_, p = u % block_parts_;
    const int64_t count = block_parts_ == 1 ? std::min(images_, last - u) : 1;
    RunImages(n, count, pairs * p / block_parts_,
              pairs * (p + 1) / block_parts_, x, w, bias, y, padded);
    u += count;
  }
}

void DirectRunner::RunImages(int64_t image, int64_t count, int64_t first,
                             int64_t last, const float* x, const float* w,
                             const float* bias, float* y, float* padded) const {
  const ImagePadding& padding = pass_.padding;
  const float* images = x + image * padding.stored_count();
  int64_t image_step = padding.stored_count();
  if (!padding.IsIdentity()) {
    PadImages(padding, images, count, padded);
    images = padded;
    image_step = padding.padded_count();
  }
  const int64_t pairs = KeepsWeights(pass_) ? last - first : 1;
  for (const DirectPlan& plan : pass_.plans) {
    const int64_t y_image = plan.blocks() * plan.y_block();
    for (int64_t pair = first; pair < last; pair += pairs) {
      const int64_t end = std::min(2 * (pair + pairs), plan.blocks());
      if (run_rows_ != nullptr) {
        const RowImages all = {count, images, image_step, y + image * y_image,
                               y_image};
        run_rows_(plan, 2 * pair, end, all, w, bias);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        run_(plan, 2 * pair, end, images + i * image_step, w, bias,
             y + (image + i) * y_image);
      }
    }
    w += plan.packed_count();
  }
}

}  // namespace strop
