// SPDX-License-Identifier: Apache-2.0
#include "write_guard.h"

#include "base/throw.h"
#include "usage.h"

namespace strop {

void WriteGuard::Protect(const std::filesystem::path& path) {
  protected_.push_back(path);
}

void WriteGuard::Protect(const ArtifactFolder& artifacts) {
  Protect(artifacts.train);
  Protect(artifacts.checkpoint);
  if (artifacts.eval) Protect(*artifacts.eval);
  if (artifacts.optimizer) Protect(*artifacts.optimizer);
}

void WriteGuard::Protect(const DataOptions& data) {
  for (const std::string& text : data.inputs) {
    std::string file = SplitAssignment(data.option, text).second;
    // NAME=FILE.npz:KEY names one array of the file.
    const size_t key = file.rfind(".npz:");
    if (key != file.npos) file.resize(key + 4);
    Protect(file);
  }
}

void WriteGuard::Check(std::string_view option,
                       const std::filesystem::path& path) const {
  if (path.empty()) return;
  std::error_code error;
  for (const std::filesystem::path& kept : protected_) {
    // `equivalent` follows links on both sides.
    if (std::filesystem::equivalent(path, kept, error) && !error) {
      Throw(ErrorCode::kInvalidArgument,
            "{} {} would overwrite {}, which this command reads", option,
            path.string(), kept.string());
    }
  }
  if (std::filesystem::is_directory(path, error)) {
    Throw(ErrorCode::kIo, "{} {} is a folder; wanted a file", option,
          path.string());
  }
  const std::filesystem::path parent = path.parent_path();
  if (!parent.empty() && !std::filesystem::is_directory(parent, error)) {
    Throw(ErrorCode::kIo, "{} {}: there is no folder {}", option, path.string(),
          parent.string());
  }
}

}  // namespace strop
