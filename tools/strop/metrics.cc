// SPDX-License-Identifier: Apache-2.0
#include "metrics.h"

#include "base/throw.h"

namespace strop {

MetricsWriter::MetricsWriter(const std::filesystem::path& path, Mode mode)
    : path_(path) {
  if (path.empty()) return;
  file_.open(path, mode == Mode::kAppend ? std::ios::app : std::ios::trunc);
  if (!file_) {
    Throw(ErrorCode::kIo, "--metrics {}: the file cannot be written",
          path.string());
  }
}

void MetricsWriter::Write(const Json& line) {
  if (!enabled()) return;
  file_ << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n'
        << std::flush;
  if (!file_) {
    Throw(ErrorCode::kIo, "--metrics {}: the file cannot be written",
          path_.string());
  }
}

}  // namespace strop
