// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/throw.h"

namespace strop::data {

// Bytes in their order, from memory or decompressed on the way.
class ByteStream {
 public:
  explicit ByteStream(std::string_view source) : source_(source) {}
  virtual ~ByteStream() = default;

  // Fills `target` as far as there are bytes; returns how many.
  virtual size_t Read(std::span<std::byte> target) = 0;
  // No more than this many bytes can follow.
  virtual uint64_t MostRemaining() const = 0;

  // Fills `target` or throws: the file ends inside `what`.
  void ReadAll(std::span<std::byte> target, std::string_view what) {
    if (Read(target) < target.size()) Fail("ends inside {}", what);
  }
  // Throws unless the stream is at its end.
  void ExpectEnd(std::string_view what) {
    std::byte surplus;
    if (Read({&surplus, 1}) != 0) Fail("has bytes after {}", what);
  }

  // Throws kInvalidFile: "SOURCE text".
  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> text,
                         Args&&... args) const {
    Throw(ErrorCode::kInvalidFile, "{} {}", source_,
          fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  std::string source_;
};

class MemoryStream : public ByteStream {
 public:
  MemoryStream(std::span<const std::byte> bytes, std::string_view source)
      : ByteStream(source), bytes_(bytes) {}

  size_t Read(std::span<std::byte> target) override {
    size_t count = std::min(target.size(), bytes_.size());
    if (count > 0) std::memcpy(target.data(), bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return count;
  }
  uint64_t MostRemaining() const override { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

// Decompresses `bytes`: gzip, or the bare deflate data of a zip entry.
class InflateStream : public ByteStream {
 public:
  enum class Format { kGzip, kRaw };
  InflateStream(std::span<const std::byte> bytes, Format format,
                std::string_view source);
  ~InflateStream() override;

  size_t Read(std::span<std::byte> target) override;
  uint64_t MostRemaining() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strop::data
