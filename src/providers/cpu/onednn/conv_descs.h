// SPDX-License-Identifier: Apache-2.0
//
// How a convolution is put to oneDNN. Channels that do not fill their last
// block are described as if they did (6 channels of a blocked tensor as 8):
// oneDNN has no fast kernels for the odd counts. The weights of the channels
// that are not there are zero, so zero padding in gives zero padding out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "providers/cpu/conv/conv_spec.h"
#include "providers/cpu/onednn/onednn.h"

namespace strop::onednn {

// The first layer of a net: oneDNN has kernels for few, plain channels.
inline constexpr int64_t kFewChannels = 4;

struct ConvLayouts {
  Layout x, y;
};

// What to try, best first. `x` is how the input lies already.
std::vector<ConvLayouts> CandidateLayouts(const ConvSpec& spec, Layout x);

// Why oneDNN cannot serve the convolution at all; empty if it may.
std::string DeclineReason(const KernelRequest& request, const ConvSpec& spec);

// The descriptions for a slice of `images` images.
struct ConvDescs {
  dnnl::memory::desc x, w, y, bias;  // w: any format
  dnnl::memory::dims strides, dilations, pad_begin, pad_end;
};

// Nullopt where channels of a group do not fill blocks.
std::optional<ConvDescs> DescribeConv(const ConvSpec& spec,
                                      const ConvLayouts& layouts,
                                      int64_t images);

// The weights as ONNX has them.
dnnl::memory::desc PlainWeights(const ConvSpec& spec);
// `chosen` (a format of oneDNN's choice) without the channels that are not
// there: the same memory, in which they are padding.
dnnl::memory::desc WithoutPadding(const ConvSpec& spec,
                                  const dnnl::memory::desc& chosen);

// A primitive that copies `from` to `to`, or adds it to what `to` holds.
BoundPrimitive BoundReorder(const dnnl::memory::desc& from,
                            const dnnl::memory::desc& to, bool add = false);

// Stored elements of one image.
int64_t StoredImage(const dnnl::memory::desc& desc);

// A slice of the batch and the primitive that serves it.
struct Slice {
  int64_t first = 0;
  int64_t images = 0;
};
// At most `num_threads` nearly equal slices; the longer ones come first.
std::vector<Slice> CutBatch(int64_t batch, int num_threads);

}  // namespace strop::onednn
