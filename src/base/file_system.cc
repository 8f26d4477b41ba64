// SPDX-License-Identifier: Apache-2.0
//
// The file system of POSIX machines.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/throw.h"
#include "strop/platform.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

// "cannot read /data/model.onnx: Permission denied"
[[noreturn]] void ThrowSystem(const char* what, const fs::path& path,
                              int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  Throw(missing ? ErrorCode::kNoSuchFile : ErrorCode::kIo, "cannot {} {}: {}",
        what, path.string(), std::generic_category().message(error));
}

[[noreturn]] void ThrowIrregular(const char* what, const fs::path& path,
                                 mode_t mode) {
  Throw(ErrorCode::kIo, "cannot {} {}: it is {}", what, path.string(),
        S_ISDIR(mode) ? "a folder" : "not a regular file");
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }

  // Some systems report a failed write only here; 0 or the error.
  int Close() { return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

FileContents ReadWhole(const fs::path& path, int fd, size_t size) {
  constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
  };
  auto* const memory =
      static_cast<std::byte*>(::operator new(size, kAlignment, std::nothrow));
  if (!memory) {
    Throw(ErrorCode::kOutOfMemory, "cannot read {}: no memory for its {} bytes",
          path.string(), size);
  }
  std::shared_ptr<std::byte> owner(memory, Free());
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(fd, memory + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ThrowSystem("read", path, errno);
    if (count == 0) break;  // the file has become shorter meanwhile
    done += static_cast<size_t>(count);
  }
  return {.bytes = {memory, done}, .owner = std::move(owner)};
}

FileContents OpenFile(const fs::path& path) {
  // Without O_NONBLOCK a named pipe would wait for its writer.
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    ThrowSystem("read", path, errno);
  }
  if (!S_ISREG(info.st_mode)) ThrowIrregular("read", path, info.st_mode);
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  void* const memory =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) return ReadWhole(path, file.get(), size);
  return {.bytes = {static_cast<const std::byte*>(memory), size},
          .owner = std::shared_ptr<const void>(memory, [size](const void* p) {
            ::munmap(const_cast<void*>(p), size);
          })};
}

// FILE.tmp-PROCESS-NUMBER
constexpr std::string_view kTemporary = ".tmp-";

// The process in the name of a temporary of `target`; 0 for other names.
pid_t ProcessOfTemporary(std::string_view name, std::string_view target) {
  if (!name.starts_with(target)) return 0;
  name.remove_prefix(target.size());
  if (!name.starts_with(kTemporary)) return 0;
  name.remove_prefix(kTemporary.size());
  const char* const end = name.data() + name.size();
  pid_t process = 0;
  const auto first = std::from_chars(name.data(), end, process);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') {
    return 0;
  }
  uint64_t number = 0;
  const auto second = std::from_chars(first.ptr + 1, end, number);
  const bool whole = second.ec == std::errc() && second.ptr == end;
  return whole && process > 0 ? process : 0;
}

// Removes the temporaries that processes left which were killed while they
// wrote this file. What fails here is no fault of the caller's.
void RemoveStaleTemporaries(const fs::path& target) {
  const fs::path folder =
      target.has_parent_path() ? target.parent_path() : fs::path(".");
  const std::string name = target.filename().string();
  std::error_code ignored;
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const pid_t process =
        ProcessOfTemporary(it->path().filename().string(), name);
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) {
      stale.push_back(it->path());
    }
  }
  for (const fs::path& path : stale) ::unlink(path.c_str());
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
    struct stat old;
    const bool exists = ::stat(target_.c_str(), &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) {
      ThrowIrregular("write", target_, old.st_mode);
    }
    Descriptor descriptor = Create();
    try {
      if (exists && ::fchmod(descriptor.get(), old.st_mode & 07777) != 0) {
        ThrowSystem("write", target_, errno);
      }
      for (std::span<const std::byte> part : file.parts) {
        WritePart(descriptor.get(), part);
      }
      if (::fsync(descriptor.get()) != 0) ThrowSystem("write", target_, errno);
      if (const int error = descriptor.Close()) {
        ThrowSystem("write", target_, error);
      }
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
    if (::rename(name_.c_str(), target_.c_str()) != 0) {
      ThrowSystem("write", target_, errno);
    }
    name_.clear();
  }

 private:
  Descriptor Create() {
    static std::atomic<uint64_t> counter{0};
    while (true) {
      name_ = target_;
      name_ += fmt::format("{}{}-{}", kTemporary, ::getpid(), counter++);
      Descriptor descriptor(
          ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (descriptor.get() >= 0) return descriptor;
      if (errno == EEXIST) continue;  // of a killed process with our id
      name_.clear();
      ThrowSystem("write", target_, errno);
    }
  }

  void WritePart(int fd, std::span<const std::byte> part) const {
    // Linux writes at most 2 GiB at a time.
    constexpr size_t kMost = 1 << 30;
    while (!part.empty()) {
      const ssize_t count =
          ::write(fd, part.data(), std::min(part.size(), kMost));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) ThrowSystem("write", target_, errno);
      part = part.subspan(static_cast<size_t>(count));
    }
  }

  void Remove() {
    if (!name_.empty()) ::unlink(name_.c_str());
    name_.clear();
  }

  fs::path target_;
  fs::path name_;
};

// Makes renames in the folder of `file` last. Not every file system can.
void SyncFolder(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const Descriptor descriptor(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) (void)::fsync(descriptor.get());
}

class PosixFileSystem final : public FileSystem {
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
    for (const TemporaryFile& file : complete) SyncFolder(file.target());
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
      Throw(ErrorCode::kIo, "cannot make the folder {}: {}", path.string(),
            error.message());
    }
  }
};

}  // namespace

std::shared_ptr<FileSystem> FileSystem::Default() {
  static const auto files = std::make_shared<PosixFileSystem>();
  return files;
}

}  // namespace strop
