// SPDX-License-Identifier: Apache-2.0
//
// onnx_roundtrip [--normalize] [--inline]: for each line "IN OUT" of standard
// input, reads the model IN and writes it to OUT; prints "ok" or the error.
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "graph/onnx_io.h"

int main(int argc, char** argv) {
  strop::OnnxReadOptions options;
  options.normalize = options.inline_functions = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--normalize") options.normalize = true;
    if (argument == "--inline") options.inline_functions = true;
  }
  const std::shared_ptr<strop::FileSystem> files = strop::FileSystem::Default();
  std::string in, out;
  while (std::cin >> in >> out) {
    try {
      strop::WriteOnnx(strop::ReadOnnx(in, *files, options), out, *files);
      std::cout << "ok\n";
    } catch (const std::exception& e) {
      std::cout << e.what() << '\n';
    }
  }
  return 0;
}
