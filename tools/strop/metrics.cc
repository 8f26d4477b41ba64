// SPDX-License-Identifier: Apache-2.0
#include "metrics.h"

#include <string>

#include "base/path_text.h"
#include "base/throw.h"

namespace strop {
namespace {

// False for what is no line of ours, too.
bool IsAfter(const std::string& line, int64_t step) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto it = json.find("step");
  return it != json.end() && it->is_number_integer() &&
         it->get<int64_t>() > step;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path,
                             std::optional<int64_t> last_step)
    : path_(path) {
  if (path.empty()) return;
  if (last_step) CutAfter(*last_step);
  file_.open(path,
             (last_step ? std::ios::app : std::ios::trunc) | std::ios::binary);
  if (!file_) {
    Throw(ErrorCode::kIo, "--metrics {}: the file cannot be written",
          PathText(path));
  }
}

void MetricsWriter::CutAfter(int64_t last_step) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error)) return;
  std::ifstream file(path_, std::ios::binary);
  uintmax_t kept = 0;
  // The last line may be incomplete.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    if (IsAfter(line, last_step)) break;
    kept += line.size() + 1;
  }
  file.close();
  std::filesystem::resize_file(path_, kept, error);
  if (error) {
    Throw(ErrorCode::kIo, "--metrics {}: the file cannot be cut: {}",
          PathText(path_), error.message());
  }
}

void MetricsWriter::Write(const Json& line) {
  if (!enabled()) return;
  file_ << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n'
        << std::flush;
  if (!file_) {
    Throw(ErrorCode::kIo, "--metrics {}: the file cannot be written",
          PathText(path_));
  }
}

}  // namespace strop
