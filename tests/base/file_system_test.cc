// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strop/platform.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class FileSystemTest : public testing::Test {
 protected:
  FileSystemTest() {
    std::string name = (fs::temp_directory_path() / "strop-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FileSystemTest() override { fs::remove_all(folder_); }

  std::string Read(const fs::path& path) {
    const FileContents file = files_.Open(path);
    return {reinterpret_cast<const char*>(file.bytes.data()),
            file.bytes.size()};
  }

  void Write(const fs::path& path, std::string_view text) {
    const FileToWrite file = {path, {Bytes(text)}};
    files_.Write({&file, 1});
  }

  template <class F>
  void ExpectError(ErrorCode code, const fs::path& path, F f) {
    try {
      f();
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(path.string()),
                std::string::npos)
          << error.what();
    }
  }

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  FileSystem& files_ = *FileSystem::Default();
  fs::path folder_;
};

TEST_F(FileSystemTest, ReadsWhatItWrote) {
  const FileToWrite file = {folder_ / "f",
                            {Bytes("one, "), Bytes(""), Bytes("two")}};
  files_.Write({&file, 1});
  EXPECT_EQ(Read(folder_ / "f"), "one, two");
  EXPECT_EQ(Names(), std::vector<std::string>{"f"});
}

TEST_F(FileSystemTest, WritesAndReadsAnEmptyFile) {
  const FileToWrite file = {folder_ / "f", {}};
  files_.Write({&file, 1});
  EXPECT_TRUE(files_.Exists(folder_ / "f"));
  EXPECT_EQ(Read(folder_ / "f"), "");
}

TEST_F(FileSystemTest, AlignsWhatItOpens) {
  Write(folder_ / "f", "text");
  const FileContents file = files_.Open(folder_ / "f");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.bytes.data()) % 64, 0u);
}

TEST_F(FileSystemTest, KeepsTheOldBytesForReadersOfAReplacedFile) {
  Write(folder_ / "f", "old");
  const FileContents old = files_.Open(folder_ / "f");
  Write(folder_ / "f", "new");
  EXPECT_EQ(std::memcmp(old.bytes.data(), "old", 3), 0);
  EXPECT_EQ(Read(folder_ / "f"), "new");
}

TEST_F(FileSystemTest, WritesSeveralFilesOrNone) {
  Write(folder_ / "a", "old a");
  Write(folder_ / "b", "old b");
  std::vector<FileToWrite> both = {{folder_ / "a", {Bytes("new a")}},
                                   {folder_ / "b", {Bytes("new b")}}};
  files_.Write(both);
  EXPECT_EQ(Read(folder_ / "a"), "new a");
  EXPECT_EQ(Read(folder_ / "b"), "new b");

  // The third lies in a folder that does not exist.
  both[0].parts = {Bytes("newer a")};
  both.push_back({folder_ / "no" / "c", {Bytes("c")}});
  ExpectError(ErrorCode::kNoSuchFile, folder_ / "no" / "c",
              [&] { files_.Write(both); });
  EXPECT_EQ(Read(folder_ / "a"), "new a");
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "b"}));
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

TEST_F(FileSystemTest, NamesAMissingFile) {
  ExpectError(ErrorCode::kNoSuchFile, folder_ / "none",
              [&] { files_.Open(folder_ / "none"); });
  Write(folder_ / "f", "x");
  ExpectError(ErrorCode::kNoSuchFile, folder_ / "f" / "g",
              [&] { files_.Open(folder_ / "f" / "g"); });
  EXPECT_FALSE(files_.Exists(folder_ / "none"));
}

TEST_F(FileSystemTest, RefusesAFolder) {
  ExpectError(ErrorCode::kIo, folder_, [&] { files_.Open(folder_); });
  ExpectError(ErrorCode::kIo, folder_, [&] { Write(folder_, "x"); });
  EXPECT_TRUE(files_.IsDirectory(folder_));
  EXPECT_TRUE(Names().empty());
}

TEST_F(FileSystemTest, RefusesPipesAndDevices) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ExpectError(ErrorCode::kIo, pipe, [&] { files_.Open(pipe); });
  ExpectError(ErrorCode::kIo, pipe, [&] { Write(pipe, "x"); });
  ExpectError(ErrorCode::kIo, "/dev/zero", [&] { files_.Open("/dev/zero"); });
}

TEST_F(FileSystemTest, MakesFoldersWithTheirParents) {
  files_.CreateDirectories(folder_ / "a" / "b");
  files_.CreateDirectories(folder_ / "a" / "b");
  EXPECT_TRUE(files_.IsDirectory(folder_ / "a" / "b"));
  Write(folder_ / "f", "x");
  EXPECT_FALSE(files_.IsDirectory(folder_ / "f"));
  ExpectError(ErrorCode::kIo, folder_ / "f",
              [&] { files_.CreateDirectories(folder_ / "f"); });
  ExpectError(ErrorCode::kIo, folder_ / "f" / "g",
              [&] { files_.CreateDirectories(folder_ / "f" / "g"); });
}

}  // namespace
}  // namespace strop
