// SPDX-License-Identifier: Apache-2.0
#include "data/byte_stream.h"

#define ZLIB_CONST
#include <zlib.h>

namespace strop::data {

struct InflateStream::State {
  z_stream zlib = {};
  std::span<const std::byte> rest;  // not yet given to zlib
  bool ended = false;
};

InflateStream::InflateStream(std::span<const std::byte> bytes, Format format,
                             std::string_view source)
    : ByteStream(source), state_(std::make_unique<State>()) {
  state_->rest = bytes;
  // zlib's window bits: 15 is the largest window, 16 more asks for gzip,
  // a negative number for data without any header.
  const int window_bits = format == Format::kGzip ? 15 + 16 : -15;
  if (inflateInit2(&state_->zlib, window_bits) != Z_OK) {
    Throw(ErrorCode::kOutOfMemory, "{}: no memory to decompress it", source);
  }
}

InflateStream::~InflateStream() { inflateEnd(&state_->zlib); }

size_t InflateStream::Read(std::span<std::byte> target) {
  // zlib counts in 32 bits.
  constexpr size_t kMost = size_t{1} << 30;
  z_stream& z = state_->zlib;
  size_t done = 0;
  while (done < target.size() && !state_->ended) {
    if (z.avail_in == 0) {
      size_t count = std::min(state_->rest.size(), kMost);
      z.next_in = reinterpret_cast<const Bytef*>(state_->rest.data());
      z.avail_in = static_cast<uInt>(count);
      state_->rest = state_->rest.subspan(count);
    }
    size_t wanted = std::min(target.size() - done, kMost);
    z.next_out = reinterpret_cast<Bytef*>(target.data() + done);
    z.avail_out = static_cast<uInt>(wanted);
    int result = inflate(&z, Z_NO_FLUSH);
    done += wanted - z.avail_out;
    if (result == Z_STREAM_END) {
      state_->ended = true;
    } else if (result == Z_BUF_ERROR && state_->rest.empty()) {
      Fail("is truncated inside its compressed data");
    } else if (result != Z_OK) {
      Fail("holds damaged compressed data");
    }
  }
  return done;
}

uint64_t InflateStream::MostRemaining() const {
  // Deflate codes at most 258 bytes in 2 bits; a part of what is coming may
  // be inside zlib's window already.
  constexpr uint64_t kMostPerByte = 1032;
  constexpr uint64_t kWindow = 1 << 16;
  if (state_->ended) return 0;
  return (state_->rest.size() + state_->zlib.avail_in) * kMostPerByte + kWindow;
}

}  // namespace strop::data
