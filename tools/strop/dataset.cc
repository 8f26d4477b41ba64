// SPDX-License-Identifier: Apache-2.0
#include "dataset.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/random.h"
#include "base/throw.h"
#include "convert.h"
#include "data/arrays.h"
#include "data/parse_double.h"
#include "saturated.h"
#include "usage.h"

namespace strop {
namespace {

std::string InputNames(std::span<const Module::InputInfo> inputs) {
  std::string names;
  for (const Module::InputInfo& info : inputs) {
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", info.name);
  }
  return names;
}

// "(batch, 28, 28)", with ? for open dimensions.
std::string DimsText(std::span<const int64_t> dims) {
  std::string text;
  for (int64_t dim : dims) {
    if (!text.empty()) text += ", ";
    text += dim < 0 ? "?" : std::to_string(dim);
  }
  return "(" + text + ")";
}

// NAME=VALUE options as a map whose names are inputs of the model.
std::map<std::string, std::string> Assignments(
    std::string_view option, const std::vector<std::string>& texts,
    std::span<const Module::InputInfo> inputs) {
  std::map<std::string, std::string> result;
  for (const std::string& text : texts) {
    auto [name, value] = SplitAssignment(option, text);
    const bool known = std::ranges::any_of(
        inputs,
        [&](const Module::InputInfo& info) { return info.name == name; });
    if (!known) {
      Throw(ErrorCode::kNotFound,
            "{} {}: the model has no input \"{}\"; its inputs are {}", option,
            text, name, InputNames(inputs));
    }
    if (!result.emplace(name, value).second) {
      ThrowUsage("{} is given twice for \"{}\"", option, name);
    }
  }
  return result;
}

double ParseScale(const std::string& name, std::string_view text) {
  auto number = [&](std::string_view part) {
    double value = 0;
    if (!data::ParseDouble(part, &value) || !std::isfinite(value)) {
      ThrowUsage("--scale {}={}: wanted a number or A/B", name, text);
    }
    return value;
  };
  const size_t slash = text.find('/');
  if (slash == text.npos) return number(text);
  const double divisor = number(text.substr(slash + 1));
  if (divisor == 0) ThrowUsage("--scale {}={}: division by 0", name, text);
  return number(text.substr(0, slash)) / divisor;
}

// The dims of one sample as the model wants it, from what the file has; empty
// optional: they do not go together.
std::optional<std::vector<int64_t>> FitRow(std::span<const int64_t> wanted,
                                           std::span<const int64_t> given) {
  // Same rank: each known dimension must be equal.
  if (wanted.size() == given.size()) {
    bool equal = true;
    for (size_t i = 0; i < wanted.size(); ++i) {
      equal = equal && (wanted[i] < 0 || wanted[i] == given[i]);
    }
    if (equal) return std::vector<int64_t>(given.begin(), given.end());
  }
  // Else the element counts must agree, which fixes one open dimension.
  int64_t count = 1, known = 1;
  for (int64_t dim : given) count = SaturatedProduct(count, dim);
  auto open = wanted.end();
  for (auto it = wanted.begin(); it != wanted.end(); ++it) {
    if (*it >= 0) {
      known = SaturatedProduct(known, *it);
    } else if (open != wanted.end()) {
      return std::nullopt;
    } else {
      open = it;
    }
  }
  std::vector<int64_t> row(wanted.begin(), wanted.end());
  if (open == wanted.end()) {
    if (count != known) return std::nullopt;
  } else {
    if (known == 0 || count % known != 0) return std::nullopt;
    row[static_cast<size_t>(open - wanted.begin())] = count / known;
  }
  return row;
}

}  // namespace

Dataset::Dataset(const DataOptions& options,
                 std::span<const Module::InputInfo> inputs, FileSystem& files)
    : option_(options.option) {
  const auto assigned = Assignments(options.option, options.inputs, inputs);
  const auto scales = Assignments("--scale", options.scales, inputs);
  for (const Module::InputInfo& info : inputs) {
    auto file = assigned.find(info.name);
    if (file == assigned.end()) {
      Throw(ErrorCode::kInvalidArgument,
            "there is no {} {}=FILE; the model's inputs are {}", options.option,
            info.name, InputNames(inputs));
    }
    auto scale = scales.find(info.name);
    AddColumn(info, file->second,
              scale == scales.end() ? 1 : ParseScale(info.name, scale->second),
              files);
  }
  CheckRowCounts();
  row_count_ = columns_[0].values.shape()[0];
}

void Dataset::AddColumn(const Module::InputInfo& info, const std::string& file,
                        double scale, FileSystem& files) {
  Column column = {.input = info.name,
                   .file = file,
                   .type = info.type,
                   .row_dims = {},
                   .scale = scale,
                   .values = data::ReadArray(file, files)};
  const std::string what =
      fmt::format("{} {}={}: the model's input", option_, info.name, file);
  const Shape& shape = column.values.shape();
  if (shape.rank() == 0 || shape[0] == 0) {
    Throw(ErrorCode::kInvalidArgument,
          "{} {}={}: wanted rows of samples, got an array of shape {}", option_,
          info.name, file, shape.ToString());
  }
  if (scale != 1 && !IsFloatingPoint(info.type)) {
    Throw(ErrorCode::kInvalidArgument,
          "--scale {}: the model's input is {}; only floating-point inputs "
          "can be scaled",
          info.name, DataTypeName(info.type));
  }
  CheckConvertible(column.values, info.type, what);
  const std::span<const int64_t> row = shape.dims().subspan(1);
  if (!info.has_shape) {
    column.row_dims.assign(row.begin(), row.end());
  } else {
    const std::span<const int64_t> dims = info.dims;
    if (dims.empty()) {
      Throw(ErrorCode::kInvalidArgument,
            "{} is one number without a batch dimension; a file of samples "
            "does not fit it",
            what);
    }
    std::optional<std::vector<int64_t>> fitted = FitRow(dims.subspan(1), row);
    if (!fitted) {
      Throw(ErrorCode::kInvalidArgument,
            "{} has shape {}; the file's is {}, so that a row does not fit",
            what, DimsText(dims), shape.ToString());
    }
    column.row_dims = std::move(*fitted);
    if (dims[0] >= 0) {
      if (fixed_batch_size_ != 0 && fixed_batch_size_ != dims[0]) {
        Throw(ErrorCode::kInvalidArgument,
              "the model fixes different first dimensions: {} for \"{}\", {} "
              "for another input",
              dims[0], info.name, fixed_batch_size_);
      }
      fixed_batch_size_ = dims[0];
    }
  }
  columns_.push_back(std::move(column));
}

void Dataset::CheckRowCounts() const {
  for (const Column& column : columns_) {
    const Column& first = columns_[0];
    const int64_t rows = column.values.shape()[0];
    if (rows != first.values.shape()[0]) {
      Throw(ErrorCode::kInvalidArgument,
            "{} {}={} has {} rows, but \"{}\" has {} in {}", option_,
            column.input, column.file, rows, first.input,
            first.values.shape()[0], first.file);
    }
  }
  if (columns_.empty()) {
    Throw(ErrorCode::kInvalidArgument, "the model has no inputs to feed");
  }
}

void Dataset::Gather(std::span<const int64_t> rows,
                     std::vector<OwnedTensor>* batch) const {
  batch->resize(columns_.size());
  std::vector<int64_t> dims;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    dims.assign(1, static_cast<int64_t>(rows.size()));
    dims.insert(dims.end(), column.row_dims.begin(), column.row_dims.end());
    (*batch)[i].Resize(column.type, Shape(dims));
    GatherRows(column.values, rows, column.scale, (*batch)[i]);
  }
}

namespace {

std::vector<int64_t> ToLabels(const Tensor& values) {
  std::vector<int64_t> labels(static_cast<size_t>(values.shape()[0]));
  std::vector<int64_t> rows(labels.size());
  std::iota(rows.begin(), rows.end(), 0);
  const Tensor target(Shape{values.shape()[0]}, labels.data());
  GatherRows(values, rows, /*scale=*/1, target);
  return labels;
}

}  // namespace

std::vector<int64_t> Dataset::Labels(std::string_view input) const {
  for (const Column& column : columns_) {
    if (column.input == input && !IsFloatingPoint(column.type) &&
        column.values.view().element_count() == row_count()) {
      return ToLabels(column.values);
    }
  }
  return {};
}

std::vector<int64_t> ReadLabels(const std::string& file, FileSystem& files) {
  const OwnedTensor values = data::ReadArray(file, files);
  const Shape& shape = values.shape();
  if (shape.rank() == 0 || shape.element_count() != shape[0] || shape[0] == 0) {
    Throw(ErrorCode::kInvalidArgument,
          "--labels {}: wanted one class number per row, got shape {}", file,
          shape.ToString());
  }
  CheckConvertible(values, DataType::kInt64,
                   fmt::format("--labels {}: a class number", file));
  return ToLabels(values);
}

BatchOrder::BatchOrder(const Options& options) : options_(options) {
  const int64_t full = options.row_count / options.batch_size;
  const bool rest = options.row_count % options.batch_size != 0;
  batch_count_ =
      full + (rest && options.last_batch == LastBatch::kKeep ? 1 : 0);
}

std::span<const int64_t> BatchOrder::Rows(int64_t epoch, int64_t batch) {
  if (epoch != epoch_) {
    rows_.resize(static_cast<size_t>(options_.row_count));
    std::iota(rows_.begin(), rows_.end(), 0);
    if (options_.shuffle) {
      Shuffler shuffler(options_.seed, static_cast<uint64_t>(epoch));
      for (size_t i = rows_.size(); i > 1; --i) {
        std::swap(rows_[i - 1], rows_[shuffler.Next(i)]);
      }
    }
    epoch_ = epoch;
  }
  const size_t begin = static_cast<size_t>(batch * options_.batch_size);
  const size_t count =
      std::min(static_cast<size_t>(options_.batch_size), rows_.size() - begin);
  return std::span(rows_).subspan(begin, count);
}

}  // namespace strop
