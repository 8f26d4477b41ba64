// SPDX-License-Identifier: Apache-2.0
//
// Softmax, LogSoftmax, their gradients, and Hardmax. Until opset 12 the tensor
// is seen as a matrix cut at `axis` and a whole row is normalized; from 13 on
// only the one axis is.
#include "ops/nn/softmax.h"

#include "ops/gradient.h"

namespace strop::ops {
namespace {

using SizesOf = AxisSizes (*)(const OpNode&, const Shape&);

template <SizesOf sizes_of>
void InferSoftmax(InferContext& c) {
  sizes_of(c.node(), c.input(0).shape);
  SameAsInput(c);
}

template <SizesOf sizes_of>
void InferSoftmaxGrad(InferContext& c) {
  sizes_of(c.node(), c.input(0).shape);
  SameAsInputs(c);
}

template <SizesOf sizes_of>
constexpr ReferenceKernel SoftmaxKernel() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const AxisSizes s = sizes_of(c.node(), c.input(0).shape());
    const T* xs = c.in<T>(0).data();
    T* ys = c.out<T>(0).data();
    ForEachLine(c, s, 6, [&](int64_t offset) {
      SoftmaxLine(xs + offset, s, ys + offset);
    });
  });
}

// y = x - max - log(sum(exp(x - max)))
template <SizesOf sizes_of>
constexpr ReferenceKernel LogSoftmaxKernel() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const AxisSizes s = sizes_of(c.node(), c.input(0).shape());
    const T* xs = c.in<T>(0).data();
    T* ys = c.out<T>(0).data();
    ForEachLine(c, s, 6, [&](int64_t offset) {
      const T* x = xs + offset;
      T* y = ys + offset;
      const T largest = LargestOf(x, s);
      double sum = 0;
      for (int64_t i = 0; i < s.size; ++i) {
        sum += static_cast<double>(std::exp(x[i * s.inner] - largest));
      }
      const T shift = static_cast<T>(std::log(sum));
      for (int64_t i = 0; i < s.size; ++i) {
        y[i * s.inner] = x[i * s.inner] - largest - shift;
      }
    });
  });
}

// dx = y (dy - sum(y dy))
template <SizesOf sizes_of>
constexpr ReferenceKernel SoftmaxGradKernel() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const AxisSizes s = sizes_of(c.node(), c.input(0).shape());
    const T* dys = c.in<T>(0).data();
    const T* ys = c.in<T>(1).data();
    T* dxs = c.out<T>(0).data();
    ForEachLine(c, s, 2, [&](int64_t offset) {
      double sum = 0;
      for (int64_t i = 0; i < s.size; ++i) {
        const int64_t at = offset + i * s.inner;
        sum += static_cast<double>(ys[at]) * static_cast<double>(dys[at]);
      }
      for (int64_t i = 0; i < s.size; ++i) {
        const int64_t at = offset + i * s.inner;
        dxs[at] = ys[at] * (dys[at] - static_cast<T>(sum));
      }
    });
  });
}

// dx = dy - exp(y) sum(dy)
template <SizesOf sizes_of>
constexpr ReferenceKernel LogSoftmaxGradKernel() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const AxisSizes s = sizes_of(c.node(), c.input(0).shape());
    const T* dys = c.in<T>(0).data();
    const T* ys = c.in<T>(1).data();
    T* dxs = c.out<T>(0).data();
    ForEachLine(c, s, 6, [&](int64_t offset) {
      double sum = 0;
      for (int64_t i = 0; i < s.size; ++i) {
        sum += static_cast<double>(dys[offset + i * s.inner]);
      }
      for (int64_t i = 0; i < s.size; ++i) {
        const int64_t at = offset + i * s.inner;
        dxs[at] = dys[at] - std::exp(ys[at]) * static_cast<T>(sum);
      }
    });
  });
}

// y = 1 for the first of the largest elements, 0 for all others
template <SizesOf sizes_of>
constexpr ReferenceKernel HardmaxKernel() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const AxisSizes s = sizes_of(c.node(), c.input(0).shape());
    const T* xs = c.in<T>(0).data();
    T* ys = c.out<T>(0).data();
    ForEachLine(c, s, 2, [&](int64_t offset) {
      int64_t largest = offset;
      for (int64_t i = 0; i < s.size; ++i) {
        const int64_t at = offset + i * s.inner;
        if (xs[at] > xs[largest]) largest = at;
        ys[at] = 0;
      }
      ys[largest] = 1;
    });
  });
}

}  // namespace

extern constexpr OpDef kSoftmax1 = {
    .name = "Softmax",
    .infer = InferSoftmax<CoercedSizes>,
    .reference = SoftmaxKernel<CoercedSizes>(),
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("SoftmaxGrad", {c.dy(), c.y()},
                                     {{"axis", c.node().Int("axis", 1)}}));
    })};

extern constexpr OpDef kSoftmax13 = {
    .name = "Softmax",
    .since = 13,
    .infer = InferSoftmax<LastByDefault>,
    .reference = SoftmaxKernel<LastByDefault>(),
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("SoftmaxGrad_13", {c.dy(), c.y()},
                                     {{"axis", c.node().Int("axis", -1)}}));
    })};

extern constexpr OpDef kLogSoftmax1 = {
    .name = "LogSoftmax",
    .infer = InferSoftmax<CoercedSizes>,
    .reference = LogSoftmaxKernel<CoercedSizes>(),
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("LogSoftmaxGrad", {c.dy(), c.y()},
                                     {{"axis", c.node().Int("axis", 1)}}));
    })};

extern constexpr OpDef kLogSoftmax13 = {
    .name = "LogSoftmax",
    .since = 13,
    .infer = InferSoftmax<LastByDefault>,
    .reference = LogSoftmaxKernel<LastByDefault>(),
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("LogSoftmaxGrad_13", {c.dy(), c.y()},
                                     {{"axis", c.node().Int("axis", -1)}}));
    })};

extern constexpr OpDef kHardmax1 = {.name = "Hardmax",
                                    .infer = InferSoftmax<CoercedSizes>,
                                    .reference = HardmaxKernel<CoercedSizes>(),
                                    .stops_gradient = {0}};

extern constexpr OpDef kHardmax13 = {
    .name = "Hardmax",
    .since = 13,
    .infer = InferSoftmax<LastByDefault>,
    .reference = HardmaxKernel<LastByDefault>(),
    .stops_gradient = {0}};

// The gradients take dY and the forward output.
extern constexpr OpDef kSoftmaxGrad = {
    .name = "SoftmaxGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferSoftmaxGrad<CoercedSizes>,
    .reference = SoftmaxGradKernel<CoercedSizes>()};

extern constexpr OpDef kSoftmaxGrad13 = {
    .name = "SoftmaxGrad_13",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferSoftmaxGrad<LastByDefault>,
    .reference = SoftmaxGradKernel<LastByDefault>()};

extern constexpr OpDef kLogSoftmaxGrad = {
    .name = "LogSoftmaxGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferSoftmaxGrad<CoercedSizes>,
    .reference = LogSoftmaxGradKernel<CoercedSizes>()};

extern constexpr OpDef kLogSoftmaxGrad13 = {
    .name = "LogSoftmaxGrad_13",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferSoftmaxGrad<LastByDefault>,
    .reference = LogSoftmaxGradKernel<LastByDefault>()};

}  // namespace strop::ops
