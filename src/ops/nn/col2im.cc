// SPDX-License-Identifier: Apache-2.0
#include "base/overflow.h"
#include "ops/gradient.h"
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

// image (N, C, ...), block shape
Window ImageWindow(const OpNode& node, const Shape& image,
                   const Tensor& block) {
  const auto sizes = ReadSmallInts(node, block);
  if (image.rank() != sizes.size + 2) {
    Fail(node, "a block of {} axes does not fit the image {}", sizes.size,
         image.ToString());
  }
  return BlockWindow(node, {image.begin() + 2, image.end()}, sizes.span());
}

void InferIm2Col(InferContext& c) {
  const TensorInfo& x = c.input(0);
  RequireIndices(c, 1);
  const Window w = ImageWindow(c.node(), x.shape, c.value(1));
  const int64_t taps = Shape({w.kernel.data(), w.rank}).element_count();
  const int64_t blocks = Shape({w.output.data(), w.rank}).element_count();
  int64_t columns = 0;
  if (MultiplyOverflows(x.shape[1], taps, &columns)) {
    Fail(c.node(), "{} channels of {} cells are too many", x.shape[1], taps);
  }
  c.SetOutput(0, x.type, {x.shape[0], columns, blocks});
}

// Every block is copied from where it stands in the image; outside is zero.
template <class T>
void Im2Col(const KernelContext& c) {
  const Shape& image = c.input(0).shape();
  const Window w = ImageWindow(c.node(), image, c.input(1));
  const int64_t size = w.input_size(), blocks = w.output_size();
  const int64_t taps = w.kernel_size(), stride = w.stride[w.rank - 1];
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const auto fill_columns = [&](int64_t plane) {
    const T* from = x + plane * size;
    T* to = y + plane * taps * blocks;
    std::fill_n(to, taps * blocks, T{0});
    ForEachTapRow(w,
                  [&](int64_t tap, int64_t at, int64_t block, int64_t count) {
                    for (int64_t j = 0; j < count; ++j)
                      to[tap * blocks + block + j] = from[at + j * stride];
                  });
  };
  c.ParallelFor(image[0] * image[1], static_cast<double>(taps * blocks),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) fill_columns(i);
                });
}

// --- Gradients

void Col2ImGradient(GradientContext& c) {
  c.Set(0, c.build().Op("Im2Col", {c.dy(), c.x(2)}, c.attributes(), kStrop));
}

}  // namespace

extern constexpr OpDef kCol2Im = {
    .name = "Col2Im",
    .inputs = {3, 3},
    .infer = InferCol2Im,
    .reference = Instantiate<NumbersAndBools>(
        []<class T>(const KernelContext& c) { Col2Im<T>(c); }),
    .value_inputs = {1, 2},
    .gradient = Rule(Col2ImGradient),
    .stops_gradient = {1, 2}};

// Image (N, C, ...), block shape -> (N, C * block size, blocks): what Col2Im
// with the same attributes adds up.
extern constexpr OpDef kIm2Col = {
    .name = "Im2Col",
    .domain = kStrop,
    .inputs = {2, 2},
    .infer = InferIm2Col,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Im2Col<T>(c); }),
    .value_inputs = {1},
    .stops_gradient = {1}};

}  // namespace strop::ops
