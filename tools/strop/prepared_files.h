// SPDX-License-Identifier: Apache-2.0
//
// The artifacts of a bare model without a folder: a file system in which they
// seem to lie in one beside the model. All other files are real.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "prepare_options.h"
#include "strop/platform.h"

namespace strop {

class PreparedFiles final : public FileSystem {
 public:
  // Makes the artifacts of `model`, which throws as GenerateArtifacts does.
  PreparedFiles(const std::filesystem::path& model,
                const PrepareOptions& options, LogSink log);

  // The folder that is not there: "<model without .onnx>.strop".
  const std::filesystem::path& folder() const { return folder_; }
  // What the model was read from, its external data too.
  const std::vector<std::filesystem::path>& sources() const { return sources_; }

  bool Exists(const std::filesystem::path& path) override;
  bool IsDirectory(const std::filesystem::path& path) override;
  FileContents Open(const std::filesystem::path& path) override;
  void Write(std::span<const FileToWrite> files) override;
  void CreateDirectories(const std::filesystem::path& path) override;

 private:
  std::shared_ptr<FileSystem> real_;
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> sources_;
  std::map<std::filesystem::path, std::shared_ptr<const std::string>> files_;
};

}  // namespace strop
