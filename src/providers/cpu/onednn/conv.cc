// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "providers/cpu/conv/direct_plan.h"
#include "providers/cpu/conv/fused_conv.h"
#include "providers/cpu/onednn/conv_descs.h"
#include "providers/cpu/onednn/kernels.h"

namespace strop {
namespace onednn {
namespace {

using Forward = dnnl::convolution_forward;

// With `bounds`, the result is clipped. Unlike Strop's own kernels this turns
// a NaN into a number, so nothing that trains may stand behind it.
dnnl::primitive_attr MakeConvAttributes(const std::optional<Bounds>& bounds) {
  dnnl::primitive_attr attributes = MakeAttributes();
  if (!bounds) return attributes;
  dnnl::post_ops post;
  if (std::isinf(bounds->high) && bounds->low == 0) {
    post.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  } else {
    post.append_eltwise(1, dnnl::algorithm::eltwise_clip, bounds->low,
                        bounds->high);
  }
  attributes.set_post_ops(post);
  return attributes;
}

// Nullopt where oneDNN has no fast kernel. `weights`: a format to keep to, or
// null for oneDNN's choice.
std::optional<Forward::primitive_desc> MakeForward(
    const ConvSpec& spec, const ConvLayouts& layouts, int64_t images,
    bool has_bias, const std::optional<Bounds>& bounds,
    const dnnl::memory::desc* weights) {
  const auto d = DescribeConv(spec, layouts, images);
  if (!d) return std::nullopt;
  const dnnl::memory::desc& w = weights ? *weights : d->w;
  const dnnl::memory::desc bias = has_bias ? d->bias : dnnl::memory::desc();
  try {
    const Forward::desc desc(dnnl::prop_kind::forward_training,
                             dnnl::algorithm::convolution_direct, d->x, w, bias,
                             d->y, d->strides, d->dilations, d->pad_begin,
                             d->pad_end);
    Forward::primitive_desc made(desc, MakeConvAttributes(bounds), CpuEngine());
    if (IsFast(made)) return made;
  } catch (const dnnl::error&) {  // no kernel at all
  }
  return std::nullopt;
}

// One for each slice; nullopt as above.
std::optional<std::vector<Forward::primitive_desc>> MakeForms(
    const ConvSpec& spec, const ConvLayouts& layouts, bool has_bias,
    const std::optional<Bounds>& bounds, const std::vector<Slice>& slices) {
  std::vector<Forward::primitive_desc> forms;
  for (const Slice& slice : slices) {
    dnnl::memory::desc weights;
    if (!forms.empty()) weights = forms.front().weights_desc();
    auto form = MakeForward(spec, layouts, slice.images, has_bias, bounds,
                            forms.empty() ? nullptr : &weights);
    if (!form) return std::nullopt;
    forms.push_back(std::move(*form));
  }
  return forms;
}

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const ConvSpec& spec, bool has_bias, std::vector<Slice> slices,
             const std::vector<Forward::primitive_desc>& forms)
      : spec_(spec), has_bias_(has_bias), slices_(std::move(slices)) {
    const Forward::primitive_desc& first = forms.front();
    const dnnl::memory::desc weights = first.weights_desc();
    weights_ = BoundReorder(PlainWeights(spec), WithoutPadding(spec, weights));
    weights_scratch_ = scratch_.Add(weights.get_size());
    bias_bytes_ = has_bias ? first.bias_desc().get_size() : 0;
    bias_scratch_ = scratch_.Add(bias_bytes_);
    x_image_ = StoredImage(first.src_desc());
    y_image_ = StoredImage(first.dst_desc());
    for (const Forward::primitive_desc& form : forms) AddPart(form);
  }

  size_t scratch_bytes() const { return scratch_.total(); }

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    float* y = static_cast<float*>(context.output(0).data());
    std::byte* scratch = context.scratch();
    Guarded([&] {
      const SingleThread single;
      weights_.SetData(DNNL_ARG_FROM, context.input(1).data());
      weights_.SetData(DNNL_ARG_TO, scratch + weights_scratch_);
      weights_.Run();
    });
    const void* bias = has_bias_ ? PaddedBias(context) : nullptr;
    const double cost =
        spec_.flops() / static_cast<double>(slices_.size()) / 50;
    context.ParallelFor(
        static_cast<int64_t>(slices_.size()), cost,
        [&](int64_t begin, int64_t end) {
          Guarded([&] {
            const SingleThread single;
            for (int64_t i = begin; i < end; ++i) {
              Part& part = parts_[static_cast<size_t>(i)];
              const int64_t first = slices_[static_cast<size_t>(i)].first;
              BoundPrimitive& primitive = part.primitive;
              primitive.SetData(DNNL_ARG_SRC, x + first * x_image_);
              primitive.SetData(DNNL_ARG_DST, y + first * y_image_);
              primitive.SetData(DNNL_ARG_WEIGHTS, scratch + weights_scratch_);
              if (bias) primitive.SetData(DNNL_ARG_BIAS, bias);
              primitive.SetData(DNNL_ARG_SCRATCHPAD, scratch + part.scratch);
              primitive.Run();
            }
          });
        });
  }

 private:
  struct Part {
    BoundPrimitive primitive;
    size_t scratch;
  };

  void AddPart(const Forward::primitive_desc& form) {
    BoundPrimitive primitive{Forward(form)};
    primitive.Bind(DNNL_ARG_SRC, form.src_desc());
    primitive.Bind(DNNL_ARG_WEIGHTS, form.weights_desc());
    primitive.Bind(DNNL_ARG_DST, form.dst_desc());
    if (has_bias_) primitive.Bind(DNNL_ARG_BIAS, form.bias_desc());
    primitive.Bind(DNNL_ARG_SCRATCHPAD, form.scratchpad_desc());
    parts_.push_back({std::move(primitive),
                      scratch_.Add(form.scratchpad_desc().get_size())});
  }

  // The bias with zeros for the filters that pad the last block.
  const void* PaddedBias(const KernelContext& context) {
    const size_t bytes = static_cast<size_t>(spec_.filters) * sizeof(float);
    if (bytes == bias_bytes_) return context.input(2).data();
    std::byte* bias = context.scratch() + bias_scratch_;
    std::memcpy(bias, context.input(2).data(), bytes);
    std::memset(bias + bytes, 0, bias_bytes_ - bytes);
    return bias;
  }

  ConvSpec spec_;
  bool has_bias_;
  std::vector<Slice> slices_;
  BoundPrimitive weights_;  // brings the weights into oneDNN's format
  std::vector<Part> parts_;
  ScratchLayout scratch_;
  size_t weights_scratch_ = 0, bias_scratch_ = 0, bias_bytes_ = 0;
  int64_t x_image_ = 0, y_image_ = 0;  // stored elements of an image
};

}  // namespace
}  // namespace onednn

KernelChoice ChooseOneDnnConv(const KernelRequest& request) {
  using namespace onednn;
  const KernelInput& x = request.inputs[0];
  const ConvSpec spec =
      MakeConvSpec(request.node, x.info.shape, request.inputs[1].info.shape);
  std::string reason = DeclineReason(request, spec);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  std::optional<Bounds> bounds;
  if (request.op.name == "FusedConv") {
    bounds = FusedBounds(request);
    if (!bounds) return KernelChoice::Decline("not Relu or Clip alone");
  }
  if (DirectBeatsBlocks(spec, BlockSize(PreferredBlocks()))) {
    return KernelChoice::Decline("the channels do not fill a block");
  }

  KernelChoice choice;
  Guarded([&] {
    const SingleThread single;
    const bool has_bias = request.has_input(2);
    std::vector<Slice> slices = CutBatch(spec.batch, request.num_threads);
    for (const ConvLayouts& layouts : CandidateLayouts(spec, x.layout)) {
      const auto forms = MakeForms(spec, layouts, has_bias, bounds, slices);
      if (!forms) continue;
      auto kernel = std::make_unique<ConvKernel>(spec, has_bias,
                                                 std::move(slices), *forms);
      choice.scratch_bytes = kernel->scratch_bytes();
      choice.kernel = std::move(kernel);
      choice.input_layouts = {layouts.x, Layout::kPlain, Layout::kPlain};
      choice.output_layouts = {layouts.y};
      choice.flops = spec.flops();
      return;
    }
    choice.reason = "oneDNN has no fast kernel for these shapes";
  });
  return choice;
}

}  // namespace strop
