// SPDX-License-Identifier: Apache-2.0
//
// Small helpers over oneDNN.
//
// Threads: Debian's oneDNN runs its loops on libgomp, whose regions must not
// start inside ours. So a primitive is created and run with one OpenMP thread
// set on the thread that calls (SingleThread); the batch is cut into slices,
// and each of our threads runs the primitive of a slice.
//
// Memory: primitives take their scratchpad from us (MakeAttributes), memory
// objects are made with the primitive and only get another address.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/throw.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "strop/execution_provider.h"

namespace strop::onednn {

// One OpenMP thread for the calling thread while this lives.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int previous_;
};

const dnnl::engine& CpuEngine();

// The block that suits the vectors of this machine.
Layout PreferredBlocks();

// The tag of (batch, channels, spatial...) for 1 to 3 spatial axes.
dnnl::memory::format_tag ActivationTag(size_t spatial_rank, Layout layout);
// The tag of a row-major tensor.
dnnl::memory::format_tag PlainTag(size_t rank);

// With the scratchpad in our hands.
dnnl::primitive_attr MakeAttributes();

// Whether oneDNN serves the primitive with generated code; its plain C++
// loops are thousands of times slower.
template <class PrimitiveDesc>
bool IsFast(const PrimitiveDesc& primitive) {
  const std::string_view name = primitive.impl_info_str();
  return name.starts_with("jit") || name.starts_with("brg");
}

// A primitive with its arguments bound, to be run again and again.
class BoundPrimitive {
 public:
  // Without a primitive.
  BoundPrimitive() = default;
  explicit BoundPrimitive(dnnl::primitive primitive)
      : primitive_(std::move(primitive)), stream_(CpuEngine()) {}

  void Bind(int argument, const dnnl::memory::desc& desc);
  void SetData(int argument, const void* data);
  // On the calling thread, which must be a SingleThread.
  void Run();

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
  // The same for the C interface: dnnl.hpp would allocate this in each run.
  std::vector<dnnl_exec_arg_t> argument_list_;
};

// Runs body(); an error of oneDNN comes out as ours.
template <class F>
void Guarded(F&& body) {
  try {
    body();
  } catch (const dnnl::error& error) {
    Throw(ErrorCode::kInternal, "oneDNN failed: {}", error.what());
  }
}

}  // namespace strop::onednn
