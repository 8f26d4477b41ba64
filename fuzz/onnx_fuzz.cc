// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/onnx_io.h"
#include "graph/print.h"

// Any bytes give a model, which can be printed and written, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const strop::Model model =
        strop::ReadOnnx(std::as_bytes(std::span(data, size)));
    strop::Print(model.graph);
    strop::EncodeOnnx(model);
  } catch (const strop::Error&) {
  }
  return 0;
}
