// SPDX-License-Identifier: Apache-2.0
#include "ops/window.h"

namespace strop::ops {
namespace {

Window ReadWindow(const OpNode& node, const Tensor& image,
                  const Tensor& block) {
  return BlockWindow(node, ReadSmallInts(node, image).span(),
                     ReadSmallInts(node, block).span());
}

// Input (N, C * block size, blocks), image shape, block shape
void InferCol2Im(InferContext& c) {
  const TensorInfo& x = c.input(0);
  RequireIndices(c, 1);
  RequireIndices(c, 2);
  const Window w = ReadWindow(c.node(), c.value(1), c.value(2));
  if (x.shape.rank() != 3) {
    Fail(c.node(), "wants (batch, columns, blocks), not the shape {}",
         x.shape.ToString());
  }
  // As shapes, which do not overflow.
  const int64_t taps = Shape({w.kernel.data(), w.rank}).element_count();
  const int64_t blocks = Shape({w.output.data(), w.rank}).element_count();
  if (x.shape[1] % taps != 0 || x.shape[2] != blocks) {
    Fail(c.node(), "{} does not hold {} blocks of {} cells", x.shape.ToString(),
         blocks, taps);
  }
  c.SetOutput(0, x.type, WindowInputShape(w, x.shape[0], x.shape[1] / taps));
}

// Every block is added where it stood in the image; a sum of bools is true if
// one of them is.
template <class T>
void Col2Im(const KernelContext& c) {
  const Window w = ReadWindow(c.node(), c.input(1), c.input(2));
  const int64_t size = w.input_size(), blocks = w.output_size();
  const int64_t taps = w.kernel_size(), stride = w.stride[w.rank - 1];
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const Shape& image = c.output(0).shape();
  const auto fill_plane = [&](int64_t plane) {
    const T* from = x + plane * taps * blocks;
    T* to = y + plane * size;
    std::fill_n(to, size, T{0});
    ForEachTapRow(w,
                  [&](int64_t tap, int64_t at, int64_t block, int64_t count) {
                    for (int64_t j = 0; j < count; ++j) {
                      T& cell = to[at + j * stride];
                      cell = Plus(cell, from[tap * blocks + block + j]);
                    }
                  });
  };
  c.ParallelFor(image[0] * image[1], static_cast<double>(taps * blocks),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) fill_plane(i);
                });
}

}  // namespace

extern constexpr OpDef kCol2Im = {
    .name = "Col2Im",
    .inputs = {3, 3},
    .infer = InferCol2Im,
    .reference = Instantiate<NumbersAndBools>(
        []<class T>(const KernelContext& c) { Col2Im<T>(c); }),
    .value_inputs = {1, 2},
    .stops_gradient = {1, 2}};

}  // namespace strop::ops
