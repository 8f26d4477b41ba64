// SPDX-License-Identifier: Apache-2.0
//
// What only Windows has: files that stay while somebody has them open.
#include <windows.h>

#include "base/file_system_fixture.h"

namespace strop {
namespace {

// The process that has ended, and its name in the names of temporaries.
std::string EndedProcess() {
  STARTUPINFOW startup = {};
  startup.cb = sizeof(startup);
  PROCESS_INFORMATION process = {};
  wchar_t command[] = L"cmd.exe /c exit";
  EXPECT_TRUE(::CreateProcessW(nullptr, command, nullptr, nullptr, FALSE, 0,
                               nullptr, nullptr, &startup, &process));
  ::WaitForSingleObject(process.hProcess, INFINITE);
  ::CloseHandle(process.hProcess);
  ::CloseHandle(process.hThread);
  return std::to_string(process.dwProcessId);
}

TEST_F(FileSystemTest, RemovesWhatKilledWritersLeft) {
  const std::string dead = EndedProcess();
  const std::string alive = std::to_string(::GetCurrentProcessId());
  Write(folder_ / ("f.tmp-" + alive + "-0"), "kept");
  Write(folder_ / ("f.tmp-" + dead + "-0x"), "kept");
  Write(folder_ / ("f.tmp-" + dead + "-0"), "stale");
  Write(folder_ / "f", "new");
  std::vector<std::string> expected = {"f", "f.tmp-" + alive + "-0",
                                       "f.tmp-" + dead + "-0x"};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(Names(), expected);
}

TEST_F(FileSystemTest, LeavesAReadOnlyFileAsItIs) {
  Write(folder_ / "a", "old");
  Write(folder_ / "f", "old");
  const std::wstring path = (folder_ / "f").native();
  ASSERT_TRUE(::SetFileAttributesW(path.c_str(), FILE_ATTRIBUTE_READONLY));
  const std::vector<FileToWrite> both = {{folder_ / "a", {Bytes("new")}},
                                         {folder_ / "f", {Bytes("new")}}};
  ExpectError(ErrorCode::kIo, folder_ / "f", [&] { files_.Write(both); });
  EXPECT_EQ(Read(folder_ / "a"), "old");
  EXPECT_EQ(Read(folder_ / "f"), "old");
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "f"}));
  ::SetFileAttributesW(path.c_str(), FILE_ATTRIBUTE_NORMAL);
}

TEST_F(FileSystemTest, LeavesAFileThatSomebodyHoldsAsItIs) {
  Write(folder_ / "f", "old");
  const HANDLE holder =
      ::CreateFileW((folder_ / "f").c_str(), GENERIC_READ, FILE_SHARE_READ,
                    nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  ASSERT_NE(holder, INVALID_HANDLE_VALUE);
  ExpectError(ErrorCode::kIo, folder_ / "f",
              [&] { Write(folder_ / "f", "new"); });
  EXPECT_EQ(Names(), std::vector<std::string>{"f"});
  ::CloseHandle(holder);
  EXPECT_EQ(Read(folder_ / "f"), "old");
}

TEST_F(FileSystemTest, RefusesDevicesAndPipes) {
  ExpectError(ErrorCode::kIo, "NUL", [&] { files_.Open("NUL"); });
  const std::filesystem::path pipe = L"\\\\.\\pipe\\strop-file-system-test";
  const HANDLE server = ::CreateNamedPipeW(pipe.c_str(), PIPE_ACCESS_DUPLEX,
                                           PIPE_TYPE_BYTE, 1, 0, 0, 0, nullptr);
  ASSERT_NE(server, INVALID_HANDLE_VALUE);
  ExpectError(ErrorCode::kIo, pipe, [&] { files_.Open(pipe); });
  ::CloseHandle(server);
}

}  // namespace
}  // namespace strop
