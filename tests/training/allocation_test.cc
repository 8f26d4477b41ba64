// SPDX-License-Identifier: Apache-2.0
//
// A step allocates nothing once its plan is made. A program of its own,
// because it replaces operator new to count.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "training/golden.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;

void* Allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  // aligned_alloc wants a multiple of the alignment.
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, bytes == 0 ? alignment : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return Allocate(bytes, alignof(std::max_align_t));
}
void* operator new[](std::size_t bytes) {
  return Allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace strop {
namespace {

TEST(Allocations, AreCounted) {
  counting = true;
  const int64_t before = allocations;
  // Through a volatile pointer, so that the pair is not optimised away.
  int* volatile memory = new int(1);
  delete memory;
  counting = false;
  EXPECT_EQ(allocations - before, 1);
}

class Allocations
    : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Allocations, NoneInAStepAfterTwo) {
  const golden::Case golden(std::get<0>(GetParam()));
  golden::TrainingRun run(golden, "checkpoint", std::get<1>(GetParam()));
  Module& module = run.module();
  const auto batch = golden.Batch(0, module.TrainingInputNames());
  std::vector<OwnedTensor> outputs;
  const auto step = [&] {
    module.TrainStep(batch, &outputs);
    run.optimizer().Step();
    module.LazyResetGrad();
  };
  step();
  step();
  const int64_t before = allocations;
  counting = true;
  step();
  step();
  step();
  counting = false;
  EXPECT_EQ(allocations - before, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Allocations,
    testing::Combine(testing::Values("mlp_ce_adamw", "lenet_ce_sgd",
                                     "clip_grad_norm", "custom_loss"),
                     testing::Values(1, 2)));

}  // namespace
}  // namespace strop
