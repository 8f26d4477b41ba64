// SPDX-License-Identifier: Apache-2.0
//
// What the program reads is never overwritten: artifacts and data files.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "artifact_folder.h"
#include "dataset.h"

namespace strop {

class WriteGuard {
 public:
  void Protect(const std::filesystem::path& path);
  void Protect(const ArtifactFolder& artifacts);
  // The files of an option's NAME=FILE assignments.
  void Protect(const DataOptions& data);

  // Throws kInvalidArgument if writing `path` would overwrite a protected
  // file, through a link too, and kIo if it is a folder or lies in none. An
  // empty path is nothing to write. `option` is how the error calls it.
  void Check(std::string_view option, const std::filesystem::path& path) const;

 private:
  std::vector<std::filesystem::path> protected_;
};

}  // namespace strop
