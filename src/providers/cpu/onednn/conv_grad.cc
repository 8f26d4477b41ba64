// SPDX-License-Identifier: Apache-2.0
//
// dW is computed in oneDNN's format into scratch, one sum for each slice of
// the batch; the sums are added in order and brought into ONNX order in the
// plain buffer.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "providers/cpu/conv/bias_grad.h"
#include "providers/cpu/conv/direct_plan.h"
#include "providers/cpu/onednn/conv_descs.h"
#include "providers/cpu/onednn/kernels.h"

namespace strop {
namespace onednn {
namespace {

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// Backward primitives are made with the forward one as a hint.
Forward::primitive_desc MakeHint(const ConvDescs& d) {
  return {Forward::desc(dnnl::prop_kind::forward_training, kDirect, d.x, d.w,
                        d.y, d.strides, d.dilations, d.pad_begin, d.pad_end),
          MakeAttributes(), CpuEngine()};
}

struct MakeBackwardData {
  using PrimitiveDesc = BackwardData::primitive_desc;
  static PrimitiveDesc Make(const ConvDescs& d, const dnnl::memory::desc& w) {
    return {BackwardData::desc(kDirect, d.x, w, d.y, d.strides, d.dilations,
                               d.pad_begin, d.pad_end),
            MakeAttributes(), CpuEngine(), MakeHint(d)};
  }
  static dnnl::memory::desc Weights(const PrimitiveDesc& form) {
    return form.weights_desc();
  }
};

struct MakeBackwardWeights {
  using PrimitiveDesc = BackwardWeights::primitive_desc;
  static PrimitiveDesc Make(const ConvDescs& d, const dnnl::memory::desc& w) {
    return {BackwardWeights::desc(kDirect, d.x, w, d.y, d.strides, d.dilations,
                                  d.pad_begin, d.pad_end),
            MakeAttributes(), CpuEngine(), MakeHint(d)};
  }
  static dnnl::memory::desc Weights(const PrimitiveDesc& form) {
    return form.diff_weights_desc();
  }
};

// One for each slice, all with the same format of weights; empty where
// oneDNN has no fast kernel.
template <class Maker>
std::vector<typename Maker::PrimitiveDesc> MakeForms(
    const ConvSpec& spec, const ConvLayouts& layouts,
    const std::vector<Slice>& slices) {
  std::vector<typename Maker::PrimitiveDesc> forms;
  for (const Slice& slice : slices) {
    const auto d = DescribeConv(spec, layouts, slice.images);
    if (!d) return {};
    try {
      forms.push_back(Maker::Make(
          *d, forms.empty() ? d->w : Maker::Weights(forms.front())));
    } catch (const dnnl::error&) {  // no kernel at all
      return {};
    }
    if (!IsFast(forms.back())) return {};
  }
  return forms;
}

struct GradForms {
  std::vector<BackwardData::primitive_desc> dx;     // empty: not wanted
  std::vector<BackwardWeights::primitive_desc> dw;  // empty: not wanted
};

// What a slice runs, and where its scratch begins.
struct Part {
  BoundPrimitive primitive;
  size_t scratchpad = 0;
  size_t sum = 0;  // of dW
};

class ConvGradKernel final : public Kernel {
 public:
  ConvGradKernel(const ConvGradSpec& grad, Layout dy_layout,
                 std::vector<Slice> slices, const GradForms& forms)
      : grad_(grad),
        spec_(grad.conv),
        dy_layout_(dy_layout),
        slices_(std::move(slices)) {
    if (!forms.dx.empty()) AddDx(forms.dx);
    if (!forms.dw.empty()) AddDw(forms.dw);
  }

  size_t scratch_bytes() const { return scratch_.total(); }

  void Run(const KernelContext& context) override {
    const bool overwrite = grad_.Overwrites(context);
    if (!dx_.empty()) RunDx(context);
    if (!dw_.empty()) RunDw(context, overwrite);
    if (grad_.has_db) {
      BiasGradient(context, grad_.dy_shape, dy_layout_,
                   static_cast<const float*>(context.input(0).data()),
                   overwrite, grad_.db(context));
    }
  }

 private:
  void AddDx(const std::vector<BackwardData::primitive_desc>& forms) {
    const dnnl::memory::desc weights = forms.front().weights_desc();
    weights_ =
        BoundReorder(PlainWeights(spec_), WithoutPadding(spec_, weights));
    weights_scratch_ = scratch_.Add(weights.get_size());
    x_image_ = StoredImage(forms.front().diff_src_desc());
    dy_image_ = StoredImage(forms.front().diff_dst_desc());
    for (const auto& form : forms) {
      Part part{BoundPrimitive(BackwardData(form)),
                scratch_.Add(form.scratchpad_desc().get_size())};
      part.primitive.Bind(DNNL_ARG_DIFF_DST, form.diff_dst_desc());
      part.primitive.Bind(DNNL_ARG_WEIGHTS, form.weights_desc());
      part.primitive.Bind(DNNL_ARG_DIFF_SRC, form.diff_src_desc());
      part.primitive.Bind(DNNL_ARG_SCRATCHPAD, form.scratchpad_desc());
      dx_.push_back(std::move(part));
    }
  }

  void AddDw(const std::vector<BackwardWeights::primitive_desc>& forms) {
    const dnnl::memory::desc weights = forms.front().diff_weights_desc();
    const dnnl::memory::desc real = WithoutPadding(spec_, weights);
    store_dw_ = BoundReorder(real, PlainWeights(spec_));
    if (grad_.accumulates) {
      add_dw_ = BoundReorder(real, PlainWeights(spec_), /*add=*/true);
    }
    sum_count_ = static_cast<int64_t>(weights.get_size() / sizeof(float));
    x_image_ = StoredImage(forms.front().src_desc());
    dy_image_ = StoredImage(forms.front().diff_dst_desc());
    for (const auto& form : forms) {
      Part part{BoundPrimitive(BackwardWeights(form)),
                scratch_.Add(form.scratchpad_desc().get_size()),
                scratch_.AddFloats(sum_count_)};
      part.primitive.Bind(DNNL_ARG_DIFF_DST, form.diff_dst_desc());
      part.primitive.Bind(DNNL_ARG_SRC, form.src_desc());
      part.primitive.Bind(DNNL_ARG_DIFF_WEIGHTS, form.diff_weights_desc());
      part.primitive.Bind(DNNL_ARG_SCRATCHPAD, form.scratchpad_desc());
      dw_.push_back(std::move(part));
    }
  }

  void RunDx(const KernelContext& context) {
    std::byte* scratch = context.scratch();
    Guarded([&] {
      const SingleThread single;
      weights_.SetData(DNNL_ARG_FROM, context.input(2).data());
      weights_.SetData(DNNL_ARG_TO, scratch + weights_scratch_);
      weights_.Run();
    });
    float* dx = static_cast<float*>(context.output(0).data());
    ForEachPart(context, dx_, [&](Part& part, int64_t first) {
      part.primitive.SetData(DNNL_ARG_WEIGHTS, scratch + weights_scratch_);
      part.primitive.SetData(DNNL_ARG_DIFF_SRC, dx + first * x_image_);
    });
  }

  void RunDw(const KernelContext& context, bool overwrite) {
    std::byte* scratch = context.scratch();
    const float* x = static_cast<const float*>(context.input(1).data());
    ForEachPart(context, dw_, [&](Part& part, int64_t first) {
      part.primitive.SetData(DNNL_ARG_SRC, x + first * x_image_);
      part.primitive.SetData(DNNL_ARG_DIFF_WEIGHTS, scratch + part.sum);
    });
    AddSums(context);
    Guarded([&] {
      const SingleThread single;
      BoundPrimitive& finish = overwrite ? store_dw_ : add_dw_;
      finish.SetData(DNNL_ARG_FROM, scratch + dw_.front().sum);
      finish.SetData(DNNL_ARG_TO, grad_.dw(context));
      finish.Run();
    });
  }

  // bind(part, first image) sets what the caller knows, then the part runs.
  template <class F>
  void ForEachPart(const KernelContext& context, std::vector<Part>& parts,
                   F&& bind) {
    const float* dy = static_cast<const float*>(context.input(0).data());
    const double cost =
        spec_.flops() / static_cast<double>(slices_.size()) / 50;
    context.ParallelFor(
        static_cast<int64_t>(parts.size()), cost,
        [&](int64_t begin, int64_t end) {
          Guarded([&] {
            const SingleThread single;
            for (int64_t i = begin; i < end; ++i) {
              Part& part = parts[static_cast<size_t>(i)];
              const int64_t first = slices_[static_cast<size_t>(i)].first;
              part.primitive.SetData(DNNL_ARG_DIFF_DST, dy + first * dy_image_);
              part.primitive.SetData(DNNL_ARG_SCRATCHPAD,
                                     context.scratch() + part.scratchpad);
              bind(part, first);
              part.primitive.Run();
            }
          });
        });
  }

  // Adds the slices' sums to the first one, in order.
  void AddSums(const KernelContext& context) {
    if (dw_.size() == 1) return;
    float* total = FloatsAt(context, dw_.front().sum);
    context.ParallelFor(sum_count_, 0.2 * static_cast<double>(dw_.size()),
                        [&](int64_t begin, int64_t end) {
                          for (size_t p = 1; p < dw_.size(); ++p) {
                            const float* sum = reinterpret_cast<const float*>(
                                context.scratch() + dw_[p].sum);
                            for (int64_t i = begin; i < end; ++i)
                              total[i] += sum[i];
                          }
                        });
  }

  ConvGradSpec grad_;
  ConvSpec spec_;
  Layout dy_layout_;
  std::vector<Slice> slices_;
  ScratchLayout scratch_;
  int64_t x_image_ = 0, dy_image_ = 0;  // stored elements of an image

  BoundPrimitive weights_;  // brings W into the format that dX wants
  size_t weights_scratch_ = 0;
  std::vector<Part> dx_;

  int64_t sum_count_ = 0;  // stored elements of dW
  std::vector<Part> dw_;
  BoundPrimitive store_dw_, add_dw_;
};

// The primitives for the outputs that are wanted; nullopt where one is not
// to be had.
std::optional<GradForms> MakeGradForms(const ConvGradSpec& grad,
                                       const ConvLayouts& layouts,
                                       const std::vector<Slice>& slices) {
  GradForms forms;
  if (grad.has_dx) {
    forms.dx = MakeForms<MakeBackwardData>(grad.conv, layouts, slices);
    if (forms.dx.empty()) return std::nullopt;
  }
  if (grad.has_dw) {
    forms.dw = MakeForms<MakeBackwardWeights>(grad.conv, layouts, slices);
    if (forms.dw.empty()) return std::nullopt;
  }
  return forms;
}

}  // namespace
}  // namespace onednn

KernelChoice ChooseOneDnnConvGrad(const KernelRequest& request) {
  using namespace onednn;
  const ConvGradSpec grad = MakeConvGradSpec(request);
  const ConvSpec& spec = grad.conv;
  std::string reason = DeclineReason(request, spec);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  if (!grad.has_dx && !grad.has_dw) {
    return KernelChoice::Decline("neither dX nor dW is wanted");
  }
  if (DirectBeatsBlocks(spec, BlockSize(PreferredBlocks()))) {
    return KernelChoice::Decline("the channels do not fill a block");
  }

  KernelChoice choice;
  Guarded([&] {
    const SingleThread single;
    std::vector<Slice> slices = CutBatch(spec.batch, request.num_threads);
    for (const ConvLayouts& layouts :
         CandidateLayouts(spec, request.inputs[1].layout)) {
      const auto forms = MakeGradForms(grad, layouts, slices);
      if (!forms) continue;
      auto kernel = std::make_unique<ConvGradKernel>(grad, layouts.y,
                                                     std::move(slices), *forms);
      choice.scratch_bytes = kernel->scratch_bytes();
      choice.kernel = std::move(kernel);
      choice.input_layouts = {layouts.y, layouts.x};
      choice.input_layouts.resize(request.inputs.size(), Layout::kPlain);
      choice.output_layouts = {layouts.x, Layout::kPlain, Layout::kPlain};
      choice.flops = grad.flops();
      return;
    }
    choice.reason = "oneDNN has no fast kernel for these shapes";
  });
  return choice;
}

}  // namespace strop
