// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npy: the magic bytes, a version, the length of a header, and the
// header: a Python dictionary with the keys descr, fortran_order and shape.
// Then the elements.
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/path_text.h"
#include "data/arrays.h"
#include "data/formats.h"

namespace strop::data {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<uint64_t> dims;
};

// Reads the few Python literals that a header may hold.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const ByteStream& stream)
      : text_(text), stream_(stream) {}

  Header Parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    Expect('{');
    while (!Accept('}')) {
      std::string key = String();
      Expect(':');
      if (key == "descr") {
        header.descr = String();
        descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = Bool();
        order = true;
      } else if (key == "shape") {
        header.dims = Tuple();
        shape = true;
      } else {
        stream_.Fail("has an unknown entry \"{}\" in its header", key);
      }
      if (!Accept(',')) {
        Expect('}');
        break;
      }
    }
    if (!descr || !order || !shape) {
      stream_.Fail("lacks descr, fortran_order or shape in its header");
    }
    return header;
  }

 private:
  void SkipSpace() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) {
      text_.remove_prefix(1);
    }
  }
  bool Accept(char c) {
    SkipSpace();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) stream_.Fail("has no '{}' where its header needs one", c);
  }
  bool AcceptWord(std::string_view word) {
    SkipSpace();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::string String() {
    SkipSpace();
    char quote = text_.empty() ? '\0' : text_[0];
    if (quote == '[') stream_.Fail("holds records, not numbers");
    if (quote != '\'' && quote != '"') {
      stream_.Fail("has no string where its header needs one");
    }
    size_t end = text_.find(quote, 1);
    if (end == text_.npos) stream_.Fail("has an unfinished string");
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool Bool() {
    if (AcceptWord("True")) return true;
    if (AcceptWord("False")) return false;
    stream_.Fail("has a fortran_order that is neither True nor False");
  }
  std::vector<uint64_t> Tuple() {
    std::vector<uint64_t> dims;
    Expect('(');
    while (!Accept(')')) {
      SkipSpace();
      uint64_t value = 0;
      auto [end, error] =
          std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc()) stream_.Fail("has a shape without numbers");
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      AcceptWord("L");  // Python 2 wrote long integers so
      dims.push_back(value);
      if (!Accept(',')) {
        Expect(')');
        break;
      }
    }
    return dims;
  }

  std::string_view text_;
  const ByteStream& stream_;
};

struct TypeCode {
  std::string_view code;  // NumPy's kind and size
  DataType type;
  size_t swap_size;  // bytes that one byte order concerns
};
constexpr TypeCode kTypeCodes[] = {
    {"b1", DataType::kBool, 1},      {"i1", DataType::kInt8, 1},
    {"i2", DataType::kInt16, 2},     {"i4", DataType::kInt32, 4},
    {"i8", DataType::kInt64, 8},     {"u1", DataType::kUint8, 1},
    {"u2", DataType::kUint16, 2},    {"u4", DataType::kUint32, 4},
    {"u8", DataType::kUint64, 8},    {"f2", DataType::kFloat16, 2},
    {"f4", DataType::kFloat32, 4},   {"f8", DataType::kFloat64, 8},
    {"c8", DataType::kComplex64, 4}, {"c16", DataType::kComplex128, 8},
};

std::string ReadHeaderText(ByteStream& stream) {
  std::array<std::byte, 8> start;
  stream.ReadAll(start, "its header");
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    stream.Fail("is not an .npy file");
  }
  const int version = std::to_integer<int>(start[6]);
  if (version < 1 || version > 3) {
    stream.Fail("has .npy version {}; 1 to 3 are known", version);
  }
  std::array<std::byte, 4> length = {};
  stream.ReadAll(std::span(length).first(version == 1 ? 2 : 4), "its header");
  uint32_t size = 0;
  for (size_t i = 0; i < 4; ++i) {
    size |= std::to_integer<uint32_t>(length[i]) << (8 * i);
  }
  if (size > stream.MostRemaining()) stream.Fail("ends inside its header");
  std::string text(size, '\0');
  stream.ReadAll(std::as_writable_bytes(std::span(text)), "its header");
  return text;
}

// Copies column-major elements into row-major order.
void FromFortranOrder(std::span<const std::byte> source, const Tensor& target) {
  const Shape& shape = target.shape();
  const size_t size = DataTypeSize(target.type());
  const size_t rank = shape.rank();
  std::array<int64_t, Shape::kMaxRank> strides = {}, index = {};
  int64_t stride = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  std::byte* out = target.bytes().data();
  int64_t position = 0;
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    std::memcpy(out + i * size, source.data() + position * size, size);
    for (size_t axis = rank; axis-- > 0;) {
      position += strides[axis];
      if (++index[axis] < shape[axis]) break;
      position -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

OwnedTensor ReserveTensor(const ByteStream& stream, DataType type,
                          std::span<const uint64_t> dims) {
  if (dims.size() > Shape::kMaxRank) {
    stream.Fail("has {} dimensions; at most {} are supported", dims.size(),
                Shape::kMaxRank);
  }
  // Products stay below 2^62 for dimensions that are not 0: a size of 0
  // elsewhere must not hide absurd numbers.
  uint64_t count = 1;
  bool empty = false;
  std::vector<int64_t> shape;
  for (uint64_t dim : dims) {
    if (dim == 0) empty = true;
    if (dim > 0 && dim > (uint64_t{1} << 58) / count) {
      stream.Fail("states a size that no file can have");
    }
    count *= std::max<uint64_t>(dim, 1);
    shape.push_back(static_cast<int64_t>(dim));
  }
  const uint64_t bytes = empty ? 0 : count * DataTypeSize(type);
  if (bytes > stream.MostRemaining()) {
    stream.Fail("states {} bytes of elements and ends before them", bytes);
  }
  return OwnedTensor(type, Shape(shape));
}

void SwapBytes(std::span<std::byte> bytes, size_t size) {
  if (size < 2) return;
  for (size_t i = 0; i + size <= bytes.size(); i += size) {
    std::reverse(bytes.begin() + i, bytes.begin() + i + size);
  }
}

OwnedTensor ReadNpyStream(ByteStream& stream) {
  const std::string text = ReadHeaderText(stream);
  const Header header = HeaderParser(text, stream).Parse();
  const TypeCode* type = nullptr;
  for (const TypeCode& candidate : kTypeCodes) {
    if (!header.descr.empty() &&
        std::string_view(header.descr).substr(1) == candidate.code) {
      type = &candidate;
    }
  }
  if (!type || std::string_view("<>|=").find(header.descr[0]) ==
                   std::string_view::npos) {
    stream.Fail("has elements of type '{}', which is not supported",
                header.descr);
  }
  OwnedTensor tensor = ReserveTensor(stream, type->type, header.dims);
  const std::span<std::byte> bytes = tensor.view().bytes();
  stream.ReadAll(bytes, "its elements");
  stream.ExpectEnd("its elements");
  if (header.descr[0] == '>') SwapBytes(bytes, type->swap_size);
  if (type->type == DataType::kBool) {
    for (std::byte& b : bytes) b = std::byte(b != std::byte{0});
  }
  if (header.fortran_order && header.dims.size() > 1) {
    OwnedTensor row_major(tensor.type(), tensor.shape());
    FromFortranOrder(bytes, row_major);
    return row_major;
  }
  return tensor;
}

OwnedTensor ReadNpy(std::span<const std::byte> bytes, std::string_view source) {
  MemoryStream stream(bytes, source);
  return ReadNpyStream(stream);
}

OwnedTensor ReadNpy(const std::filesystem::path& path, FileSystem& files) {
  const FileContents contents = files.Open(path);
  return ReadNpy(contents.bytes, PathText(path));
}

std::string NpyHeader(const Tensor& tensor) {
  std::string_view code;
  for (const TypeCode& candidate : kTypeCodes) {
    if (candidate.type == tensor.type()) code = candidate.code;
  }
  if (code.empty()) {
    Throw(ErrorCode::kNotImplemented, ".npy has no element type {}",
          DataTypeName(tensor.type()));
  }
  std::string shape;
  for (int64_t dim : tensor.shape()) shape += fmt::format("{}, ", dim);
  if (tensor.shape().rank() > 1) shape.resize(shape.size() - 2);
  std::string text = fmt::format(
      "{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
      DataTypeSize(tensor.type()) == 1 ? '|' : '<', code, shape);
  // Magic, version, length and header fill a multiple of 64 bytes, so that
  // the elements of a mapped file are aligned.
  constexpr size_t kPrefix = 10;
  const size_t total = (kPrefix + text.size() + 1 + 63) / 64 * 64;
  text.resize(total - kPrefix - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff),
             static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace strop::data
