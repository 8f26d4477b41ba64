// SPDX-License-Identifier: Apache-2.0
#include "dataset.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "convert.h"
#include "data/arrays.h"
#include "evaluation.h"
#include "tools/support.h"
#include "usage.h"

namespace strop {
namespace {

Module::InputInfo Input(std::string name, DataType type,
                        std::vector<int64_t> dims) {
  return {.name = std::move(name),
          .type = type,
          .has_shape = true,
          .dims = std::move(dims)};
}

class DatasetTest : public testing::Test {
 protected:
  // Writes an array and returns NAME=FILE.
  template <class T>
  std::string File(const std::string& name, const Shape& shape,
                   std::vector<T> values) {
    data::WriteNpy(folder_ / (name + ".npy"), Tensor(shape, values.data()),
                   *files_);
    return name + "=" + (folder_ / (name + ".npy")).string();
  }
  Dataset Read(std::vector<std::string> inputs,
               const std::vector<Module::InputInfo>& infos,
               std::vector<std::string> scales = {}) {
    return Dataset({.inputs = std::move(inputs), .scales = std::move(scales)},
                   infos, *files_);
  }
  std::string ReadError(std::vector<std::string> inputs,
                        const std::vector<Module::InputInfo>& infos,
                        std::vector<std::string> scales = {}) {
    return ErrorOf([&] { Read(inputs, infos, scales); });
  }

  TemporaryFolder folder_;
  std::shared_ptr<FileSystem> files_ = FileSystem::Default();
};

TEST_F(DatasetTest, ConvertsScalesAndReshapes) {
  const std::string x =
      File<uint8_t>("x", {3, 2, 2}, {0, 51, 102, 255, 1, 2, 3, 4, 5, 6, 7, 8});
  const std::string y = File<uint8_t>("y", {3, 1}, {7, 8, 9});
  Dataset data = Read({y, x},
                      {Input("x", DataType::kFloat32, {-1, 1, 4}),
                       Input("y", DataType::kInt64, {-1})},
                      {"x=1/255"});
  EXPECT_EQ(data.row_count(), 3);
  EXPECT_EQ(data.fixed_batch_size(), 0);
  std::vector<OwnedTensor> batch;
  data.Gather(std::vector<int64_t>{2, 0}, &batch);
  ASSERT_EQ(batch.size(), 2u);  // in the model's order
  EXPECT_EQ(batch[0].shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(Values<float>(batch[0]),
            (std::vector<float>{5 / 255.0f, 6 / 255.0f, 7 / 255.0f, 8 / 255.0f,
                                0, 0.2f, 0.4f, 1}));
  EXPECT_EQ(batch[1].shape(), Shape{2});
  EXPECT_EQ(Values<int64_t>(batch[1]), (std::vector<int64_t>{9, 7}));
  EXPECT_EQ(data.Labels("y"), (std::vector<int64_t>{7, 8, 9}));
  EXPECT_TRUE(data.Labels("x").empty());
}

TEST_F(DatasetTest, HugeDimensionsDoNotFit) {
  const std::string x = File<float>("x", {2, 6}, std::vector<float>(12));
  // Times 9 it is 6 modulo 2^64.
  constexpr int64_t kHuge = 0x5555555555555556;
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{-1, kHuge, 9},
        std::vector<int64_t>{-1, kHuge, 9, -1}}) {
    EXPECT_NE(ReadError({x}, {Input("x", DataType::kFloat32, dims)})
                  .find("a row does not fit"),
              std::string::npos);
  }
}

TEST_F(DatasetTest, OpenDimensionsTakeWhatTheFileHas) {
  const std::string x = File<float>("x", {2, 6}, std::vector<float>(12));
  std::vector<OwnedTensor> batch;
  auto shape = [&](std::vector<int64_t> dims) {
    Dataset data = Read({x}, {Input("x", DataType::kFloat32, dims)});
    data.Gather(std::vector<int64_t>{0, 1}, &batch);
    return batch[0].shape();
  };
  EXPECT_EQ(shape({-1, -1}), (Shape{2, 6}));
  EXPECT_EQ(shape({-1, 2, -1}), (Shape{2, 2, 3}));
  Dataset any = Read({x}, {{.name = "x",
                            .type = DataType::kFloat32,
                            .has_shape = false,
                            .dims = {}}});
  any.Gather(std::vector<int64_t>{1}, &batch);
  EXPECT_EQ(batch[0].shape(), (Shape{1, 6}));
  EXPECT_NE(ReadError({x}, {Input("x", DataType::kFloat32, {-1, 4, -1})}), "");
  EXPECT_NE(ReadError({x}, {Input("x", DataType::kFloat32, {-1, -1, -1})}), "");
}

TEST_F(DatasetTest, ErrorsNameFileInputWantedAndGiven) {
  const std::string x = File<float>("x", {2, 3}, std::vector<float>(6));
  const std::string y = File<int64_t>("y", {4}, {0, 1, 2, 3});
  const auto x_info = Input("x", DataType::kFloat32, {-1, 3});
  const auto y_info = Input("y", DataType::kInt64, {-1});
  std::string error = ReadError({x, y}, {x_info, y_info});
  EXPECT_TRUE(error.starts_with("--input y=")) << error;
  EXPECT_NE(error.find("has 4 rows, but \"x\" has 2 in"), error.npos) << error;
  error = ReadError({x}, {x_info, y_info});
  EXPECT_EQ(error,
            "there is no --input y=FILE; the model's inputs are \"x\", \"y\"");
  error = ReadError({x, "z=w.npy"}, {x_info});
  EXPECT_EQ(error,
            "--input z=w.npy: the model has no input \"z\"; its inputs are "
            "\"x\"");
  error = ReadError({x}, {Input("x", DataType::kFloat32, {-1, 4})});
  EXPECT_NE(error.find("has shape (?, 4); the file's is (2, 3)"), error.npos)
      << error;
  error = ReadError({"x=" + (folder_ / "gone.npy").string()}, {x_info});
  EXPECT_NE(error.find("gone.npy"), error.npos) << error;
  error = ReadError({y}, {y_info}, {"y=2"});
  EXPECT_NE(error.find("only floating-point inputs can be scaled"), error.npos)
      << error;
  const std::string scalar = File<float>("x", {}, {1});
  error = ReadError({scalar}, {x_info});
  EXPECT_NE(error.find("wanted rows of samples"), error.npos) << error;
}

TEST_F(DatasetTest, MalformedAssignmentsAreUsageErrors) {
  const std::string x = File<float>("x", {1, 3}, {1, 2, 3});
  const auto info = Input("x", DataType::kFloat32, {-1, 3});
  for (const char* text : {"x", "=x", "x=", ""}) {
    EXPECT_THROW(Read({text}, {info}), UsageError) << text;
  }
  EXPECT_THROW(Read({x, x}, {info}), UsageError);
  for (const char* scale : {"x=a", "x=1/0", "x=1/2/3", "x=inf", "x=1e"}) {
    EXPECT_THROW(Read({x}, {info}, {scale}), UsageError) << scale;
  }
}

TEST_F(DatasetTest, ValuesMustFitTheModelsType) {
  const auto int32 = Input("y", DataType::kInt32, {-1});
  std::vector<OwnedTensor> batch;
  Dataset data = Read({File<double>("y", {2}, {3, -4})}, {int32});
  data.Gather(std::vector<int64_t>{0, 1}, &batch);
  EXPECT_EQ(Values<int32_t>(batch[0]), (std::vector<int32_t>{3, -4}));
  std::string error = ReadError({File<double>("y", {2}, {3, 0.5})}, {int32});
  EXPECT_NE(error.find("row 1 holds 0.5"), error.npos) << error;
  EXPECT_NE(error.find("int32"), error.npos) << error;
  error = ReadError({File<int64_t>("y", {2}, {int64_t{1} << 31, 0})}, {int32});
  EXPECT_NE(error.find("row 0 holds 2147483648"), error.npos) << error;
  for (double value : {std::nan(""), HUGE_VAL, 2147483648.0, -2147483649.0}) {
    EXPECT_NE(ReadError({File<double>("y", {1}, {value})}, {int32}), "");
  }
  EXPECT_NE(ReadError({File<int8_t>("y", {1}, {-1})},
                      {Input("y", DataType::kUint64, {-1})}),
            "");
  EXPECT_NE(ReadError({File<int8_t>("y", {1}, {2})},
                      {Input("y", DataType::kBool, {-1})}),
            "");
}

TEST_F(DatasetTest, HalfPrecisionInputs) {
  Dataset data = Read({File<double>("x", {1, 2}, {1.5, -2})},
                      {Input("x", DataType::kFloat16, {-1, 2})});
  std::vector<OwnedTensor> batch;
  data.Gather(std::vector<int64_t>{0}, &batch);
  EXPECT_EQ(batch[0].values<Float16>()[0].bits, 0x3e00);
  EXPECT_EQ(batch[0].values<Float16>()[1].bits, 0xc000);
}

TEST_F(DatasetTest, FixedBatchSize) {
  const std::string x = File<float>("x", {5, 1}, {1, 2, 3, 4, 5});
  Dataset data = Read({x}, {Input("x", DataType::kFloat32, {2, 1})});
  EXPECT_EQ(data.fixed_batch_size(), 2);
  EXPECT_EQ(ResolveBatchSize(data, std::nullopt), 2);
  EXPECT_THROW(ResolveBatchSize(data, 3), Error);
  Dataset large = Read({x}, {Input("x", DataType::kFloat32, {8, 1})});
  EXPECT_THROW(ResolveBatchSize(large, std::nullopt), Error);
}

TEST(BatchOrder, CoversEveryRowOnceAndKeepsTheRest) {
  BatchOrder order(
      {.row_count = 10, .batch_size = 4, .shuffle = true, .seed = 3});
  ASSERT_EQ(order.batch_count(), 3);
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch : {0, 1, 0}) {
    std::vector<int64_t>& rows = epochs.emplace_back();
    for (int64_t batch = 0; batch < 3; ++batch) {
      const auto part = order.Rows(epoch, batch);
      EXPECT_EQ(part.size(), batch < 2 ? 4u : 2u);
      rows.insert(rows.end(), part.begin(), part.end());
    }
    EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 10u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0], epochs[2]);  // a matter of seed and epoch alone
  BatchOrder other(
      {.row_count = 10, .batch_size = 10, .shuffle = true, .seed = 4});
  const auto rows = other.Rows(0, 0);
  EXPECT_FALSE(std::equal(rows.begin(), rows.end(), epochs[0].begin()));
}

TEST(BatchOrder, InOrderWithoutTheRest) {
  BatchOrder order({.row_count = 5,
                    .batch_size = 2,
                    .shuffle = false,
                    .seed = 0,
                    .last_batch = BatchOrder::LastBatch::kDrop});
  EXPECT_EQ(order.batch_count(), 2);
  const auto rows = order.Rows(7, 1);
  EXPECT_EQ(std::vector<int64_t>(rows.begin(), rows.end()),
            (std::vector<int64_t>{2, 3}));
}

TEST_F(DatasetTest, EvaluationWeighsBatchesAndKeepsRows) {
  const Dataset data =
      Read({File<float>("x", {5, 2}, {0, 1, 1, 0, 0, 2, 3, 0, 0, 9})},
           {Input("x", DataType::kFloat32, {-1, 2})});
  // Outputs: the number of rows in the batch, and x itself as scores.
  auto step = [](std::span<const Tensor> inputs,
                 std::vector<OwnedTensor>* outputs) {
    outputs->resize(2);
    (*outputs)[0].Resize(DataType::kFloat32, Shape{});
    (*outputs)[0].values<float>()[0] = static_cast<float>(inputs[0].shape()[0]);
    (*outputs)[1] = OwnedTensor(inputs[0]);
  };
  const Evaluation result = Evaluate(
      data, {"count", "scores"}, step,
      {.batch_size = 2, .keep_arrays = true, .labels = {1, 0, 1, 1, 0}});
  EXPECT_EQ(result.rows, 5);
  ASSERT_EQ(result.means.size(), 1u);
  EXPECT_EQ(result.means[0].first, "count");
  EXPECT_EQ(result.means[0].second, (2 * 2 + 2 * 2 + 1 * 1) / 5.0);
  EXPECT_EQ(Values<float>(result.arrays.at("scores")),
            (std::vector<float>{0, 1, 1, 0, 0, 2, 3, 0, 0, 9}));
  ASSERT_TRUE(result.accuracy.has_value());
  EXPECT_EQ(result.accuracy->correct(), 3);
  EXPECT_EQ(result.accuracy->classes[1].rows, 3);
  EXPECT_EQ(result.accuracy->classes[1].correct, 2);
  // A label without a score: there is no accuracy to tell.
  EXPECT_FALSE(Evaluate(data, {"count", "scores"}, step,
                        {.batch_size = 2, .labels = {1, 0, 1, 1, 2}})
                   .accuracy.has_value());
  EXPECT_THROW(Evaluate(data, {"count", "scores"}, step,
                        {.batch_size = 2, .labels = {1, 0}}),
               Error);
}

}  // namespace
}  // namespace strop
