// SPDX-License-Identifier: Apache-2.0
//
// The pieces that the readers of arrays.h are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_stream.h"
#include "strop/tensor.h"

namespace strop::data {

OwnedTensor ReadNpyStream(ByteStream& stream);
OwnedTensor ReadIdxStream(ByteStream& stream);

// What stands before the elements in an .npy file.
std::string NpyHeader(const Tensor& tensor);

// An OwnedTensor of that type and shape, once `stream` can hold its elements.
OwnedTensor ReserveTensor(const ByteStream& stream, DataType type,
                          std::span<const uint64_t> dims);
// Reverses the bytes of each element of `size` bytes.
void SwapBytes(std::span<std::byte> bytes, size_t size);

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t size = 0;                 // uncompressed
  std::span<const std::byte> bytes;  // as they stand in the file
};
std::vector<ZipEntry> ReadZip(std::span<const std::byte> bytes,
                              std::string_view source);

// The array `key` of an .npz file; the only one it has for an empty key.
OwnedTensor ReadNpzArray(std::span<const std::byte> bytes, std::string_view key,
                         std::string_view source);

}  // namespace strop::data
