// SPDX-License-Identifier: Apache-2.0
//
// Y = W * im2col(X) + bias for each image, group and tile of outputs.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "providers/cpu/conv/im2col.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/cpu/gemm/gemm.h"

namespace strop {
namespace {

class GemmConv final : public Kernel {
 public:
  GemmConv(const ConvSpec& spec, bool has_bias, int num_threads)
      : spec_(spec),
        has_bias_(has_bias),
        pointwise_(IsPointwise(spec.window)),
        rows_(spec.group_channels() * spec.window.kernel_size()) {
    if (spec.is_empty()) return;
    tiles_ = TileOutputs(spec.window, rows_, kColumnsLimit);
    full_ = MakeGemm(tiles_.front().size);
    last_ = MakeGemm(tiles_.back().size);
    parts_ = std::min<int64_t>(
        num_threads, spec.batch * static_cast<int64_t>(tiles_.size()));
    ScratchLayout part;
    if (!pointwise_) part.AddFloats(rows_ * tiles_.front().size);
    gemm_scratch_ =
        part.Add(std::max(full_.scratch_bytes(), last_.scratch_bytes()));
    part_bytes_ = part.total();
  }

  size_t scratch_bytes() const {
    return static_cast<size_t>(parts_) * part_bytes_;
  }

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    const float* w = static_cast<const float*>(context.input(1).data());
    const float* bias = has_bias_
                            ? static_cast<const float*>(context.input(2).data())
                            : nullptr;
    float* y = static_cast<float*>(context.output(0).data());
    if (spec_.is_empty()) {
      FillBias(bias, 0, spec_.window.output_size(), spec_.batch, y);
      return;
    }
    const int64_t tiles = static_cast<int64_t>(tiles_.size());
    const int64_t units = spec_.batch * tiles;
    const double cost = spec_.flops() / static_cast<double>(parts_) / 30;
    context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        std::byte* scratch =
            context.scratch() + static_cast<size_t>(p) * part_bytes_;
        const int64_t last = PartStart(units, parts_, p + 1);
        for (int64_t u = PartStart(units, parts_, p); u < last; ++u) {
          const int64_t n = u / tiles;
          RunTile(tiles_[static_cast<size_t>(u % tiles)],
                  x + n * spec_.channels * spec_.window.input_size(), w, bias,
                  y + n * spec_.filters * spec_.window.output_size(), scratch);
        }
      }
    });
  }

 private:
  Gemm MakeGemm(int64_t columns) const {
    GemmProblem problem = GemmProblem::Dense(
        /*trans_a=*/false, /*trans_b=*/false, spec_.group_filters(), columns,
        rows_);
    if (pointwise_) problem.ldb = spec_.window.input_size();
    problem.ldc = spec_.window.output_size();
    return Gemm(problem, /*num_threads=*/1);
  }

  // y[n][m][first, first + size) = bias[m]
  void FillBias(const float* bias, int64_t first, int64_t size, int64_t images,
                float* y) const {
    for (int64_t row = 0; row < images * spec_.filters; ++row) {
      std::fill_n(y + row * spec_.window.output_size() + first, size,
                  bias ? bias[row % spec_.filters] : 0.0f);
    }
  }

  // x and y are those of one image.
  void RunTile(const ConvTile& tile, const float* x, const float* w,
               const float* bias, float* y, std::byte* scratch) const {
    const Gemm& gemm = tile.size == tiles_.front().size ? full_ : last_;
    if (bias) FillBias(bias, tile.first, tile.size, 1, y);
    for (int64_t g = 0; g < spec_.groups; ++g) {
      const float* input =
          x + g * spec_.group_channels() * spec_.window.input_size();
      const float* columns = input + tile.first;
      if (!pointwise_) {
        float* made = reinterpret_cast<float*>(scratch);
        Im2Col(tile, spec_.group_channels(), input, made);
        columns = made;
      }
      gemm.RunSerial(
          {.a = w + g * spec_.group_filters() * rows_,
           .b = columns,
           .c = y + g * spec_.group_filters() * spec_.window.output_size() +
                tile.first,
           .accumulate = bias != nullptr},
          scratch + gemm_scratch_);
    }
  }

  ConvSpec spec_;
  bool has_bias_;
  bool pointwise_;
  int64_t rows_;  // channels of a group times taps
  std::vector<ConvTile> tiles_;
  Gemm full_, last_;
  int64_t parts_ = 0;  // each runs on one thread
  size_t gemm_scratch_ = 0, part_bytes_ = 0;
};

}  // namespace

KernelChoice ChooseGemmConv(const KernelRequest& request) {
  const ConvSpec spec = MakeConvSpec(request.node, request.inputs[0].info.shape,
                                     request.inputs[1].info.shape);
  std::string reason = ConvDeclines(request, spec);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  auto kernel = std::make_unique<GemmConv>(spec, request.has_input(2),
                                           request.num_threads);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.flops = spec.flops();
  return choice;
}

}  // namespace strop
