// SPDX-License-Identifier: Apache-2.0
//
// What the program reads is never overwritten, artifacts and data files, nor
// does one of its outputs overwrite another.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "artifact_folder.h"
#include "dataset.h"

namespace strop {

class WriteGuard {
 public:
  // What is protected is the file and PATH.data, its external data, whether
  // they exist or not. An empty path is nothing.
  void Protect(const std::filesystem::path& path);
  void Protect(const ArtifactFolder& artifacts);
  // The files of an option's NAME=FILE assignments.
  void Protect(const DataOptions& data);
  // The same for what the command itself writes.
  void ProtectOutput(const std::filesystem::path& path);
  // A folder that the command will make.
  void AllowFolder(const std::filesystem::path& folder);

  // Throws kInvalidArgument if writing `path` would overwrite a protected
  // file, through a link too, and kIo if it is no regular file or lies in no
  // folder. An empty path is nothing to write. `option` is how the error
  // calls it.
  void Check(std::string_view option, const std::filesystem::path& path) const;

 private:
  void ProtectAs(const char* reason, const std::filesystem::path& path);
  bool WillExist(const std::filesystem::path& folder) const;

  // Files, and what the command does with them.
  std::vector<std::pair<std::filesystem::path, const char*>> protected_;
  std::vector<std::filesystem::path> new_folders_;
};

}  // namespace strop
