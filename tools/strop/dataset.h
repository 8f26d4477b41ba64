// SPDX-License-Identifier: Apache-2.0
//
// Files bound to the inputs of a model. Rows of the arrays are samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strop/module.h"
#include "strop/platform.h"
#include "strop/tensor.h"

namespace strop {

struct DataOptions {
  std::string option = "--input";   // how errors call the assignments
  std::vector<std::string> inputs;  // "NAME=FILE"
  std::vector<std::string> scales;  // "NAME=X" or "NAME=A/B"
};

class Dataset {
 public:
  // Reads the files and checks them against the model's inputs: each input
  // has one, types can be converted, shapes agree, row counts are equal.
  Dataset(const DataOptions& options, std::span<const Module::InputInfo> inputs,
          FileSystem& files);

  int64_t row_count() const { return row_count_; }
  // The batch size that the model's inputs fix; 0: any.
  int64_t fixed_batch_size() const { return fixed_batch_size_; }

  // Batch tensors for the given rows, in the order of the model's inputs;
  // memory in `batch` is reused.
  void Gather(std::span<const int64_t> rows,
              std::vector<OwnedTensor>* batch) const;

  // All values of an input that has one per row; empty for others.
  std::vector<int64_t> Labels(std::string_view input) const;

 private:
  struct Column {
    std::string input;
    std::string file;
    DataType type;                  // of the model's input
    std::vector<int64_t> row_dims;  // of one sample, as the model wants it
    double scale = 1;
    OwnedTensor values;
  };

  void AddColumn(const Module::InputInfo& info, const std::string& file,
                 double scale, FileSystem& files);
  void CheckRowCounts() const;

  std::string option_;
  std::vector<Column> columns_;
  int64_t row_count_ = 0;
  int64_t fixed_batch_size_ = 0;
};

// Class numbers from a file: integers, one per row.
std::vector<int64_t> ReadLabels(const std::string& file, FileSystem& files);

// The rows of each batch, in an order that depends on seed and epoch only.
class BatchOrder {
 public:
  enum class LastBatch { kKeep, kDrop };
  struct Options {
    int64_t row_count = 0;
    int64_t batch_size = 1;
    bool shuffle = false;
    uint64_t seed = 0;
    LastBatch last_batch = LastBatch::kKeep;  // where it is smaller
  };
  explicit BatchOrder(const Options& options);

  int64_t batch_count() const { return batch_count_; }
  std::span<const int64_t> Rows(int64_t epoch, int64_t batch);

 private:
  Options options_;
  int64_t batch_count_;
  int64_t epoch_ = -1;  // the one that rows_ holds
  std::vector<int64_t> rows_;
};

}  // namespace strop
