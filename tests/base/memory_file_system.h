// SPDX-License-Identifier: Apache-2.0
//
// A file system in memory, for tests that want no disk or a disk that fails.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/throw.h"
#include "strop/platform.h"

namespace strop {

class MemoryFileSystem final : public FileSystem {
 public:
  bool Exists(const std::filesystem::path& path) override {
    const std::lock_guard lock(mutex_);
    return files_.contains(Key(path)) || folders_.contains(Key(path));
  }

  bool IsDirectory(const std::filesystem::path& path) override {
    const std::lock_guard lock(mutex_);
    return folders_.contains(Key(path));
  }

  FileContents Open(const std::filesystem::path& path) override {
    const std::lock_guard lock(mutex_);
    if (folders_.contains(Key(path))) {
      Throw(ErrorCode::kIo, "cannot read {}: it is a folder", path.string());
    }
    const auto file = files_.find(Key(path));
    if (file == files_.end()) {
      Throw(ErrorCode::kNoSuchFile, "cannot read {}: there is no such file",
            path.string());
    }
    return {.bytes = *file->second, .owner = file->second};
  }

  void Write(std::span<const FileToWrite> files) override {
    const std::lock_guard lock(mutex_);
    for (const FileToWrite& file : files) {
      if (fail_writes_ || folders_.contains(Key(file.path))) {
        Throw(ErrorCode::kIo, "cannot write {}", file.path.string());
      }
    }
    for (const FileToWrite& file : files) {
      auto bytes = std::make_shared<std::vector<std::byte>>();
      for (std::span<const std::byte> part : file.parts) {
        bytes->insert(bytes->end(), part.begin(), part.end());
      }
      files_[Key(file.path)] = std::move(bytes);
    }
  }

  void CreateDirectories(const std::filesystem::path& path) override {
    const std::lock_guard lock(mutex_);
    for (std::filesystem::path p = Key(path); p.has_relative_path();
         p = p.parent_path()) {
      folders_.insert(p.string());
    }
  }

  // From now on each Write throws, or no longer.
  void set_fail_writes(bool fail) { fail_writes_ = fail; }

 private:
  static std::string Key(const std::filesystem::path& path) {
    return path.lexically_normal().string();
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const std::vector<std::byte>>> files_;
  std::set<std::string> folders_;
  bool fail_writes_ = false;
};

}  // namespace strop
