// SPDX-License-Identifier: Apache-2.0
//
// Runs the strop program as a user does.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tools/support.h"

namespace strop {

struct ProgramResult {
  int exit_code = -1;
  std::string out, err;
};

// A running program, its output in files of `folder`.
class Program {
 public:
  Program(std::vector<std::string> arguments,
          const std::filesystem::path& folder)
      : out_(folder / "stdout"), err_(folder / "stderr") {
    arguments.insert(arguments.begin(), STROP_PROGRAM);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    Redirect(out_, STDOUT_FILENO);
    Redirect(err_, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Program() {
    if (!waited_) {
      Signal(SIGKILL);
      Wait();
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void Signal(int signal) { kill(pid_, signal); }

  ProgramResult Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    waited_ = true;
    return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .out = ReadText(out_),
            .err = ReadText(err_)};
  }

 private:
  static void Redirect(const std::filesystem::path& path, int descriptor) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, descriptor);
    close(file);
  }

  std::filesystem::path out_, err_;
  pid_t pid_ = -1;
  bool waited_ = false;
};

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline ProgramResult RunProgram(Arguments arguments) {
  TemporaryFolder folder;
  return Program(std::move(arguments), folder.path()).Wait();
}

inline void ExpectSuccess(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

// The objects of a JSON Lines file.
inline std::vector<nlohmann::json> ReadLines(
    const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(ReadText(path));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

// One number of each train step.
inline std::vector<float> Column(const std::vector<nlohmann::json>& lines,
                                 const std::string& key) {
  std::vector<float> values;
  for (const nlohmann::json& line : lines) {
    if (line["event"] == "batch") values.push_back(line[key].get<float>());
  }
  return values;
}

}  // namespace strop
