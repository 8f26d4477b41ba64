// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/throw.h"
#include "data/arrays.h"
#include "data/parse_double.h"

namespace strop::data {
namespace {

// Cuts CSV text (RFC 4180, either line end) into fields.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, std::string_view source)
      : text_(text), source_(source) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // BOM
  }

  // The fields of the next line that is not empty; false at the end.
  bool Next(std::vector<std::string>* fields) {
    fields->clear();
    while (!text_.empty() && (text_[0] == '\n' || text_[0] == '\r')) {
      if (text_[0] == '\n') ++next_line_;
      text_.remove_prefix(1);
    }
    line_ = next_line_;
    if (text_.empty()) return false;
    while (true) {
      fields->push_back(Field());
      if (text_.empty() || text_[0] != ',') break;
      text_.remove_prefix(1);
    }
    return true;
  }

  // Throws kInvalidFile naming the line that Next returned last.
  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> text, Args&&... args) {
    Throw(ErrorCode::kInvalidFile, "{}, line {}: {}", source_, line_,
          fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  std::string Field() {
    size_t start = text_.find_first_not_of(" \t");
    if (start != text_.npos && text_[start] == '"') {
      text_.remove_prefix(start + 1);
      return Quoted();
    }
    size_t end = std::min(text_.find_first_of(",\r\n"), text_.size());
    std::string field(text_.substr(0, end));
    text_.remove_prefix(end);
    return field;
  }

  std::string Quoted() {
    std::string field;
    while (true) {
      size_t quote = text_.find('"');
      if (quote == text_.npos) Fail("a quoted field has no end");
      std::string_view part = text_.substr(0, quote);
      next_line_ += std::count(part.begin(), part.end(), '\n');
      field += part;
      text_.remove_prefix(quote + 1);
      if (text_.empty() || text_[0] != '"') break;
      field += '"';  // two quotes stand for one
      text_.remove_prefix(1);
    }
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\t')) {
      text_.remove_prefix(1);
    }
    if (!text_.empty() && std::strchr(",\r\n", text_[0]) == nullptr) {
      Fail("text follows a quoted field");
    }
    return field;
  }

  std::string_view text_;
  std::string_view source_;
  int64_t line_ = 1;
  int64_t next_line_ = 1;
};

std::string_view Trim(std::string_view text) {
  size_t start = text.find_first_not_of(" \t");
  if (start == text.npos) return {};
  text = text.substr(start, text.find_last_not_of(" \t") - start + 1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  return text;
}

bool ParseNumber(std::string_view text, double* value) {
  return ParseDouble(Trim(text), value);
}

bool ParseNumber(std::string_view text, int64_t* value) {
  text = Trim(text);
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

// A line of names: no field is a number. One number among words is a typing
// error, which is better told than skipped.
bool IsHeader(const std::vector<std::string>& fields) {
  double value;
  for (const std::string& field : fields) {
    if (Trim(field).empty() || ParseNumber(field, &value)) return false;
    const char first = Trim(field)[0];
    if (first == '.' || first == '-' || std::isdigit(first) != 0) return false;
  }
  return true;
}

}  // namespace

OwnedTensor ReadCsv(std::span<const std::byte> bytes, std::string_view source) {
  CsvScanner scanner(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, source);
  // Integers are kept beside the doubles as long as all fields are integers:
  // int64 identifiers exceed the 53 bits of a double.
  std::vector<double> doubles;
  std::vector<int64_t> integers;
  bool all_integers = true;
  size_t columns = 0;
  std::vector<std::string> fields;
  bool first = true;
  while (scanner.Next(&fields)) {
    if (columns == 0) columns = fields.size();
    if (fields.size() != columns) {
      scanner.Fail("{} fields, where {} were expected", fields.size(), columns);
    }
    const bool header = first && IsHeader(fields);
    first = false;
    if (header) continue;
    for (size_t i = 0; i < columns; ++i) {
      double value = 0;
      if (!ParseNumber(fields[i], &value)) {
        scanner.Fail("field {} is \"{}\", which is not a number", i + 1,
                     fields[i].substr(0, 40));
      }
      doubles.push_back(value);
      int64_t integer = 0;
      all_integers = all_integers && ParseNumber(fields[i], &integer);
      if (all_integers) integers.push_back(integer);
    }
  }
  if (doubles.empty()) {
    Throw(ErrorCode::kInvalidFile, "{} holds no rows of numbers", source);
  }
  const Shape shape = {static_cast<int64_t>(doubles.size() / columns),
                       static_cast<int64_t>(columns)};
  if (all_integers) return OwnedTensor(Tensor(shape, integers.data()));
  return OwnedTensor(Tensor(shape, doubles.data()));
}

}  // namespace strop::data
