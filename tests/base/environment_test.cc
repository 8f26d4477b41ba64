// SPDX-License-Identifier: Apache-2.0
#include "strop/environment.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/memory_file_system.h"
#include "base/thread_pool.h"

namespace strop {
namespace {

TEST(Environment, SendsEveryLevelToTheGivenSink) {
  std::vector<std::string> lines;
  EnvironmentOptions options;
  options.log = [&](LogLevel level, std::string_view text) {
    lines.push_back(std::to_string(static_cast<int>(level)) +
                    std::string(text));
  };
  const Environment environment(options);
  environment.Log(LogLevel::kInfo, "a");
  environment.Log(LogLevel::kWarning, "b");
  environment.log()(LogLevel::kError, "c");
  EXPECT_EQ(lines, (std::vector<std::string>{"0a", "1b", "2c"}));
}

TEST(Environment, PrintsWarningsAndErrorsWithoutASink) {
  const Environment environment;
  testing::internal::CaptureStderr();
  environment.Log(LogLevel::kInfo, "quiet");
  environment.Log(LogLevel::kWarning, "odd");
  environment.Log(LogLevel::kError, "bad");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "strop: warning: odd\nstrop: error: bad\n");
}

TEST(Environment, HasTheThreadsAndFilesItWasGiven) {
  const auto files = std::make_shared<MemoryFileSystem>();
  const Environment environment({.num_threads = 3, .log = {}, .files = files});
  EXPECT_EQ(environment.thread_pool().num_threads(), 3);
  EXPECT_EQ(&environment.files(), files.get());
}

TEST(Environment, UsesTheSystemsFilesByDefault) {
  EXPECT_EQ(&Environment().files(), FileSystem::Default().get());
}

TEST(Environment, RefusesANegativeNumberOfThreads) {
  try {
    Environment environment({.num_threads = -2, .log = {}, .files = {}});
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace strop
