// SPDX-License-Identifier: Apache-2.0
//
// From a convolution to the plans of direct_loops.h.
#pragma once

#include <string>

#include "providers/cpu/conv/conv_spec.h"
#include "providers/cpu/conv/direct_loops.h"

namespace strop {

// A plan and how the images that it reads are padded.
struct DirectPass {
  DirectPlan plan;
  ImagePadding padding;
};

// Why the direct loops cannot serve, forward or backward; empty if they can.
std::string DirectDeclines(const ConvSpec& spec);

// Whether they beat kernels that compute the padding of blocks of `block`
// channels as well, since not even one block is full.
bool DirectBeatsBlocks(const ConvSpec& spec, int64_t block);

// Y from X; the gradient of W reads X in the same way.
DirectPass PlanForward(const ConvSpec& spec, Layout x, Layout y);
// dX from dY: the same loops on the flipped kernel, with zeros between the
// elements of dY where the stride is above one.
DirectPass PlanBackward(const ConvSpec& spec, Layout x, Layout dy);

// packed[row][tap][filter] = w[filter][row][tap], zero for filters that pad
// the last block.
void PackForward(const KernelContext& context, const DirectPlan& plan,
                 const float* w, float* packed);
// The same of the flipped kernel with filters and channels exchanged.
void PackBackward(const KernelContext& context, const DirectPlan& plan,
                  const float* w, float* packed);
// w = the sum of `count` packed gradients in order, or w += it.
void UnpackSum(const KernelContext& context, const DirectPlan& plan,
               const float* packed, int64_t count, bool overwrite, float* w);

// Runs a forward pass over a batch. It is cut into parts, one for each
// thread, with a padded image for each.
class DirectRunner {
 public:
  DirectRunner() = default;
  DirectRunner(const DirectPass& pass, int64_t batch, int num_threads);

  // Floats of scratch.
  int64_t scratch_count() const {
    return pass_.padding.IsIdentity() ? 0 : parts_ * pass_.plan.padded_count();
  }
  void Run(const KernelContext& context, const float* x, const float* w,
           const float* bias, float* y, float* scratch) const;

 private:
  void RunPart(int64_t part, const float* x, const float* w, const float* bias,
               float* y, float* padded) const;

  DirectPass pass_;
  DirectForwardFunction run_ = nullptr;
  int64_t batch_ = 0, parts_ = 1;
  int64_t groups_ = 1;  // of blocks, that an image is cut into
};

}  // namespace strop
