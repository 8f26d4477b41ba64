// SPDX-License-Identifier: Apache-2.0
#include "evaluation.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "base/throw.h"

namespace strop {
namespace {

constexpr int64_t kDefaultBatchSize = 32;

bool IsScalar(const Tensor& tensor) {
  const auto is_type = [&](DataType type) { return tensor.type() == type; };
  return tensor.shape().rank() <= 1 && tensor.element_count() == 1 &&
         (is_type(DataType::kFloat32) || is_type(DataType::kFloat64) ||
          is_type(DataType::kFloat16) || is_type(DataType::kBfloat16));
}

bool IsScores(const Tensor& tensor, int64_t rows) {
  return tensor.type() == DataType::kFloat32 && tensor.shape().rank() == 2 &&
         tensor.shape()[0] == rows && tensor.shape()[1] >= 2;
}

// Sums up the batches of one evaluation.
class Collector {
 public:
  Collector(const std::vector<std::string>& names, int64_t rows,
            const EvaluationOptions& options)
      : names_(names), options_(options), total_rows_(rows) {
    result_.rows = rows;
  }

  void Add(std::span<const int64_t> rows,
           const std::vector<OwnedTensor>& outputs) {
    if (kinds_.empty()) Classify(rows, outputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (kinds_[i] == Kind::kScalar) {
        sums_[i] += FloatValue(outputs[i]) * static_cast<double>(rows.size());
      } else if (kinds_[i] == Kind::kArray && options_.keep_arrays) {
        Keep(i, rows, outputs[i]);
      }
    }
    if (scores_ >= 0) Count(rows, outputs[static_cast<size_t>(scores_)]);
  }

  Evaluation Finish() {
    for (size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i] == Kind::kScalar) {
        result_.means.emplace_back(names_[i],
                                   sums_[i] / static_cast<double>(total_rows_));
      } else if (kinds_[i] == Kind::kOther) {
        result_.other_outputs.push_back(names_[i]);
      }
    }
    return std::move(result_);
  }

 private:
  enum class Kind { kScalar, kArray, kOther };

  // The first batch decides what each output is.
  void Classify(std::span<const int64_t> rows,
                const std::vector<OwnedTensor>& outputs) {
    const int64_t count = static_cast<int64_t>(rows.size());
    int score_outputs = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& output = outputs[i];
      const bool has_rows =
          output.shape().rank() > 0 && output.shape()[0] == count;
      kinds_.push_back(IsScalar(output) ? Kind::kScalar
                       : has_rows       ? Kind::kArray
                                        : Kind::kOther);
      if (!IsScores(output, count)) continue;
      ++score_outputs;
      scores_ = static_cast<int>(i);
    }
    sums_.resize(outputs.size());
    if (score_outputs != 1 || !LabelsFit(outputs)) {
      scores_ = -1;
      return;
    }
    const size_t output = static_cast<size_t>(scores_);
    result_.accuracy = {.output = names_[output],
                        .classes = std::vector<ClassCount>(
                            static_cast<size_t>(outputs[output].shape()[1]))};
  }

  bool LabelsFit(const std::vector<OwnedTensor>& outputs) const {
    const int64_t classes = outputs[static_cast<size_t>(scores_)].shape()[1];
    return !options_.labels.empty() &&
           std::ranges::all_of(options_.labels, [&](int64_t label) {
             return label >= 0 && label < classes;
           });
  }

  void Keep(size_t i, std::span<const int64_t> rows, const Tensor& output) {
    const Shape& shape = output.shape();
    OwnedTensor& all = result_.arrays[names_[i]];
    if (all.type() == DataType::kUndefined) {
      std::vector<int64_t> dims(shape.begin(), shape.end());
      dims[0] = total_rows_;
      all = OwnedTensor(output.type(), Shape(dims));
    }
    if (shape.rank() != all.shape().rank() ||
        !std::equal(shape.begin() + 1, shape.end(), all.shape().begin() + 1) ||
        shape[0] != static_cast<int64_t>(rows.size())) {
      Throw(ErrorCode::kInvalidArgument,
            "output \"{}\" has shape {} in one batch, which does not continue "
            "{}: it cannot be dumped as one array",
            names_[i], shape.ToString(), all.shape().ToString());
    }
    const size_t row_bytes = output.byte_count() / rows.size();
    std::memcpy(
        all.view().bytes().data() + static_cast<size_t>(rows[0]) * row_bytes,
        output.data(), output.byte_count());
  }

  void Count(std::span<const int64_t> rows, const Tensor& scores) {
    const size_t classes = result_.accuracy->classes.size();
    const std::span<const float> values = scores.values<float>();
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = values.subspan(i * classes, classes);
      const auto guess = std::ranges::max_element(row) - row.begin();
      const int64_t label = options_.labels[static_cast<size_t>(rows[i])];
      ClassCount& count = result_.accuracy->classes[static_cast<size_t>(label)];
      ++count.rows;
      if (guess == label) ++count.correct;
    }
  }

  const std::vector<std::string>& names_;
  const EvaluationOptions& options_;
  int64_t total_rows_;
  std::vector<Kind> kinds_;
  std::vector<double> sums_;
  int scores_ = -1;  // the output that holds scores; -1: none or several
  Evaluation result_;
};

}  // namespace

double FloatValue(const Tensor& scalar) {
  switch (scalar.type()) {
    case DataType::kFloat64:
      return scalar.values<double>()[0];
    case DataType::kFloat16:
      return ToFloat(scalar.values<Float16>()[0]);
    case DataType::kBfloat16:
      return ToFloat(scalar.values<Bfloat16>()[0]);
    default:
      return scalar.values<float>()[0];
  }
}

int64_t Accuracy::correct() const {
  int64_t sum = 0;
  for (const ClassCount& count : classes) sum += count.correct;
  return sum;
}

int64_t Accuracy::rows() const {
  int64_t sum = 0;
  for (const ClassCount& count : classes) sum += count.rows;
  return sum;
}

double Accuracy::value() const {
  return static_cast<double>(correct()) / static_cast<double>(rows());
}

Evaluation Evaluate(const Dataset& data,
                    const std::vector<std::string>& output_names,
                    const ForwardStep& step, const EvaluationOptions& options) {
  if (!options.labels.empty() &&
      static_cast<int64_t>(options.labels.size()) != data.row_count()) {
    Throw(ErrorCode::kInvalidArgument, "there are {} labels for {} rows",
          options.labels.size(), data.row_count());
  }
  BatchOrder order({.row_count = data.row_count(),
                    .batch_size = options.batch_size,
                    .shuffle = false,
                    .seed = 0,
                    .last_batch = data.fixed_batch_size() > 0
                                      ? BatchOrder::LastBatch::kDrop
                                      : BatchOrder::LastBatch::kKeep});
  const int64_t dropped =
      data.fixed_batch_size() > 0 ? data.row_count() % options.batch_size : 0;
  Collector collector(output_names, data.row_count() - dropped, options);
  std::vector<OwnedTensor> batch, outputs;
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < order.batch_count(); ++i) {
    const std::span<const int64_t> rows = order.Rows(0, i);
    data.Gather(rows, &batch);
    inputs.assign(batch.begin(), batch.end());
    step(inputs, &outputs);
    collector.Add(rows, outputs);
  }
  Evaluation result = collector.Finish();
  result.dropped_rows = dropped;
  return result;
}

int64_t ResolveBatchSize(const Dataset& data, std::optional<int64_t> wanted) {
  const int64_t fixed = data.fixed_batch_size();
  if (fixed == 0) return wanted.value_or(kDefaultBatchSize);
  if (wanted && *wanted != fixed) {
    Throw(ErrorCode::kInvalidArgument,
          "--batch-size {}: the model's inputs fix the batch size to {}",
          *wanted, fixed);
  }
  if (data.row_count() < fixed) {
    Throw(ErrorCode::kInvalidArgument,
          "the model's inputs fix the batch size to {}, but there are only "
          "{} rows",
          fixed, data.row_count());
  }
  return fixed;
}

}  // namespace strop
