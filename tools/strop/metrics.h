// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace strop {

using Json = nlohmann::ordered_json;

// Writes one JSON object per line, each as soon as it is complete. Without
// a path it writes nothing.
class MetricsWriter {
 public:
  enum class Mode { kReplace, kAppend };
  MetricsWriter(const std::filesystem::path& path, Mode mode);

  bool enabled() const { return file_.is_open(); }
  // Throws kIo if the line cannot be written.
  void Write(const Json& line);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace strop
