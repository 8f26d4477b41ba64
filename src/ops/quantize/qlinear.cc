// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft's ops on quantized tensors: the numbers that the inputs stand
// for are computed with, and the result is quantized with the scale and zero
// point that the node names for it.
#include <cmath>

#include "ops/axis.h"
#include "ops/elementwise.h"
#include "ops/quantize/quantized.h"

namespace strop::ops {
namespace {

// --- One input: x, scale, zero point; scale and zero point of y

void InferOneInput(InferContext& c) {
  const TensorInfo& x = c.input(0);
  RequireQuantizedTriple(c, 0);
  RequireQuantization(c, 3, 4, x.type);
  c.SetOutput(0, x.type, x.shape);
}

template <class F>
void MapQuantized(const KernelContext& c, F f) {
  const Quantization from = ReadQuantization(c, 1, 2);
  const Quantization to = ReadQuantization(c, 3, 4);
  c.ParallelFor(c.output(0).element_count(), 10,
                [&](int64_t begin, int64_t end) {
                  double x[kQuantBlock];
                  for (int64_t i = begin; i < end; i += kQuantBlock) {
                    const int64_t count = std::min(kQuantBlock, end - i);
                    Dequantize(c.node(), c.input(0), from, i, 1, count, x);
                    for (int64_t j = 0; j < count; ++j) x[j] = f(x[j]);
                    Quantize(c.node(), c.output(0), to, i, count, x);
                  }
                });
}

void QLinearSigmoid(const KernelContext& c) {
  MapQuantized(c, [](double x) { return 1 / (1 + std::exp(-x)); });
}

void QLinearLeakyRelu(const KernelContext& c) {
  const double alpha = c.node().Float("alpha", 0.01f);
  MapQuantized(c, [alpha](double x) { return x < 0 ? alpha * x : x; });
}

// --- Softmax

// Below opset 13 all axes from `axis` on are one line.
AxisSizes SoftmaxLines(const OpNode& node, const Shape& x) {
  const size_t axis = NormalizeAxis(node, node.Int("axis", -1), x.rank());
  if (node.Int("opset") < 13) {
    return {x.element_count(0, axis), x.element_count(axis, x.rank()), 1};
  }
  return SizesAlong(x, axis);
}

void InferQLinearSoftmax(InferContext& c) {
  InferOneInput(c);
  SoftmaxLines(c.node(), c.input(0).shape);
}

void QLinearSoftmax(const KernelContext& c) {
  const OpNode& node = c.node();
  const AxisSizes lines = SoftmaxLines(node, c.input(0).shape());
  const Quantization from = ReadQuantization(c, 1, 2);
  const Quantization to = ReadQuantization(c, 3, 4);
  const auto at = [&](int64_t i) { return DoubleAt(node, c.input(0), i); };
  const auto softmax_line = [&](int64_t line) {
    const int64_t start = lines.Start(line);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < lines.size; ++i) {
      largest = std::max(largest, at(start + i * lines.inner));
    }
    const auto power = [&](int64_t i) {
      return std::exp((at(start + i * lines.inner) - largest) * from.scale);
    };
    for (int64_t i = 0; i < lines.size; ++i) sum += power(i);
    for (int64_t i = 0; i < lines.size; ++i) {
      double y = power(i) / sum;
      Quantize(node, c.output(0), to, start + i * lines.inner, 1, &y);
    }
  };
  if (lines.size == 0) return;
  c.ParallelFor(lines.lines(), 40.0 * static_cast<double>(lines.size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) softmax_line(i);
                });
}

// --- Two inputs with broadcasting: A, scale, zero point, B, scale, zero
// point, scale and zero point of C

void InferTwoInputs(InferContext& c) {
  const DataType type = c.input(0).type;
  RequireQuantizedTriple(c, 0);
  RequireSameType(c, 0, 3);
  RequireQuantizedTriple(c, 3);
  RequireQuantization(c, 6, 7, type);
  c.SetOutput(0, type,
              BroadcastShapes(c.node(), c.input(0).shape, c.input(3).shape));
}

// Cuts a run of a BroadcastLoop into blocks: block(out, in, count).
template <size_t N, class F>
void ForEachBlock(const BroadcastLoop<N>& loop, int64_t begin, int64_t end,
                  F&& block) {
  loop.Run(begin, end,
           [&](int64_t out, std::array<int64_t, N> in, int64_t count) {
             for (int64_t done = 0; done < count; done += kQuantBlock) {
               const int64_t size = std::min(kQuantBlock, count - done);
               block(out + done, in, size);
               for (size_t n = 0; n < N; ++n) in[n] += size * loop.step(n);
             }
           });
}

template <class F>
void CombineQuantized(const KernelContext& c, F f) {
  const OpNode& node = c.node();
  const Tensor& a = c.input(0);
  const Tensor& b = c.input(3);
  const Quantization qa = ReadQuantization(c, 1, 2);
  const Quantization qb = ReadQuantization(c, 4, 5);
  const Quantization qy = ReadQuantization(c, 6, 7);
  const BroadcastLoop<2> loop(c.output(0).shape(), {&a.shape(), &b.shape()});
  const auto block = [&](int64_t out, const std::array<int64_t, 2>& in,
                         int64_t count) {
    double x[kQuantBlock], y[kQuantBlock];
    Dequantize(node, a, qa, in[0], loop.step(0), count, x);
    Dequantize(node, b, qb, in[1], loop.step(1), count, y);
    for (int64_t j = 0; j < count; ++j) x[j] = f(x[j], y[j]);
    Quantize(node, c.output(0), qy, out, count, x);
  };
  c.ParallelFor(c.output(0).element_count(), 5,
                [&](int64_t begin, int64_t end) {
                  ForEachBlock(loop, begin, end, block);
                });
}

void QLinearAdd(const KernelContext& c) {
  CombineQuantized(c, [](double a, double b) { return a + b; });
}

void QLinearMul(const KernelContext& c) {
  CombineQuantized(c, [](double a, double b) { return a * b; });
}

// --- Where: condition; X, scale, zero point; Y, scale, zero point; scale and
// zero point of the result

void InferQLinearWhere(InferContext& c) {
  const OpNode& node = c.node();
  const DataType type = c.input(1).type;
  RequireType(c, 0, DataType::kBool);
  RequireQuantizedTriple(c, 1);
  RequireSameType(c, 1, 4);
  RequireQuantizedTriple(c, 4);
  RequireQuantization(c, 7, 8, type);
  c.SetOutput(0, type,
              BroadcastShapes(
                  node, c.input(0).shape,
                  BroadcastShapes(node, c.input(1).shape, c.input(4).shape)));
}

void QLinearWhere(const KernelContext& c) {
  const OpNode& node = c.node();
  const bool* condition = c.in<bool>(0).data();
  const Tensor& x = c.input(1);
  const Tensor& y = c.input(4);
  const Quantization qx = ReadQuantization(c, 2, 3);
  const Quantization qy = ReadQuantization(c, 5, 6);
  const Quantization qz = ReadQuantization(c, 7, 8);
  const BroadcastLoop<3> loop(c.output(0).shape(),
                              {&c.input(0).shape(), &x.shape(), &y.shape()});
  const auto block = [&](int64_t out, const std::array<int64_t, 3>& in,
                         int64_t count) {
    double then[kQuantBlock], otherwise[kQuantBlock];
    Dequantize(node, x, qx, in[1], loop.step(1), count, then);
    Dequantize(node, y, qy, in[2], loop.step(2), count, otherwise);
    for (int64_t j = 0; j < count; ++j) {
      if (!condition[in[0] + j * loop.step(0)]) then[j] = otherwise[j];
    }
    Quantize(node, c.output(0), qz, out, count, then);
  };
  c.ParallelFor(c.output(0).element_count(), 5,
                [&](int64_t begin, int64_t end) {
                  ForEachBlock(loop, begin, end, block);
                });
}

// --- Concat: scale and zero point of Y, then any number of tensors, each
// with scale and zero point

void InferQLinearConcat(InferContext& c) {
  const OpNode& node = c.node();
  if (c.input_count() % 3 != 2) {
    Fail(node, "takes 2 inputs and three more for each tensor, not {}",
         c.input_count());
  }
  const TensorInfo& first = c.input(2);
  RequireQuantized(c, 2);
  RequireQuantization(c, 0, 1, first.type);
  const size_t axis = NormalizeAxis(node, node.Int("axis"), first.shape.rank());
  std::vector<int64_t> dims(first.shape.begin(), first.shape.end());
  for (size_t i = 5; i < c.input_count(); i += 3) {
    const Shape& shape = c.input(i).shape;
    RequireSameType(c, 2, i);
    bool fits = shape.rank() == dims.size();
    for (size_t a = 0; fits && a < dims.size(); ++a) {
      fits = a == axis || shape[a] == dims[a];
    }
    if (!fits) {
      Fail(node, "inputs of shapes {} and {} do not join along axis {}",
           first.shape.ToString(), shape.ToString(), axis);
    }
    dims[axis] += shape[axis];
  }
  for (size_t i = 2; i < c.input_count(); i += 3) {
    RequireQuantizedTriple(c, i);
  }
  c.SetOutput(0, first.type, Shape(dims));
}

void QLinearConcat(const KernelContext& c) {
  const OpNode& node = c.node();
  const Shape& y = c.output(0).shape();
  const size_t axis = NormalizeAxis(node, node.Int("axis"), y.rank());
  const int64_t outer = y.element_count(0, axis);
  const int64_t line = y.element_count(axis, y.rank());
  const Quantization to = ReadQuantization(c, 0, 1);
  int64_t before = 0;
  for (size_t i = 2; i < c.input_count(); i += 3) {
    const Tensor& x = c.input(i);
    const Quantization from = ReadQuantization(c, i + 1, i + 2);
    const int64_t part = x.shape().element_count(axis, y.rank());
    double values[kQuantBlock];
    for (int64_t row = 0; row < outer; ++row) {
      for (int64_t j = 0; j < part; j += kQuantBlock) {
        const int64_t count = std::min(kQuantBlock, part - j);
        Dequantize(node, x, from, row * part + j, 1, count, values);
        Quantize(node, c.output(0), to, row * line + before + j, count, values);
      }
    }
    before += part;
  }
}

}  // namespace

extern constexpr OpDef kQLinearSigmoid = {
    .name = "QLinearSigmoid",
    .domain = kMicrosoft,
    .inputs = {2, 5},
    .infer = InferOneInput,
    .reference = Untyped<EightBits>(QLinearSigmoid),
    .stops_gradient = {0, 1, 2, 3, 4}};

extern constexpr OpDef kQLinearLeakyRelu = {
    .name = "QLinearLeakyRelu",
    .domain = kMicrosoft,
    .inputs = {2, 5},
    .infer = InferOneInput,
    .reference = Untyped<EightBits>(QLinearLeakyRelu),
    .stops_gradient = {0, 1, 2, 3, 4}};

extern constexpr OpDef kQLinearSoftmax = {
    .name = "QLinearSoftmax",
    .domain = kMicrosoft,
    .inputs = {2, 5},
    .infer = InferQLinearSoftmax,
    .reference = Untyped<EightBits>(QLinearSoftmax),
    .stops_gradient = {0, 1, 2, 3, 4}};

extern constexpr OpDef kQLinearAdd = {
    .name = "QLinearAdd",
    .domain = kMicrosoft,
    .inputs = {2, 8},
    .infer = InferTwoInputs,
    .reference = Untyped<EightBits>(QLinearAdd),
    .stops_gradient = {0, 1, 2, 3, 4, 5, 6, 7}};

extern constexpr OpDef kQLinearMul = {
    .name = "QLinearMul",
    .domain = kMicrosoft,
    .inputs = {2, 8},
    .infer = InferTwoInputs,
    .reference = Untyped<EightBits>(QLinearMul),
    .stops_gradient = {0, 1, 2, 3, 4, 5, 6, 7}};

extern constexpr OpDef kQLinearWhere = {
    .name = "QLinearWhere",
    .domain = kMicrosoft,
    .inputs = {3, 9},
    .infer = InferQLinearWhere,
    .reference = Untyped<EightBits, 1>(QLinearWhere),
    .stops_gradient = {0, 1, 2, 3, 4, 5, 6, 7, 8}};

extern constexpr OpDef kQLinearConcat = {
    .name = "QLinearConcat",
    .domain = kMicrosoft,
    .inputs = {1, Arity::kVariadic},
    .infer = InferQLinearConcat,
    .reference = Untyped<EightBits, 2>(QLinearConcat)};

}  // namespace strop::ops
