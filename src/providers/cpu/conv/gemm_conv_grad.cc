// SPDX-License-Identifier: Apache-2.0
//
//   dX = col2im(W^T * dY)      dW = dY * im2col(X)^T      dB = sum of dY
// for each image, group and tile of outputs.
//
// dX: a thread owns whole images and groups, as windows overlap. dW: each
// part of the batch sums into memory of its own; the sums are added in order.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "providers/cpu/conv/bias_grad.h"
#include "providers/cpu/conv/im2col.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/cpu/gemm/gemm.h"

namespace strop {
namespace {

class GemmConvGrad final : public Kernel {
 public:
  GemmConvGrad(const ConvGradSpec& grad, int num_threads)
      : grad_(grad),
        spec_(grad.conv),
        pointwise_(IsPointwise(spec_.window)),
        rows_(spec_.group_channels() * spec_.window.kernel_size()) {
    const ConvSpec& spec = spec_;
    if (spec.is_empty()) return;
    tiles_ = TileOutputs(spec.window, rows_, kColumnsLimit);
    const int64_t images = spec.batch;
    dx_parts_ = std::min<int64_t>(num_threads, images * spec.groups);
    dw_parts_ = std::min<int64_t>(num_threads,
                                  images * static_cast<int64_t>(tiles_.size()));
    ScratchLayout part;
    if (!pointwise_) part.AddFloats(rows_ * tiles_.front().size);
    size_t gemm_bytes = 0;
    for (int last = 0; last < 2; ++last) {
      const int64_t size = last ? tiles_.back().size : tiles_.front().size;
      dx_gemm_[last] = MakeDxGemm(size);
      dw_gemm_[last] = MakeDwGemm(size);
      gemm_bytes = std::max({gemm_bytes, dx_gemm_[last].scratch_bytes(),
                             dw_gemm_[last].scratch_bytes()});
    }
    gemm_scratch_ = part.Add(gemm_bytes);
    part_bytes_ = part.total();
    ScratchLayout all;
    all.Add(static_cast<size_t>(std::max(grad.has_dx ? dx_parts_ : 0,
                                         grad.has_dw ? dw_parts_ : 0)) *
            part_bytes_);
    if (grad.has_dw) {
      sums_scratch_ = all.AddFloats((dw_parts_ - 1) * spec.weight_count());
    }
    scratch_bytes_ = all.total();
  }

  size_t scratch_bytes() const { return scratch_bytes_; }

  void Run(const KernelContext& context) override {
    const bool overwrite = grad_.Overwrites(context);
    if (grad_.has_dx) RunDx(context);
    if (grad_.has_dw) RunDw(context, overwrite);
    if (grad_.has_db) {
      BiasGradient(context, grad_.dy_shape, Layout::kPlain, Input(context, 0),
                   overwrite, grad_.db(context));
    }
  }

 private:
  static const float* Input(const KernelContext& context, size_t i) {
    return static_cast<const float*>(context.input(i).data());
  }

  int64_t input_size() const { return spec_.window.input_size(); }
  int64_t output_size() const { return spec_.window.output_size(); }

  // columns = W^T (rows x filters) * dY (filters x size)
  Gemm MakeDxGemm(int64_t size) const {
    GemmProblem problem =
        GemmProblem::Dense(/*trans_a=*/true, /*trans_b=*/false, rows_, size,
                           spec_.group_filters());
    problem.ldb = output_size();
    if (pointwise_) problem.ldc = input_size();
    return Gemm(problem, /*num_threads=*/1);
  }

  // dW += dY (filters x size) * columns^T (size x rows)
  Gemm MakeDwGemm(int64_t size) const {
    GemmProblem problem =
        GemmProblem::Dense(/*trans_a=*/false, /*trans_b=*/true,
                           spec_.group_filters(), rows_, size);
    problem.lda = output_size();
    if (pointwise_) problem.ldb = input_size();
    return Gemm(problem, /*num_threads=*/1);
  }

  int IsLast(const ConvTile& tile) const {
    return tile.size != tiles_.front().size;
  }

  void RunDx(const KernelContext& context) {
    float* dx = static_cast<float*>(context.output(0).data());
    if (spec_.is_empty()) {
      std::fill_n(dx, spec_.batch * spec_.channels * input_size(), 0.0f);
      return;
    }
    const int64_t units = spec_.batch * spec_.groups;
    const double cost = spec_.flops() / static_cast<double>(dx_parts_) / 30;
    context.ParallelFor(dx_parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        std::byte* scratch =
            context.scratch() + static_cast<size_t>(p) * part_bytes_;
        const int64_t last = PartStart(units, dx_parts_, p + 1);
        for (int64_t u = PartStart(units, dx_parts_, p); u < last; ++u) {
          const int64_t g = u % spec_.groups;
          DxOfGroup(
              Input(context, 0) + u * spec_.group_filters() * output_size(),
              Input(context, 2) + g * spec_.group_filters() * rows_,
              dx + u * spec_.group_channels() * input_size(), scratch);
        }
      }
    });
  }

  // All for one image and group.
  void DxOfGroup(const float* dy, const float* w, float* dx,
                 std::byte* scratch) const {
    if (!pointwise_) {
      std::fill_n(dx, spec_.group_channels() * input_size(), 0.0f);
    }
    float* columns = reinterpret_cast<float*>(scratch);
    for (const ConvTile& tile : tiles_) {
      dx_gemm_[IsLast(tile)].RunSerial(
          {.a = w,
           .b = dy + tile.first,
           .c = pointwise_ ? dx + tile.first : columns},
          scratch + gemm_scratch_);
      if (!pointwise_) Col2Im(tile, spec_.group_channels(), columns, dx);
    }
  }

  void RunDw(const KernelContext& context, bool overwrite) {
    float* dw = grad_.dw(context);
    const int64_t count = spec_.weight_count();
    if (spec_.is_empty()) {
      if (overwrite) std::fill_n(dw, count, 0.0f);
      return;
    }
    float* sums = FloatsAt(context, sums_scratch_);
    const double cost = spec_.flops() / static_cast<double>(dw_parts_) / 30;
    context.ParallelFor(dw_parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        DwOfPart(context, p, p == 0 ? dw : sums + (p - 1) * count,
                 /*accumulate=*/p == 0 && !overwrite);
      }
    });
    if (dw_parts_ == 1) return;
    context.ParallelFor(count, 0.2 * static_cast<double>(dw_parts_),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t p = 0; p < dw_parts_ - 1; ++p) {
                            for (int64_t i = begin; i < end; ++i) {
                              dw[i] += sums[p * count + i];
                            }
                          }
                        });
  }

  void DwOfPart(const KernelContext& context, int64_t p, float* dw,
                bool accumulate) const {
    std::byte* scratch =
        context.scratch() + static_cast<size_t>(p) * part_bytes_;
    const int64_t tiles = static_cast<int64_t>(tiles_.size());
    const int64_t units = spec_.batch * tiles;
    const int64_t last = PartStart(units, dw_parts_, p + 1);
    for (int64_t u = PartStart(units, dw_parts_, p); u < last; ++u) {
      const int64_t n = u / tiles;
      DwOfTile(tiles_[static_cast<size_t>(u % tiles)],
               Input(context, 0) + n * spec_.filters * output_size(),
               Input(context, 1) + n * spec_.channels * input_size(),
               accumulate, dw, scratch);
      accumulate = true;
    }
  }

  // dy and x are those of one image.
  void DwOfTile(const ConvTile& tile, const float* dy, const float* x,
                bool accumulate, float* dw, std::byte* scratch) const {
    for (int64_t g = 0; g < spec_.groups; ++g) {
      const float* input = x + g * spec_.group_channels() * input_size();
      const float* columns = input + tile.first;
      if (!pointwise_) {
        float* made = reinterpret_cast<float*>(scratch);
        Im2Col(tile, spec_.group_channels(), input, made);
        columns = made;
      }
      dw_gemm_[IsLast(tile)].RunSerial(
          {.a = dy + g * spec_.group_filters() * output_size() + tile.first,
           .b = columns,
           .c = dw + g * spec_.group_filters() * rows_,
           .accumulate = accumulate},
          scratch + gemm_scratch_);
    }
  }

  ConvGradSpec grad_;
  ConvSpec spec_;
  bool pointwise_;
  int64_t rows_;  // channels of a group times taps
  std::vector<ConvTile> tiles_;
  Gemm dx_gemm_[2], dw_gemm_[2];  // for full tiles and for the last one
  int64_t dx_parts_ = 0, dw_parts_ = 0;
  size_t gemm_scratch_ = 0, part_bytes_ = 0, sums_scratch_ = 0;
  size_t scratch_bytes_ = 0;
};

}  // namespace

KernelChoice ChooseGemmConvGrad(const KernelRequest& request) {
  const ConvGradSpec spec = MakeConvGradSpec(request);
  std::string reason = ConvDeclines(request, spec.conv);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  auto kernel = std::make_unique<GemmConvGrad>(spec, request.num_threads);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.flops = spec.flops();
  return choice;
}

}  // namespace strop
