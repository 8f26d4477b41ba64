// SPDX-License-Identifier: Apache-2.0
//
//   prepare_case CASE FOLDER
//
// writes the artifacts of a golden case's bare model to FOLDER/CASE, for tests
// in Python that let ONNX Runtime train them.
#include <cstdio>
#include <exception>

#include "artifacts/golden_recipe.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const strop::Environment environment;
    strop::golden::PrepareCase(argv[1], argv[2], environment);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
