// SPDX-License-Identifier: Apache-2.0
//
// Dropout: inputs data, ratio (optional, 0.5), training_mode (optional,
// false). Elements whose random number in [0, 1) is below the ratio are
// dropped, the others scaled by 1 / (1 - ratio).
#include "ops/nn/dropout.h"

#include "ops/gradient.h"

namespace strop::ops {
namespace {

void InferDropout(InferContext& c) {
  CheckSettings(c, 1);
  SameAsInput(c);
  c.SetOutput(1, DataType::kBool, c.input(0).shape);
}

void InferDropoutGrad(InferContext& c) {
  RequireType(c, 1, DataType::kBool);
  RequireShape(c, 1, c.input(0).shape);
  CheckSettings(c, 2);
  SameAsInput(c);
}

template <class T>
void Dropout(const KernelContext& c) {
  const double ratio = ReadRatio(c, 1);
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  bool* mask = c.has_output(1) ? c.out<bool>(1).data() : nullptr;
  const int64_t count = c.input(0).element_count();
  if (ratio == 0 || !FlagInput(c, 2, false)) {
    CopyInput(c);
    if (mask) std::fill_n(mask, count, true);
    return;
  }
  const Dropper dropper(c, ratio);
  const T scale = static_cast<T>(dropper.scale());
  c.ParallelFor(count, 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const bool keep = dropper.Keeps(i);
      y[i] = keep ? x[i] * scale : T{0};
      if (mask) mask[i] = keep;
    }
  });
}

template <class T>
void DropoutGrad(const KernelContext& c) {
  const double ratio = ReadRatio(c, 2);
  // ONNX Runtime scales even where the forward op was the identity.
  if (ratio == 0 || !FlagInput(c, 3, true)) return CopyInput(c);
  const T scale = static_cast<T>(1 / (1 - ratio));
  const T* dy = c.in<T>(0).data();
  const bool* mask = c.in<bool>(1).data();
  T* dx = c.out<T>(0).data();
  c.ParallelFor(c.input(0).element_count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      dx[i] = mask[i] ? dy[i] * scale : T{0};
    }
  });
}

// --- Gradients

// Without training_mode nothing is dropped.
void DropoutGradient(GradientContext& c) {
  if (!c.has_input(2)) return c.Set(0, c.dy());
  const Var mask = c.AddedOutput(1, "mask", DataType::kBool);
  c.Set(0,
        c.build().MicrosoftOp("DropoutGrad", {c.dy(), mask, c.x(1), c.x(2)}));
}

}  // namespace

extern constexpr OpDef kDropout = {
    .name = "Dropout",
    .inputs = {1, 3},
    .outputs = {1, 2},
    .infer = InferDropout,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Dropout<T>(c); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule(DropoutGradient),
    .stops_gradient = {1, 2},
    .is_random = true};

// dY, mask, ratio (optional), training_mode (optional; absent: true)
extern constexpr OpDef kDropoutGrad = {
    .name = "DropoutGrad",
    .domain = kMicrosoft,
    .inputs = {2, 4},
    .infer = InferDropoutGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { DropoutGrad<T>(c); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true};

}  // namespace strop::ops
