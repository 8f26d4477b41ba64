// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace strop {

using Json = nlohmann::ordered_json;

// Writes one JSON object per line, each as soon as it is complete. Without
// a path it writes nothing.
class MetricsWriter {
 public:
  // Replaces the file; or, with the last step of what is gone on from, keeps
  // its lines to there. A run that was killed has written more of them than
  // its checkpoint knows of.
  MetricsWriter(const std::filesystem::path& path,
                std::optional<int64_t> last_step);

  bool enabled() const { return file_.is_open(); }
  // Throws kIo if the line cannot be written.
  void Write(const Json& line);

 private:
  void CutAfter(int64_t last_step);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace strop
