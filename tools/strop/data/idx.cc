// SPDX-License-Identifier: Apache-2.0
//
// IDX: two zero bytes, the element type, the rank; each dimension as 32 bits;
// the elements. All of it big-endian.
#include <array>

#include "data/arrays.h"
#include "data/formats.h"

namespace strop::data {
namespace {

DataType TypeOfCode(int code, const ByteStream& stream) {
  switch (code) {
    case 0x08:
      return DataType::kUint8;
    case 0x09:
      return DataType::kInt8;
    case 0x0b:
      return DataType::kInt16;
    case 0x0c:
      return DataType::kInt32;
    case 0x0d:
      return DataType::kFloat32;
    case 0x0e:
      return DataType::kFloat64;
    default:
      stream.Fail("has the unknown IDX element type {:#04x}", code);
  }
}

}  // namespace

OwnedTensor ReadIdxStream(ByteStream& stream) {
  std::array<std::byte, 4> start;
  stream.ReadAll(start, "its header");
  if (start[0] != std::byte{0} || start[1] != std::byte{0}) {
    stream.Fail("is not an IDX file");
  }
  const DataType type = TypeOfCode(std::to_integer<int>(start[2]), stream);
  std::vector<uint64_t> dims(std::to_integer<size_t>(start[3]));
  for (uint64_t& dim : dims) {
    std::array<std::byte, 4> bytes;
    stream.ReadAll(bytes, "its header");
    for (std::byte b : bytes) dim = dim << 8 | std::to_integer<uint64_t>(b);
  }
  OwnedTensor tensor = ReserveTensor(stream, type, dims);
  stream.ReadAll(tensor.view().bytes(), "its elements");
  stream.ExpectEnd("its elements");
  SwapBytes(tensor.view().bytes(), DataTypeSize(type));
  return tensor;
}

OwnedTensor ReadIdx(std::span<const std::byte> bytes, std::string_view source) {
  if (bytes.size() >= 2 && bytes[0] == std::byte{0x1f} &&
      bytes[1] == std::byte{0x8b}) {
    InflateStream stream(bytes, InflateStream::Format::kGzip, source);
    return ReadIdxStream(stream);
  }
  MemoryStream stream(bytes, source);
  return ReadIdxStream(stream);
}

}  // namespace strop::data
