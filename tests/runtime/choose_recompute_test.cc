// SPDX-License-Identifier: Apache-2.0
#include "runtime/choose_recompute.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/registry.h"
#include "runtime/place.h"

namespace strop {
namespace {

// Plans of steps that are only looked at. Every value is `kBytes` large.
class PlanBuilder {
 public:
  static constexpr int64_t kBytes = 4096;

  PlanBuilder() { node_.op_type = "Neg"; }

  // A step that reads slots and makes one.
  int Step(const std::string& name, std::vector<int> inputs, double flops = 0) {
    PlanStep step;
    step.node = &node_;
    step.op = FindOp(kOnnx, "MatMul", 13);  // overwrites nothing
    step.kernel_name = name;
    step.flops = flops;
    step.inputs = std::move(inputs);
    step.outputs = {Slot()};
    plan.steps.push_back(std::move(step));
    return plan.steps.back().outputs[0];
  }

  int Slot(int shares = -1) {
    PlanSlot slot;
    slot.info = {DataType::kFloat32, Shape{kBytes / 4}};
    slot.storage = PlanSlot::Storage::kArena;
    slot.bytes = kBytes;
    slot.shares = shares;
    plan.slots.push_back(slot);
    return static_cast<int>(plan.slots.size()) - 1;
  }

  int Either(int kept, int again) {
    const int result = Slot(kept);
    choices.push_back({kept, again, result});
    return result;
  }

  // The names of the steps that are left, in order; then the plan is placed.
  std::string Choose(size_t most_bytes) {
    ChooseRecompute(plan, choices, {}, most_bytes);
    PlaceBuffers(plan, {});
    std::string names;
    for (const PlanStep& step : plan.steps) {
      names += (names.empty() ? "" : " ") + step.kernel_name;
    }
    return names;
  }

  Plan plan;
  std::vector<RecomputeChoice> choices;

 private:
  Node node_;
};

// x -> a -> b -> c -> ... with gradients in the other order, each of which
// reads the value of its layer.
PlanBuilder Chain(int layers, double flops) {
  PlanBuilder b;
  std::vector<int> values = {b.Step("x", {})};
  std::vector<int> late = {values[0]};
  for (int i = 1; i <= layers; ++i) {
    values.push_back(b.Step("f" + std::to_string(i), {values.back()}, flops));
  }
  for (int i = 1; i <= layers; ++i) {
    const int again = b.Step("again" + std::to_string(i), {late.back()}, flops);
    late.push_back(b.Either(values[static_cast<size_t>(i)], again));
  }
  int gradient = b.Step("loss", {values.back()});
  for (int i = layers; i > 0; --i) {
    gradient = b.Step("g" + std::to_string(i),
                      {gradient, late[static_cast<size_t>(i)]});
  }
  b.Step("end", {gradient, values[0]});
  return b;
}

TEST(ChooseRecompute, KeepsWhatIsDear) {
  PlanBuilder b = Chain(3, 1e9);
  EXPECT_EQ(b.Choose(0), "x f1 f2 f3 loss g3 g2 g1 end");
}

TEST(ChooseRecompute, GivesUpTheDearestWhereTheLimitWantsIt) {
  PlanBuilder b = Chain(3, 1e9);
  EXPECT_EQ(b.Choose(5 * PlanBuilder::kBytes),
            "x f1 f2 f3 loss g3 again2 g2 g1 end");
  EXPECT_EQ(b.plan.arena_bytes, static_cast<size_t>(5 * PlanBuilder::kBytes));
}

TEST(ChooseRecompute, ALimitThatCannotBeKeptGivesTheLeast) {
  PlanBuilder free = Chain(8, 1e9), least = Chain(8, 1e9);
  free.Choose(0);
  least.Choose(1);
  EXPECT_EQ(free.plan.arena_bytes,
            static_cast<size_t>(11 * PlanBuilder::kBytes));
  EXPECT_LE(least.plan.arena_bytes,
            static_cast<size_t>(7 * PlanBuilder::kBytes));
}

// Without a limit a sixteenth of the step may be spent: the plan has long
// steps beside.
TEST(ChooseRecompute, GivesUpWhatIsCheap) {
  PlanBuilder b;
  const int x = b.Step("x", {});
  const int y = b.Step("f", {x});
  const int h = b.Step("long", {y}, 1e9);
  const int again = b.Step("again", {x});
  const int late = b.Either(y, again);
  const int gradient = b.Step("long gradient", {h, x}, 1e9);
  b.Step("end", {gradient, late});
  EXPECT_EQ(b.Choose(0), "x f long long gradient again end");
}

// The value that would have to stay for it is as large.
TEST(ChooseRecompute, KeepsWhatSavesNothing) {
  PlanBuilder b;
  const int x = b.Step("x", {});
  const int y = b.Step("f", {x});
  const int h = b.Step("long", {y}, 1e9);
  const int again = b.Step("again", {x});
  const int late = b.Either(y, again);
  const int gradient = b.Step("long gradient", {h}, 1e9);
  b.Step("end", {gradient, late});
  EXPECT_EQ(b.Choose(0), "x f long long gradient end");
}

TEST(ChooseRecompute, ViewsFollowWhatTheyLookAt) {
  PlanBuilder b;
  const int x = b.Step("x", {});
  const int y = b.Step("f", {x});
  const int view = b.Slot(y);
  const int h = b.Step("long", {view}, 1e9);
  const int again = b.Step("again", {x});
  const int late = b.Either(y, again);
  const int late_view = b.Either(view, b.Slot(late));
  const int gradient = b.Step("long gradient", {h, x}, 1e9);
  b.Step("end", {gradient, late_view});
  EXPECT_EQ(b.Choose(0), "x f long long gradient again end");
}

}  // namespace
}  // namespace strop
