// SPDX-License-Identifier: Apache-2.0
#include "strop/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/machine.h"
#include "base/throw.h"

namespace strop {
namespace {

constexpr size_t kAlignment = 64;
// From here on the system gives pages of their own as a rule, which are zero
// already.
constexpr size_t kLargeBytes = size_t{1} << 20;

struct TypeFacts {
  const char* name;
  size_t size;
};

// In the order of DataType's numbers.
constexpr std::array<TypeFacts, 25> kTypes = {{
    {"undefined", 0},      {"float32", 4},    {"uint8", 1},
    {"int8", 1},           {"uint16", 2},     {"int16", 2},
    {"int32", 4},          {"int64", 8},      {"string", 0},
    {"bool", 1},           {"float16", 2},    {"float64", 8},
    {"uint32", 4},         {"uint64", 8},     {"complex64", 8},
    {"complex128", 16},    {"bfloat16", 2},   {"float8e4m3fn", 1},
    {"float8e4m3fnuz", 1}, {"float8e5m2", 1}, {"float8e5m2fnuz", 1},
    {"uint4", 0},          {"int4", 0},       {"float4e2m1", 0},
    {"float8e8m0", 1},
}};

bool IsKnown(DataType type) {
  return static_cast<uint32_t>(type) < kTypes.size();
}

}  // namespace

std::string DataTypeName(DataType type) {
  if (!IsKnown(type)) {
    return fmt::format("type {}", static_cast<int32_t>(type));
  }
  return kTypes[static_cast<size_t>(type)].name;
}

size_t DataTypeSize(DataType type) {
  return IsKnown(type) ? kTypes[static_cast<size_t>(type)].size : 0;
}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    Throw(ErrorCode::kInvalidArgument,
          "a shape has at most {} dimensions, got {}", kMaxRank, dims.size());
  }
  rank_ = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_);
  // Zeros count as one, so that every product of some dimensions fits too.
  constexpr int64_t kMost = (int64_t{1} << 62) - 1;
  int64_t count = 1;
  for (int64_t dim : dims) {
    if (dim < 0) {
      Throw(ErrorCode::kInvalidArgument,
            "a dimension must not be negative: the shape is {}", ToString());
    }
    const int64_t factor = std::max<int64_t>(dim, 1);
    if (count > kMost / factor) {
      Throw(ErrorCode::kInvalidArgument,
            "the shape {} has more elements than 62 bits can count",
            ToString());
    }
    count *= factor;
  }
}

int64_t Shape::element_count() const { return element_count(0, rank_); }

int64_t Shape::element_count(size_t begin, size_t end) const {
  int64_t count = 1;
  for (size_t axis = begin; axis < end; ++axis) count *= dims_[axis];
  return count;
}

std::string Shape::ToString() const {
  return fmt::format("({})", fmt::join(begin(), end(), ", "));
}

bool operator==(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void Tensor::ThrowTypeMismatch(DataType wanted) const {
  Throw(ErrorCode::kInvalidArgument,
        "a tensor of {} {} was asked for its elements as {}",
        DataTypeName(type_), shape_.ToString(), DataTypeName(wanted));
}

OwnedTensor::OwnedTensor(const Tensor& source) {
  if (source.type() == DataType::kUndefined) return;
  Resize(source.type(), source.shape());
  if (source.byte_count() > 0) {
    std::memcpy(view_.data(), source.data(), source.byte_count());
  }
}

void OwnedTensor::Free::operator()(void* p) const {
  if (block) {
    std::free(block);
  } else {
    ::operator delete (p, std::align_val_t{kAlignment});
  }
}

std::unique_ptr<void, OwnedTensor::Free> OwnedTensor::AllocateZeros(
    size_t bytes) {
  if (bytes < kLargeBytes) {
    void* const memory =
        ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow);
    if (memory) std::memset(memory, 0, bytes);
    return {memory, Free{.block = nullptr}};
  }
  // calloc writes nothing into pages that come fresh from the system: they are
  // zero, and take no memory until something is written. It aligns less than
  // is wanted here.
  size_t space = bytes + kAlignment;
  void* const block = std::calloc(space, 1);
  void* memory = block;
  if (block) std::align(kAlignment, bytes, memory, space);
  return {memory, Free{.block = block}};
}

void OwnedTensor::Resize(DataType type, const Shape& shape) {
  const size_t size = DataTypeSize(type);
  if (size == 0) {
    Throw(ErrorCode::kNotImplemented,
          "memory for a tensor of {} {} cannot be owned: its elements have no "
          "size in bytes",
          DataTypeName(type), shape.ToString());
  }
  const auto count = static_cast<size_t>(shape.element_count());
  // Refused at once: systems that promise memory freely end the process when
  // it is touched.
  if (count > MachineMemory() / size) {
    Throw(ErrorCode::kOutOfMemory,
          "a tensor of {} {} is larger than the {} bytes of this machine",
          DataTypeName(type), shape.ToString(), MachineMemory());
  }
  if (!memory_ || count * size > capacity_) {
    // At least one line, so that an empty tensor has an address too.
    const size_t lines =
        std::max<size_t>((count * size + kAlignment - 1) / kAlignment, 1);
    const size_t bytes = lines * kAlignment;
    auto memory = AllocateZeros(bytes);
    if (!memory) {
      Throw(ErrorCode::kOutOfMemory,
            "no memory for a tensor of {} {}: {} bytes", DataTypeName(type),
            shape.ToString(), bytes);
    }
    memory_ = std::move(memory);
    capacity_ = bytes;
  }
  view_ = Tensor(type, shape, memory_.get());
}

}  // namespace strop
