// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataset.h"
#include "strop/tensor.h"

namespace strop {

// One forward pass: a Module's EvalStep or an inference model.
using ForwardStep =
    std::function<void(std::span<const Tensor>, std::vector<OwnedTensor>*)>;

struct ClassCount {
  int64_t rows = 0;
  int64_t correct = 0;
};

struct Accuracy {
  std::string output;               // whose largest element is the guess
  std::vector<ClassCount> classes;  // by label
  int64_t correct() const;
  int64_t rows() const;
  double value() const;
};

struct Evaluation {
  int64_t rows = 0;
  int64_t dropped_rows = 0;  // where a fixed batch size leaves a rest
  // Scalar outputs: means weighted by the rows of each batch.
  std::vector<std::pair<std::string, double>> means;
  // With EvaluationOptions::keep_arrays: outputs with a row per sample.
  std::map<std::string, OwnedTensor> arrays;
  // Outputs that are neither.
  std::vector<std::string> other_outputs;
  // Where labels were given and one output has a row of scores per sample.
  std::optional<Accuracy> accuracy;
};

struct EvaluationOptions {
  int64_t batch_size = 32;
  bool keep_arrays = false;
  std::vector<int64_t> labels;  // one per row; empty: no accuracy
};

// Of one number of a float type, 16 bits too.
double FloatValue(const Tensor& scalar);

// Runs all rows in order. The last, smaller batch counts too, unless the
// model fixes the batch size.
Evaluation Evaluate(const Dataset& data,
                    const std::vector<std::string>& output_names,
                    const ForwardStep& step, const EvaluationOptions& options);

// The batch size to use: `wanted`, or what the model fixes. Throws if they
// differ or there are too few rows for one fixed batch.
int64_t ResolveBatchSize(const Dataset& data, std::optional<int64_t> wanted);

}  // namespace strop
