// SPDX-License-Identifier: Apache-2.0
#include "base/path_text.h"
#include "base/throw.h"
#include "data/arrays.h"
#include "data/formats.h"

namespace strop::data {
namespace {

struct FileAndKey {
  std::filesystem::path path;
  std::string_view key;
};

// "file.npz:key"; a colon elsewhere belongs to the path.
FileAndKey SplitKey(std::string_view file) {
  const size_t colon = file.rfind(".npz:");
  if (colon == file.npos) return {PathFromText(file), {}};
  return {PathFromText(file.substr(0, colon + 4)), file.substr(colon + 5)};
}

bool LooksLikeText(std::span<const std::byte> bytes) {
  for (std::byte b : bytes.first(std::min<size_t>(bytes.size(), 512))) {
    const int c = std::to_integer<int>(b);
    if (c < 0x20 && c != '\t' && c != '\r' && c != '\n') return false;
  }
  return !bytes.empty();
}

}  // namespace

OwnedTensor ReadArray(std::string_view file, FileSystem& files) {
  const FileAndKey split = SplitKey(file);
  const FileContents contents = files.Open(split.path);
  const std::span<const std::byte> bytes = contents.bytes;
  const std::string source = PathText(split.path);
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 6));
  if (start == "\x93NUMPY") return ReadNpy(bytes, source);
  if (start.starts_with("PK")) return ReadNpzArray(bytes, split.key, source);
  if (start.starts_with("\x1f\x8b") ||
      start.starts_with(std::string_view("\0\0", 2))) {
    return ReadIdx(bytes, source);
  }
  if (LooksLikeText(bytes)) return ReadCsv(bytes, source);
  Throw(ErrorCode::kInvalidFile,
        "{} is none of .npy, .npz, IDX, IDX.gz and CSV", source);
}

}  // namespace strop::data
