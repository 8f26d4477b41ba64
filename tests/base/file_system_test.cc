// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/file_system_fixture.h"

namespace strop {
namespace {

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

TEST_F(FileSystemTest, TakesNamesInAnyScript) {
  const std::string name = "mod\u00e8le \u6a21\u578b \U0001f600";
  const std::filesystem::path path = folder_ / PathFromText(name);
  EXPECT_EQ(PathText(path.filename()), name);
  Write(path, "x");
  EXPECT_EQ(Read(path), "x");
  files_.CreateDirectories(folder_ / PathFromText(name + "s"));
  ExpectError(ErrorCode::kIo, path,
              [&] { files_.CreateDirectories(path / "sub"); });
  ExpectError(ErrorCode::kNoSuchFile, folder_ / PathFromText(name + "2"),
              [&] { files_.Open(folder_ / PathFromText(name + "2")); });
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
