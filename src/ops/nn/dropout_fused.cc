// SPDX-License-Identifier: Apache-2.0
//
// Dropout as ONNX Runtime fuses it: with a bias before it and a residual
// behind it, and with masks of one bit per element. Element i is bit i % 32
// of word i / 32, which is set where the element stays.
#include "ops/gradient.h"
#include "ops/nn/dropout.h"

namespace strop::ops {
namespace {

constexpr int64_t kWordBits = 32;

Shape MaskWords(const Shape& x) {
  return {CeilDiv(x.element_count(), kWordBits)};
}

// data, ratio, training_mode -> y, mask
void InferBitmaskDropout(InferContext& c) {
  CheckSettings(c, 1);
  SameAsInput(c);
  c.SetOutput(1, DataType::kUint32, MaskWords(c.input(0).shape));
}

// data, bias, residual (optional), ratio, training_mode -> y
void InferBiasDropout(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const Shape& bias = c.input(1).shape;
  RequireSameType(c, 0, 1);
  const bool is_row =
      x.rank() > 0 && bias.rank() == 1 && bias[0] == x[x.rank() - 1];
  if (!is_row && bias != x) {
    Fail(c.node(), "the bias {} is neither a row of the data {} nor like it",
         bias.ToString(), x.ToString());
  }
  if (c.has_input(2)) RequireSame(c, 0, 2);
  CheckSettings(c, 3);
  SameAsInput(c);
}
void InferBoolBiasDropout(InferContext& c) {
  InferBiasDropout(c);
  c.SetOutput(1, DataType::kBool, c.input(0).shape);
}
void InferBitmaskBiasDropout(InferContext& c) {
  InferBiasDropout(c);
  c.SetOutput(1, DataType::kUint32, MaskWords(c.input(0).shape));
}

// Calls fn(word, first, last) for the elements of each word of the mask.
template <class F>
void ForEachWord(const KernelContext& c, double cost, F&& fn) {
  const int64_t count = c.input(0).element_count();
  c.ParallelFor(CeilDiv(count, kWordBits), cost * kWordBits,
                [&](int64_t begin, int64_t end) {
                  for (int64_t word = begin; word < end; ++word) {
                    fn(word, word * kWordBits,
                       std::min(count, (word + 1) * kWordBits));
                  }
                });
}

// y[i] = keeps ? f(i) scale : 0, plus the residual
template <class T, class F>
void DropAll(const KernelContext& c, const Dropper& dropper, const T* residual,
             F&& f) {
  const T scale = static_cast<T>(dropper.scale());
  T* y = c.out<T>(0).data();
  const bool has_mask = c.has_output(1);
  const bool has_bits = has_mask && c.output(1).type() == DataType::kUint32;
  bool* mask = has_mask && !has_bits ? c.out<bool>(1).data() : nullptr;
  uint32_t* words = has_bits ? c.out<uint32_t>(1).data() : nullptr;
  ForEachWord(c, 10, [&](int64_t word, int64_t first, int64_t last) {
    uint32_t bits = 0;
    for (int64_t i = first; i < last; ++i) {
      const bool keeps = dropper.Keeps(i);
      y[i] = keeps ? f(i) * scale : T{0};
      if (residual) y[i] += residual[i];
      if (mask) mask[i] = keeps;
      bits |= static_cast<uint32_t>(keeps) << (i - first);
    }
    if (words) words[word] = bits;
  });
}

template <class T>
void BitmaskDropout(const KernelContext& c) {
  const T* x = c.in<T>(0).data();
  DropAll<T>(c, ReadDropper(c, 1), nullptr, [&](int64_t i) { return x[i]; });
}

template <class T>
void BiasDropout(const KernelContext& c) {
  const T* x = c.in<T>(0).data();
  const auto bias = c.in<T>(1);
  const int64_t n = static_cast<int64_t>(bias.size());
  const T* residual = c.has_input(2) ? c.in<T>(2).data() : nullptr;
  DropAll<T>(c, ReadDropper(c, 3), residual,
             [&](int64_t i) { return x[i] + bias[i % n]; });
}

// dy, mask, ratio, training_mode (absent: true) -> dx
void InferBitmaskDropoutGrad(InferContext& c) {
  RequireType(c, 1, DataType::kUint32);
  RequireShape(c, 1, MaskWords(c.input(0).shape));
  CheckSettings(c, 2);
  SameAsInput(c);
}

template <class T>
void BitmaskDropoutGrad(const KernelContext& c) {
  const double ratio = ReadRatio(c, 2);
  if (ratio == 0 || !FlagInput(c, 3, true)) return CopyInput(c);
  const T scale = static_cast<T>(1 / (1 - ratio));
  const T* dy = c.in<T>(0).data();
  const uint32_t* words = c.in<uint32_t>(1).data();
  T* dx = c.out<T>(0).data();
  ForEachWord(c, 1, [&](int64_t word, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      dx[i] = (words[word] >> (i - first)) & 1 ? dy[i] * scale : T{0};
    }
  });
}

constexpr ReferenceKernel kBiasDropoutKernel = Instantiate<Floats>(
    []<class T>(const KernelContext& c) { BiasDropout<T>(c); });

// --- Gradients

// Through the dropout itself, whose ratio and training_mode are inputs
// `first` and the next; without the latter nothing was dropped.
Var DroppedGradient(GradientContext& c, size_t first, std::string_view op_type,
                    DataType mask_type) {
  if (!c.has_input(first + 1)) return c.dy();
  const Var mask = c.AddedOutput(1, "mask", mask_type);
  const Var ratio = c.has_input(first) ? c.x(first) : Var{};
  return c.build().MicrosoftOp(op_type, {c.dy(), mask, ratio, c.x(first + 1)});
}

void BitmaskDropoutGradient(GradientContext& c) {
  c.Set(0, DroppedGradient(c, 1, "BitmaskDropoutGrad", DataType::kUint32));
}

void BiasDropoutGradient(GradientContext& c, std::string_view op_type,
                         DataType mask_type) {
  c.Set(2, c.dy());
  if (!c.needs(0) && !c.needs(1)) return;
  const Var dx = DroppedGradient(c, 3, op_type, mask_type);
  c.Set(0, dx);
  c.SetReduced(1, dx);
}

}  // namespace

extern constexpr OpDef kBitmaskDropout = {
    .name = "BitmaskDropout",
    .domain = kMicrosoft,
    .inputs = {1, 3},
    .outputs = {1, 2},
    .infer = InferBitmaskDropout,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { BitmaskDropout<T>(c); }),
    .gradient = Rule(BitmaskDropoutGradient),
    .stops_gradient = {1, 2},
    .is_random = true};

// y = Dropout(data + bias) + residual
extern constexpr OpDef kBiasDropout = {.name = "BiasDropout",
                                       .domain = kMicrosoft,
                                       .inputs = {2, 5},
                                       .outputs = {1, 2},
                                       .infer = InferBoolBiasDropout,
                                       .reference = kBiasDropoutKernel,
                                       .gradient = Rule([](GradientContext& c) {
                                         BiasDropoutGradient(c, "DropoutGrad",
                                                             DataType::kBool);
                                       }),
                                       .stops_gradient = {3, 4},
                                       .is_random = true};

extern constexpr OpDef kBitmaskBiasDropout = {
    .name = "BitmaskBiasDropout",
    .domain = kMicrosoft,
    .inputs = {2, 5},
    .outputs = {1, 2},
    .infer = InferBitmaskBiasDropout,
    .reference = kBiasDropoutKernel,
    .gradient = Rule([](GradientContext& c) {
      BiasDropoutGradient(c, "BitmaskDropoutGrad", DataType::kUint32);
    }),
    .stops_gradient = {3, 4},
    .is_random = true};

extern constexpr OpDef kBitmaskDropoutGrad = {
    .name = "BitmaskDropoutGrad",
    .domain = kMicrosoft,
    .inputs = {2, 4},
    .infer = InferBitmaskDropoutGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { BitmaskDropoutGrad<T>(c); })};

}  // namespace strop::ops
