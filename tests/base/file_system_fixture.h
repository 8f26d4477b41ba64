// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_text.h"
#include "strop/platform.h"

namespace strop {

inline std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class FileSystemTest : public testing::Test {
 protected:
  FileSystemTest() {
    std::random_device random;
    do {
      folder_ = std::filesystem::temp_directory_path() /
                ("strop-" + std::to_string(random()));
    } while (!std::filesystem::create_directory(folder_));
  }
  ~FileSystemTest() override { std::filesystem::remove_all(folder_); }

  std::string Read(const std::filesystem::path& path) {
    const FileContents file = files_.Open(path);
    return {reinterpret_cast<const char*>(file.bytes.data()),
            file.bytes.size()};
  }

  void Write(const std::filesystem::path& path, std::string_view text) {
    const FileToWrite file = {path, {Bytes(text)}};
    files_.Write({&file, 1});
  }

  template <class F>
  void ExpectError(ErrorCode code, const std::filesystem::path& path, F f) {
    try {
      f();
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(PathText(path)),
                std::string::npos)
          << error.what();
    }
  }

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  FileSystem& files_ = *FileSystem::Default();
  std::filesystem::path folder_;
};

}  // namespace strop
