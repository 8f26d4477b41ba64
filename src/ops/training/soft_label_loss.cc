// SPDX-License-Identifier: Apache-2.0
//
// The old SoftmaxCrossEntropy of com.microsoft and its gradient. Labels are
// one-hot, of the shape of the scores; the classes are the last axis. The loss
// of a row is -sum(label log p); "mean" divides the sum by the count of rows.
#include "ops/gradient.h"
#include "ops/training/loss.h"

namespace strop::ops {
namespace {

LossSizes RowsOf(const Shape& scores) {
  const size_t axis = scores.rank() - 1;
  return {scores.element_count(0, axis), scores[axis], 1};
}

Shape LossShape(const OpNode& node, const Shape& scores) {
  if (scores.rank() == 0) Fail(node, "the scores have no axis of classes");
  if (ReadReduction(node) != Reduction::kNone) return {};
  return Shape(scores.dims().first(scores.rank() - 1));
}

// What a row's loss counts for in the result.
double RowScale(const OpNode& node, const LossSizes& s) {
  return ReadReduction(node) == Reduction::kMean && s.outer > 0
             ? 1 / static_cast<double>(s.outer)
             : 1;
}

// scores, labels -> loss, log_prob (optional)
void InferLoss(InferContext& c) {
  RequireSame(c, 0, 1);
  const TensorInfo& scores = c.input(0);
  c.SetOutput(0, scores.type, LossShape(c.node(), scores.shape));
  c.SetOutput(1, scores.type, scores.shape);
}

template <class T>
void Loss(const KernelContext& c) {
  const LossSizes s = RowsOf(c.input(0).shape());
  const T* scores = c.in<T>(0).data();
  const T* labels = c.in<T>(1).data();
  T* log_prob = c.has_output(1) ? c.out<T>(1).data() : nullptr;
  const bool is_list = ReadReduction(c.node()) == Reduction::kNone;
  T* losses = c.out<T>(0).data();
  if (is_list) FillZero(c.output(0));
  const double sum = OrderedSum(
      c, s.classes == 0 ? 0 : s.outer, 6.0 * static_cast<double>(s.classes),
      [&](int64_t begin, int64_t end) {
        double part = 0;
        for (int64_t row = begin; row < end; ++row) {
          const T* x = scores + row * s.classes;
          const LogSum<T> total = LogSumOf(x, s);
          double loss = 0;
          for (int64_t k = 0; k < s.classes; ++k) {
            const int64_t i = row * s.classes + k;
            const T log_p = x[k] - total.largest - total.log_sum;
            loss -= static_cast<double>(labels[i] * log_p);
            if (log_prob) log_prob[i] = log_p;
          }
          if (is_list) losses[row] = static_cast<T>(loss);
          part += loss;
        }
        return part;
      });
  if (!is_list) losses[0] = static_cast<T>(sum * RowScale(c.node(), s));
}

// dY, log_prob, labels -> dscores
void InferLossGrad(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireSame(c, 1, 2);
  const Shape loss = LossShape(c.node(), c.input(1).shape);
  if (ReadReduction(c.node()) == Reduction::kNone) {
    RequireShape(c, 0, loss);
  } else {
    RequireOneElement(c, 0);
  }
  c.SetOutput(0, c.input(1).type, c.input(1).shape);
}

// dscores = (p - label) dY, over the count of rows for "mean"
template <class T>
void LossGrad(const KernelContext& c) {
  const LossSizes s = RowsOf(c.input(1).shape());
  const bool is_list = ReadReduction(c.node()) == Reduction::kNone;
  const T scale = static_cast<T>(RowScale(c.node(), s));
  const T* dy = c.in<T>(0).data();
  const T* log_prob = c.in<T>(1).data();
  const T* labels = c.in<T>(2).data();
  T* dx = c.out<T>(0).data();
  c.ParallelFor(s.outer, 5.0 * static_cast<double>(s.classes),
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    const T factor = dy[is_list ? row : 0] * scale;
                    for (int64_t i = row * s.classes; i < (row + 1) * s.classes;
                         ++i) {
                      dx[i] = (std::exp(log_prob[i]) - labels[i]) * factor;
                    }
                  }
                });
}

// --- Gradients

// From the loss to log_prob, -label dY over the count of rows for "mean", and
// through the softmax. ONNX Runtime's SoftmaxCrossEntropyGrad takes for
// granted that the labels of a row sum to 1; this need not.
void LossGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var log_prob = c.AddedOutput(1, "log_prob", type);
  Var g = c.dy(1);
  if (c.has_dy(0)) {
    Var scale = c.dy();
    const Reduction reduction = ReadReduction(c.node());
    if (reduction == Reduction::kNone) scale = b.Unsqueeze(scale, {-1});
    if (reduction == Reduction::kMean) {
      const auto size = [&](Var x) {
        return b.Cast(b.Op("Size", {x}, {}, kOnnx, DataType::kInt64), type);
      };
      const Var classes = b.Op("Gather", {b.Shape(c.x()), b.Ints({-1})});
      scale = scale * b.Cast(classes, type) / size(c.x());
    }
    const Var part = -(c.x(1) * scale);
    g = g ? g + part : part;
  }
  c.Set(0, b.MicrosoftOp("LogSoftmaxGrad_13", {g, log_prob},
                         {{"axis", int64_t{-1}}}));
}

}  // namespace

extern constexpr OpDef kSoftmaxCrossEntropy = {
    .name = "SoftmaxCrossEntropy",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .outputs = {1, 2},
    .infer = InferLoss,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Loss<T>(c); }),
    .gradient = Rule(LossGradient),
    .stops_gradient = {1}};

extern constexpr OpDef kSoftmaxCrossEntropyGrad = {
    .name = "SoftmaxCrossEntropyGrad",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferLossGrad,
    .reference = Instantiate<Floats, 1>(
        []<class T>(const KernelContext& c) { LossGrad<T>(c); })};

}  // namespace strop::ops
