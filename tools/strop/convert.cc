// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/half.h"
#include "base/throw.h"
#include "strop/op.h"

namespace strop {
namespace {

template <class T>
constexpr bool kIsHalf =
    std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

template <class To, class From>
To Convert(From x) {
  if constexpr (kIsHalf<From>) {
    return Convert<To>(ToFloat(x));
  } else if constexpr (std::is_same_v<To, Float16>) {
    return ToFloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Bfloat16>) {
    return ToBfloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
void GatherTyped(const Tensor& source, std::span<const int64_t> rows,
                 double scale, const Tensor& target) {
  const int64_t row_count = source.shape()[0];
  const int64_t row_size =
      source.element_count() / std::max<int64_t>(row_count, 1);
  const From* from = source.values<From>().data();
  To* to = target.values<To>().data();
  for (int64_t row : rows) {
    const From* x = from + row * row_size;
    if (scale != 1) {
      for (int64_t i = 0; i < row_size; ++i) {
        to[i] = Convert<To>(Convert<double>(x[i]) * scale);
      }
    } else if constexpr (std::is_same_v<To, From>) {
      std::memcpy(to, x, static_cast<size_t>(row_size) * sizeof(To));
    } else {
      for (int64_t i = 0; i < row_size; ++i) to[i] = Convert<To>(x[i]);
    }
    to += row_size;
  }
}

// True if x can be held as To without loss; To is an integer or bool.
template <class To, class From>
bool Fits(From x) {
  if constexpr (kIsHalf<From>) {
    return Fits<To>(ToFloat(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x == 0 || x == 1;
  } else if constexpr (std::is_floating_point_v<From>) {
    // 2^digits is exact in floating point, the largest integer is not.
    const From limit = std::ldexp(From{1}, std::numeric_limits<To>::digits);
    const From least = std::is_signed_v<To> ? -limit : From{0};
    return x >= least && x < limit && x == std::trunc(x);
  } else if constexpr (std::is_same_v<From, bool>) {
    return true;
  } else {
    return std::in_range<To>(x);
  }
}

template <class From>
std::string ValueText(From x) {
  if constexpr (kIsHalf<From>) {
    return fmt::format("{}", ToFloat(x));
  } else {
    return fmt::format("{}", x);
  }
}

template <class To, class From>
void CheckTyped(const Tensor& source, std::string_view what) {
  std::span<const From> values = source.values<From>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (Fits<To>(values[i])) [[likely]]
      continue;
    const int64_t row =
        static_cast<int64_t>(i) / (source.element_count() / source.shape()[0]);
    Throw(ErrorCode::kInvalidArgument,
          "{} is {}; row {} holds {}, which is not a value of that type", what,
          DataTypeName(DataTypeOf<To>()), row, ValueText(values[i]));
  }
}

}  // namespace

bool IsFloatingPoint(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 ||
         type == DataType::kFloat16 || type == DataType::kBfloat16;
}

void GatherRows(const Tensor& source, std::span<const int64_t> rows,
                double scale, const Tensor& target) {
  DispatchType(AllTypes{}, source.type(), [&]<class From>() {
    DispatchType(AllTypes{}, target.type(), [&]<class To>() {
      GatherTyped<To, From>(source, rows, scale, target);
    });
  });
}

void CheckConvertible(const Tensor& source, DataType type,
                      std::string_view what) {
  const bool known =
      DispatchType(AllTypes{}, source.type(), []<class From>() {}) &&
      DispatchType(AllTypes{}, type, []<class To>() {});
  if (!known) {
    Throw(ErrorCode::kInvalidArgument, "{} is {}; the file holds {}", what,
          DataTypeName(type), DataTypeName(source.type()));
  }
  if (IsFloatingPoint(type) || type == source.type()) return;
  using Exact = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                         uint32_t, uint64_t, bool>;
  DispatchType(AllTypes{}, source.type(), [&]<class From>() {
    DispatchType(Exact{}, type,
                 [&]<class To>() { CheckTyped<To, From>(source, what); });
  });
}

}  // namespace strop
