// SPDX-License-Identifier: Apache-2.0
//
// Dropout, with and without bias and residual, and its gradient. Masks are
// bools, or bits in words of 32.
#include "ops/nn/dropout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "base/round.h"
#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/dropout.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#ifndef STROP_SIMD_DROPOUT_ARGUMENTS
#define STROP_SIMD_DROPOUT_ARGUMENTS
namespace strop {

struct DropoutArguments {
  RandomKey key;
  uint32_t threshold = 0;  // elements whose 24 random bits are below it go
  float scale = 1;
  const float* x = nullptr;
  const float* bias = nullptr;  // null, or repeated every `bias_size`
  int64_t bias_size = 1;
  const float* residual = nullptr;  // may be null
  float* y = nullptr;
  bool* mask = nullptr;      // may be null
  uint32_t* bits = nullptr;  // may be null
};

struct DropoutGradArguments {
  float scale = 1;
  const float* dy = nullptr;
  const bool* mask = nullptr;      // or
  const uint32_t* bits = nullptr;  // one of the two
  float* dx = nullptr;
};

}  // namespace strop
#endif

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// The loops are plain: the compiler makes vectors of them, of the size of
// the target for which this is compiled.

constexpr int64_t kChunk = 256;  // elements, a multiple of a mask's word

// words[i] holds the 24 random bits of element 4 * block + i: the words of
// RandomBlock, several blocks side by side.
void RandomBits(const RandomKey& key, uint64_t block, uint32_t* words) {
  constexpr int kBlocks = 16;
  for (int64_t begin = 0; begin < kChunk / 4; begin += kBlocks) {
    uint32_t x0[kBlocks], x1[kBlocks], x2[kBlocks], x3[kBlocks];
    for (int i = 0; i < kBlocks; ++i) {
      const uint64_t index = block + static_cast<uint64_t>(begin + i);
      x0[i] = static_cast<uint32_t>(index);
      x1[i] = static_cast<uint32_t>(index >> 32);
      x2[i] = static_cast<uint32_t>(key.step);
      x3[i] = key.node;
    }
    uint32_t k0 = static_cast<uint32_t>(key.seed);
    uint32_t k1 = static_cast<uint32_t>(key.seed >> 32) ^
                  static_cast<uint32_t>(key.step >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < kBlocks; ++i) {
        const uint64_t p = uint64_t{0xd2511f53} * x0[i];
        const uint64_t q = uint64_t{0xcd9e8d57} * x2[i];
        x0[i] = static_cast<uint32_t>(q >> 32) ^ x1[i] ^ k0;
        x1[i] = static_cast<uint32_t>(q);
        x2[i] = static_cast<uint32_t>(p >> 32) ^ x3[i] ^ k1;
        x3[i] = static_cast<uint32_t>(p);
      }
      k0 += 0x9e3779b9;
      k1 += 0xbb67ae85;
    }
    for (int i = 0; i < kBlocks; ++i) {
      uint32_t* to = words + 4 * (begin + i);
      to[0] = x0[i] >> 8;
      to[1] = x1[i] >> 8;
      to[2] = x2[i] >> 8;
      to[3] = x3[i] >> 8;
    }
  }
}

// Elements [begin, end); begin is a multiple of 32.
void DropRange(const DropoutArguments& args, int64_t begin, int64_t end) {
  for (int64_t first = begin; first < end; first += kChunk) {
    const int64_t n = std::min(kChunk, end - first);
    uint32_t random[kChunk];
    if (args.threshold == 0) {
      std::fill_n(random, kChunk, 0u);  // all stay
    } else {
      RandomBits(args.key, static_cast<uint64_t>(first) / 4, random);
    }
    const float* x = args.x + first;
    float sum[kChunk];
    if (args.bias != nullptr) {
      for (int64_t i = 0; i < n;) {
        const int64_t at = (first + i) % args.bias_size;
        const int64_t run = std::min(n - i, args.bias_size - at);
        for (int64_t j = 0; j < run; ++j) {
          sum[i + j] = x[i + j] + args.bias[at + j];
        }
        i += run;
      }
      x = sum;
    }
    float* y = args.y + first;
    const uint32_t threshold = args.threshold;
    const float scale = args.scale;
    if (args.residual != nullptr) {
      const float* residual = args.residual + first;
      for (int64_t i = 0; i < n; ++i) {
        y[i] = (random[i] >= threshold ? x[i] * scale : 0.0f) + residual[i];
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        y[i] = random[i] >= threshold ? x[i] * scale : 0.0f;
      }
    }
    if (args.mask != nullptr) {
      bool* mask = args.mask + first;
      for (int64_t i = 0; i < n; ++i) mask[i] = random[i] >= threshold;
    }
    if (args.bits != nullptr) {
      for (int64_t word = 0; word * 32 < n; ++word) {
        const int64_t count = std::min<int64_t>(32, n - word * 32);
        uint32_t bits = 0;
        for (int64_t i = 0; i < count; ++i) {
          bits |= uint32_t{random[word * 32 + i] >= threshold} << i;
        }
        args.bits[first / 32 + word] = bits;
      }
    }
  }
}

// Elements [begin, end); begin is a multiple of 32.
void DropGradRange(const DropoutGradArguments& args, int64_t begin,
                   int64_t end) {
  const float scale = args.scale;
  if (args.mask != nullptr) {
    const float* dy = args.dy;
    float* dx = args.dx;
    for (int64_t i = begin; i < end; ++i) {
      dx[i] = args.mask[i] ? dy[i] * scale : 0.0f;
    }
    return;
  }
  for (int64_t first = begin; first < end; first += 32) {
    const int64_t n = std::min<int64_t>(32, end - first);
    const uint32_t bits = args.bits[first / 32];
    const float* dy = args.dy + first;
    float* dx = args.dx + first;
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = (bits >> i & 1) != 0 ? dy[i] * scale : 0.0f;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(DropRange);
HWY_EXPORT(DropGradRange);

constexpr int64_t kTogether = 256;  // elements; whole words of a mask

// Calls fn(begin, end) for elements; begin is a multiple of kTogether.
template <class F>
void ForElements(const KernelContext& context, int64_t size, double cost,
                 F fn) {
  context.ParallelFor(CeilDiv(size, kTogether), cost * kTogether,
                      [&](int64_t begin, int64_t end) {
                        fn(begin * kTogether, std::min(size, end * kTogether));
                      });
}

const float* Floats(const KernelContext& context, size_t input) {
  return static_cast<const float*>(context.input(input).data());
}

// Inputs: data, with `biased` bias and residual (optional), then ratio and
// training_mode.
class DropoutKernel final : public Kernel {
 public:
  DropoutKernel(int64_t size, bool biased) : size_(size), biased_(biased) {}

  void Run(const KernelContext& context) override {
    const size_t settings = biased_ ? 3 : 1;
    double ratio = ops::ReadRatio(context, settings);
    if (!ops::FlagInput(context, settings + 1, false)) ratio = 0;
    DropoutArguments args = {
        .key = ops::StreamOf(context),
        .threshold = Threshold(ratio),
        .scale = static_cast<float>(1 / (1 - ratio)),
        .x = Floats(context, 0),
        .y = static_cast<float*>(context.output(0).data())};
    if (biased_) {
      args.bias = Floats(context, 1);
      args.bias_size = std::max<int64_t>(1, context.input(1).element_count());
      if (context.has_input(2)) args.residual = Floats(context, 2);
    }
    if (context.has_output(1)) {
      void* mask = context.output(1).data();
      if (context.output(1).type() == DataType::kBool) {
        args.mask = static_cast<bool*>(mask);
      } else {
        args.bits = static_cast<uint32_t*>(mask);
      }
    }
    ForElements(context, size_, ratio == 0 ? 0.3 : 1,
                [&](int64_t begin, int64_t end) {
                  HWY_DYNAMIC_DISPATCH(DropRange)(args, begin, end);
                });
  }

 private:
  // The least whole number of 2^-24 that is not below the ratio.
  static uint32_t Threshold(double ratio) {
    const double rounded = static_cast<float>(ratio);
    return static_cast<uint32_t>(std::ceil(rounded * 0x1p24));
  }

  int64_t size_;
  bool biased_;
};

// dY, mask, ratio, training_mode (absent: true)
class DropoutGradKernel final : public Kernel {
 public:
  explicit DropoutGradKernel(int64_t size) : size_(size) {}

  void Run(const KernelContext& context) override {
    const double ratio = ops::ReadRatio(context, 2);
    const float* dy = Floats(context, 0);
    float* dx = static_cast<float*>(context.output(0).data());
    if (ratio == 0 || !ops::FlagInput(context, 3, true)) {
      if (dx != dy) {
        std::memcpy(dx, dy, static_cast<size_t>(size_) * sizeof(float));
      }
      return;
    }
    DropoutGradArguments args = {
        .scale = static_cast<float>(1 / (1 - ratio)), .dy = dy, .dx = dx};
    const void* mask = context.input(1).data();
    if (context.input(1).type() == DataType::kBool) {
      args.mask = static_cast<const bool*>(mask);
    } else {
      args.bits = static_cast<const uint32_t*>(mask);
    }
    ForElements(context, size_, 0.2, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(DropGradRange)(args, begin, end);
    });
  }

 private:
  int64_t size_;
};

}  // namespace

KernelChoice ChooseDropout(const KernelRequest& request, bool biased) {
  const TensorInfo& x = request.inputs[0].info;
  if (x.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.type));
  }
  KernelChoice choice;
  choice.kernel =
      std::make_unique<DropoutKernel>(x.shape.element_count(), biased);
  return choice;
}

KernelChoice ChooseDropoutGrad(const KernelRequest& request) {
  const TensorInfo& dy = request.inputs[0].info;
  if (dy.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(dy.type));
  }
  KernelChoice choice;
  choice.kernel = std::make_unique<DropoutGradKernel>(dy.shape.element_count());
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
