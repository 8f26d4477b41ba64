// SPDX-License-Identifier: Apache-2.0
//
// What Strop asks of the machine: files, a log, loops over ranges. Files and
// log come in through the Environment, so that a test can pass others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "strop/error.h"

namespace strop {

enum class LogLevel { kInfo, kWarning, kError };

// Called with one line of text without a line end, from any thread.
using LogSink = std::function<void(LogLevel, std::string_view)>;

// The bytes of a file. They stay valid while `owner` lives. A mapped file
// starts at a page, so its bytes are at least 64-byte aligned.
struct FileContents {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// A model file by path, or its bytes, which need to live during the call only.
using ModelSource =
    std::variant<std::filesystem::path, std::span<const std::byte>>;

// One file to be written: its parts follow each other without gaps.
struct FileToWrite {
  std::filesystem::path path;
  std::vector<std::span<const std::byte>> parts;
};

// Functions may be called from any thread and throw Error: kNoSuchFile for a
// missing file, kIo for everything else (a folder where a file is wanted,
// no permission, a full disk). Every text names the path.
class STROP_EXPORT FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual bool Exists(const std::filesystem::path& path) = 0;
  virtual bool IsDirectory(const std::filesystem::path& path) = 0;

  // Maps the file read-only where the system can, else reads it whole.
  virtual FileContents Open(const std::filesystem::path& path) = 0;

  // Each file is written to a temporary beside its target and synced; only
  // when all are complete are they renamed, in the order given. A reader
  // sees an old or a new file, never a part; after an Error during writing
  // the old files are untouched and no temporary is left.
  virtual void Write(std::span<const FileToWrite> files) = 0;

  virtual void CreateDirectories(const std::filesystem::path& path) = 0;

  // The file system of the operating system.
  static std::shared_ptr<FileSystem> Default();
};

// A non-owning reference to a callable void(int64_t begin, int64_t end).
class RangeFunction {
 public:
  template <class F>
  RangeFunction(const F& f)  // NOLINT: implicit by design
      : object_(&f), call_([](const void* object, int64_t begin, int64_t end) {
          (*static_cast<const F*>(object))(begin, end);
        }) {}
  void operator()(int64_t begin, int64_t end) const {
    call_(object_, begin, end);
  }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t);
};

}  // namespace strop
