// SPDX-License-Identifier: Apache-2.0
//
// SoftmaxCrossEntropyLoss, its gradient, and NegativeLogLikelihoodLoss, which
// takes log p itself. Scores are (N, C, d...), labels (N, d...), class weights
// (C). The loss of a sample is -w log p[label]; "mean" divides the sum by the
// sum of the weights of the samples that count (ignore_index takes a sample
// out); a divisor of 0 gives 0, as in ONNX Runtime.
#include <cmath>

#include "ops/op_util.h"

namespace strop::ops {
namespace {

enum class Reduction { kNone, kSum, kMean };

Reduction ReadReduction(const OpNode& node) {
  const std::string_view name = node.String("reduction", "mean");
  if (name == "none") return Reduction::kNone;
  if (name == "sum") return Reduction::kSum;
  if (name == "mean") return Reduction::kMean;
  Fail(node, "attribute reduction is \"{}\"", name);
}

// Scores as (outer, classes, inner), one sample per (outer, inner).
struct LossSizes {
  int64_t outer, classes, inner;
  int64_t samples() const { return outer * inner; }
  // Where the first class of a sample stands.
  int64_t Offset(int64_t sample) const {
    return sample / inner * classes * inner + sample % inner;
  }
};

LossSizes SizesOf(const Shape& scores) {
  return {scores[0], scores[1], scores.element_count(2, scores.rank())};
}

// Inputs `scores`, `labels` and, if there, `weights` fit each other.
void CheckShapes(const InferContext& c, size_t scores, size_t labels,
                 size_t weights) {
  const Shape& s = c.input(scores).shape;
  const Shape& l = c.input(labels).shape;
  RequireIndices(c, labels);
  bool fits = s.rank() >= 2 && l.rank() + 1 == s.rank() && s[0] == l[0];
  for (size_t i = 2; fits && i < s.rank(); ++i) fits = s[i] == l[i - 1];
  if (!fits) {
    Fail(c.node(), "scores {} and labels {} do not fit", s.ToString(),
         l.ToString());
  }
  if (c.has_input(weights)) {
    RequireSameType(c, scores, weights);
    RequireShape(c, weights, {s[1]});
  }
}

// What the loss needs to know of the labels.
template <class T, class I>
class Labels {
 public:
  Labels(const KernelContext& c, size_t labels, size_t weights, int64_t classes)
      : node_(c.node()),
        labels_(c.in<I>(labels)),
        classes_(classes),
        has_ignored_(c.node().Has("ignore_index")),
        ignored_(c.node().Int("ignore_index", 0)) {
    if (c.has_input(weights)) weights_ = c.in<T>(weights);
  }

  bool IsIgnored(int64_t sample) const {
    return has_ignored_ && static_cast<int64_t>(labels_[sample]) == ignored_;
  }
  int64_t label(int64_t sample) const { return labels_[sample]; }
  // The weight of a sample that is not ignored.
  T Weight(int64_t sample) const {
    return weights_.empty() ? T{1} : weights_[labels_[sample]];
  }

  // Throws if a label that counts is not in [0, classes); returns the sum of
  // the weights.
  double CheckAndWeigh() const {
    double sum = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(labels_.size()); ++i) {
      if (IsIgnored(i)) continue;
      if (labels_[i] < 0 || labels_[i] >= classes_) {
        Fail(node_, "label {} of sample {} is not in [0, {})", labels_[i], i,
             classes_);
      }
      sum += static_cast<double>(Weight(i));
    }
    return sum;
  }

 private:
  const OpNode& node_;
  std::span<const I> labels_;
  std::span<const T> weights_;
  int64_t classes_;
  bool has_ignored_;
  int64_t ignored_;
};

// scores, labels, weights (optional) -> loss, log_prob (optional)
void InferLoss(InferContext& c) {
  CheckShapes(c, 0, 1, 2);
  const TensorInfo& scores = c.input(0);
  c.SetOutput(
      0, scores.type,
      ReadReduction(c.node()) == Reduction::kNone ? c.input(1).shape : Shape{});
  c.SetOutput(1, scores.type, scores.shape);
}

// max + log(sum(exp(x - max))) over the classes of a sample
template <class T>
struct LogSum {
  T largest, log_sum;
};
template <class T>
LogSum<T> LogSumOf(const T* x, const LossSizes& s) {
  T largest = x[0];
  for (int64_t k = 1; k < s.classes; ++k) {
    largest = std::max(largest, x[k * s.inner]);
  }
  double sum = 0;
  for (int64_t k = 0; k < s.classes; ++k) {
    sum += static_cast<double>(std::exp(x[k * s.inner] - largest));
  }
  return {largest, static_cast<T>(std::log(sum))};
}

template <class T, class I>
void Loss(const KernelContext& c) {
  const LossSizes s = SizesOf(c.input(0).shape());
  const Labels<T, I> labels(c, 1, 2, s.classes);
  const double weight = labels.CheckAndWeigh();
  const Reduction reduction = ReadReduction(c.node());
  const T* scores = c.in<T>(0).data();
  T* log_prob = c.has_output(1) ? c.out<T>(1).data() : nullptr;
  T* losses = reduction == Reduction::kNone ? c.out<T>(0).data() : nullptr;
  const double sum = OrderedSum(
      c, s.classes == 0 ? 0 : s.samples(), 6.0 * static_cast<double>(s.classes),
      [&](int64_t begin, int64_t end) {
        double part = 0;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t offset = s.Offset(i);
          const T* x = scores + offset;
          const LogSum<T> total = LogSumOf(x, s);
          if (log_prob) {
            T* out = log_prob + offset;
            for (int64_t k = 0; k < s.classes; ++k) {
              out[k * s.inner] = x[k * s.inner] - total.largest - total.log_sum;
            }
          }
          T loss = 0;
          if (!labels.IsIgnored(i)) {
            loss = -labels.Weight(i) * (x[labels.label(i) * s.inner] -
                                        total.largest - total.log_sum);
          }
          if (losses) losses[i] = loss;
          part += static_cast<double>(loss);
        }
        return part;
      });
  if (reduction == Reduction::kNone) return;
  const bool divide = reduction == Reduction::kMean && weight != 0;
  c.out<T>(0)[0] = static_cast<T>(divide ? sum / weight : sum);
}

// dY, log_prob, labels, weights (optional) -> dscores
void InferLossGrad(InferContext& c) {
  RequireSameType(c, 0, 1);
  CheckShapes(c, 1, 2, 3);
  if (ReadReduction(c.node()) == Reduction::kNone) {
    RequireShape(c, 0, c.input(2).shape);
  } else {
    RequireOneElement(c, 0);
  }
  c.SetOutput(0, c.input(1).type, c.input(1).shape);
}

// dscores = (exp(log_prob) - [class is label]) w dY, over the divisor for
// "mean"; 0 for an ignored sample
template <class T, class I>
void LossGrad(const KernelContext& c) {
  const LossSizes s = SizesOf(c.input(1).shape());
  const Labels<T, I> labels(c, 2, 3, s.classes);
  const double weight = labels.CheckAndWeigh();
  const Reduction reduction = ReadReduction(c.node());
  const T* dy = c.in<T>(0).data();
  const T* log_prob = c.in<T>(1).data();
  T* dx = c.out<T>(0).data();
  double scale = 1;
  if (reduction != Reduction::kNone) scale = static_cast<double>(dy[0]);
  if (reduction == Reduction::kMean && weight != 0) scale /= weight;
  c.ParallelFor(s.samples(), 5.0 * static_cast<double>(s.classes),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const int64_t offset = s.Offset(i);
                    T* out = dx + offset;
                    if (labels.IsIgnored(i)) {
                      for (int64_t k = 0; k < s.classes; ++k)
                        out[k * s.inner] = 0;
                      continue;
                    }
                    T factor = static_cast<T>(scale) * labels.Weight(i);
                    if (reduction == Reduction::kNone) factor *= dy[i];
                    for (int64_t k = 0; k < s.classes; ++k) {
                      out[k * s.inner] =
                          std::exp(log_prob[offset + k * s.inner]) * factor;
                    }
                    out[labels.label(i) * s.inner] -= factor;
                  }
                });
}

// log_prob, labels, weights (optional) -> loss
void InferLogLikelihood(InferContext& c) {
  CheckShapes(c, 0, 1, 2);
  c.SetOutput(
      0, c.input(0).type,
      ReadReduction(c.node()) == Reduction::kNone ? c.input(1).shape : Shape{});
}

template <class T, class I>
void LogLikelihood(const KernelContext& c) {
  const LossSizes s = SizesOf(c.input(0).shape());
  const Labels<T, I> labels(c, 1, 2, s.classes);
  const double weight = labels.CheckAndWeigh();
  const Reduction reduction = ReadReduction(c.node());
  const T* log_prob = c.in<T>(0).data();
  const auto loss = [&](int64_t i) {
    return labels.IsIgnored(i)
               ? T{0}
               : -labels.Weight(i) *
                     log_prob[s.Offset(i) + labels.label(i) * s.inner];
  };
  const auto y = c.out<T>(0);
  if (reduction == Reduction::kNone) {
    for (size_t i = 0; i < y.size(); ++i) y[i] = loss(static_cast<int64_t>(i));
    return;
  }
  const double sum =
      OrderedSum(c, s.samples(), 3, [&](int64_t begin, int64_t end) {
        double part = 0;
        for (int64_t i = begin; i < end; ++i) {
          part += static_cast<double>(loss(i));
        }
        return part;
      });
  const bool divide = reduction == Reduction::kMean && weight != 0;
  y[0] = static_cast<T>(divide ? sum / weight : sum);
}

template <class T>
constexpr auto kRunLoss = [](const KernelContext& c) {
  c.input(1).type() == DataType::kInt32 ? Loss<T, int32_t>(c)
                                        : Loss<T, int64_t>(c);
};
template <class T>
constexpr auto kRunLogLikelihood = [](const KernelContext& c) {
  c.input(1).type() == DataType::kInt32 ? LogLikelihood<T, int32_t>(c)
                                        : LogLikelihood<T, int64_t>(c);
};
template <class T>
constexpr auto kRunLossGrad = [](const KernelContext& c) {
  c.input(2).type() == DataType::kInt32 ? LossGrad<T, int32_t>(c)
                                        : LossGrad<T, int64_t>(c);
};

}  // namespace

extern constexpr OpDef kSoftmaxCrossEntropyLoss = {
    .name = "SoftmaxCrossEntropyLoss",
    .since = 12,
    .inputs = {2, 3},
    .outputs = {1, 2},
    .infer = InferLoss,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { kRunLoss<T>(c); }),
    .stops_gradient = {1, 2}};

extern constexpr OpDef kNegativeLogLikelihoodLoss = {
    .name = "NegativeLogLikelihoodLoss",
    .since = 12,
    .inputs = {2, 3},
    .infer = InferLogLikelihood,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { kRunLogLikelihood<T>(c); }),
    .stops_gradient = {1, 2}};

extern constexpr OpDef kSoftmaxCrossEntropyLossGrad = {
    .name = "SoftmaxCrossEntropyLossGrad",
    .domain = kMicrosoft,
    .inputs = {3, 4},
    .infer = InferLossGrad,
    .reference = Instantiate<Floats, 1>(
        []<class T>(const KernelContext& c) { kRunLossGrad<T>(c); })};

}  // namespace strop::ops
