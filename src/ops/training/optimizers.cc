// SPDX-License-Identifier: Apache-2.0
//
// The optimizer graph's ops: lists of weights, gradients and moments, all
// updated in place.
#include <cmath>

#include "ops/op_util.h"

namespace strop::ops {
namespace {

constexpr bool IsFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64;
}

// Lists i and j hold float tensors of the same types and shapes.
void RequireSameLists(const InferContext& c, size_t i, size_t j) {
  const auto a = c.list(i), b = c.list(j);
  if (a.size() != b.size()) {
    Fail(c.node(), "inputs {} and {} hold {} and {} tensors", i, j, a.size(),
         b.size());
  }
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].type != b[k].type || a[k].shape != b[k].shape) {
      Fail(c.node(), "tensors {} of inputs {} and {} differ: {} {} and {} {}",
           k, i, j, DataTypeName(a[k].type), a[k].shape.ToString(),
           DataTypeName(b[k].type), b[k].shape.ToString());
    }
  }
}

void RequireFloatList(const InferContext& c, size_t i) {
  for (const TensorInfo& tensor : c.list(i)) {
    if (!IsFloat(tensor.type)) {
      Fail(c.node(), ErrorCode::kNotImplemented,
           "tensors of type {} are not supported", DataTypeName(tensor.type));
    }
  }
}

void RequireScalar(const InferContext& c, size_t i, DataType type) {
  RequireType(c, i, type);
  RequireOneElement(c, i);
}

// Calls fn.template operator()<T>(k, begin, end) for parts of tensor k of
// `list`, on all threads.
template <class F>
void ForEachTensor(const KernelContext& c, std::span<const Tensor> list,
                   double cost, F&& fn) {
  for (size_t k = 0; k < list.size(); ++k) {
    DispatchType(Floats{}, list[k].type(), [&]<class T>() {
      c.ParallelFor(list[k].element_count(), cost,
                    [&](int64_t begin, int64_t end) {
                      fn.template operator()<T>(k, begin, end);
                    });
    });
  }
}

// --- AdamW

void InferAdamW(InferContext& c) {
  const int64_t mode = c.node().Int("adam_mode", 0);
  if (mode != 0 && mode != 1) {
    Fail(c.node(), "attribute adam_mode is {}", mode);
  }
  if (mode == 0 && c.node().Int("correct_bias", 1) == 0) {
    Fail(c.node(), "adam_mode 0 always corrects the bias");
  }
  RequireScalar(c, 0, DataType::kFloat32);
  RequireScalar(c, 1, DataType::kInt64);
  RequireFloatList(c, 2);
  for (size_t i = 3; i < 6; ++i) RequireSameLists(c, 2, i);
  if (c.has_input(6)) RequireScalar(c, 6, DataType::kBool);
  c.SetOutput(0, DataType::kBool, c.input(1).shape);
  SetListLikeInput(c, 1, 2);
  SetListLikeInput(c, 2, 4);
  SetListLikeInput(c, 3, 5);
}

struct AdamW {
  bool decay_first;   // mode 0, PyTorch; else mode 1, Hugging Face
  double rate;        // lr
  double step_rate;   // of the moment's step
  double root_scale;  // 1 / sqrt(1 - beta^t) in mode 0, else 1
  double alpha, beta, epsilon, decay;
};

AdamW ReadAdamW(const KernelContext& c) {
  const OpNode& node = c.node();
  AdamW a = {};
  a.decay_first = node.Int("adam_mode", 0) == 0;
  a.alpha = node.Float("alpha", 0.9f);
  a.beta = node.Float("beta", 0.999f);
  a.epsilon = node.Float("epsilon", 1e-8f);
  a.decay = node.Float("weight_decay", 0.01f);
  a.rate = static_cast<double>(c.scalar<float>(0));
  const double step = static_cast<double>(c.scalar<int64_t>(1));
  a.step_rate = a.rate;
  a.root_scale = 1;
  if (node.Int("correct_bias", 1) != 0) {
    const double first = 1 - std::pow(a.alpha, step);
    const double second = 1 - std::pow(a.beta, step);
    if (a.decay_first) {
      a.step_rate = a.rate / first;
      a.root_scale = 1 / std::sqrt(second);
    } else {
      a.step_rate = a.rate * std::sqrt(second) / first;
    }
  }
  return a;
}

// m = alpha m + (1 - alpha) g,  v = beta v + (1 - beta) g^2
// mode 0: w -= lr decay w; then w -= step_rate m / (sqrt(v) root_scale + eps)
// mode 1: w -= step_rate m / (sqrt(v) + eps); then w -= lr decay w
template <class T>
void UpdateAdamW(const AdamW& a, int64_t begin, int64_t end, T* w, const T* g,
                 T* m, T* v) {
  const T alpha = static_cast<T>(a.alpha), beta = static_cast<T>(a.beta);
  const T rest_alpha = static_cast<T>(1 - a.alpha);
  const T rest_beta = static_cast<T>(1 - a.beta);
  const T rate = static_cast<T>(a.step_rate);
  const T root_scale = static_cast<T>(a.root_scale);
  const T epsilon = static_cast<T>(a.epsilon);
  const T shrink = static_cast<T>(1 - a.rate * a.decay);
  const T first = a.decay_first ? shrink : T{1};
  const T last = a.decay_first ? T{1} : shrink;
  for (int64_t i = begin; i < end; ++i) {
    m[i] = alpha * m[i] + rest_alpha * g[i];
    v[i] = beta * v[i] + rest_beta * g[i] * g[i];
    const T change = rate * m[i] / (std::sqrt(v[i]) * root_scale + epsilon);
    w[i] = (w[i] * first - change) * last;
  }
}

void RunAdamW(const KernelContext& c) {
  const bool update = FlagInput(c, 6, true);
  if (update) {
    if (c.scalar<int64_t>(1) < 1) {
      Fail(c.node(), "the step must be at least 1, it is {}",
           c.scalar<int64_t>(1));
    }
    const AdamW a = ReadAdamW(c);
    ForEachTensor(
        c, c.list(2), 4, [&]<class T>(size_t k, int64_t begin, int64_t end) {
          UpdateAdamW<T>(a, begin, end, c.list(2)[k].values<T>().data(),
                         c.list(3)[k].values<T>().data(),
                         c.list(4)[k].values<T>().data(),
                         c.list(5)[k].values<T>().data());
        });
  }
  if (c.has_output(0)) c.out<bool>(0)[0] = update;
}

// --- SGD

void InferSgd(InferContext& c) {
  RequireScalar(c, 0, DataType::kFloat32);
  RequireFloatList(c, 1);
  RequireSameLists(c, 1, 2);
  if (c.has_input(3)) RequireScalar(c, 3, DataType::kBool);
  c.SetOutput(0, DataType::kBool, c.input(0).shape);
  SetListLikeInput(c, 1, 1);
}

// w -= lr g
void RunSgd(const KernelContext& c) {
  const bool update = FlagInput(c, 3, true);
  if (update) {
    ForEachTensor(c, c.list(1), 1,
                  [&]<class T>(size_t k, int64_t begin, int64_t end) {
                    const T rate = static_cast<T>(c.scalar<float>(0));
                    T* w = c.list(1)[k].values<T>().data();
                    const T* g = c.list(2)[k].values<T>().data();
                    for (int64_t i = begin; i < end; ++i) w[i] -= rate * g[i];
                  });
  }
  if (c.has_output(0)) c.out<bool>(0)[0] = update;
}

// --- Clipping

void InferClipGradNorm(InferContext& c) {
  if (c.node().String("norm_type", "fro") != "fro") {
    Fail(c.node(), ErrorCode::kNotImplemented,
         "attribute norm_type is \"{}\", only \"fro\" is known",
         c.node().String("norm_type", ""));
  }
  RequireFloatList(c, 0);
  SetListLikeInput(c, 0, 0);
}

// All gradients times min(1, max_norm / (norm + 1e-6)), where norm is the
// root of the sum of all squares. The sum runs over fixed parts in order.
void RunClipGradNorm(const KernelContext& c) {
  const auto list = c.list(0);
  double squares = 0;
  for (const Tensor& tensor : list) {
    DispatchType(Floats{}, tensor.type(), [&]<class T>() {
      const T* g = tensor.values<T>().data();
      squares += OrderedSum(c, tensor.element_count(), 1,
                            [&](int64_t begin, int64_t end) {
                              double sum = 0;
                              for (int64_t i = begin; i < end; ++i) {
                                const double x = static_cast<double>(g[i]);
                                sum += x * x;
                              }
                              return sum;
                            });
    });
  }
  const double max_norm = c.node().Float("max_norm", 1);
  const double scale = max_norm / (std::sqrt(squares) + 1e-6);
  if (scale >= 1) return;
  ForEachTensor(c, list, 0.5,
                [&]<class T>(size_t k, int64_t begin, int64_t end) {
                  T* g = list[k].values<T>().data();
                  for (int64_t i = begin; i < end; ++i) {
                    g[i] *= static_cast<T>(scale);
                  }
                });
}

}  // namespace

// lr, step, weights, gradients, first and second moments, update (optional)
// -> updated, weights, first and second moments
extern constexpr OpDef kAdamWOptimizer = {
    .name = "AdamWOptimizer",
    .domain = kMicrosoft,
    .inputs = {6, 7},
    .outputs = {0, 4},
    .infer = InferAdamW,
    .reference = {.run = RunAdamW, .supports = IsFloat},
    .aliases = {{1, 2}, {2, 4}, {3, 5}},
    .mutates = {2, 4, 5}};

// lr, weights, gradients, update (optional) -> updated, weights
extern constexpr OpDef kSGDOptimizerV2 = {
    .name = "SGDOptimizerV2",
    .domain = kMicrosoft,
    .inputs = {3, 4},
    .outputs = {0, 2},
    .infer = InferSgd,
    .reference = {.run = RunSgd, .supports = IsFloat},
    .aliases = {{1, 1}},
    .mutates = {1}};

extern constexpr OpDef kInplaceClipGradNorm = {
    .name = "InplaceClipGradNorm",
    .domain = kMicrosoft,
    .outputs = {0, 1},
    .infer = InferClipGradNorm,
    // Input 0 is a list: its tensors are checked in `infer`.
    .reference = {.run = RunClipGradNorm,
                  .supports = [](DataType) { return true; }},
    .aliases = {{0, 0}},
    .mutates = {0}};

}  // namespace strop::ops
