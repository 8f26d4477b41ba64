// SPDX-License-Identifier: Apache-2.0
#include <windows.h>

#include <algorithm>

#include "base/system_file.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 1 << 30;

void Set(std::error_code& error, bool success) {
  error = success ? std::error_code()
                  : std::error_code(static_cast<int>(::GetLastError()),
                                    std::system_category());
}

HANDLE ToHandle(intptr_t handle) { return reinterpret_cast<HANDLE>(handle); }

// Somebody has the file open: a reader of ours, a virus scanner, an indexer.
bool IsInUse(const std::error_code& error) {
  return error.value() == ERROR_ACCESS_DENIED ||
         error.value() == ERROR_SHARING_VIOLATION ||
         error.value() == ERROR_LOCK_VIOLATION;
}

}  // namespace

SystemFile SystemFile::Open(const fs::path& path, std::error_code& error) {
  // Shared in full: a reader stands in nobody's way. Backup semantics open
  // folders, so that they can be told from files without permission.
  SystemFile file(reinterpret_cast<Handle>(::CreateFileW(
      path.c_str(), GENERIC_READ,
      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_SEQUENTIAL_SCAN,
      nullptr)));
  Set(error, file.handle_ != kNone);
  if (error) return file;
  if (::GetFileType(ToHandle(file.handle_)) != FILE_TYPE_DISK) {
    file.kind_ = Kind::kOther;
    return file;
  }
  BY_HANDLE_FILE_INFORMATION info = {};
  Set(error, ::GetFileInformationByHandle(ToHandle(file.handle_), &info));
  if (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) {
    file.kind_ = Kind::kFolder;
  }
  file.size_ = static_cast<size_t>((uint64_t{info.nFileSizeHigh} << 32) |
                                   info.nFileSizeLow);
  return file;
}

SystemFile SystemFile::Create(const fs::path& path, std::error_code& error) {
  SystemFile file(reinterpret_cast<Handle>(
      ::CreateFileW(path.c_str(), GENERIC_WRITE, 0, nullptr, CREATE_NEW,
                    FILE_ATTRIBUTE_NORMAL, nullptr)));
  Set(error, file.handle_ != kNone);
  return file;
}

SystemFile::~SystemFile() {
  if (handle_ != kNone) ::CloseHandle(ToHandle(handle_));
}

// A mapped file can neither be replaced nor deleted, so a model or a
// checkpoint in use could not be saved under its own name.
FileContents SystemFile::Map() const { return {}; }

size_t SystemFile::Read(std::span<std::byte> to, std::error_code& error) {
  DWORD count = 0;
  Set(error, ::ReadFile(ToHandle(handle_), to.data(),
                        static_cast<DWORD>(std::min(to.size(), kMostBytes)),
                        &count, nullptr));
  return count;
}

size_t SystemFile::Write(std::span<const std::byte> from,
                         std::error_code& error) {
  DWORD count = 0;
  Set(error, ::WriteFile(ToHandle(handle_), from.data(),
                         static_cast<DWORD>(std::min(from.size(), kMostBytes)),
                         &count, nullptr));
  return count;
}

// Who may do what, a new file has from its folder. A file that is marked as
// read-only is not replaced; said here, before any other is.
void SystemFile::TakePermissions(fs::perms permissions,
                                 std::error_code& error) {
  ::SetLastError(ERROR_ACCESS_DENIED);
  Set(error, (permissions & fs::perms::owner_write) != fs::perms::none);
}

void SystemFile::Sync(std::error_code& error) {
  Set(error, ::FlushFileBuffers(ToHandle(handle_)));
}

void SystemFile::Close(std::error_code& error) {
  Set(error, ::CloseHandle(ToHandle(std::exchange(handle_, kNone))));
}

// Waits a second, all in all, for others to let go of the file.
void RenameOver(const fs::path& from, const fs::path& to,
                std::error_code& error) {
  for (DWORD pause = 1; pause < 1024; pause *= 2) {
    Set(error,
        ::MoveFileExW(from.c_str(), to.c_str(),
                      MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH));
    if (!IsInUse(error)) return;
    ::Sleep(pause);
  }
}

// MOVEFILE_WRITE_THROUGH has done it.
void SyncFolder(const fs::path&) {}

uint64_t ThisProcess() { return ::GetCurrentProcessId(); }

bool MayRun(uint64_t process) {
  if (process > MAXDWORD) return true;
  const HANDLE handle =
      ::OpenProcess(SYNCHRONIZE, FALSE, static_cast<DWORD>(process));
  if (!handle) return ::GetLastError() != ERROR_INVALID_PARAMETER;
  // Somebody may hold on to a process that has ended.
  const bool ended = ::WaitForSingleObject(handle, 0) == WAIT_OBJECT_0;
  ::CloseHandle(handle);
  return !ended;
}

}  // namespace strop
