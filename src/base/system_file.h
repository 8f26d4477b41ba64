// SPDX-License-Identifier: Apache-2.0
//
// The part of files that differs between systems; file_system.cc has the
// rest. The build takes one of system_file_posix.cc and
// system_file_windows.cc. What fails leaves its reason in `error`, which is
// of the system's category; what succeeds clears it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "strop/platform.h"

namespace strop {

// An open file, which closes itself.
class SystemFile {
 public:
  enum class Kind { kRegular, kFolder, kOther };

  // For reading. Never waits, also not for the writer of a named pipe.
  static SystemFile Open(const std::filesystem::path& path,
                         std::error_code& error);
  // A new file for writing; std::errc::file_exists if there is one.
  static SystemFile Create(const std::filesystem::path& path,
                           std::error_code& error);

  SystemFile(SystemFile&& other) noexcept
      : handle_(std::exchange(other.handle_, kNone)),
        kind_(other.kind_),
        size_(other.size_) {}
  SystemFile& operator=(SystemFile&&) = delete;
  ~SystemFile();

  // As they were when the file was opened.
  Kind kind() const { return kind_; }
  size_t size() const { return size_; }

  // The whole file, not empty, without a copy. Has no owner where the system
  // has no such thing, or one that keeps the file from being replaced.
  FileContents Map() const;

  // As many bytes as the system takes at once; reading, 0 at the end.
  size_t Read(std::span<std::byte> to, std::error_code& error);
  size_t Write(std::span<const std::byte> from, std::error_code& error);

  // Prepares this file to replace one of these permissions.
  void TakePermissions(std::filesystem::perms permissions,
                       std::error_code& error);
  // Waits until the bytes are on the disk.
  void Sync(std::error_code& error);
  // Some systems report a failed write only here.
  void Close(std::error_code& error);

 private:
  // Of POSIX or, as a number, of Windows: both have -1 for none.
  using Handle = intptr_t;
  static constexpr Handle kNone = -1;

  explicit SystemFile(Handle handle) : handle_(handle) {}

  Handle handle_;
  Kind kind_ = Kind::kRegular;
  size_t size_ = 0;
};

// Renames a file; one that has the new name is replaced without a moment in
// which there is neither.
void RenameOver(const std::filesystem::path& from,
                const std::filesystem::path& to, std::error_code& error);

// Makes renames in the folder last, where the system can.
void SyncFolder(const std::filesystem::path& folder);

uint64_t ThisProcess();
// False only if the system is sure that no such process runs.
bool MayRun(uint64_t process);

}  // namespace strop
