// SPDX-License-Identifier: Apache-2.0
//
// Kernels of elementwise ops, made from the scalar function alone:
//   .reference = Unary<Floats>([](auto x) { return std::exp(x); })
#pragma once

#include <array>

#include "ops/op_util.h"

namespace strop::ops {

// y[i] = f(x[i]). `cost` is the rough cost of f in nanoseconds.
template <class List, int cost = 1, class F>
constexpr ReferenceKernel Unary(F) {
  return Instantiate<List>([]<class T>(const KernelContext& c) {
    const T* x = c.in<T>(0).data();
    T* y = c.out<T>(0).data();
    c.ParallelFor(c.output(0).element_count(), cost,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      y[i] = static_cast<T>(F{}(x[i]));
                    }
                  });
  });
}

// The same for f(node, x): F is called once with the node and returns the
// function, so that attributes are read once:
//   UnaryWith<Floats>([](const OpNode& node) {
//     return [alpha = node.Float("alpha", 1)](auto x) { ... };
//   })
template <class List, int cost = 1, class F>
constexpr ReferenceKernel UnaryWith(F) {
  return Instantiate<List>([]<class T>(const KernelContext& c) {
    const auto f = F{}(c.node());
    const T* x = c.in<T>(0).data();
    T* y = c.out<T>(0).data();
    c.ParallelFor(c.output(0).element_count(), cost,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      y[i] = static_cast<T>(f(x[i]));
                    }
                  });
  });
}

// dx[i] = f(dy[i], x[i]) for inputs of equal shapes.
template <class List, int cost = 1, class F>
constexpr ReferenceKernel Pairwise(F) {
  return Instantiate<List>([]<class T>(const KernelContext& c) {
    const T* a = c.in<T>(0).data();
    const T* b = c.in<T>(1).data();
    T* y = c.out<T>(0).data();
    c.ParallelFor(c.output(0).element_count(), cost,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      y[i] = static_cast<T>(F{}(a[i], b[i]));
                    }
                  });
  });
}

// The same with a function made from the node, as UnaryWith.
template <class List, int cost = 1, class F>
constexpr ReferenceKernel PairwiseWith(F) {
  return Instantiate<List>([]<class T>(const KernelContext& c) {
    const auto f = F{}(c.node());
    const T* a = c.in<T>(0).data();
    const T* b = c.in<T>(1).data();
    T* y = c.out<T>(0).data();
    c.ParallelFor(c.output(0).element_count(), cost,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      y[i] = static_cast<T>(f(a[i], b[i]));
                    }
                  });
  });
}

// The walk over an output to which N inputs are broadcast. Axes that all
// inputs step through alike are merged, so that most walks have one or two.
template <size_t N>
class BroadcastLoop {
 public:
  BroadcastLoop(const Shape& out, const std::array<const Shape*, N>& inputs) {
    std::array<Dims, N> strides;
    for (size_t n = 0; n < N; ++n) {
      strides[n] = BroadcastStrides(*inputs[n], out);
    }
    // From the last axis to the first; axis 0 of the result is the inner one.
    for (size_t axis = out.rank(); axis-- > 0;) {
      if (out[axis] == 1) continue;
      bool merge = rank_ > 0;
      for (size_t n = 0; merge && n < N; ++n) {
        merge = strides[n][axis] == strides_[n][rank_ - 1] * dims_[rank_ - 1];
      }
      if (merge) {
        dims_[rank_ - 1] *= out[axis];
        continue;
      }
      dims_[rank_] = out[axis];
      for (size_t n = 0; n < N; ++n) strides_[n][rank_] = strides[n][axis];
      ++rank_;
    }
    if (rank_ == 0) dims_[rank_++] = 1;
  }

  // Step of input n from one element of a row to the next: 0 or 1.
  int64_t step(size_t n) const { return strides_[n][0]; }

  // Calls row(out, in, count) for runs of outputs [out, out + count) that
  // cover [begin, end); in[n] is where input n starts.
  template <class F>
  void Run(int64_t begin, int64_t end, F&& row) const {
    if (begin >= end) return;
    Dims at = {};
    std::array<int64_t, N> in = {};
    int64_t rest = begin;
    for (size_t axis = 0; axis < rank_; ++axis) {
      at[axis] = rest % dims_[axis];
      rest /= dims_[axis];
      for (size_t n = 0; n < N; ++n) in[n] += at[axis] * strides_[n][axis];
    }
    for (int64_t out = begin; out < end;) {
      const int64_t count = std::min(end - out, dims_[0] - at[0]);
      row(out, in, count);
      out += count;
      at[0] += count;
      for (size_t n = 0; n < N; ++n) in[n] += count * strides_[n][0];
      for (size_t axis = 0; axis + 1 < rank_ && at[axis] == dims_[axis];
           ++axis) {
        for (size_t n = 0; n < N; ++n) {
          in[n] += strides_[n][axis + 1] - dims_[axis] * strides_[n][axis];
        }
        at[axis] = 0;
        ++at[axis + 1];
      }
    }
  }

 private:
  size_t rank_ = 0;
  Dims dims_ = {};
  std::array<Dims, N> strides_ = {};
};

// out[i] = f(a[i], b[i]) with broadcasting.
template <class A, class B, class R, class F>
void RunBinary(const KernelContext& c, const Tensor& first,
               const Tensor& second, const Tensor& result, double cost,
               const F& f) {
  const A* a = first.values<A>().data();
  const B* b = second.values<B>().data();
  R* y = result.values<R>().data();
  const BroadcastLoop<2> loop(result.shape(),
                              {&first.shape(), &second.shape()});
  // Constant steps let the compiler vectorize.
  const auto row = [&](int64_t o, const std::array<int64_t, 2>& in,
                       int64_t count) {
    const A* p = a + in[0];
    const B* q = b + in[1];
    R* r = y + o;
    if (loop.step(0) == 0) {
      const A left = *p;
      const int64_t step = loop.step(1);
      for (int64_t j = 0; j < count; ++j) {
        r[j] = static_cast<R>(f(left, q[j * step]));
      }
    } else if (loop.step(1) == 0) {
      const B right = *q;
      for (int64_t j = 0; j < count; ++j) {
        r[j] = static_cast<R>(f(p[j], right));
      }
    } else {
      for (int64_t j = 0; j < count; ++j) {
        r[j] = static_cast<R>(f(p[j], q[j]));
      }
    }
  };
  c.ParallelFor(result.element_count(), cost,
                [&](int64_t begin, int64_t end) { loop.Run(begin, end, row); });
}

template <class List, int cost = 1, class F>
constexpr ReferenceKernel Binary(F) {
  return Instantiate<List>([]<class T>(const KernelContext& c) {
    RunBinary<T, T, T>(c, c.input(0), c.input(1), c.output(0), cost, F{});
  });
}

template <class List, class F>
constexpr ReferenceKernel Comparison(F) {
  return Instantiate<List>([]<class T>(const KernelContext& c) {
    RunBinary<T, T, bool>(c, c.input(0), c.input(1), c.output(0), 1, F{});
  });
}

// Folds any number of inputs from the left, with broadcasting. A lone input
// is copied.
template <class List, class F>
constexpr ReferenceKernel Variadic(F) {
  return Instantiate<List>([]<class T>(const KernelContext& c) {
    const Tensor& y = c.output(0);
    if (c.input_count() == 1) return CopyInput(c);
    RunBinary<T, T, T>(c, c.input(0), c.input(1), y, 1, F{});
    for (size_t i = 2; i < c.input_count(); ++i) {
      RunBinary<T, T, T>(c, y, c.input(i), y, 1, F{});
    }
  });
}

}  // namespace strop::ops
