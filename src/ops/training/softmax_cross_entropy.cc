// SPDX-License-Identifier: Apache-2.0
//
// SoftmaxCrossEntropyLoss, its gradient, and NegativeLogLikelihoodLoss, which
// takes log p itself. Scores are (N, C, d...), labels (N, d...), class weights
// (C). The loss of a sample is -w log p[label]; "mean" divides the sum by the
// sum of the weights of the samples that count (ignore_index takes a sample
// out); a divisor of 0 gives 0, as in ONNX Runtime.
//
// com.microsoft's Internal ops take the ignored label as an input. The old
// SparseSoftmaxCrossEntropy has scores (d..., C) and one weight per sample.
#include "ops/gradient.h"
#include "ops/number.h"
#include "ops/training/loss.h"

namespace strop::ops {
namespace {

enum class Form { kClassesSecond, kClassesLast };

template <Form form>
LossSizes SizesOf(const Shape& scores) {
  if (form == Form::kClassesLast) {
    const size_t axis = scores.rank() - 1;
    return {scores.element_count(0, axis), scores[axis], 1};
  }
  return {scores[0], scores[1], scores.element_count(2, scores.rank())};
}

// Scores of this shape have labels of that shape.
template <Form form>
bool LabelsFit(const Shape& scores, const Shape& labels) {
  constexpr size_t axis_of_classes = form == Form::kClassesSecond ? 1 : 0;
  if (scores.rank() <= axis_of_classes || labels.rank() + 1 != scores.rank()) {
    return false;
  }
  const size_t axis =
      form == Form::kClassesSecond ? size_t{1} : scores.rank() - 1;
  for (size_t i = 0; i < labels.rank(); ++i) {
    if (labels[i] != scores[i < axis ? i : i + 1]) return false;
  }
  return true;
}

// Inputs `scores`, `labels` and, if there, `weights` and the ignored label
// behind them fit each other.
template <Form form>
void CheckShapes(const InferContext& c, size_t scores, size_t labels,
                 size_t weights) {
  const Shape& s = c.input(scores).shape;
  const Shape& l = c.input(labels).shape;
  RequireIndices(c, labels);
  if (!LabelsFit<form>(s, l)) {
    Fail(c.node(), "scores {} and labels {} do not fit", s.ToString(),
         l.ToString());
  }
  if (c.has_input(weights)) {
    RequireSameType(c, scores, weights);
    RequireShape(c, weights, form == Form::kClassesLast ? l : Shape{s[1]});
  }
  if (c.has_input(weights + 1)) {
    RequireType(c, weights + 1, DataType::kInt64);
    RequireOneElement(c, weights + 1);
  }
}

// What the loss needs to know of the labels.
template <class T, class I, Form form>
class Labels {
 public:
  Labels(const KernelContext& c, size_t labels, size_t weights, int64_t classes)
      : node_(c.node()),
        labels_(c.in<I>(labels)),
        classes_(classes),
        has_ignored_(c.node().Has("ignore_index")),
        ignored_(c.node().Int("ignore_index", 0)) {
    if (c.has_input(weights)) weights_ = c.in<T>(weights);
    if (c.has_input(weights + 1)) {
      has_ignored_ = true;
      ignored_ = c.scalar<int64_t>(weights + 1);
    }
  }

  bool IsIgnored(int64_t sample) const {
    return has_ignored_ && static_cast<int64_t>(labels_[sample]) == ignored_;
  }
  int64_t label(int64_t sample) const { return labels_[sample]; }
  // The weight of a sample that is not ignored.
  T Weight(int64_t sample) const {
    if (weights_.empty()) return 1;
    return weights_[form == Form::kClassesLast ? sample : labels_[sample]];
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
template <Form form>
void InferLoss(InferContext& c) {
  CheckShapes<form>(c, 0, 1, 2);
  const TensorInfo& scores = c.input(0);
  c.SetOutput(
      0, scores.type,
      ReadReduction(c.node()) == Reduction::kNone ? c.input(1).shape : Shape{});
  c.SetOutput(1, scores.type, scores.shape);
}

template <class T, class I, Form form>
void Loss(const KernelContext& c) {
  const LossSizes s = SizesOf<form>(c.input(0).shape());
  const Labels<T, I, form> labels(c, 1, 2, s.classes);
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
template <Form form>
void InferLossGrad(InferContext& c) {
  RequireSameType(c, 0, 1);
  CheckShapes<form>(c, 1, 2, 3);
  if (ReadReduction(c.node()) == Reduction::kNone) {
    RequireShape(c, 0, c.input(2).shape);
  } else {
    RequireOneElement(c, 0);
  }
  c.SetOutput(0, c.input(1).type, c.input(1).shape);
}

// dscores = (exp(log_prob) - [class is label]) w dY, over the divisor for
// "mean"; 0 for an ignored sample
template <class T, class I, Form form>
void LossGrad(const KernelContext& c) {
  const LossSizes s = SizesOf<form>(c.input(1).shape());
  const Labels<T, I, form> labels(c, 2, 3, s.classes);
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
  if (!c.has_input(5)) return;
  const T* bias = c.in<T>(5).data();
  for (int64_t i = 0; i < c.output(0).element_count(); ++i) dx[i] += bias[i];
}

// log_prob, labels, weights (optional) -> loss
void InferLogLikelihood(InferContext& c) {
  CheckShapes<Form::kClassesSecond>(c, 0, 1, 2);
  c.SetOutput(
      0, c.input(0).type,
      ReadReduction(c.node()) == Reduction::kNone ? c.input(1).shape : Shape{});
}

template <class T, class I>
void LogLikelihood(const KernelContext& c) {
  const LossSizes s = SizesOf<Form::kClassesSecond>(c.input(0).shape());
  const Labels<T, I, Form::kClassesSecond> labels(c, 1, 2, s.classes);
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

// --- The Internal ops

// What `output_type` says; without it, the type of input i.
DataType OutputType(const InferContext& c, size_t i) {
  return static_cast<DataType>(
      c.node().Int("output_type", static_cast<int64_t>(c.input(i).type)));
}

// Only 16-bit scores may differ in type from log_prob, which is float32 then:
// that is what both are computed in.
void CheckTypes(const OpNode& node, DataType scores, DataType log_prob) {
  if (scores == log_prob || (IsHalf(scores) && log_prob == DataType::kFloat32))
    return;
  Fail(node, ErrorCode::kNotImplemented,
       "scores of type {} with log_prob of type {} are not supported",
       DataTypeName(scores), DataTypeName(log_prob));
}

// scores, labels, weights (optional), ignored label (optional) -> loss,
// log_prob
void InferInternalLoss(InferContext& c) {
  InferLoss<Form::kClassesSecond>(c);
  const DataType type = OutputType(c, 0);
  CheckTypes(c.node(), c.input(0).type, type);
  const bool is_list = ReadReduction(c.node()) == Reduction::kNone;
  c.SetOutput(0, type, is_list ? c.input(1).shape : Shape{});
  c.SetOutput(1, type, c.input(0).shape);
}

// dY, log_prob, labels, weights, ignored label, bias (all three optional)
// -> dscores + bias
void InferInternalLossGrad(InferContext& c) {
  InferLossGrad<Form::kClassesSecond>(c);
  const DataType type = OutputType(c, 1);
  CheckTypes(c.node(), type, c.input(1).type);
  if (c.has_input(5)) {
    RequireType(c, 5, type);
    if (c.input(5).shape.element_count() != c.input(1).shape.element_count()) {
      Fail(c.node(), "the bias {} has another size than log_prob {}",
           c.input(5).shape.ToString(), c.input(1).shape.ToString());
    }
  }
  c.SetOutput(0, type, c.input(1).shape);
}

// --- Kernels

template <class T, Form form>
void RunLoss(const KernelContext& c) {
  c.input(1).type() == DataType::kInt32 ? Loss<T, int32_t, form>(c)
                                        : Loss<T, int64_t, form>(c);
}
template <class T>
void RunLogLikelihood(const KernelContext& c) {
  c.input(1).type() == DataType::kInt32 ? LogLikelihood<T, int32_t>(c)
                                        : LogLikelihood<T, int64_t>(c);
}
template <class T, Form form>
void RunLossGrad(const KernelContext& c) {
  c.input(2).type() == DataType::kInt32 ? LossGrad<T, int32_t, form>(c)
                                        : LossGrad<T, int64_t, form>(c);
}

template <Form form>
constexpr ReferenceKernel kLossKernel = Instantiate<Floats>(
    []<class T>(const KernelContext& c) { RunLoss<T, form>(c); });
constexpr ReferenceKernel kLogLikelihoodKernel = Instantiate<Floats>(
    []<class T>(const KernelContext& c) { RunLogLikelihood<T>(c); });
// The type of the result counts: log_prob may be wider.
template <Form form>
constexpr ReferenceKernel kLossGradKernel = Instantiate<Floats, -1>(
    []<class T>(const KernelContext& c) { RunLossGrad<T, form>(c); });

// --- Gradients

// What arrives at the loss, through `op_type`, and at log_prob.
void LossGradient(GradientContext& c, std::string_view op_type,
                  std::string_view domain, int64_t class_axis) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var log_prob = c.AddedOutput(1, "log_prob", type);
  b.SetDims(log_prob, b.dims(c.x()));
  Var dx;
  if (c.has_dy(0)) {
    std::vector<Var> inputs = {c.dy(), log_prob};
    for (size_t i = 1; i < c.input_count(); ++i) inputs.push_back(c.x(i));
    dx = b.Op(op_type, inputs, c.attributes(), domain, type);
  }
  if (c.has_dy(1)) {
    const Var part = b.MicrosoftOp("LogSoftmaxGrad_13", {c.dy(1), log_prob},
                                   {{"axis", class_axis}});
    dx = dx ? dx + part : part;
  }
  c.Set(0, dx);
}

// The gradient of SoftmaxCrossEntropyLoss is (exp(log_prob) - [class is
// label]) times what the sample counts; of that the second part alone is
// wanted, and exp(-infinity) is 0.
void LogLikelihoodGradient(GradientContext& c, std::string_view op_type) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const OwnedTensor value(type, {1});
  const Tensor infinity =
      c.build()
          .graph()
          .value(b.Scalar(-std::numeric_limits<double>::infinity(), type).id)
          .initializer->view();
  std::ranges::copy(infinity.bytes(), value.view().bytes().begin());
  const Var nothing =
      b.Op("ConstantOfShape", {b.Shape(c.x())},
           {{"value", TensorData::Copy("", value.view())}}, kOnnx, type);
  std::vector<Var> inputs = {c.dy(), nothing};
  for (size_t i = 1; i < c.input_count(); ++i) inputs.push_back(c.x(i));
  c.Set(0, b.Op(op_type, inputs, c.attributes(), kMicrosoft, type));
}

}  // namespace

extern constexpr OpDef kSoftmaxCrossEntropyLoss = {
    .name = "SoftmaxCrossEntropyLoss",
    .since = 12,
    .inputs = {2, 3},
    .outputs = {1, 2},
    .infer = InferLoss<Form::kClassesSecond>,
    .reference = kLossKernel<Form::kClassesSecond>,
    .gradient = Rule([](GradientContext& c) {
      LossGradient(c, "SoftmaxCrossEntropyLossGrad", kMicrosoft, 1);
    }),
    .stops_gradient = {1, 2}};

extern constexpr OpDef kSoftmaxCrossEntropyLossGrad = {
    .name = "SoftmaxCrossEntropyLossGrad",
    .domain = kMicrosoft,
    .inputs = {3, 4},
    .infer = InferLossGrad<Form::kClassesSecond>,
    .reference = kLossGradKernel<Form::kClassesSecond>};

extern constexpr OpDef kSoftmaxCrossEntropyLossInternal = {
    .name = "SoftmaxCrossEntropyLossInternal",
    .domain = kMicrosoft,
    .inputs = {2, 4},
    .outputs = {1, 2},
    .infer = InferInternalLoss,
    .reference = kLossKernel<Form::kClassesSecond>,
    .gradient = Rule([](GradientContext& c) {
      LossGradient(c, "SoftmaxCrossEntropyLossInternalGrad", kMicrosoft, 1);
    }),
    .stops_gradient = {1, 2, 3}};

extern constexpr OpDef kSoftmaxCrossEntropyLossInternalGrad = {
    .name = "SoftmaxCrossEntropyLossInternalGrad",
    .domain = kMicrosoft,
    .inputs = {3, 6},
    .infer = InferInternalLossGrad,
    .reference = kLossGradKernel<Form::kClassesSecond>};

extern constexpr OpDef kSparseSoftmaxCrossEntropy = {
    .name = "SparseSoftmaxCrossEntropy",
    .since = 9,
    .inputs = {2, 3},
    .outputs = {1, 2},
    .infer = InferLoss<Form::kClassesLast>,
    .reference = kLossKernel<Form::kClassesLast>,
    .gradient = Rule([](GradientContext& c) {
      LossGradient(c, "SparseSoftmaxCrossEntropyGrad", kOnnx, -1);
    }),
    .stops_gradient = {1, 2}};

extern constexpr OpDef kSparseSoftmaxCrossEntropyGrad = {
    .name = "SparseSoftmaxCrossEntropyGrad",
    .since = 9,
    .inputs = {3, 4},
    .infer = InferLossGrad<Form::kClassesLast>,
    .reference = kLossGradKernel<Form::kClassesLast>};

extern constexpr OpDef kNegativeLogLikelihoodLoss = {
    .name = "NegativeLogLikelihoodLoss",
    .since = 12,
    .inputs = {2, 3},
    .infer = InferLogLikelihood,
    .reference = kLogLikelihoodKernel,
    .gradient = Rule([](GradientContext& c) {
      LogLikelihoodGradient(c, "SoftmaxCrossEntropyLossGrad");
    }),
    .stops_gradient = {1, 2}};

// The same op twice: the names differ in the opset of ONNX Runtime's body.
extern constexpr OpDef kNegativeLogLikelihoodLossInternal = {
    .name = "NegativeLogLikelihoodLossInternal",
    .domain = kMicrosoft,
    .inputs = {2, 4},
    .infer = InferLogLikelihood,
    .reference = kLogLikelihoodKernel,
    .gradient = Rule([](GradientContext& c) {
      LogLikelihoodGradient(c, "SoftmaxCrossEntropyLossInternalGrad");
    }),
    .stops_gradient = {1, 2, 3}};

extern constexpr OpDef kNegativeLogLikelihoodLossInternal2 = {
    .name = "NegativeLogLikelihoodLossInternal2",
    .domain = kMicrosoft,
    .inputs = {2, 4},
    .infer = InferLogLikelihood,
    .reference = kLogLikelihoodKernel,
    .gradient = Rule([](GradientContext& c) {
      LogLikelihoodGradient(c, "SoftmaxCrossEntropyLossInternalGrad");
    }),
    .stops_gradient = {1, 2, 3}};

}  // namespace strop::ops
