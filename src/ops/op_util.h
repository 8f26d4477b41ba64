// SPDX-License-Identifier: Apache-2.0
//
// What ops share: errors, axes, broadcasting, wrap-around arithmetic.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>
#include <type_traits>

#include "base/round.h"
#include "base/throw.h"
#include "graph/graph.h"
#include "strop/op.h"

namespace strop::ops {

using NumbersAndBools =
    TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t,
             uint16_t, uint32_t, uint64_t, bool>;

// --- Errors

template <class... Args>
[[noreturn]] void Fail(const OpNode& node, fmt::format_string<Args...> text,
                       Args&&... args) {
  node.Fail(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void Fail(const OpNode& node, ErrorCode code,
                       fmt::format_string<Args...> text, Args&&... args) {
  node.Fail(fmt::format(text, std::forward<Args>(args)...), code);
}

// Input i must have the element type.
void RequireType(const InferContext& c, size_t i, DataType type);
// Input i must be of a floating-point type.
void RequireFloat(const InferContext& c, size_t i);
// Inputs i and j must have the same element type.
void RequireSameType(const InferContext& c, size_t i, size_t j);
// float32 for a 16-bit float, else the type itself.
DataType AtLeastFloat32(DataType type);
// Inputs i and j must have the same element type and shape.
void RequireSame(const InferContext& c, size_t i, size_t j);
void RequireShape(const InferContext& c, size_t i, const Shape& shape);
// Input i must be int32 or int64.
void RequireIndices(const InferContext& c, size_t i);
// Input i must have one element.
void RequireOneElement(const InferContext& c, size_t i);

// --- Common shape inference

// Output 0 is like input 0.
void SameAsInput(InferContext& c);
// All inputs have the same type and shape; so has output 0.
void SameAsInputs(InferContext& c);
// Output 0 is what the inputs, all of one type, broadcast to.
void BroadcastInputs(InferContext& c);
// The same with a bool output.
void BroadcastInputsToBool(InferContext& c);
// For aliases of list input to list output.
void SetListLikeInput(InferContext& c, size_t output, size_t input);

// --- Shapes

// Numbers per axis; fixed size, so that kernels may hold them.
using Dims = std::array<int64_t, Shape::kMaxRank>;
using AxisSet = std::bitset<Shape::kMaxRank>;

// -1 is the last axis. Throws when it is not in [-rank, rank).
size_t NormalizeAxis(const OpNode& node, int64_t axis, size_t rank);
// Throws when an axis is named twice.
AxisSet NormalizeAxes(const OpNode& node, std::span<const int64_t> axes,
                      size_t rank);

// Numpy's broadcasting of two shapes; throws when they do not fit.
Shape BroadcastShapes(const OpNode& node, const Shape& a, const Shape& b);
// Throws unless `shape` broadcasts to `target` without changing it.
void RequireBroadcastTo(const OpNode& node, std::string_view what,
                        const Shape& shape, const Shape& target);

// Elements from one index to the next along each axis.
Dims Strides(const Shape& shape);
// Strides of a tensor seen as `target`: 0 along broadcast axes.
Dims BroadcastStrides(const Shape& shape, const Shape& target);

// --- Small integer tensors

bool IsIndexType(DataType type);
// Element i of an int32 or int64 tensor.
int64_t IndexAt(const Tensor& tensor, size_t i);
// The elements of a small int32 or int64 tensor, at most kMaxRank.
struct SmallInts {
  Dims values = {};
  size_t size = 0;
  std::span<const int64_t> span() const { return {values.data(), size}; }
};
SmallInts ReadSmallInts(const OpNode& node, const Tensor& tensor);

// The bool of a one-element input, or the fallback when it is left out.
bool FlagInput(const KernelContext& c, size_t i, bool fallback);

// The float value of a one-element floating-point or integer tensor.
double ScalarAsDouble(const OpNode& node, const Tensor& tensor);

// `index` counted from the front; throws unless in [-size, size).
inline int64_t CheckIndex(const OpNode& node, int64_t index, int64_t size) {
  if (index < -size || index >= size) [[unlikely]] {
    Fail(node, "index {} is out of range for an axis of size {}", index, size);
  }
  return index < 0 ? index + size : index;
}

// --- Kernels that move bytes whatever they mean

template <auto run, int type_input = 0>
constexpr ReferenceKernel ByteKernel() {
  return {.run = run,
          .supports = [](DataType type) { return DataTypeSize(type) > 0; },
          .type_input = type_input};
}

// Output 0 holds the bytes of input 0.
void CopyInput(const KernelContext& c);
void CopyBytes(const Tensor& from, const Tensor& to);
void FillZero(const Tensor& tensor);

// --- Integer arithmetic wraps around, as two's complement does

template <class T>
using Wrapping =
    std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned,
                       typename std::conditional_t<
                           std::is_integral_v<T> && !std::is_same_v<T, bool>,
                           std::make_unsigned<T>, std::type_identity<T>>::type>;

template <class T>
constexpr T Plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b));
  } else {
    return a + b;
  }
}
template <class T>
constexpr T Minus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(Wrapping<T>(a) - Wrapping<T>(b));
  } else {
    return a - b;
  }
}
template <class T>
constexpr T Times(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
  } else {
    return a * b;
  }
}

// --- Sums

// Adds part(begin, end) over at most 64 equal parts of [0, n). The parts
// depend on n alone and are added in order: the thread count does not change
// the result.
template <class F>
double OrderedSum(const KernelContext& c, int64_t n, double cost, F&& part) {
  constexpr int64_t kParts = 64;
  const int64_t parts = std::min(kParts, CeilDiv<int64_t>(n, 256));
  if (parts <= 0) return 0;
  double sums[kParts];
  const int64_t step = CeilDiv(n, parts);
  c.ParallelFor(
      parts, cost * static_cast<double>(step), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          sums[i] = part(std::min(n, i * step), std::min(n, (i + 1) * step));
        }
      });
  double sum = 0;
  for (int64_t i = 0; i < parts; ++i) sum += sums[i];
  return sum;
}

}  // namespace strop::ops
