// SPDX-License-Identifier: Apache-2.0
//
// What only a POSIX system has: forks, permissions, links, pipes.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file_system_fixture.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

TEST_F(FileSystemTest, KeepsTheBytesOfNames) {
  const std::string name = "mod\xe8le";  // not in UTF-8
  Write(folder_ / PathFromText(name), "x");
  EXPECT_EQ(Names(), std::vector<std::string>{name});
  EXPECT_EQ(PathText(folder_ / name), folder_.string() + "/" + name);
}

TEST_F(FileSystemTest, LeavesNoTemporaryWhenTheDiskIsFull) {
  // A limit on file size stands for a full disk.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {10, 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string text(1000, 'x');
    try {
      Write(folder_ / "f", text);
      ::_exit(1);
    } catch (const Error& error) {
      ::_exit(error.code() == ErrorCode::kIo ? 0 : 2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Names().empty());
}

TEST_F(FileSystemTest, RemovesWhatKilledWritersLeft) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  const std::string dead = std::to_string(gone);
  const std::string alive = std::to_string(::getppid());
  // Not those of a process that lives, of another file, or of other names.
  const std::vector<std::string> kept = {
      "f.tmp-" + alive + "-0", "f.tmp-" + dead, "f.tmp-" + dead + "-1x",
      "f2.tmp-" + dead + "-0", "xf.tmp-" + dead + "-0"};
  for (const std::string& name : kept) Write(folder_ / name, "kept");
  Write(folder_ / ("f.tmp-" + dead + "-0"), "stale");
  Write(folder_ / ("f.tmp-" + dead + "-17"), "stale");
  Write(folder_ / "f", "new");
  std::vector<std::string> expected = kept;
  expected.push_back("f");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(Names(), expected);
  EXPECT_EQ(Read(folder_ / "f"), "new");
}

TEST_F(FileSystemTest, KeepsThePermissionsOfTheOldFile) {
  Write(folder_ / "f", "old");
  ASSERT_EQ(::chmod((folder_ / "f").c_str(), 0604), 0);
  Write(folder_ / "f", "new");
  struct stat info;
  ASSERT_EQ(::stat((folder_ / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0604u);
}

TEST_F(FileSystemTest, WritesThroughALink) {
  Write(folder_ / "target", "old");
  fs::create_symlink("target", folder_ / "link");
  Write(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Read(folder_ / "target"), "new");
}

TEST_F(FileSystemTest, RefusesPipesAndDevices) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ExpectError(ErrorCode::kIo, pipe, [&] { files_.Open(pipe); });
  ExpectError(ErrorCode::kIo, pipe, [&] { Write(pipe, "x"); });
  ExpectError(ErrorCode::kIo, "/dev/zero", [&] { files_.Open("/dev/zero"); });
}

}  // namespace
}  // namespace strop
