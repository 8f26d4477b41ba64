// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/onednn/conv_descs.h"

#include <algorithm>

#include "base/round.h"
#include "providers/cpu/conv/direct_plan.h"

namespace strop::onednn {
namespace {

using Type = dnnl::memory::data_type;
using Dims = dnnl::memory::dims;

Dims SpatialDims(const ops::Window& w, const ops::Window::Axes& axes) {
  return Dims(axes.begin(), axes.begin() + static_cast<ptrdiff_t>(w.rank));
}

Dims Concat(Dims head, const Dims& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

Dims WeightDims(const ConvSpec& spec, int64_t groups, int64_t filters,
                int64_t channels) {
  const Dims kernel = SpatialDims(spec.window, spec.window.kernel);
  if (spec.groups == 1) return Concat({filters, channels}, kernel);
  return Concat({groups, filters / groups, channels / groups}, kernel);
}

}  // namespace

std::vector<ConvLayouts> CandidateLayouts(const ConvSpec& spec, Layout x) {
  const Layout best = PreferredBlocks();
  const Layout other =
      best == Layout::kBlocked8 ? Layout::kBlocked16 : Layout::kBlocked8;
  if (x != Layout::kPlain) {
    const Layout rest =
        x == Layout::kBlocked8 ? Layout::kBlocked16 : Layout::kBlocked8;
    return {{x, x}, {rest, rest}};
  }
  std::vector<ConvLayouts> layouts;
  if (spec.groups == 1 && spec.channels <= kFewChannels) {
    layouts = {{Layout::kPlain, best}, {Layout::kPlain, other}};
    // Filling up a block would cost far more than our own loops do.
    if (DirectDeclines(spec).empty()) return layouts;
  }
  layouts.push_back({best, best});
  layouts.push_back({other, other});
  return layouts;
}

std::string DeclineReason(const KernelRequest& request, const ConvSpec& spec) {
  std::string other = ConvDeclines(request, spec);
  if (!other.empty()) return other;
  if (spec.window.rank > 3) return "more than 3 spatial axes";
  if (spec.is_empty()) return "no elements";
  if (spec.groups > 1 && spec.group_channels() == 1 &&
      spec.group_filters() > 1) {
    return "several filters for one channel";
  }
  return {};
}

std::optional<ConvDescs> DescribeConv(const ConvSpec& spec,
                                      const ConvLayouts& layouts,
                                      int64_t images) {
  const int64_t x_block = BlockSize(layouts.x);
  const int64_t y_block = BlockSize(layouts.y);
  const int64_t channels = RoundUp(spec.channels, x_block);
  const int64_t filters = RoundUp(spec.filters, y_block);
  int64_t groups = spec.groups;
  if (groups > 1) {
    if (spec.group_channels() == 1 && spec.group_filters() == 1) {
      groups = channels;  // depthwise: padding is more groups
    } else if (spec.group_channels() % x_block != 0 ||
               spec.group_filters() % y_block != 0) {
      return std::nullopt;
    }
  }
  const ops::Window& w = spec.window;
  ConvDescs d;
  d.x = {Concat({images, channels}, SpatialDims(w, w.input)), Type::f32,
         ActivationTag(w.rank, layouts.x)};
  d.y = {Concat({images, filters}, SpatialDims(w, w.output)), Type::f32,
         ActivationTag(w.rank, layouts.y)};
  d.w = {WeightDims(spec, groups, filters, channels), Type::f32,
         dnnl::memory::format_tag::any};
  d.bias = {{filters}, Type::f32, dnnl::memory::format_tag::a};
  d.strides = SpatialDims(w, w.stride);
  d.pad_begin = SpatialDims(w, w.pad_begin);
  for (size_t i = 0; i < w.rank; ++i) {
    d.dilations.push_back(w.dilation[i] - 1);
    // What the windows really reach; ONNX may pad further, SAME and strides
    // may leave less.
    d.pad_end.push_back((w.output[i] - 1) * w.stride[i] +
                        (w.kernel[i] - 1) * w.dilation[i] + 1 - w.input[i] -
                        w.pad_begin[i]);
  }
  return d;
}

dnnl::memory::desc PlainWeights(const ConvSpec& spec) {
  const Dims dims = WeightDims(spec, spec.groups, spec.filters, spec.channels);
  return {dims, Type::f32, PlainTag(dims.size())};
}

dnnl::memory::desc WithoutPadding(const ConvSpec& spec,
                                  const dnnl::memory::desc& chosen) {
  dnnl::memory::desc desc = chosen;
  const Dims dims = WeightDims(spec, spec.groups, spec.filters, spec.channels);
  std::copy(dims.begin(), dims.end(), desc.data.dims);
  return desc;
}

BoundPrimitive BoundReorder(const dnnl::memory::desc& from,
                            const dnnl::memory::desc& to, bool add) {
  dnnl::primitive_attr attributes = MakeAttributes();
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  BoundPrimitive reorder{dnnl::reorder(dnnl::reorder::primitive_desc(
      CpuEngine(), from, CpuEngine(), to, attributes))};
  reorder.Bind(DNNL_ARG_FROM, from);
  reorder.Bind(DNNL_ARG_TO, to);
  return reorder;
}

int64_t StoredImage(const dnnl::memory::desc& desc) {
  return static_cast<int64_t>(desc.get_size() / sizeof(float)) /
         desc.data.dims[0];
}

std::vector<Slice> CutBatch(int64_t batch, int num_threads) {
  const int64_t parts = std::min<int64_t>(batch, num_threads);
  std::vector<Slice> slices;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = PartStart(batch, parts, i);
    slices.push_back({first, PartStart(batch, parts, i + 1) - first});
  }
  return slices;
}

}  // namespace strop::onednn
