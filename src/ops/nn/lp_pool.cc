// SPDX-License-Identifier: Apache-2.0
//
// LpPool and GlobalLpPool: (sum of |x|^p)^(1/p). Opset 1 has p as a float.
// And the gradient of LpPool.
#include <cmath>

#include "ops/gradient.h"
#include "ops/reduce.h"
#include "ops/window.h"

namespace strop::ops {
namespace {

using ReadP = double (*)(const OpNode&);

double Checked(const OpNode& node, double p) {
  if (!(p > 0 && std::isfinite(p))) Fail(node, "attribute p is {}", p);
  return p;
}

double FloatP(const OpNode& node) { return Checked(node, node.Float("p", 2)); }

double IntP(const OpNode& node) {
  return Checked(node, static_cast<double>(node.Int("p", 2)));
}

double Power(double x, double p) {
  x = std::abs(x);
  return p == 1 ? x : p == 2 ? x * x : std::pow(x, p);
}

double Root(double sum, double p) {
  return p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

template <ReadP read_p>
void InferLpPool(InferContext& c) {
  read_p(c.node());
  const TensorInfo& x = c.input(0);
  c.SetOutput(
      0, x.type,
      WindowOutputShape(PoolWindow(c.node(), x.shape), x.shape[0], x.shape[1]));
}

// The sum over the taps that lie inside the input, for output `index`.
template <class T>
double SumOfPowers(const Window& w, const T* plane, int64_t index, double p) {
  Window::Axes first, count;  // cells that the taps read
  int64_t cells = 1;
  for (size_t axis = w.rank; axis-- > 0;) {
    const int64_t start =
        index % w.output[axis] * w.stride[axis] - w.pad_begin[axis];
    index /= w.output[axis];
    const int64_t step = w.dilation[axis];
    const int64_t skipped = start >= 0 ? 0 : CeilDiv(-start, step);
    const int64_t room = w.input[axis] - start;
    const int64_t last =
        std::min(w.kernel[axis], room <= 0 ? 0 : CeilDiv(room, step));
    first[axis] = start + skipped * step;
    count[axis] = std::max<int64_t>(0, last - skipped);
    cells *= count[axis];
  }
  double sum = 0;
  for (int64_t cell = 0; cell < cells; ++cell) {
    int64_t rest = cell, offset = 0, step = 1;
    for (size_t axis = w.rank; axis-- > 0;) {
      offset += (first[axis] + rest % count[axis] * w.dilation[axis]) * step;
      rest /= count[axis];
      step *= w.input[axis];
    }
    sum += Power(static_cast<double>(plane[offset]), p);
  }
  return sum;
}

template <ReadP read_p>
constexpr ReferenceKernel LpPoolKernel() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const Shape& x = c.input(0).shape();
    const Window w = PoolWindow(c.node(), x);
    const double p = read_p(c.node());
    const int64_t in = w.input_size(), out = w.output_size();
    const T* from = c.in<T>(0).data();
    T* to = c.out<T>(0).data();
    c.ParallelFor(x[0] * x[1] * out, 5.0 * static_cast<double>(w.kernel_size()),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      const double sum =
                          SumOfPowers(w, from + i / out * in, i % out, p);
                      to[i] = static_cast<T>(Root(sum, p));
                    }
                  });
  });
}

template <ReadP read_p>
void InferGlobalLpPool(InferContext& c) {
  read_p(c.node());
  const TensorInfo& x = c.input(0);
  if (x.shape.rank() < 2) {
    Fail(c.node(), "wants batch and channels, not the shape {}",
         x.shape.ToString());
  }
  std::vector<int64_t> dims(x.shape.rank(), 1);
  dims[0] = x.shape[0];
  dims[1] = x.shape[1];
  c.SetOutput(0, x.type, Shape(dims));
}

template <ReadP read_p>
constexpr ReferenceKernel GlobalLpPoolKernel() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const Shape& x = c.input(0).shape();
    const int64_t inner = x.element_count(2, x.rank());
    const double p = read_p(c.node());
    const T* from = c.in<T>(0).data();
    T* to = c.out<T>(0).data();
    c.ParallelFor(x[0] * x[1], 5.0 * static_cast<double>(inner),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      double sum = 0;
                      for (int64_t j = 0; j < inner; ++j) {
                        sum +=
                            Power(static_cast<double>(from[i * inner + j]), p);
                      }
                      to[i] = static_cast<T>(Root(sum, p));
                    }
                  });
  });
}

// dY, X, Y
void InferLpPoolGrad(InferContext& c) {
  FloatP(c.node());
  const TensorInfo& x = c.input(1);
  const Window window = PoolWindow(c.node(), x.shape);
  for (const size_t i : {size_t{0}, size_t{2}}) {
    RequireSameType(c, 1, i);
    RequireShape(c, i, WindowOutputShape(window, x.shape[0], x.shape[1]));
  }
  c.SetOutput(0, x.type, x.shape);
}

// What an element of a window with norm y adds to its gradient, over dy:
// sign(x) (|x| / y)^(p - 1)
double LpSlope(double x, double y, double p) {
  if (y == 0 || x == 0) return 0;
  return std::copysign(p == 1 ? 1 : std::pow(std::abs(x) / y, p - 1), x);
}

template <class T>
void LpPoolGrad(const KernelContext& c) {
  const Shape& x_shape = c.input(1).shape();
  const Window w = PoolWindow(c.node(), x_shape);
  const double p = FloatP(c.node());
  const int64_t in = w.input_size(), out = w.output_size();
  const int64_t stride = w.stride[w.rank - 1];
  const auto spread_plane = [&](int64_t plane) {
    const T* dy = c.in<T>(0).data() + plane * out;
    const T* x = c.in<T>(1).data() + plane * in;
    const T* y = c.in<T>(2).data() + plane * out;
    T* dx = c.out<T>(0).data() + plane * in;
    std::fill_n(dx, in, T{0});
    ForEachTapRow(w, [&](int64_t, int64_t xo, int64_t yo, int64_t count) {
      for (int64_t j = 0; j < count; ++j) {
        const int64_t at = xo + j * stride;
        const double slope = LpSlope(static_cast<double>(x[at]),
                                     static_cast<double>(y[yo + j]), p);
        dx[at] += static_cast<T>(slope * dy[yo + j]);
      }
    });
  };
  c.ParallelFor(x_shape[0] * x_shape[1],
                10 * static_cast<double>(out * w.kernel_size()),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) spread_plane(i);
                });
}

// --- Gradients

template <ReadP read_p>
void LpPoolGradient(GradientContext& c) {
  Attributes attributes = c.attributes();
  std::erase_if(attributes, [](const auto& a) { return a.first == "p"; });
  attributes.emplace_back("p", static_cast<float>(read_p(c.node())));
  c.Set(0,
        c.build().Op("LpPoolGrad", {c.dy(), c.x(), c.y()}, attributes, kStrop));
}

// dx = dy sign(x) (|x| / y)^(p - 1); planes without a norm get 0.
template <ReadP read_p>
void GlobalLpPoolGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const double p = read_p(c.node());
  const Var x = c.x(), y = c.y(), zero = b.Scalar(0, b.type(x));
  Var slope = x / y;
  if (p != 2) {
    const Var power = b.Scalar(p - 1, b.type(x));
    slope = b.Op("Sign", {x}) * b.Op("Pow", {b.Op("Abs", {slope}), power});
  }
  c.Set(0, b.Where(b.Compare("Equal", x, zero), zero, c.dy() * slope));
}

}  // namespace

extern constexpr OpDef kLpPool1 = {.name = "LpPool",
                                   .infer = InferLpPool<FloatP>,
                                   .reference = LpPoolKernel<FloatP>(),
                                   .gradient = Rule(LpPoolGradient<FloatP>)};

extern constexpr OpDef kLpPool2 = {.name = "LpPool",
                                   .since = 2,
                                   .infer = InferLpPool<IntP>,
                                   .reference = LpPoolKernel<IntP>(),
                                   .gradient = Rule(LpPoolGradient<IntP>)};

// dY, X, Y -> dX; the attributes of LpPool, with p as a float.
extern constexpr OpDef kLpPoolGrad = {
    .name = "LpPoolGrad",
    .domain = kStrop,
    .inputs = {3, 3},
    .infer = InferLpPoolGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LpPoolGrad<T>(c); })};

extern constexpr OpDef kGlobalLpPool1 = {
    .name = "GlobalLpPool",
    .infer = InferGlobalLpPool<FloatP>,
    .reference = GlobalLpPoolKernel<FloatP>(),
    .gradient = Rule(GlobalLpPoolGradient<FloatP>)};

extern constexpr OpDef kGlobalLpPool2 = {
    .name = "GlobalLpPool",
    .since = 2,
    .infer = InferGlobalLpPool<IntP>,
    .reference = GlobalLpPoolKernel<IntP>(),
    .gradient = Rule(GlobalLpPoolGradient<IntP>)};

}  // namespace strop::ops
