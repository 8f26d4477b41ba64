// SPDX-License-Identifier: Apache-2.0
#include "ops/op_util.h"

namespace strop::ops {
namespace {

void InferAccumulator(InferContext& c) {
  RequireSame(c, 0, 1);
  if (c.has_input(2)) {
    RequireType(c, 2, DataType::kBool);
    RequireOneElement(c, 2);
  }
  c.SetOutput(0, DataType::kBool, {1});
  c.SetOutput(1, c.input(0).type, c.input(0).shape);
}

void InferOldAccumulator(InferContext& c) {
  RequireSame(c, 0, 1);
  if (c.has_input(2)) {
    RequireType(c, 2, DataType::kBool);
    RequireOneElement(c, 2);
  }
  SameAsInput(c);
}

template <class T>
void Add(const KernelContext& c) {
  T* buffer = c.input(0).values<T>().data();
  const T* value = c.in<T>(1).data();
  c.ParallelFor(c.input(1).element_count(), 0.5,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) buffer[i] += value[i];
                });
}

}  // namespace

// buffer, value, overwrite (optional, false): adds the value to the buffer
// or replaces it, in place. Outputs true and, optionally, the buffer.
extern constexpr OpDef kInPlaceAccumulatorV2 = {
    .name = "InPlaceAccumulatorV2",
    .domain = kMicrosoft,
    .inputs = {2, 3},
    .outputs = {0, 2},
    .infer = InferAccumulator,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      if (FlagInput(c, 2, false)) {
        CopyBytes(c.input(1), c.input(0));
      } else {
        Add<T>(c);
      }
      if (c.has_output(0)) c.out<bool>(0)[0] = true;
    }),
    .aliases = {{1, 0}},
    .mutates = {0}};

// buffer, value, update (optional, true) -> the buffer, to which the value was
// added unless the update is off.
extern constexpr OpDef kInPlaceAccumulator = {
    .name = "InPlaceAccumulator",
    .domain = kMicrosoft,
    .inputs = {2, 3},
    .infer = InferOldAccumulator,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      if (FlagInput(c, 2, true)) Add<T>(c);
    }),
    .aliases = {{0, 0}},
    .mutates = {0}};

// gradient, anything that must have run before -> the gradient, cleared
extern constexpr OpDef kZeroGradient = {
    .name = "ZeroGradient",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = SameAsInput,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { FillZero(c.input(0)); }),
    .aliases = {{0, 0}},
    .mutates = {0}};

}  // namespace strop::ops
