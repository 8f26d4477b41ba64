// SPDX-License-Identifier: Apache-2.0
//
// Whole training runs against ONNX Runtime's, from its own artifacts.
#include "training/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "checkpoint/parameter_store.h"
#include "training/golden_cases.h"
#include "training/inference.h"

namespace strop::golden {
namespace {

class Golden : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  Case golden_{std::get<0>(GetParam())};
  int threads_ = std::get<1>(GetParam());
  const Limits& limits_ = golden_.limits();

  void ExpectLosses(const std::string& key, const std::vector<float>& losses) {
    const auto expected = golden_.Expected(key).values<float>();
    ASSERT_EQ(losses.size(), expected.size());
    const double magnitude = LargestMagnitude(golden_.Expected(key));
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_LE(std::abs(losses[i] - expected[i]), limits_.loss * magnitude)
          << key << " of step " << i << " is " << losses[i] << " instead of "
          << expected[i];
    }
  }

  void ExpectRates(const std::string& key, const std::vector<float>& rates) {
    const auto expected = golden_.Expected(key).values<float>();
    ASSERT_EQ(rates.size(), expected.size());
    for (size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(rates[i], expected[i], 1e-6f * expected[i]) << "step " << i;
    }
  }

  void ExpectOutputs(const std::string& prefix,
                     const std::vector<OwnedTensor>& outputs) {
    EXPECT_EQ(golden_.ExpectedUnder(prefix).size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_LE(Difference(golden_.Expected(prefix + "/" + std::to_string(i)),
                           outputs[i]),
                limits_.output)
          << prefix << " " << i;
    }
  }

  void ExpectParameters(const std::string& prefix, const TrainingRun& run) {
    EXPECT_LE(Difference(golden_.ExpectedUnder(prefix), run.Parameters()),
              limits_.parameter)
        << prefix;
  }

  OwnedTensor Buffer(TrainingRun& run, bool trainable_only) {
    OwnedTensor buffer(DataType::kFloat32,
                       {run.module().GetParametersSize(trainable_only)});
    run.module().CopyParametersToBuffer(buffer, trainable_only);
    return buffer;
  }
};

TEST_P(Golden, TrainsAsOrt) {
  TrainingRun run(golden_, "checkpoint", threads_);
  ExpectOutputs("eval_outputs_before", run.Evaluate());
  run.Train(0, golden_.train_steps(),
            {.after_train =
                 [&](int64_t step) {
                   if (step < 3) {
                     ExpectOutputs(fmt::format("train_outputs/{:04}", step),
                                   run.outputs());
                   }
                   if (step > 0) return;
                   EXPECT_LE(Difference(golden_.ExpectedUnder("grad"),
                                        run.Gradients()),
                             limits_.gradient);
                 },
             .after_optimizer =
                 [&](int64_t step) {
                   if (step == golden_.accumulation() - 1) {
                     ExpectParameters("param_step1", run);
                   }
                 }});
  ExpectLosses("train_loss", run.losses());
  ExpectRates("lr", run.rates());
  ExpectParameters("param", run);
  ExpectOutputs("eval_outputs_after", run.Evaluate());
  for (const auto& [name, expected] : golden_.ExpectedUnder("contiguous")) {
    EXPECT_LE(Difference(expected, Buffer(run, name == "trainable")),
              limits_.parameter)
        << name;
  }
}

TEST_P(Golden, SavesWhatOrtSaves) {
  TrainingRun run(golden_, "checkpoint", threads_);
  run.Train(0, golden_.train_steps());
  const auto path = std::filesystem::path(testing::TempDir()) /
                    fmt::format("{}_{}_checkpoint", golden_.name(), threads_);
  run.state().Save(path, /*include_optimizer_state=*/true);
  const auto ours = CheckpointState::Load(path, run.environment());
  const auto theirs = CheckpointState::Load(golden_.file("checkpoint_after"),
                                            run.environment());
  std::filesystem::remove(path);

  EXPECT_EQ(ours.ParameterNames(), theirs.ParameterNames());
  EXPECT_EQ(ours.PropertyNames(), theirs.PropertyNames());
  for (const std::string& name : theirs.ParameterNames()) {
    EXPECT_EQ(ours.RequiresGrad(name), theirs.RequiresGrad(name)) << name;
  }
  ExpectParameters("param", run);

  ASSERT_EQ(ours.store().groups.size(), 1u);
  const OptimizerGroup& group = ours.store().groups.at("group0");
  const OptimizerGroup& expected = theirs.store().groups.at("group0");
  EXPECT_EQ(group.step, expected.step);
  EXPECT_EQ(group.step,
            golden_.Expected("optimizer_step").values<int64_t>()[0]);
  EXPECT_EQ(group.initial_learning_rate, expected.initial_learning_rate);
  std::map<std::string, Tensor> wanted_moments;
  Named moments;
  for (const auto& [name, kinds] : expected.parameters) {
    for (const auto& [kind, tensor] : kinds) {
      wanted_moments.emplace(name + "/" + kind, tensor);
    }
  }
  for (const auto& [name, kinds] : group.parameters) {
    for (const auto& [kind, tensor] : kinds) {
      moments.emplace(name + "/" + kind, OwnedTensor(tensor));
    }
  }
  // Moments are sums of gradients, with gradients' noise.
  EXPECT_LE(Difference(wanted_moments, moments),
            std::max(limits_.gradient, limits_.parameter));
}

TEST_P(Golden, ResumesFromOrtsCheckpoint) {
  if (golden_.resume_train_steps() == 0) {
    EXPECT_FALSE(golden_.Has("train_loss_resumed"));
    return;
  }
  TrainingRun run(golden_, "checkpoint_after", threads_);
  run.Train(golden_.train_steps(),
            golden_.train_steps() + golden_.resume_train_steps());
  ExpectLosses("train_loss_resumed", run.losses());
  ExpectRates("lr_resumed", run.rates());
  ExpectParameters("param_resumed", run);
}

TEST_P(Golden, ExportsAModelThatPredictsTheSame) {
  TrainingRun run(golden_, "checkpoint_after", threads_);
  const auto path =
      std::filesystem::path(testing::TempDir()) /
      fmt::format("{}_{}_inference.onnx", golden_.name(), threads_);
  run.module().ExportModelForInferencing(path, golden_.model_outputs());
  Inference inference(path, {}, run.environment());
  std::filesystem::remove(path);

  EXPECT_EQ(inference.output_names(), golden_.model_outputs());
  std::vector<std::string> names;
  for (const auto& input : inference.inputs()) names.push_back(input.name);
  std::vector<OwnedTensor> outputs;
  inference.Run(golden_.EvalBatch(names), &outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = golden_.model_outputs()[i];
    EXPECT_LE(Difference(golden_.Expected("inference/" + name), outputs[i]),
              limits_.output)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Golden,
    testing::Combine(testing::ValuesIn(kCases), testing::Values(1, 2)),
    [](const testing::TestParamInfo<Golden::ParamType>& info) {
      return fmt::format("{}_{}_threads", std::get<0>(info.param),
                         std::get<1>(info.param));
    });

// The federated round trip: a device starts from names alone, receives one
// flat buffer, trains, and receives the mean of both.
class NominalGolden : public Golden {};

TEST_P(NominalGolden, TrainsFromABufferAndTakesTheMeanBack) {
  TrainingRun full(golden_, "checkpoint", threads_);
  const OwnedTensor start = Buffer(full, /*trainable_only=*/false);

  TrainingRun device(golden_, "nominal_checkpoint", threads_);
  ASSERT_TRUE(device.state().is_nominal());
  device.module().CopyBufferToParameters(start, /*trainable_only=*/false);
  EXPECT_FALSE(device.state().is_nominal());
  device.Train(0, golden_.train_steps());
  ExpectLosses("nominal/train_loss", device.losses());
  ExpectRates("nominal/lr", device.rates());
  OwnedTensor end = Buffer(device, /*trainable_only=*/false);
  EXPECT_LE(Difference(golden_.Expected("nominal/contiguous_all"), end),
            limits_.parameter);

  // Bit-equal to the run that had its values from the beginning.
  full.Train(0, golden_.train_steps());
  EXPECT_EQ(device.losses(), full.losses());
  EXPECT_EQ(Difference(Buffer(full, /*trainable_only=*/false), end), 0);

  for (size_t i = 0; i < end.values<float>().size(); ++i) {
    float& x = end.values<float>()[i];
    x = (start.values<float>()[i] + x) / 2;
  }
  EXPECT_LE(Difference(golden_.Expected("nominal/mean_buffer"), end),
            limits_.parameter);
  device.module().CopyBufferToParameters(end, /*trainable_only=*/false);
  ExpectOutputs("nominal/eval_outputs_mean", device.Evaluate());
}

INSTANTIATE_TEST_SUITE_P(Cases, NominalGolden,
                         testing::Combine(testing::Values("nominal"),
                                          testing::Values(1, 2)));

}  // namespace
}  // namespace strop::golden
