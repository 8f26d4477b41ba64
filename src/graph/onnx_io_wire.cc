// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx_io_wire.h"

#include <algorithm>
#include <cstring>
#include <protozero/pbf_reader.hpp>

#include "base/throw.h"

namespace strop::onnx {
namespace {

using protozero::pbf_wire_type;

constexpr auto kVarint = static_cast<uint32_t>(pbf_wire_type::varint);
constexpr auto kFixed32 = static_cast<uint32_t>(pbf_wire_type::fixed32);
constexpr auto kLengthDelimited =
    static_cast<uint32_t>(pbf_wire_type::length_delimited);

}  // namespace

std::string Where::Text() const {
  std::string text = around ? around->Text() : "";
  if (!text.empty()) text += ", ";
  text += what;
  if (index >= 0) text += fmt::format(" {}", index);
  return text;
}

void Where::Fail(std::string_view text) const {
  Throw(ErrorCode::kInvalidFile, "{}: {}", Text(), text);
}

bool FieldReader::Next() {
  if (rest_.empty()) return false;
  try {
    protozero::pbf_reader reader(rest_.data(), rest_.size());
    reader.next();
    field_ = Field{};
    field_.number = reader.tag();
    field_.wire_type = static_cast<uint32_t>(reader.wire_type());
    switch (reader.wire_type()) {
      case pbf_wire_type::varint:
        field_.bits = reader.get_uint64();
        break;
      case pbf_wire_type::fixed64:
        field_.bits = reader.get_fixed64();
        break;
      case pbf_wire_type::fixed32:
        field_.bits = reader.get_fixed32();
        break;
      case pbf_wire_type::length_delimited: {
        const protozero::data_view view = reader.get_view();
        field_.bytes = {view.data(), view.size()};
        break;
      }
      default:
        where_.Fail("an unknown wire type: not an ONNX file, or damaged");
    }
    const protozero::data_view rest = reader.data();
    field_.raw = rest_.substr(0, rest_.size() - rest.size());
    rest_ = {rest.data(), rest.size()};
    return true;
  } catch (const protozero::end_of_buffer_exception&) {
    where_.Fail("the data end in the middle of a field");
  } catch (const protozero::exception& e) {
    where_.Fail(fmt::format("not an ONNX file, or damaged ({})", e.what()));
  }
}

std::string_view Field::Bytes(const Where& where) const {
  if (wire_type != kLengthDelimited) {
    where.Fail(fmt::format("field {} should hold bytes, but has wire type {}",
                           number, wire_type));
  }
  return bytes;
}

uint64_t Field::Varint(const Where& where) const {
  if (wire_type != kVarint) {
    where.Fail(
        fmt::format("field {} should hold an integer, but has wire type {}",
                    number, wire_type));
  }
  return bits;
}

float Field::Float(const Where& where) const {
  if (wire_type != kFixed32) {
    where.Fail(fmt::format("field {} should hold a float, but has wire type {}",
                           number, wire_type));
  }
  const auto word = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

size_t Field::CountVarints(const Where& where) const {
  if (wire_type == kVarint) return 1;
  const std::string_view packed = Bytes(where);
  // The last byte of each varint has its high bit clear.
  return static_cast<size_t>(
      std::count_if(packed.begin(), packed.end(), [](char byte) {
        return (static_cast<unsigned char>(byte) & 0x80) == 0;
      }));
}

void Field::AppendVarints(const Where& where, std::vector<uint64_t>& to) const {
  if (wire_type == kVarint) {
    to.push_back(bits);
    return;
  }
  const std::string_view packed = Bytes(where);
  const char* at = packed.data();
  const char* const end = at + packed.size();
  try {
    while (at != end) to.push_back(protozero::decode_varint(&at, end));
  } catch (const protozero::exception&) {
    where.Fail(fmt::format("field {} holds a damaged integer", number));
  }
}

std::string_view Field::FixedBytes(const Where& where, size_t width) const {
  // Unpacked: the value is the end of the raw field.
  const auto unpacked = static_cast<uint32_t>(
      width == 4 ? pbf_wire_type::fixed32 : pbf_wire_type::fixed64);
  if (wire_type == unpacked) return raw.substr(raw.size() - width);
  const std::string_view packed = Bytes(where);
  if (packed.size() % width != 0) {
    where.Fail(fmt::format("field {} has {} bytes, no multiple of {}", number,
                           packed.size(), width));
  }
  return packed;
}

void Field::AppendFloats(const Where& where, std::vector<float>& to) const {
  const std::string_view packed = FixedBytes(where, sizeof(float));
  const size_t old = to.size();
  to.resize(old + packed.size() / sizeof(float));
  if (!packed.empty())
    std::memcpy(to.data() + old, packed.data(), packed.size());
}

}  // namespace strop::onnx
