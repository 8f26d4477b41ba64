// SPDX-License-Identifier: Apache-2.0
//
// Tensors: a Tensor is a typed, shaped view of memory that somebody else
// owns; an OwnedTensor owns its memory.
//
//   std::vector<float> x(32 * 784);
//   strop::Tensor batch(strop::Shape{32, 784}, x.data());
//
// Elements lie contiguous in row-major order, little-endian. Rank 0 (one
// element) and dimensions of size 0 (no element) are legal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "strop/error.h"

namespace strop {

// Element types with the numbers of ONNX's TensorProto.DataType.
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
};

// "float32", "int64", ...; "undefined" or "type 99" for others.
STROP_EXPORT std::string DataTypeName(DataType type);

// Bytes of one element; 0 for strings, undefined and packed 4-bit types.
STROP_EXPORT size_t DataTypeSize(DataType type);

// Storage of the 16-bit floating-point types. Arithmetic happens in float32.
struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

template <class T>
constexpr DataType DataTypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return DataType::kFloat32;
  if constexpr (std::is_same_v<U, double>) return DataType::kFloat64;
  if constexpr (std::is_same_v<U, int8_t>) return DataType::kInt8;
  if constexpr (std::is_same_v<U, int16_t>) return DataType::kInt16;
  if constexpr (std::is_same_v<U, int32_t>) return DataType::kInt32;
  if constexpr (std::is_same_v<U, int64_t>) return DataType::kInt64;
  if constexpr (std::is_same_v<U, uint8_t>) return DataType::kUint8;
  if constexpr (std::is_same_v<U, uint16_t>) return DataType::kUint16;
  if constexpr (std::is_same_v<U, uint32_t>) return DataType::kUint32;
  if constexpr (std::is_same_v<U, uint64_t>) return DataType::kUint64;
  if constexpr (std::is_same_v<U, bool>) return DataType::kBool;
  if constexpr (std::is_same_v<U, Float16>) return DataType::kFloat16;
  if constexpr (std::is_same_v<U, Bfloat16>) return DataType::kBfloat16;
  return DataType::kUndefined;
}

// The dimensions of a tensor, outermost first; each is at least 0.
class STROP_EXPORT Shape {
 public:
  static constexpr size_t kMaxRank = 12;

  Shape() = default;  // rank 0
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  // Throws if there are more than kMaxRank dimensions, one is negative, or
  // the element count does not fit into 62 bits.
  explicit Shape(std::span<const int64_t> dims);

  size_t rank() const { return rank_; }
  int64_t operator[](size_t axis) const { return dims_[axis]; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + rank_; }
  std::span<const int64_t> dims() const { return {dims_, rank_}; }

  // Product of all dimensions; 1 for rank 0.
  int64_t element_count() const;
  // Product of the dimensions [begin, end).
  int64_t element_count(size_t begin, size_t end) const;

  // "(32, 784)"; "()" for rank 0.
  std::string ToString() const;

  STROP_EXPORT friend bool operator==(const Shape& a, const Shape& b);

 private:
  uint32_t rank_ = 0;
  int64_t dims_[kMaxRank] = {};
};

class STROP_EXPORT Tensor {
 public:
  Tensor() = default;
  Tensor(DataType type, const Shape& shape, void* data)
      : type_(type), shape_(shape), data_(data) {}
  template <class T>
  Tensor(const Shape& shape, T* data)
      : Tensor(DataTypeOf<T>(), shape, const_cast<std::remove_cv_t<T>*>(data)) {
    static_assert(DataTypeOf<T>() != DataType::kUndefined);
  }

  DataType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  void* data() const { return data_; }
  void set_data(void* data) { data_ = data; }

  int64_t element_count() const { return shape_.element_count(); }
  size_t byte_count() const {
    return static_cast<size_t>(element_count()) * DataTypeSize(type_);
  }
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), byte_count()};
  }

  // The elements; throws kInvalidArgument if T is not the element type.
  template <class T>
  std::span<T> values() const {
    if (DataTypeOf<T>() != type_) ThrowTypeMismatch(DataTypeOf<T>());
    return {static_cast<T*>(data_), static_cast<size_t>(element_count())};
  }

 private:
  [[noreturn]] void ThrowTypeMismatch(DataType wanted) const;

  DataType type_ = DataType::kUndefined;
  Shape shape_;
  void* data_ = nullptr;
};

// A tensor that owns its memory, aligned to 64 bytes. Movable; Clone copies.
// Of a large one that is new, as a rule only written pages take memory.
class STROP_EXPORT OwnedTensor {
 public:
  OwnedTensor() = default;  // undefined type, no memory
  // The memory is zero. Throws for types without a byte size (strings) and
  // kOutOfMemory when there is none.
  OwnedTensor(DataType type, const Shape& shape) { Resize(type, shape); }
  // A copy of `source`.
  explicit OwnedTensor(const Tensor& source);

  OwnedTensor(OwnedTensor&&) noexcept = default;
  OwnedTensor& operator=(OwnedTensor&&) noexcept = default;

  OwnedTensor Clone() const { return OwnedTensor(view_); }

  // Gives the tensor another type and shape. Memory is kept where it
  // suffices, else replaced by zeroed memory; kept memory is not cleared.
  void Resize(DataType type, const Shape& shape);

  DataType type() const { return view_.type(); }
  const Shape& shape() const { return view_.shape(); }
  const Tensor& view() const { return view_; }
  operator const Tensor&() const { return view_; }
  template <class T>
  std::span<T> values() const {
    return view_.values<T>();
  }

 private:
  struct STROP_EXPORT Free {
    void operator()(void* p) const;
    // What calloc gave, around the memory; null where operator new made it.
    void* block;
  };
  // Null where there is no memory.
  static std::unique_ptr<void, Free> AllocateZeros(size_t bytes);

  std::unique_ptr<void, Free> memory_;
  size_t capacity_ = 0;
  Tensor view_;
};

}  // namespace strop
