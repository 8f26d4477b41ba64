// SPDX-License-Identifier: Apache-2.0
//
// From a convolution to the plans of direct_loops.h.
#pragma once

#include <string>
#include <vector>

#include "providers/cpu/conv/conv_spec.h"
#include "providers/cpu/conv/direct_loops.h"
#include "providers/cpu/conv/row_loops.h"

namespace strop {

// Plans that share a padded image, and how the images that they read are
// padded. Each plan's packed weights lie behind those of the one before.
struct DirectPass {
  std::vector<DirectPlan> plans;
  ImagePadding padding;

  int64_t packed_count() const;
};

// Why the direct loops cannot serve, forward or backward; empty if they can.
std::string DirectDeclines(const ConvSpec& spec);

// Whether they beat kernels that compute the padding of blocks of `block`
// channels as well, since not even one block is full.
bool DirectBeatsBlocks(const ConvSpec& spec, int64_t block);

// The layout for the output of PlanForward from X in layout `x`, and for that
// of PlanBackward from dY in layout `dy` where no producer of X chose one: what
// fills the vectors best.
Layout ForwardLayout(const ConvSpec& spec, Layout x);
Layout BackwardLayout(const ConvSpec& spec, Layout dy);

// Y from X; the gradient of W reads X in the same way. One plan.
DirectPass PlanForward(const ConvSpec& spec, Layout x, Layout y);
// dX from dY. With strides there is a plan for each of the sets of elements
// that the same taps reach.
DirectPass PlanBackward(const ConvSpec& spec, Layout x, Layout dy);

// packed[term][filter] = w[source of term + filter * filter_step] for each
// plan, zero for filters that pad the last block.
void PackWeights(const KernelContext& context, const DirectPass& pass,
                 const float* w, float* packed);
// w = the sum of `count` packed gradients in order, or w += it.
void UnpackSum(const KernelContext& context, const DirectPlan& plan,
               const float* packed, int64_t count, bool overwrite, float* w);

// How many padded images are kept at a time, that weights pass by all of
// them before they leave the cache.
int64_t ImagesAtATime(const DirectPass& pass, int64_t images);

// Runs a forward pass over a batch. It is cut into parts, one for each
// thread, with padded images for each.
class DirectRunner {
 public:
  DirectRunner() = default;
  DirectRunner(const DirectPass& pass, int64_t batch, int num_threads);

  // Floats of scratch.
  int64_t scratch_count() const { return parts_ * part_scratch(); }
  void Run(const KernelContext& context, const float* x, const float* w,
           const float* bias, float* y, float* scratch) const;

 private:
  void RunPart(int64_t part, const float* x, const float* w, const float* bias,
               float* y, float* padded) const;
  // Pairs of blocks [first, last) of the images [image, image + count).
  void RunImages(int64_t image, int64_t count, int64_t first, int64_t last,
                 const float* x, const float* w, const float* bias, float* y,
                 float* padded) const;
  int64_t part_scratch() const {
    return pass_.padding.IsIdentity() ? 0
                                      : images_ * pass_.padding.padded_count();
  }

  DirectPass pass_;
  // One of them is set.
  DirectForwardFunction run_ = nullptr;
  RowForwardFunction run_rows_ = nullptr;
  int64_t batch_ = 0, parts_ = 1;
  int64_t images_ = 1;       // at a time
  int64_t block_parts_ = 1;  // that the blocks are cut into
};

}  // namespace strop
