// SPDX-License-Identifier: Apache-2.0
//
// A step allocates nothing once its plan is made; oneDNN may, but gives all
// of it back. A program of its own, because it replaces operator new to count.
// Large tensors are made by calloc; on Linux the linker brings Strop's calls
// of it here.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "strop/tensor.h"
#include "training/golden.h"

#ifdef STROP_WRAPS_CALLOC
// Names that the linker gives.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void* __real_calloc(std::size_t count, std::size_t size);
void __real_free(void* memory);
}
// NOLINTEND(bugprone-reserved-identifier)
#endif

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;  // by Strop
std::atomic<int64_t> live_blocks = 0;  // of anybody

// Whether the code at `address` is oneDNN's or its OpenMP runtime's.
bool IsThirdParty(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "dnnl") != nullptr ||
         std::strstr(info.dli_fname, "gomp") != nullptr;
}

void* Allocate(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (counting) {
    ++live_blocks;
    if (!IsThirdParty(caller)) ++allocations;
  }
  // aligned_alloc wants a multiple of the alignment.
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, bytes == 0 ? alignment : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Free(void* memory) {
  if (counting && memory != nullptr) --live_blocks;
#ifdef STROP_WRAPS_CALLOC
  __real_free(memory);
#else
  std::free(memory);
#endif
}

}  // namespace

#ifdef STROP_WRAPS_CALLOC
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void* __wrap_calloc(std::size_t count, std::size_t size) {
  if (counting) {
    ++live_blocks;
    ++allocations;
  }
  return __real_calloc(count, size);
}
void __wrap_free(void* memory) { Free(memory); }
}
// NOLINTEND(bugprone-reserved-identifier)
#endif

void* operator new(std::size_t bytes) {
  return Allocate(bytes, alignof(std::max_align_t),
                  __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return Allocate(bytes, alignof(std::max_align_t),
                  __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment),
                  __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment),
                  __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, alignof(std::max_align_t),
                  __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, alignof(std::max_align_t),
                  __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment,
                   const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<std::size_t>(alignment),
                  __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<std::size_t>(alignment),
                  __builtin_return_address(0));
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  Free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  Free(memory);
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept {
  Free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  Free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  Free(memory);
}

namespace strop {
namespace {

TEST(Allocations, AreCounted) {
  allocations = 0;
  live_blocks = 0;
  counting = true;
  // Through a volatile pointer, so that the pair is not optimised away.
  int* volatile memory = new int(1);
  delete memory;
  counting = false;
  EXPECT_EQ(allocations, 1);
  EXPECT_EQ(live_blocks, 0);
}

#ifdef STROP_WRAPS_CALLOC
TEST(Allocations, OfLargeTensorsAreCounted) {
  allocations = 0;
  live_blocks = 0;
  counting = true;
  { const OwnedTensor tensor(DataType::kUint8, Shape{8 << 20}); }
  counting = false;
  EXPECT_EQ(allocations, 1);
  EXPECT_EQ(live_blocks, 0);
}
#endif

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
  allocations = 0;
  live_blocks = 0;
  counting = true;
  step();
  step();
  step();
  counting = false;
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(live_blocks, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Allocations,
    testing::Combine(testing::Values("mlp_ce_adamw", "lenet_ce_sgd",
                                     "clip_grad_norm", "custom_loss",
                                     "resnet8_bn"),
                     testing::Values(1, 2)));

}  // namespace
}  // namespace strop
