// SPDX-License-Identifier: Apache-2.0
//
// TensorProto: every encoding of the elements, and data outside the model.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>

#include "base/overflow.h"
#include "base/path_text.h"
#include "base/throw.h"
#include "graph/onnx_io_wire.h"

namespace strop::onnx {
namespace {

using namespace tensor_field;

constexpr size_t kAlignment = 64;

struct ExternalData {
  std::string location;
  std::optional<uint64_t> offset, length;
};

// The fields of a TensorProto before the elements are looked at.
struct RawTensor {
  std::vector<Field> data;  // typed data fields
  std::optional<std::string_view> raw;
  std::vector<std::string_view> external;  // entries
  bool is_external = false;
  bool has_segment = false;
};

size_t WidthOf(uint32_t field) {  // of the numbers of a fixed-width field
  return field == kFloatData ? 4 : 8;
}

// The field that holds elements of `type`, and how many numbers a tensor of
// `count` elements has there; field 0: none.
struct Storage {
  uint32_t field = 0;
  uint64_t numbers = 0;
};

Storage StorageOf(DataType type, uint64_t count) {
  switch (type) {
    case DataType::kFloat32:
      return {kFloatData, count};
    case DataType::kComplex64:
      return {kFloatData, 2 * count};
    case DataType::kFloat64:
      return {kDoubleData, count};
    case DataType::kComplex128:
      return {kDoubleData, 2 * count};
    case DataType::kInt64:
      return {kInt64Data, count};
    case DataType::kUint32:
    case DataType::kUint64:
      return {kUint64Data, count};
    case DataType::kString:
      return {kStringData, count};
    case DataType::kUint4:
    case DataType::kInt4:
    case DataType::kFloat4E2M1:
      return {kInt32Data, count / 2 + count % 2};
    default:
      if (DataTypeSize(type) == 0) return {};
      return {kInt32Data, count};
  }
}

// Bytes of `count` elements; nullopt where Strop does not know the type.
std::optional<uint64_t> BytesOf(DataType type, uint64_t count,
                                const Where& where) {
  const Storage storage = StorageOf(type, count);
  if (storage.field == 0 || storage.field == kStringData) return std::nullopt;
  const size_t size = DataTypeSize(type);
  if (size == 0) return storage.numbers;  // packed 4-bit types
  uint64_t bytes = 0;
  if (MultiplyOverflows(count, uint64_t{size}, &bytes))
    where.Fail(fmt::format("{} elements are too many", count));
  return bytes;
}

uint64_t ElementCount(const std::vector<int64_t>& dims, const Where& where) {
  // 61 bits leave room for two numbers an element.
  constexpr int64_t kMostElements = int64_t{1} << 61;
  int64_t count = 1;
  bool too_many = false, empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) where.Fail(fmt::format("a dimension is {}", dim));
    if (dim == 0) {
      empty = true;
    } else if (count > kMostElements / dim) {
      too_many = true;
    } else {
      count *= dim;
    }
  }
  // A Shape may not be as long even where a dimension of 0 makes it empty.
  if (too_many) where.Fail("the dimensions multiply to too many elements");
  return empty ? 0 : static_cast<uint64_t>(count);
}

std::shared_ptr<std::byte> Allocate(size_t size, const Where& where) {
  void* memory = ::operator new (std::max<size_t>(size, 1),
                                 std::align_val_t{kAlignment}, std::nothrow);
  if (memory == nullptr) {
    Throw(ErrorCode::kOutOfMemory, "{}: no memory for {} bytes", where.Text(),
          size);
  }
  return {static_cast<std::byte*>(memory), [](std::byte* p) {
            ::operator delete (p, std::align_val_t{kAlignment});
          }};
}

// Uses `source` where it lies if it is aligned, else copies it.
void SetBytes(TensorData& tensor, std::span<const std::byte> source,
              const std::shared_ptr<const void>& owner, const Where& where) {
  // The parts of a complex number and 64-bit types need 8 bytes at most.
  const size_t size = DataTypeSize(tensor.type);
  const size_t alignment = size == 0 ? 1 : std::min<size_t>(size, 8);
  const bool aligned =
      reinterpret_cast<uintptr_t>(source.data()) % alignment == 0;
  // A bool that is neither 0 nor 1 must not reach a kernel.
  const bool odd_bool =
      tensor.type == DataType::kBool &&
      std::any_of(source.begin(), source.end(),
                  [](std::byte b) { return std::to_integer<int>(b) > 1; });
  if (aligned && !odd_bool) {
    tensor.bytes = source;
    tensor.owner = owner;
    return;
  }
  const std::shared_ptr<std::byte> copy = Allocate(source.size(), where);
  std::memcpy(copy.get(), source.data(), source.size());
  if (odd_bool) {
    for (size_t i = 0; i < source.size(); ++i)
      copy.get()[i] = std::byte{copy.get()[i] != std::byte{0}};
  }
  tensor.bytes = {copy.get(), source.size()};
  tensor.owner = copy;
}

// The element at `i` of `size` bytes is the low end of `number`.
void StoreNumber(std::byte* to, size_t i, size_t size, DataType type,
                 uint64_t number) {
  if (type == DataType::kBool) number = number != 0;
  std::memcpy(to + i * size, &number, size);  // little-endian
}

void ReadTypedData(TensorData& tensor, const RawTensor& source, uint64_t count,
                   uint64_t byte_count, const Where& where) {
  const Storage storage = StorageOf(tensor.type, count);
  const bool fixed =
      storage.field == kFloatData || storage.field == kDoubleData;
  const size_t width = WidthOf(storage.field);
  // Count before allocating: the dimensions may promise anything.
  uint64_t found = 0;
  for (const Field& field : source.data) {
    if (field.number != storage.field) {
      where.Fail(fmt::format("elements of {} cannot lie in field {}",
                             DataTypeName(tensor.type), field.number));
    }
    found += fixed ? field.FixedBytes(where, width).size() / width
                   : field.CountVarints(where);
  }
  if (found != storage.numbers) {
    where.Fail(fmt::format("the dimensions ask for {} numbers, {} are there",
                           storage.numbers, found));
  }
  const std::shared_ptr<std::byte> memory = Allocate(byte_count, where);
  const size_t size = std::max<size_t>(DataTypeSize(tensor.type), 1);
  size_t at = 0;
  std::vector<uint64_t> numbers;
  for (const Field& field : source.data) {
    if (fixed) {
      const std::string_view part = field.FixedBytes(where, width);
      if (!part.empty())
        std::memcpy(memory.get() + at, part.data(), part.size());
      at += part.size();
      continue;
    }
    numbers.clear();
    field.AppendVarints(where, numbers);
    for (const uint64_t number : numbers)
      StoreNumber(memory.get(), at++, size, tensor.type, number);
  }
  tensor.bytes = {memory.get(), byte_count};
  tensor.owner = memory;
}

uint64_t ParseNumber(std::string_view text, std::string_view key,
                     const Where& where) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) {
    where.Fail(
        fmt::format("the {} of external data is \"{}\", no number", key, text));
  }
  return number;
}

void ReadExternalEntry(ExternalData& external, std::string_view message,
                       const Where& where) {
  std::string_view key, value;
  FieldReader fields(message, where);
  while (fields.Next()) {
    if (fields->number == entry_field::kKey) key = fields.Bytes();
    if (fields->number == entry_field::kValue) value = fields.Bytes();
  }
  if (key == "location") external.location = value;
  if (key == "offset") external.offset = ParseNumber(value, key, where);
  if (key == "length") external.length = ParseNumber(value, key, where);
}

// The file that `location` names, which must lie in the model's folder.
const FileContents& OpenExternal(const std::string& location,
                                 const Where& where, ReadContext& context) {
  namespace fs = std::filesystem;
  if (context.files == nullptr) {
    where.Fail(fmt::format(
        "its data lie in the file \"{}\", but the model was read from memory",
        location));
  }
  auto known = context.external.find(location);
  if (known != context.external.end()) return known->second;

  const fs::path relative = PathFromText(location);
  bool leaves = location.empty() || relative.is_absolute() ||
                relative.has_root_name() ||
                location.find('\\') != std::string::npos ||
                location.find('\0') != std::string::npos;
  for (const fs::path& part : relative) leaves = leaves || part == "..";
  const fs::path folder = context.folder.empty() ? "." : context.folder;
  const fs::path path = folder / relative;
  // A symbolic link may not lead out either.
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (!leaves && !error) {
    const fs::path root = fs::canonical(folder, error);
    const auto [in_root, in_real] =
        std::mismatch(root.begin(), root.end(), real.begin(), real.end());
    leaves = error || in_root != root.end();
  }
  if (leaves) {
    where.Fail(fmt::format(
        "its data must lie inside the model's folder, not in \"{}\"",
        location));
  }
  return context.external.emplace(location, context.files->Open(path))
      .first->second;
}

void ReadExternalData(TensorData& tensor, const ExternalData& external,
                      std::optional<uint64_t> byte_count, const Where& where,
                      ReadContext& context) {
  const FileContents& file = OpenExternal(external.location, where, context);
  const uint64_t offset = external.offset.value_or(0);
  const uint64_t size = file.bytes.size();
  if (offset > size) {
    where.Fail(fmt::format("its data start at byte {} of \"{}\", which has {}",
                           offset, external.location, size));
  }
  const uint64_t length =
      external.length.value_or(byte_count.value_or(size - offset));
  if (length > size - offset) {
    where.Fail(
        fmt::format("its data are bytes {} to {} + {} of \"{}\", which has {}",
                    offset, offset, length, external.location, size));
  }
  if (byte_count && length != *byte_count) {
    where.Fail(fmt::format("the dimensions ask for {} bytes of {}, {} has {}",
                           *byte_count, DataTypeName(tensor.type),
                           external.location, length));
  }
  SetBytes(tensor, file.bytes.subspan(offset, length), file.owner, where);
}

}  // namespace

TensorData DecodeTensor(std::string_view message, const Where& place,
                        ReadContext& context) {
  TensorData tensor;
  RawTensor source;
  std::vector<uint64_t> dims;
  FieldReader fields(message, place);
  while (fields.Next()) {
    switch (fields->number) {
      case kDims:
        fields->AppendVarints(place, dims);
        break;
      case kDataType:
        tensor.type =
            static_cast<DataType>(static_cast<int32_t>(fields.Varint()));
        break;
      case kName:
        tensor.name = fields.Bytes();
        break;
      case kRawData:
        source.raw = fields.Bytes();
        break;
      case kFloatData:
      case kInt32Data:
      case kStringData:
      case kInt64Data:
      case kDoubleData:
      case kUint64Data:
        source.data.push_back(fields.field());
        break;
      case kExternalData:
        source.external.push_back(fields.Bytes());
        break;
      case kDataLocation:
        source.is_external = fields.Varint() == kLocationExternal;
        break;
      case kSegment:
        source.has_segment = true;
        tensor.unknown += fields->raw;
        break;
      default:
        tensor.unknown += fields->raw;
    }
  }
  const std::string who = fmt::format("tensor \"{}\"", tensor.name);
  const Where where{&place, who};
  for (const uint64_t dim : dims)
    tensor.dims.push_back(static_cast<int64_t>(dim));
  tensor.encoded = message;
  tensor.encoded_owner = context.owner;

  const uint64_t count = ElementCount(tensor.dims, where);
  const std::optional<uint64_t> byte_count = BytesOf(tensor.type, count, where);
  if (source.is_external) {
    if (tensor.type == DataType::kString)
      where.Fail("strings cannot lie outside the model");
    ExternalData external;
    for (const std::string_view entry : source.external)
      ReadExternalEntry(external, entry, where);
    ReadExternalData(tensor, external, byte_count, where, context);
    // What was read says where the data lay; it is written anew.
    tensor.encoded = {};
    tensor.encoded_owner = nullptr;
  } else if (tensor.type == DataType::kString && !source.has_segment &&
             source.data.size() != count) {
    where.Fail(fmt::format("the dimensions ask for {} strings, {} are there",
                           count, source.data.size()));
  } else if (!byte_count || source.has_segment) {
    // Strings, types of the future, parts of a tensor: only carried.
  } else if (source.raw) {
    if (source.raw->size() != *byte_count) {
      where.Fail(fmt::format(
          "the dimensions ask for {} bytes of {}, {} are "
          "there",
          *byte_count, DataTypeName(tensor.type), source.raw->size()));
    }
    SetBytes(tensor, std::as_bytes(std::span(*source.raw)), context.owner,
             where);
  } else {
    ReadTypedData(tensor, source, count, *byte_count, where);
  }
  return tensor;
}

}  // namespace strop::onnx
