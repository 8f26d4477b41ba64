// SPDX-License-Identifier: Apache-2.0
#include "write_guard.h"

#include "base/path_text.h"
#include "base/throw.h"
#include "usage.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

// The same file, through links too, or the same path of one to be made.
bool IsSame(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  const fs::path x = fs::weakly_canonical(fs::absolute(a, error), error);
  const fs::path y = fs::weakly_canonical(fs::absolute(b, error), error);
  return !x.empty() && x == y;
}

}  // namespace

void WriteGuard::ProtectAs(const char* reason, const fs::path& path) {
  if (path.empty()) return;
  protected_.push_back({path, reason});
  // Where a model or a checkpoint keeps what does not fit into it.
  fs::path data = path;
  protected_.push_back({data += ".data", reason});
}

void WriteGuard::Protect(const fs::path& path) { ProtectAs("reads", path); }

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

void WriteGuard::ProtectOutput(const fs::path& path) {
  ProtectAs("writes", path);
}

void WriteGuard::AllowFolder(const fs::path& folder) {
  new_folders_.push_back(folder);
}

bool WriteGuard::WillExist(const fs::path& folder) const {
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return true;
  for (const fs::path& made : new_folders_) {
    if (IsSame(folder, made)) return true;
  }
  return false;
}

void WriteGuard::Check(std::string_view option, const fs::path& path) const {
  if (path.empty()) return;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    Throw(ErrorCode::kIo, "{} {} is a folder; wanted a file", option,
          PathText(path));
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    Throw(ErrorCode::kIo, "{} {} is not a regular file", option,
          PathText(path));
  }
  for (const auto& [kept, reason] : protected_) {
    if (!IsSame(path, kept)) continue;
    Throw(ErrorCode::kInvalidArgument,
          "{} {} would overwrite {}, which this command {}", option,
          PathText(path), PathText(kept), reason);
  }
  if (!WillExist(path.parent_path())) {
    Throw(ErrorCode::kIo, "{} {}: there is no folder {}", option,
          PathText(path), PathText(path.parent_path()));
  }
}

}  // namespace strop
