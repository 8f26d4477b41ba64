// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#if defined(_WIN32)

#include <string>
#include <vector>

#include "base/path_text.h"

// The plain main gets its arguments in the system's code page.
int wmain(int argc, wchar_t** argv) {
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i) {
    arguments.push_back(strop::PathText(argv[i]));
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return strop::RunProgram(argc, pointers.data());
}

#else

int main(int argc, char** argv) { return strop::RunProgram(argc, argv); }

#endif
