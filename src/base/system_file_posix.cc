// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <limits>

#include "base/system_file.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

// Linux moves at most 2 GiB at a time, macOS refuses more.
constexpr size_t kMostBytes = 1 << 30;

void Set(std::error_code& error, bool success) {
  error = success ? std::error_code()
                  : std::error_code(errno, std::system_category());
}

int Descriptor(intptr_t handle) { return static_cast<int>(handle); }

// Calls `move`, a read() or write(), until no signal interrupts it.
template <class F>
size_t Move(F move, std::error_code& error) {
  while (true) {
    const ssize_t count = move();
    if (count < 0 && errno == EINTR) continue;
    Set(error, count >= 0);
    return count < 0 ? 0 : static_cast<size_t>(count);
  }
}

}  // namespace

SystemFile SystemFile::Open(const fs::path& path, std::error_code& error) {
  // Without O_NONBLOCK a named pipe would wait for its writer.
  SystemFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  Set(error,
      file.handle_ != kNone && ::fstat(Descriptor(file.handle_), &info) == 0);
  file.kind_ = S_ISREG(info.st_mode)   ? Kind::kRegular
               : S_ISDIR(info.st_mode) ? Kind::kFolder
                                       : Kind::kOther;
  file.size_ = static_cast<size_t>(info.st_size);
  return file;
}

SystemFile SystemFile::Create(const fs::path& path, std::error_code& error) {
  SystemFile file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  Set(error, file.handle_ != kNone);
  return file;
}

SystemFile::~SystemFile() {
  if (handle_ != kNone) ::close(Descriptor(handle_));
}

FileContents SystemFile::Map() const {
  void* const memory =
      ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, Descriptor(handle_), 0);
  if (memory == MAP_FAILED) return {};
  return {.bytes = {static_cast<const std::byte*>(memory), size_},
          .owner = std::shared_ptr<const void>(memory, [size = size_](auto* p) {
            ::munmap(const_cast<void*>(p), size);
          })};
}

size_t SystemFile::Read(std::span<std::byte> to, std::error_code& error) {
  const size_t most = std::min(to.size(), kMostBytes);
  return Move([&] { return ::read(Descriptor(handle_), to.data(), most); },
              error);
}

size_t SystemFile::Write(std::span<const std::byte> from,
                         std::error_code& error) {
  const size_t most = std::min(from.size(), kMostBytes);
  return Move([&] { return ::write(Descriptor(handle_), from.data(), most); },
              error);
}

void SystemFile::TakePermissions(fs::perms permissions,
                                 std::error_code& error) {
  Set(error, ::fchmod(Descriptor(handle_),
                      static_cast<mode_t>(permissions & fs::perms::mask)) == 0);
}

void SystemFile::Sync(std::error_code& error) {
#if defined(F_FULLFSYNC)
  // On macOS, fsync() leaves the bytes in the drive's cache. Not every file
  // system there knows better.
  if (::fcntl(Descriptor(handle_), F_FULLFSYNC) == 0) {
    error.clear();
    return;
  }
#endif
  Set(error, ::fsync(Descriptor(handle_)) == 0);
}

void SystemFile::Close(std::error_code& error) {
  Set(error, ::close(Descriptor(std::exchange(handle_, kNone))) == 0);
}

void RenameOver(const fs::path& from, const fs::path& to,
                std::error_code& error) {
  Set(error, ::rename(from.c_str(), to.c_str()) == 0);
}

void SyncFolder(const fs::path& folder) {
  const int descriptor =
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)::fsync(descriptor);
  ::close(descriptor);
}

uint64_t ThisProcess() { return static_cast<uint64_t>(::getpid()); }

bool MayRun(uint64_t process) {
  if (process > uint64_t{std::numeric_limits<pid_t>::max()}) return true;
  return ::kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH;
}

}  // namespace strop
