// SPDX-License-Identifier: Apache-2.0
#include "prepared_files.h"

#include "artifacts/training_graphs.h"
#include "base/path_text.h"
#include "base/throw.h"
#include "checkpoint/checkpoint_format.h"

namespace strop {
namespace {

std::string Joined(const std::vector<std::span<const std::byte>>& parts) {
  std::string text;
  size_t size = 0;
  for (const auto& part : parts) size += part.size();
  text.reserve(size);
  for (const auto& part : parts)
    text.append(reinterpret_cast<const char*>(part.data()), part.size());
  return text;
}

}  // namespace

PreparedFiles::PreparedFiles(const std::filesystem::path& model,
                             const PrepareOptions& options, LogSink log)
    : real_(FileSystem::Default()), folder_(model) {
  folder_.replace_extension(".strop");
  const Environment environment(
      {.num_threads = 1, .log = std::move(log), .files = real_});
  EncodedArtifacts encoded =
      EncodeArtifacts(model, ToArtifactOptions(options), environment);
  if (!encoded.report.trained_inputs.empty()) {
    Throw(ErrorCode::kInvalidArgument,
          "--train {}: that is an input of the model, whose gradient no step "
          "of strop train has a place for; name parameters",
          encoded.report.trained_inputs[0]);
  }
  sources_ = std::move(encoded.sources);
  for (EncodedModel& file : encoded.models) {
    files_[folder_ / file.name] =
        std::make_shared<const std::string>(std::move(file.bytes));
    if (file.data.empty()) continue;
    files_[folder_ / (file.name + ".data")] =
        std::make_shared<const std::string>(Joined(file.data));
  }
  const SerializedCheckpoint checkpoint =
      SerializeCheckpoint(encoded.store, false);
  if (checkpoint.has_external_data) {
    Throw(ErrorCode::kNotImplemented,
          "{} has more than 2 GB of parameters: make its artifacts with strop "
          "prepare first",
          PathText(model));
  }
  const auto* text = reinterpret_cast<const char*>(checkpoint.bytes.data());
  files_[folder_ / "checkpoint"] =
      std::make_shared<const std::string>(text, checkpoint.bytes.size());
}

bool PreparedFiles::Exists(const std::filesystem::path& path) {
  return path == folder_ || files_.contains(path) || real_->Exists(path);
}

bool PreparedFiles::IsDirectory(const std::filesystem::path& path) {
  return path == folder_ || real_->IsDirectory(path);
}

FileContents PreparedFiles::Open(const std::filesystem::path& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return real_->Open(path);
  return {std::as_bytes(std::span(*found->second)), found->second};
}

void PreparedFiles::Write(std::span<const FileToWrite> files) {
  real_->Write(files);
}

void PreparedFiles::CreateDirectories(const std::filesystem::path& path) {
  real_->CreateDirectories(path);
}

}  // namespace strop
