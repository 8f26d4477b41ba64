// SPDX-License-Identifier: Apache-2.0
//
// The file system of the operating system.
#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/path_text.h"
#include "base/system_file.h"
#include "base/throw.h"
#include "strop/platform.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

// In English, whatever the language of the system; where its numbers are not
// those of POSIX, with the number.
std::string ErrorText(const std::error_code& error) {
  const std::error_condition condition = error.default_error_condition();
  if (condition.category() != std::generic_category()) {
    return fmt::format("error {} of the system", error.value());
  }
  std::string text = condition.message();
  if (condition.value() != error.value()) {
    text += fmt::format(" (error {} of the system)", error.value());
  }
  return text;
}

// "cannot read /data/model.onnx: Permission denied"
void ThrowIf(const std::error_code& error, const char* what,
             const fs::path& path) {
  if (!error) return;
  const bool missing = error == std::errc::no_such_file_or_directory ||
                       error == std::errc::not_a_directory;
  Throw(missing ? ErrorCode::kNoSuchFile : ErrorCode::kIo, "cannot {} {}: {}",
        what, PathText(path), ErrorText(error));
}

[[noreturn]] void ThrowIrregular(const char* what, const fs::path& path,
                                 bool is_folder) {
  Throw(ErrorCode::kIo, "cannot {} {}: it is {}", what, PathText(path),
        is_folder ? "a folder" : "not a regular file");
}

FileContents ReadWhole(const fs::path& path, SystemFile& file) {
  constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
  };
  auto* const memory = static_cast<std::byte*>(
      ::operator new(file.size(), kAlignment, std::nothrow));
  if (!memory) {
    Throw(ErrorCode::kOutOfMemory, "cannot read {}: no memory for its {} bytes",
          PathText(path), file.size());
  }
  std::shared_ptr<std::byte> owner(memory, Free());
  size_t done = 0;
  while (done < file.size()) {
    std::error_code error;
    const size_t count = file.Read({memory + done, file.size() - done}, error);
    ThrowIf(error, "read", path);
    if (count == 0) break;  // the file has become shorter meanwhile
    done += count;
  }
  return {.bytes = {memory, done}, .owner = std::move(owner)};
}

FileContents OpenFile(const fs::path& path) {
  std::error_code error;
  SystemFile file = SystemFile::Open(path, error);
  ThrowIf(error, "read", path);
  if (file.kind() != SystemFile::Kind::kRegular) {
    ThrowIrregular("read", path, file.kind() == SystemFile::Kind::kFolder);
  }
  if (file.size() == 0) return {};
  FileContents mapped = file.Map();
  return mapped.owner ? mapped : ReadWhole(path, file);
}

// FILE.tmp-PROCESS-NUMBER
constexpr std::string_view kTemporary = ".tmp-";

using NativeView = std::basic_string_view<fs::path::value_type>;

// Cuts a number off the start of a text; nullopt where there is none.
std::optional<uint64_t> CutNumber(NativeView& text) {
  constexpr size_t kMostDigits = 19;
  uint64_t number = 0;
  size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9';
       ++digits) {
    number = number * 10 + static_cast<uint64_t>(text[digits] - '0');
  }
  if (digits == 0 || digits > kMostDigits) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

// The process in the name of a temporary that starts with `start`, which ends
// with kTemporary; 0 for other names.
uint64_t ProcessOfTemporary(NativeView name, NativeView start) {
  if (!name.starts_with(start)) return 0;
  name.remove_prefix(start.size());
  const std::optional<uint64_t> process = CutNumber(name);
  if (!process || name.empty() || name[0] != '-') return 0;
  name.remove_prefix(1);
  return CutNumber(name) && name.empty() ? *process : 0;
}

fs::path FolderOf(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// Removes the temporaries that processes left which were killed while they
// wrote this file. What fails here is no fault of the caller's.
void RemoveStaleTemporaries(const fs::path& target) {
  fs::path start = target.filename();
  start += kTemporary;
  std::error_code ignored;
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(FolderOf(target), ignored), end;
       !ignored && it != end; it.increment(ignored)) {
    const fs::path name = it->path().filename();
    const uint64_t process = ProcessOfTemporary(name.native(), start.native());
    if (process > 0 && !MayRun(process)) stale.push_back(it->path());
  }
  for (const fs::path& path : stale) fs::remove(path, ignored);
}

// A complete file under a temporary name. Unless renamed it is removed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const FileToWrite& file) : target_(file.path) {
    // A link is written through, not replaced.
    std::error_code ignored;
    if (fs::is_symlink(target_, ignored)) {
      target_ = fs::weakly_canonical(target_, ignored);
    }
    const fs::file_status old = fs::status(target_, ignored);
    if (fs::exists(old) && !fs::is_regular_file(old)) {
      ThrowIrregular("write", target_, fs::is_directory(old));
    }
    try {
      WriteParts(file, old);
    } catch (...) {
      Remove();
      throw;
    }
  }

  TemporaryFile(TemporaryFile&& other) noexcept
      : target_(std::move(other.target_)),
        name_(std::exchange(other.name_, {})) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() { Remove(); }

  const fs::path& target() const { return target_; }

  void Rename() {
    std::error_code error;
    RenameOver(name_, target_, error);
    ThrowIf(error, "write", target_);
    name_.clear();
  }

 private:
  SystemFile Create() {
    static std::atomic<uint64_t> counter{0};
    while (true) {
      fs::path name = target_;
      name += fmt::format("{}{}-{}", kTemporary, ThisProcess(), counter++);
      std::error_code error;
      SystemFile file = SystemFile::Create(name, error);
      // There may be one of a killed process with our id.
      if (error == std::errc::file_exists) continue;
      ThrowIf(error, "write", target_);
      name_ = std::move(name);
      return file;
    }
  }

  void WriteParts(const FileToWrite& file, const fs::file_status& old) {
    SystemFile temporary = Create();
    std::error_code error;
    if (fs::exists(old)) temporary.TakePermissions(old.permissions(), error);
    for (std::span<const std::byte> part : file.parts) {
      while (!error && !part.empty()) {
        part = part.subspan(temporary.Write(part, error));
      }
    }
    if (!error) temporary.Sync(error);
    if (!error) temporary.Close(error);
    ThrowIf(error, "write", target_);
  }

  void Remove() {
    std::error_code ignored;
    if (!name_.empty()) fs::remove(name_, ignored);
    name_.clear();
  }

  fs::path target_;
  fs::path name_;
};

class DefaultFileSystem final : public FileSystem {
 public:
  bool Exists(const fs::path& path) override {
    std::error_code ignored;
    return fs::exists(path, ignored);
  }

  bool IsDirectory(const fs::path& path) override {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
  }

  FileContents Open(const fs::path& path) override { return OpenFile(path); }

  void Write(std::span<const FileToWrite> files) override {
    std::vector<TemporaryFile> complete;
    complete.reserve(files.size());
    for (const FileToWrite& file : files) complete.emplace_back(file);
    for (TemporaryFile& file : complete) file.Rename();
    for (const TemporaryFile& file : complete) {
      SyncFolder(FolderOf(file.target()));
    }
    for (const TemporaryFile& file : complete) {
      RemoveStaleTemporaries(file.target());
    }
  }

  void CreateDirectories(const fs::path& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    if (!error && !fs::is_directory(path, error)) {
      error = std::make_error_code(std::errc::file_exists);
    }
    if (error) {
      Throw(ErrorCode::kIo, "cannot make the folder {}: {}", PathText(path),
            ErrorText(error));
    }
  }
};

}  // namespace

std::shared_ptr<FileSystem> FileSystem::Default() {
  static const auto files = std::make_shared<DefaultFileSystem>();
  return files;
}

}  // namespace strop
