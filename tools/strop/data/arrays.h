// SPDX-License-Identifier: Apache-2.0
//
// Arrays in files: NumPy's .npy and .npz, IDX (plain or gzip), CSV.
//
//   auto files = strop::FileSystem::Default();
//   auto x = strop::data::ReadArray("train-images-idx3-ubyte.gz", *files);
//   auto y = strop::data::ReadArray("digits.npz:labels", *files);
//
// Every reader throws one Error that names the file: kNoSuchFile, kIo, or
// kInvalidFile for what is truncated, damaged or of another kind. Memory is
// taken only for sizes that the bytes of the file can really hold.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "strop/platform.h"
#include "strop/tensor.h"

namespace strop::data {

// .npy, versions 1 to 3, C and Fortran order, either byte order: bool,
// integers, floats from 16 to 64 bits, complex. The result is row-major.
// `source` names the bytes in errors.
OwnedTensor ReadNpy(std::span<const std::byte> bytes, std::string_view source);
OwnedTensor ReadNpy(const std::filesystem::path& path, FileSystem& files);

// All arrays of an .npz file by name (without ".npy"), stored or deflated.
std::map<std::string, OwnedTensor, std::less<>> ReadNpz(
    const std::filesystem::path& path, FileSystem& files);

// IDX, as the MNIST family of data sets has it; gzip is seen by itself.
OwnedTensor ReadIdx(std::span<const std::byte> bytes, std::string_view source);

// CSV: a row is a sample, (rows, columns). A first line that is not all
// numbers is a header. Fields may be quoted. int64 where every field is an
// integer, else float64.
OwnedTensor ReadCsv(std::span<const std::byte> bytes, std::string_view source);

// An array from a file of any of these kinds, told apart by content.
// "file.npz:key" picks one array of several.
OwnedTensor ReadArray(std::string_view file, FileSystem& files);

// Written atomically. bfloat16 is written as float32, which NumPy has.
void WriteNpy(const std::filesystem::path& path, const Tensor& tensor,
              FileSystem& files);
void WriteNpz(const std::filesystem::path& path,
              const std::map<std::string, Tensor>& arrays, FileSystem& files);

}  // namespace strop::data
