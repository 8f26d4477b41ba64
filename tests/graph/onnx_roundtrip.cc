// SPDX-License-Identifier: Apache-2.0
//
// onnx_roundtrip [--normalize] [--inline] [--newest N]: for each line
// "IN OUT" of standard input, reads the model IN and writes it to OUT; prints
// "ok" or the error. With --newest the newest spelling is written as opset N
// instead of being restored.
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "graph/onnx_io.h"

namespace {

// The graph and its sub-graphs are of opset `newest`.
void SetOpset(strop::Graph& graph, int64_t newest) {
  graph.opset_imports[std::string(strop::kOnnx)] = newest;
  graph.file_spelling = true;
}

}  // namespace

int main(int argc, char** argv) {
  strop::OnnxReadOptions options;
  options.normalize = options.inline_functions = false;
  int64_t newest = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--normalize") options.normalize = true;
    if (argument == "--inline") options.inline_functions = true;
    if (argument == "--newest" && i + 1 < argc) newest = std::stoll(argv[++i]);
  }
  const std::shared_ptr<strop::FileSystem> files = strop::FileSystem::Default();
  std::string in, out;
  while (std::cin >> in >> out) {
    try {
      strop::Model model = strop::ReadOnnx(in, *files, options);
      if (newest > 0) {
        SetOpset(model.graph, newest);
        model.ir_version = std::max<int64_t>(model.ir_version, 4);
      }
      strop::WriteOnnx(model, out, *files);
      std::cout << "ok\n";
    } catch (const std::exception& e) {
      std::cout << e.what() << '\n';
    }
  }
  return 0;
}
