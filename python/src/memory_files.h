// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "binding.h"

namespace strop::python {

// A model whose large tensors lie in Python's memory, as files: a protobuf
// message may not reach 2 GB, and need not be written to be read. All other
// files are those of the system.
class MemoryFiles final : public FileSystem {
 public:
  explicit MemoryFiles(std::shared_ptr<FileSystem> files)
      : files_(std::move(files)) {}

  // The bytes are not copied; the caller keeps them alive.
  void Add(const std::filesystem::path& path, const nb::bytes& bytes) {
    contents_[path.lexically_normal()] = {
        reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
  }

  bool Exists(const std::filesystem::path& path) override {
    return contents_.contains(path.lexically_normal()) || files_->Exists(path);
  }
  bool IsDirectory(const std::filesystem::path& path) override {
    return files_->IsDirectory(path);
  }
  FileContents Open(const std::filesystem::path& path) override {
    const auto found = contents_.find(path.lexically_normal());
    if (found == contents_.end()) return files_->Open(path);
    return {found->second, nullptr};
  }
  void Write(std::span<const FileToWrite> files) override {
    files_->Write(files);
  }
  void CreateDirectories(const std::filesystem::path& path) override {
    files_->CreateDirectories(path);
  }

 private:
  std::shared_ptr<FileSystem> files_;
  std::map<std::filesystem::path, std::span<const std::byte>> contents_;
};

}  // namespace strop::python
