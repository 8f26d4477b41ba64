// SPDX-License-Identifier: Apache-2.0
//
// What ops on quantized numbers share. A number q stands for
//   (q - zero point) * scale;
// scale and zero point are the same for a whole tensor, for an index of one
// axis, or for a block of indices along it. Everything is computed in double:
// rounding that to float32 gives what a float32 division or product gives.
#pragma once

#include "ops/number.h"

namespace strop::ops {

using QuantizedTypes =
    TypeList<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t>;
using EightBits = TypeList<int8_t, uint8_t>;

// A kernel that tells types apart itself; input `type_input` may be of those
// in List.
template <class List, int type_input = 0>
constexpr ReferenceKernel Untyped(
    ReferenceKernel::Run run,
    ReferenceKernel::ScratchBytes scratch_bytes = nullptr) {
  return {.run = run,
          .supports =
              [](DataType type) {
                return DispatchType(List{}, type, []<class T>() {});
              },
          .type_input = type_input,
          .scratch_bytes = scratch_bytes};
}

// --- Numbers of any type as doubles

// to[j] = element first + j * step of the tensor, for j < count.
void LoadDoubles(const OpNode& node, const Tensor& from, int64_t first,
                 int64_t step, int64_t count, double* to);
// Stores to elements first + j: floats are rounded, integers rounded to the
// nearest (even in the middle) and saturated; NaN becomes 0.
void StoreDoubles(const OpNode& node, const Tensor& to, int64_t first,
                  int64_t count, const double* from);
double DoubleAt(const OpNode& node, const Tensor& tensor, int64_t i);

// Loops over elements handle this many at a time, in arrays on the stack.
inline constexpr int64_t kQuantBlock = 256;

// --- Scales

// Which scale belongs to which element of a tensor.
class ScaleMap {
 public:
  // Reads attributes axis and block_size; throws unless the scale's shape
  // fits the tensor's.
  ScaleMap(const OpNode& node, const Shape& x, const Shape& scale);

  // Calls row(i, s, step, count) for runs of elements [i, i + count) that
  // cover [begin, end): element i + j has the scale s + j * step. A run has
  // at most kQuantBlock elements.
  template <class F>
  void Run(int64_t begin, int64_t end, F&& row) const {
    while (begin < end) {
      const int64_t line = begin / inner_, in = begin % inner_;
      const int64_t count = std::min({kQuantBlock, end - begin, inner_ - in});
      const int64_t scale = line / size_ * outer_step_ +
                            line % size_ / block_ * axis_step_ +
                            in * inner_step_;
      row(begin, scale, inner_step_, count);
      begin += count;
    }
  }

 private:
  // The tensor is (outer, size, inner).
  int64_t size_ = 1, inner_ = 1, block_ = 1;
  int64_t outer_step_ = 0, axis_step_ = 0, inner_step_ = 0;
};

// One scale and zero point for a whole tensor.
struct Quantization {
  double scale = 1, zero = 0;
};

// Inputs `scale` and `zero` (the latter may be left out) of a node.
Quantization ReadQuantization(const KernelContext& c, size_t scale,
                              size_t zero);

// to[j] = the number that element first + j * step of a quantized tensor
// stands for.
void Dequantize(const OpNode& node, const Tensor& from, const Quantization& q,
                int64_t first, int64_t step, int64_t count, double* to);
// The inverse; changes `from`.
void Quantize(const OpNode& node, const Tensor& to, const Quantization& q,
              int64_t first, int64_t count, double* from);

// Scales or zero points of an operand of a product: one for all, or one for
// each of its lines (rows of A, columns of B, output channels of a
// convolution), perhaps with the batch axes of the operand in front.
struct PerLine {
  const Tensor* tensor = nullptr;  // null: `fallback` everywhere
  double fallback = 0;
  int64_t step = 0;
  int64_t batch_step = 0;

  void Load(const OpNode& node, int64_t batch, int64_t first, int64_t count,
            double* to) const;
  double At(const OpNode& node, int64_t line) const;
};
// Input i, which may be left out.
PerLine ReadLines(const KernelContext& c, size_t i, int64_t lines,
                  double fallback);
bool IsOneOrPerLine(const Shape& shape, int64_t lines);

// What dynamic quantization to uint8 makes of float32 numbers: their range
// and 0 are mapped to 0 ... 255.
struct DynamicScale {
  float scale = 1;
  uint8_t zero = 0;

  uint8_t Quantize(float x) const;
};
DynamicScale FindDynamicScale(std::span<const float> x);

// --- Checks

// Input i must be of a type with `bits` or fewer bits that quantized numbers
// have; 4-bit and 8-bit floating-point types are refused by name.
void RequireQuantized(const InferContext& c, size_t i, size_t most_bits = 8);
// Inputs `scale` and `zero` must hold one element each; the zero point, of
// the type of the data, may be left out.
void RequireQuantization(const InferContext& c, size_t scale, size_t zero,
                         DataType data);
// Input i is quantized, with scale and zero point in the two inputs behind it.
void RequireQuantizedTriple(const InferContext& c, size_t i);
// The output is of the type of its zero point, which stands behind its scale.
DataType QuantizedOutputType(const InferContext& c, size_t scale);

}  // namespace strop::ops
