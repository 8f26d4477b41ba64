// SPDX-License-Identifier: Apache-2.0
//
// A number for each image and channel is given to all positions.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "base/round.h"
#include "providers/cpu/conv/kernels.h"

namespace strop {
namespace {

class ExpandKernel final : public Kernel {
 public:
  ExpandKernel(const Shape& y, Layout layout)
      : images_(y[0]),
        channels_(y[1]),
        positions_(y.element_count(2, y.rank())),
        layout_(layout) {}

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    float* y = static_cast<float*>(context.output(0).data());
    const int64_t block = BlockSize(layout_);
    const int64_t blocks = CeilDiv(channels_, block);
    const double cost = 0.1 * static_cast<double>(positions_ * block);
    context.ParallelFor(images_ * blocks, cost,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const int64_t first = i % blocks * block;
                            RunBlock(x + i / blocks * channels_ + first,
                                     std::min(block, channels_ - first),
                                     y + i * positions_ * block);
                          }
                        });
  }

 private:
  void RunBlock(const float* x, int64_t real, float* y) const {
    if (layout_ == Layout::kPlain) {
      std::fill_n(y, positions_, x[0]);
      return;
    }
    const int64_t block = BlockSize(layout_);
    float lanes[16] = {};
    std::copy_n(x, real, lanes);
    for (int64_t p = 0; p < positions_; ++p) {
      std::copy_n(lanes, block, y + p * block);
    }
  }

  int64_t images_, channels_, positions_;
  Layout layout_;
};

}  // namespace

KernelChoice ChooseExpandLike(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  const Shape& y = request.outputs[0].shape;
  if (x.info.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.info.type));
  }
  const Shape& from = x.info.shape;
  const bool fits = from.rank() == y.rank() && y.rank() > 2 &&
                    from[0] == y[0] && from[1] == y[1] &&
                    from.element_count(2, from.rank()) == 1;
  if (!fits) return KernelChoice::Decline("not a number a channel");
  const Layout layout = request.inputs[1].info.shape == y
                            ? request.inputs[1].layout
                            : Layout::kPlain;
  KernelChoice choice;
  choice.kernel = std::make_unique<ExpandKernel>(y, layout);
  choice.input_layouts = {Layout::kPlain, request.inputs[1].layout};
  choice.output_layouts = {layout};
  return choice;
}

}  // namespace strop
