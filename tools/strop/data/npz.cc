// SPDX-License-Identifier: Apache-2.0
//
// .npz is a zip archive of .npy files. The directory at the end of the
// archive is what counts; local headers are read for their lengths only.
#define ZLIB_CONST
#include <zlib.h>

#include <set>

#include "base/half.h"
#include "base/path_text.h"
#include "data/arrays.h"
#include "data/formats.h"

namespace strop::data {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64LocatorSize = 20;
constexpr uint32_t kLarge = 0xffffffff;  // the number stands in a 64-bit field

// Little-endian numbers of an archive, checked against its end.
class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, std::string_view source)
      : bytes_(bytes), source_(source) {}

  std::span<const std::byte> Bytes(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      Fail("is truncated or damaged: it refers to bytes past its end");
    }
    return bytes_.subspan(offset, size);
  }
  uint64_t Number(uint64_t offset, size_t size) const {
    uint64_t value = 0;
    std::span<const std::byte> bytes = Bytes(offset, size);
    for (size_t i = size; i-- > 0;) {
      value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
    }
    return value;
  }
  uint16_t U16(uint64_t offset) const {
    return static_cast<uint16_t>(Number(offset, 2));
  }
  uint32_t U32(uint64_t offset) const {
    return static_cast<uint32_t>(Number(offset, 4));
  }
  uint64_t U64(uint64_t offset) const { return Number(offset, 8); }
  size_t size() const { return bytes_.size(); }

  [[noreturn]] void Fail(std::string_view text) const {
    Throw(ErrorCode::kInvalidFile, "{} {}", source_, text);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view source_;
};

struct Directory {
  uint64_t offset = 0;
  uint64_t count = 0;
};

Directory FindDirectory(const ZipReader& zip) {
  // The end record stands last, before a comment of up to 64 KiB.
  if (zip.size() < kEndSize) zip.Fail("is not a zip archive");
  const size_t last = zip.size() - kEndSize;
  const size_t first = last > 0xffff ? last - 0xffff : 0;
  for (size_t end = last + 1; end-- > first;) {
    if (zip.U32(end) != kEnd || zip.U16(end + 20) != last - end) continue;
    Directory directory = {zip.U32(end + 16), zip.U16(end + 10)};
    if (end >= kEnd64LocatorSize &&
        zip.U32(end - kEnd64LocatorSize) == kEnd64Locator) {
      const uint64_t end64 = zip.U64(end - kEnd64LocatorSize + 8);
      zip.Bytes(end64, 56);
      if (zip.U32(end64) != kEnd64) zip.Fail("has a damaged zip64 record");
      directory = {zip.U64(end64 + 48), zip.U64(end64 + 32)};
    }
    return directory;
  }
  zip.Fail("is truncated or not a zip archive: it has no end record");
}

struct EntrySizes {
  uint64_t size, stored, header;
};

// Numbers of 32 bits that are all ones stand in the extra field instead, in
// this order.
void ReadExtraField(const ZipReader& zip, uint64_t offset, uint64_t size,
                    EntrySizes* sizes) {
  const uint64_t end = offset + size;
  while (offset + 4 <= end) {
    const uint16_t id = zip.U16(offset);
    const uint64_t next = offset + 4 + zip.U16(offset + 2);
    offset += 4;
    if (next > end) zip.Fail("has a damaged extra field");
    if (id == 1) {
      for (uint64_t* number : {&sizes->size, &sizes->stored, &sizes->header}) {
        if (*number != kLarge) continue;
        if (offset + 8 > next) zip.Fail("has a damaged zip64 field");
        *number = zip.U64(offset);
        offset += 8;
      }
    }
    offset = next;
  }
}

ZipEntry ReadEntry(const ZipReader& zip, uint64_t* offset) {
  constexpr size_t kFixed = 46;
  const uint64_t at = *offset;
  zip.Bytes(at, kFixed);
  if (zip.U32(at) != kDirectoryEntry) zip.Fail("has a damaged zip directory");
  const uint16_t name_size = zip.U16(at + 28);
  const uint16_t extra_size = zip.U16(at + 30);
  EntrySizes sizes = {zip.U32(at + 24), zip.U32(at + 20), zip.U32(at + 42)};
  std::span<const std::byte> name = zip.Bytes(at + kFixed, name_size);
  zip.Bytes(at + kFixed + name_size, extra_size);
  ReadExtraField(zip, at + kFixed + name_size, extra_size, &sizes);
  *offset = at + kFixed + name_size + extra_size + zip.U16(at + 32);

  ZipEntry entry;
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  entry.crc = zip.U32(at + 16);
  entry.size = sizes.size;
  if (zip.U16(at + 8) & 1) zip.Fail("is encrypted");
  const uint16_t method = zip.U16(at + 10);
  if (method != 0 && method != 8) {
    zip.Fail(
        fmt::format("packs \"{}\" by method {}; stored and deflated "
                    "entries are supported",
                    entry.name, method));
  }
  entry.deflated = method == 8;
  if (!entry.deflated && sizes.size != sizes.stored) {
    zip.Fail("states two sizes for one stored entry");
  }
  zip.Bytes(sizes.header, 30);
  if (zip.U32(sizes.header) != kLocalHeader) {
    zip.Fail("has a damaged local header");
  }
  const uint64_t data = sizes.header + 30 + zip.U16(sizes.header + 26) +
                        zip.U16(sizes.header + 28);
  entry.bytes = zip.Bytes(data, sizes.stored);
  return entry;
}

// Passes bytes on up to the stated size and keeps their checksum.
class EntryStream : public ByteStream {
 public:
  EntryStream(ByteStream& inner, uint64_t size, std::string_view source)
      : ByteStream(source), inner_(inner), left_(size) {}

  size_t Read(std::span<std::byte> target) override {
    const size_t count =
        inner_.Read(target.first(std::min<uint64_t>(target.size(), left_)));
    crc_ = static_cast<uint32_t>(
        crc32_z(crc_, reinterpret_cast<const Bytef*>(target.data()), count));
    left_ -= count;
    return count;
  }
  uint64_t MostRemaining() const override {
    return std::min(left_, inner_.MostRemaining());
  }
  uint64_t left() const { return left_; }
  uint32_t crc() const { return crc_; }

 private:
  ByteStream& inner_;
  uint64_t left_;
  uint32_t crc_ = 0;
};

OwnedTensor ReadZippedNpy(const ZipEntry& entry, std::string_view source) {
  const std::string name = fmt::format("{}: {}", source, entry.name);
  std::unique_ptr<ByteStream> inner;
  if (entry.deflated) {
    inner = std::make_unique<InflateStream>(entry.bytes,
                                            InflateStream::Format::kRaw, name);
  } else {
    inner = std::make_unique<MemoryStream>(entry.bytes, name);
  }
  EntryStream stream(*inner, entry.size, name);
  OwnedTensor tensor = ReadNpyStream(stream);
  inner->ExpectEnd("the size that the archive states");
  if (stream.left() != 0) stream.Fail("ends before its stated size");
  if (stream.crc() != entry.crc) stream.Fail("has a wrong checksum");
  return tensor;
}

// Little-endian; a field may be wider than the number.
void Append(std::string* out, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i, value >>= 8) {
    *out += static_cast<char>(value & 0xff);
  }
}

// One array of an archive that is being written.
struct OutputEntry {
  std::string name;
  std::string npy_header;
  OwnedTensor converted;  // where the tensor is not written as it is
  Tensor tensor;
  uint64_t offset = 0;  // of its local header
  std::string local_header;

  uint64_t size() const { return npy_header.size() + tensor.byte_count(); }
  uint32_t Crc() const {
    uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(npy_header.data()),
                        npy_header.size());
    if (tensor.byte_count() > 0) {
      crc = crc32_z(crc, static_cast<const Bytef*>(tensor.data()),
                    tensor.byte_count());
    }
    return static_cast<uint32_t>(crc);
  }
  // The fields that local header and directory share, from "version needed"
  // to the length of the extra field. Sizes always stand in 64-bit fields.
  std::string CommonFields(uint32_t crc, uint16_t extra_size) const {
    std::string out;
    Append(&out, 45, 2);          // zip64
    Append(&out, 1 << 11, 2);     // the name is UTF-8
    Append(&out, 0, 2);           // stored
    Append(&out, 0x00210000, 4);  // 1980-01-01: the same bytes every time
    Append(&out, crc, 4);
    Append(&out, kLarge, 4);
    Append(&out, kLarge, 4);
    Append(&out, name.size(), 2);
    Append(&out, extra_size, 2);
    return out;
  }
};

std::string LocalHeader(const OutputEntry& entry, uint32_t crc) {
  std::string out;
  Append(&out, kLocalHeader, 4);
  out += entry.CommonFields(crc, 20) + entry.name;
  Append(&out, 1, 2);
  Append(&out, 16, 2);
  Append(&out, entry.size(), 8);
  Append(&out, entry.size(), 8);
  return out;
}

std::string DirectoryEntry(const OutputEntry& entry, uint32_t crc) {
  std::string out;
  Append(&out, kDirectoryEntry, 4);
  Append(&out, 45, 2);
  out += entry.CommonFields(crc, 28);
  Append(&out, 0, 2 + 2 + 2 + 4);  // comment, disk, attributes
  Append(&out, kLarge, 4);
  out += entry.name;
  Append(&out, 1, 2);
  Append(&out, 24, 2);
  Append(&out, entry.size(), 8);
  Append(&out, entry.size(), 8);
  Append(&out, entry.offset, 8);
  return out;
}

std::string EndRecords(uint64_t directory_offset, uint64_t directory_size,
                       uint64_t count) {
  std::string out;
  Append(&out, kEnd64, 4);
  Append(&out, 44, 8);
  Append(&out, 45, 2);
  Append(&out, 45, 2);
  Append(&out, 0, 8);
  Append(&out, count, 8);
  Append(&out, count, 8);
  Append(&out, directory_size, 8);
  Append(&out, directory_offset, 8);
  Append(&out, kEnd64Locator, 4);
  Append(&out, 0, 4);
  Append(&out, directory_offset + directory_size, 8);
  Append(&out, 1, 4);
  Append(&out, kEnd, 4);
  Append(&out, 0, 4);
  const uint64_t short_count = std::min<uint64_t>(count, 0xffff);
  Append(&out, short_count, 2);
  Append(&out, short_count, 2);
  Append(&out, kLarge, 4);
  Append(&out, kLarge, 4);
  Append(&out, 0, 2);
  return out;
}

// NumPy has no bfloat16.
OwnedTensor ToFloat32(const Tensor& tensor) {
  OwnedTensor result(DataType::kFloat32, tensor.shape());
  std::span<const Bfloat16> from = tensor.values<Bfloat16>();
  std::span<float> to = result.values<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = ToFloat(from[i]);
  return result;
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::vector<ZipEntry> ReadZip(std::span<const std::byte> bytes,
                              std::string_view source) {
  ZipReader zip(bytes, source);
  const Directory directory = FindDirectory(zip);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  uint64_t offset = directory.offset;
  uint64_t stored = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    entries.push_back(ReadEntry(zip, &offset));
    stored += entries.back().bytes.size();
    // Entries that share their bytes are how zip bombs multiply.
    if (stored > bytes.size()) zip.Fail("has entries that overlap");
    if (!names.insert(entries.back().name).second) {
      zip.Fail(fmt::format("has two entries \"{}\"", entries.back().name));
    }
  }
  return entries;
}

std::map<std::string, OwnedTensor, std::less<>> ReadNpz(
    const std::filesystem::path& path, FileSystem& files) {
  const FileContents contents = files.Open(path);
  std::map<std::string, OwnedTensor, std::less<>> arrays;
  for (const ZipEntry& entry : ReadZip(contents.bytes, PathText(path))) {
    if (!entry.name.ends_with(".npy")) continue;
    arrays.emplace(entry.name.substr(0, entry.name.size() - 4),
                   ReadZippedNpy(entry, PathText(path)));
  }
  return arrays;
}

OwnedTensor ReadNpzArray(std::span<const std::byte> bytes, std::string_view key,
                         std::string_view source) {
  std::string names;
  size_t count = 0;
  const std::vector<ZipEntry> entries = ReadZip(bytes, source);
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(".npy")) continue;
    std::string_view name = entry.name;
    name.remove_suffix(4);
    if (key.empty() || name == key) found = &entry;
    names += fmt::format("{}\"{}\"", count++ == 0 ? "" : ", ", name);
  }
  if (count == 0) {
    Throw(ErrorCode::kInvalidFile, "{} holds no arrays", source);
  }
  if (key.empty() && count > 1) {
    Throw(ErrorCode::kInvalidArgument,
          "{} holds several arrays; choose one as {}:NAME of {}", source,
          source, names);
  }
  if (!found) {
    Throw(ErrorCode::kNotFound, "{} holds no array \"{}\"; it has {}", source,
          key, names);
  }
  return ReadZippedNpy(*found, source);
}

void WriteNpy(const std::filesystem::path& path, const Tensor& tensor,
              FileSystem& files) {
  if (tensor.type() == DataType::kBfloat16) {
    return WriteNpy(path, ToFloat32(tensor), files);
  }
  const std::string header = NpyHeader(tensor);
  const FileToWrite file = {path, {AsBytes(header), tensor.bytes()}};
  files.Write({&file, 1});
}

void WriteNpz(const std::filesystem::path& path,
              const std::map<std::string, Tensor>& arrays, FileSystem& files) {
  std::vector<OutputEntry> entries;
  uint64_t offset = 0;
  std::string tail;
  for (const auto& [name, tensor] : arrays) {
    OutputEntry& entry = entries.emplace_back();
    entry.name = name + ".npy";
    entry.tensor = tensor;
    if (entry.name.size() > 0xffff) {
      Throw(ErrorCode::kInvalidArgument,
            "{}: a name of {} bytes is too long for a zip archive",
            PathText(path), name.size());
    }
    if (tensor.type() == DataType::kBfloat16) {
      entry.converted = ToFloat32(tensor);
      entry.tensor = entry.converted.view();
    }
    entry.npy_header = NpyHeader(entry.tensor);
    entry.offset = offset;
    const uint32_t crc = entry.Crc();
    entry.local_header = LocalHeader(entry, crc);
    offset += entry.local_header.size() + entry.size();
    tail += DirectoryEntry(entry, crc);
  }
  tail += EndRecords(offset, tail.size(), entries.size());
  FileToWrite file = {path, {}};
  for (const OutputEntry& entry : entries) {
    file.parts.push_back(AsBytes(entry.local_header));
    file.parts.push_back(AsBytes(entry.npy_header));
    file.parts.push_back(entry.tensor.bytes());
  }
  file.parts.push_back(AsBytes(tail));
  files.Write({&file, 1});
}

}  // namespace strop::data
