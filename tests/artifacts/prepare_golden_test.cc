// SPDX-License-Identifier: Apache-2.0
//
// The golden cases again, from their bare models: Strop makes the artifacts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "artifacts/golden_recipe.h"
#include "graph/onnx_io.h"
#include "tools/support.h"
#include "training/golden.h"
#include "training/golden_cases.h"

namespace strop::golden {
namespace {

// Where ONNX Runtime is wrong, refuses or crashes; PyTorch gave the numbers.
constexpr const char* kTorchCases[] = {
    "bert_tiny_position_ids",
    "trap_average_pool_dynamic",
    "trap_clip_attributes",
    "trap_conv_same_upper",
    "trap_gelu_tanh",
    "trap_layer_norm_one_output",
    "trap_leaky_relu_negative",
    "trap_max_pool_dynamic",
    "trap_pad_axes",
    "trap_pow_broadcast",
    "trap_pow_integer_exponent",
    "trap_reduce_l2_flat",
    "trap_reduce_logsumexp_flat",
    "trap_scatter_add",
    "trap_slice_backwards",
    "trap_split_unused",
    "trap_weight_used_twice",
    "trap_where_broadcast",
};

// Statistics that ONNX Runtime leaves as constants go into the checkpoint,
// where eval finds them: the case is then resnet8_bn.
constexpr std::string_view kConstantStatistics = "resnet8_bn_constant_stats";
constexpr const char* kWithStatistics = "resnet8_bn";

class Prepared : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  Prepared() {
    golden_.UseArtifacts(
        PrepareCase(golden_.name(), folder_.path(), environment_));
  }

  void ExpectParameters(const std::string& prefix, const TrainingRun& run) {
    const auto expected = golden_.ExpectedUnder(prefix);
    Named actual = run.Parameters();
    if (golden_.name() == kConstantStatistics) {
      EXPECT_EQ(std::erase_if(actual,
                              [&](const auto& parameter) {
                                return !expected.contains(parameter.first);
                              }),
                16u);
    }
    EXPECT_LE(Difference(expected, actual), golden_.limits().parameter)
        << prefix;
  }

  TemporaryFolder folder_;
  Environment environment_;
  Case golden_{std::get<0>(GetParam())};
};

TEST_P(Prepared, TrainsToTheExpectedValues) {
  const Limits& limits = golden_.limits();
  const SessionOptions options = {
      .disabled_passes = {}, .config = {{"strop.fill_memory_with_nan", "1"}}};
  TrainingRun run(golden_, "checkpoint", std::get<1>(GetParam()), options);
  run.Train(0, golden_.train_steps(),
            {.after_train =
                 [&](int64_t step) {
                   if (step > 0) return;
                   EXPECT_LE(Difference(golden_.ExpectedUnder("grad"),
                                        run.Gradients()),
                             limits.gradient);
                 },
             .after_optimizer =
                 [&](int64_t step) {
                   if (step == golden_.accumulation() - 1)
                     ExpectParameters("param_step1", run);
                 }});
  const auto expected = golden_.Expected("train_loss").values<float>();
  const double magnitude = LargestMagnitude(golden_.Expected("train_loss"));
  ASSERT_EQ(run.losses().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(std::abs(run.losses()[i] - expected[i]), limits.loss * magnitude)
        << "step " << i << ": " << run.losses()[i] << " for " << expected[i];
  }
  ExpectParameters("param", run);
}

std::string NameOf(const testing::TestParamInfo<Prepared::ParamType>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ort, Prepared,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(1, 2)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Torch, Prepared,
                         testing::Combine(testing::ValuesIn(kTorchCases),
                                          testing::Values(1, 2)),
                         NameOf);

// What users and devices see of a model: inputs and outputs by name.
class Interface : public testing::TestWithParam<const char*> {};

std::vector<std::string> Names(const Graph& graph,
                               std::span<const ValueId> ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(graph.value_name(id));
  return names;
}

void ExpectSameState(const std::filesystem::path& ours_path,
                     const std::filesystem::path& theirs_path,
                     const Environment& environment) {
  const auto ours = CheckpointState::Load(ours_path, environment);
  const auto theirs = CheckpointState::Load(theirs_path, environment);
  EXPECT_EQ(ours.is_nominal(), theirs.is_nominal());
  ASSERT_EQ(ours.ParameterNames(), theirs.ParameterNames());
  for (const std::string& name : theirs.ParameterNames()) {
    EXPECT_EQ(ours.RequiresGrad(name), theirs.RequiresGrad(name)) << name;
    if (ours.is_nominal()) continue;
    EXPECT_TRUE(std::ranges::equal(ours.ParameterValue(name).bytes(),
                                   theirs.ParameterValue(name).bytes()))
        << name;
  }
}

TEST_P(Interface, IsThatOfOrtsArtifacts) {
  const Environment environment;
  const Case golden(GetParam() == kConstantStatistics ? kWithStatistics
                                                      : GetParam());
  const TemporaryFolder root;
  const auto folder = PrepareCase(GetParam(), root.path(), environment);
  for (const char* file :
       {"training_model.onnx", "eval_model.onnx", "optimizer_model.onnx"}) {
    SCOPED_TRACE(file);
    const Model ours = ReadOnnx(folder / file, environment.files());
    const Model theirs = ReadOnnx(golden.file(file), environment.files());
    EXPECT_EQ(Names(ours.graph, ours.graph.inputs()),
              Names(theirs.graph, theirs.graph.inputs()));
    EXPECT_EQ(Names(ours.graph, ours.graph.outputs()),
              Names(theirs.graph, theirs.graph.outputs()));
    EXPECT_EQ(ours.graph.opset(kOnnx), theirs.graph.opset(kOnnx));
  }
  for (const char* file : {"checkpoint", "nominal_checkpoint"}) {
    if (std::filesystem::exists(golden.file(file)))
      ExpectSameState(folder / file, golden.file(file), environment);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Interface, testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace strop::golden
