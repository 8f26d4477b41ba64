// SPDX-License-Identifier: Apache-2.0
#include "ops/fused/attention.h"

#include "ops/nn/softmax.h"
#include "strop/execution_provider.h"

namespace strop::ops {

Shape AttentionStacks::ScoresShape() const {
  std::vector<int64_t> dims(batch.begin(), batch.end());
  dims.push_back(rows());
  dims.push_back(keys());
  return Shape(dims);
}

AttentionStacks ReadAttention(const OpNode& node, const Shape& q,
                              const Shape& k, const Shape& v) {
  AttentionStacks stacks = {.q = ReadStack(node, q, "permQ"),
                            .k = ReadStack(node, k, "permK"),
                            .v = ReadStack(node, v, "permV"),
                            .batch = {}};
  if (stacks.q.columns != stacks.k.columns || stacks.k.rows != stacks.v.rows) {
    Fail(node, "Q is {}, K {} and V {}, which do not fit", q.ToString(),
         k.ToString(), v.ToString());
  }
  if (q.rank() != k.rank() || q.rank() != v.rank()) {
    Fail(node, "the ranks of Q, K and V are {}, {} and {}", q.rank(), k.rank(),
         v.rank());
  }
  stacks.batch = BroadcastShapes(
      node, BroadcastShapes(node, stacks.q.batch, stacks.k.batch),
      stacks.v.batch);
  return stacks;
}

namespace {

// Of the tensor whose axes `perm` orders as the batch, rows and columns.
Shape TensorShape(const OpNode& node, std::string_view perm, const Shape& batch,
                  int64_t rows, int64_t columns) {
  std::vector<int64_t> dims(batch.begin(), batch.end());
  dims.push_back(rows);
  dims.push_back(columns);
  const auto order = node.Ints(perm);
  if (order.empty()) return Shape(dims);
  if (order.size() != dims.size()) {
    Fail(node, "attribute {} has {} axes for rank {}", perm, order.size(),
         dims.size());
  }
  NormalizeAxes(node, order, dims.size());
  std::vector<int64_t> tensor(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    tensor[NormalizeAxis(node, order[i], dims.size())] = dims[i];
  }
  return Shape(tensor);
}

// Q, K, V and a mask (optional) from input `first` on.
AttentionStacks CheckInputs(const InferContext& c, size_t first) {
  RequireFloat(c, first);
  RequireSameType(c, first, first + 1);
  RequireSameType(c, first, first + 2);
  const AttentionStacks stacks =
      ReadAttention(c.node(), c.input(first).shape, c.input(first + 1).shape,
                    c.input(first + 2).shape);
  if (c.has_input(first + 3)) {
    RequireSameType(c, first, first + 3);
    RequireBroadcastTo(c.node(), "the mask", c.input(first + 3).shape,
                       stacks.ScoresShape());
  }
  return stacks;
}

void InferAttention(InferContext& c) {
  const AttentionStacks s = CheckInputs(c, 0);
  c.SetOutput(0, c.input(0).type,
              TensorShape(c.node(), "permY", s.batch, s.rows(), s.width()));
}

// dY first.
void InferAttentionGrad(InferContext& c) {
  const AttentionStacks s = CheckInputs(c, 1);
  const OpNode& node = c.node();
  RequireSameType(c, 0, 1);
  RequireShape(c, 0, TensorShape(node, "permY", s.batch, s.rows(), s.width()));
  const DataType type = c.input(1).type;
  c.SetOutput(0, type,
              TensorShape(node, "permQ", s.batch, s.rows(), s.depth()));
  c.SetOutput(1, type,
              TensorShape(node, "permK", s.batch, s.keys(), s.depth()));
  c.SetOutput(2, type,
              TensorShape(node, "permV", s.batch, s.keys(), s.width()));
}

// --- Plain kernels

template <class T>
T* MatrixOf(T* data, const MatrixStack& stack, const Shape& batch,
            int64_t index) {
  return data + BatchOffset(stack, batch, index);
}

// One matrix of each stack.
template <class T>
class Head {
 public:
  Head(const KernelContext& c, size_t first, const AttentionStacks& stacks,
       int64_t index)
      : c_(c), first_(first), stacks_(stacks), index_(index) {
    q = {Operand(0, stacks.q), stacks.q.row_stride, stacks.q.column_stride};
    k = {Operand(1, stacks.k), stacks.k.row_stride, stacks.k.column_stride};
    v = {Operand(2, stacks.v), stacks.v.row_stride, stacks.v.column_stride};
  }

  // Row `row` of P.
  void Probabilities(int64_t row, T* p) const {
    const int64_t keys = stacks_.keys();
    const T alpha = static_cast<T>(c_.node().Float("alpha", 1));
    StartWithMask(row, p);
    for (int64_t j = 0; j < keys; ++j) {
      p[j] += alpha * Dot(q.data + row * q.row, q.column, k.data + j * k.row,
                          k.column, stacks_.depth());
    }
    if (keys > 0) SoftmaxLine(p, {.outer = 1, .size = keys, .inner = 1}, p);
  }

  static T Dot(const T* x, int64_t x_step, const T* y, int64_t y_step,
               int64_t n) {
    T sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i * x_step] * y[i * y_step];
    return sum;
  }

  MatrixView<T> q, k, v;

 private:
  const T* Operand(size_t i, const MatrixStack& stack) const {
    return MatrixOf(c_.in<T>(first_ + i).data(), stack, stacks_.batch, index_);
  }

  // p = mask
  void StartWithMask(int64_t row, T* p) const {
    const int64_t keys = stacks_.keys();
    std::fill_n(p, keys, T{0});
    if (!c_.has_input(first_ + 3)) return;
    const Shape scores = stacks_.ScoresShape();
    const Dims steps = BroadcastStrides(c_.input(first_ + 3).shape(), scores);
    const size_t rank = scores.rank();
    const T* mask = c_.in<T>(first_ + 3).data() + row * steps[rank - 2];
    int64_t rest = index_;
    for (size_t axis = rank - 2; axis-- > 0;) {
      mask += rest % scores[axis] * steps[axis];
      rest /= scores[axis];
    }
    for (int64_t j = 0; j < keys; ++j) p[j] = mask[j * steps[rank - 1]];
  }

  const KernelContext& c_;
  size_t first_;
  const AttentionStacks& stacks_;
  int64_t index_;
};

AttentionStacks ReadInputs(const KernelContext& c, size_t first) {
  return ReadAttention(c.node(), c.input(first).shape(),
                       c.input(first + 1).shape(), c.input(first + 2).shape());
}

// `count` lines of scores for each matrix.
size_t ScratchOf(const KernelRequest& request, size_t first, int64_t count) {
  const AttentionStacks s =
      ReadAttention(request.node, request.inputs[first].info.shape,
                    request.inputs[first + 1].info.shape,
                    request.inputs[first + 2].info.shape);
  const int64_t elements = s.batch.element_count() * s.keys() * count;
  return static_cast<size_t>(elements) *
         DataTypeSize(request.inputs[first].info.type);
}

// Calls run(index) for each matrix of the batch.
template <class F>
void ForEachHead(const KernelContext& c, const AttentionStacks& s, F run) {
  const double cost = static_cast<double>(s.rows()) *
                      static_cast<double>(s.keys()) *
                      static_cast<double>(s.depth() + s.width());
  c.ParallelFor(s.batch.element_count(), cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(i);
  });
}

template <class T>
void Attention(const KernelContext& c) {
  const AttentionStacks s = ReadInputs(c, 0);
  const MatrixStack to = ReadStack(c.node(), c.output(0).shape(), "permY");
  ForEachHead(c, s, [&](int64_t index) {
    const Head<T> head(c, 0, s, index);
    T* p = reinterpret_cast<T*>(c.scratch()) + index * s.keys();
    T* y = MatrixOf(c.out<T>(0).data(), to, s.batch, index);
    for (int64_t i = 0; i < s.rows(); ++i) {
      head.Probabilities(i, p);
      for (int64_t j = 0; j < s.width(); ++j) {
        y[i * to.row_stride + j * to.column_stride] = Head<T>::Dot(
            p, 1, head.v.data + j * head.v.column, head.v.row, s.keys());
      }
    }
  });
}

// x += factor * y
template <class T>
void AddScaled(T factor, const T* y, int64_t y_step, int64_t n, T* x,
               int64_t x_step) {
  for (int64_t i = 0; i < n; ++i) x[i * x_step] += factor * y[i * y_step];
}

// An output, zero to begin with, that may be left out.
template <class T>
struct Gradient {
  Gradient(const KernelContext& c, size_t output, std::string_view perm,
           const Shape& batch, int64_t index) {
    if (!c.has_output(output)) return;
    stack = ReadStack(c.node(), c.output(output).shape(), perm);
    data = MatrixOf(c.out<T>(output).data(), stack, batch, index);
    for (int64_t i = 0; i < stack.rows; ++i) {
      for (int64_t j = 0; j < stack.columns; ++j) {
        data[i * stack.row_stride + j * stack.column_stride] = 0;
      }
    }
  }
  // Row `row` += factor * y
  void Add(int64_t row, T factor, const T* y, int64_t y_step) {
    if (data == nullptr) return;
    AddScaled(factor, y, y_step, stack.columns, data + row * stack.row_stride,
              stack.column_stride);
  }

  MatrixStack stack;
  T* data = nullptr;
};

// dP = dY V',  dS = P (dP - sum(P dP)),
// dQ = alpha dS K,  dK = alpha dS' Q,  dV = P' dY
template <class T>
void AttentionGrad(const KernelContext& c) {
  const AttentionStacks s = ReadInputs(c, 1);
  const MatrixStack of_dy = ReadStack(c.node(), c.input(0).shape(), "permY");
  const T alpha = static_cast<T>(c.node().Float("alpha", 1));
  ForEachHead(c, s, [&](int64_t index) {
    const Head<T> head(c, 1, s, index);
    T* p = reinterpret_cast<T*>(c.scratch()) + index * 2 * s.keys();
    T* dp = p + s.keys();
    const T* dy = MatrixOf(c.in<T>(0).data(), of_dy, s.batch, index);
    Gradient<T> dq(c, 0, "permQ", s.batch, index);
    Gradient<T> dk(c, 1, "permK", s.batch, index);
    Gradient<T> dv(c, 2, "permV", s.batch, index);
    for (int64_t i = 0; i < s.rows(); ++i, dy += of_dy.row_stride) {
      head.Probabilities(i, p);
      double sum = 0;
      for (int64_t j = 0; j < s.keys(); ++j) {
        dp[j] =
            Head<T>::Dot(dy, of_dy.column_stride, head.v.data + j * head.v.row,
                         head.v.column, s.width());
        sum += static_cast<double>(p[j]) * static_cast<double>(dp[j]);
      }
      for (int64_t j = 0; j < s.keys(); ++j) {
        const T ds = alpha * p[j] * (dp[j] - static_cast<T>(sum));
        dq.Add(i, ds, head.k.data + j * head.k.row, head.k.column);
        dk.Add(j, ds, head.q.data + i * head.q.row, head.q.column);
        dv.Add(j, p[j], dy, of_dy.column_stride);
      }
    }
  });
}

size_t ScratchOfAttention(const KernelRequest& request) {
  return ScratchOf(request, 0, 1);
}
size_t ScratchOfAttentionGrad(const KernelRequest& request) {
  return ScratchOf(request, 1, 2);
}

}  // namespace

// Q, K, V, mask (optional) -> Y
extern constexpr OpDef kInternalAttention = {
    .name = "Attention",
    .domain = kInternal,
    .inputs = {3, 4},
    .infer = InferAttention,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Attention<T>(c); },
        ScratchOfAttention)};

// dY, Q, K, V, mask (optional) -> dQ, dK, dV, each of which may be left out
extern constexpr OpDef kInternalAttentionGrad = {
    .name = "AttentionGrad",
    .domain = kInternal,
    .inputs = {4, 5},
    .outputs = {0, 3},
    .infer = InferAttentionGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { AttentionGrad<T>(c); },
        ScratchOfAttentionGrad)};

}  // namespace strop::ops
