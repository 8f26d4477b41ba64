// SPDX-License-Identifier: Apache-2.0
//
// Learning rates of runs that follow other runs.
#include "strop/checkpoint_state.h"
#include "strop/environment.h"
#include "tools/golden.h"
#include "tools/program.h"

namespace strop {
namespace {

class Rate : public testing::Test {
 protected:
  // The rates of a run's train steps; "out" is its output.
  std::vector<float> Rates(const Arguments& more) {
    const std::string metrics = (folder_ / "m.jsonl").string();
    std::filesystem::remove(metrics);
    ExpectSuccess(
        RunProgram(Arguments{"train", golden_.folder.string(), "--output",
                             (folder_ / "out").string(), "--metrics", metrics} +
                   data_ + more));
    return Column(ReadLines(metrics), "lr");
  }

  GoldenCase golden_{"mlp_ce_adamw"};
  TemporaryFolder folder_;
  Arguments data_ = golden_.TrainInputs(folder_, 10);
  const Arguments linear_ = {"--schedule", "linear", "--lr", "0.002"};
};

// 20 steps lie before this run; they are none of its own.
TEST_F(Rate, WarmUpBeginsWithTheRun) {
  const std::vector<float> rates = Rates(
      linear_ + Arguments{"--warmup", "4", "--steps", "10", "--checkpoint",
                          golden_.Path("checkpoint_after")});
  ASSERT_EQ(rates.size(), 10u);
  for (size_t i = 0; i < rates.size(); ++i) {
    const float step = static_cast<float>(i);
    const float factor = i < 4 ? step / 4 : (10 - step) / 6;
    EXPECT_FLOAT_EQ(rates[i], 0.002f * factor) << i;
  }
}

TEST_F(Rate, ARunAfterAScheduleStartsAtTheInitialRate) {
  EXPECT_GT(Rates(linear_ + Arguments{"--steps", "5"}).size(), 0u);
  // The schedule has ended at a rate of 0.
  const auto start = folder_ / "start";
  std::filesystem::copy(folder_ / "out/checkpoint", start);
  EXPECT_EQ(Rates({"--steps", "2", "--checkpoint", start.string()}),
            (std::vector<float>{0.002f, 0.002f}));
}

TEST_F(Rate, AScheduleThatIsLeftTakesItsRateAlong) {
  Rates(linear_ + Arguments{"--steps", "5"});
  EXPECT_EQ(Rates({"--resume", "--schedule", "none", "--steps", "7"}),
            (std::vector<float>{0.002f, 0.002f}));
  // What is given again and is the same is kept.
  EXPECT_EQ(
      Rates({"--resume", "--schedule", "none", "--steps", "8", "--lr", "0.25"}),
      (std::vector<float>{0.25f}));
  EXPECT_EQ(Rates({"--resume", "--schedule", "none", "--steps", "9"}),
            (std::vector<float>{0.25f}));
  // From none to linear: as if it had been so from the run's beginning.
  EXPECT_EQ(Rates({"--resume", "--schedule", "linear", "--steps", "10"}),
            (std::vector<float>{0.25f * (1.0f / 10)}));
}

}  // namespace
}  // namespace strop
