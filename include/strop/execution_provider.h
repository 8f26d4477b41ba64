// SPDX-License-Identifier: Apache-2.0
//
// Execution providers: where kernels come from.
//
// When a plan is made for concrete input shapes, each provider is asked in
// turn, best first, for a kernel for each node. It answers with a kernel
// that is ready to run for exactly these shapes, or says in a sentence why it
// declines ("strop inspect --plan" prints the sentence). The reference
// kernels of the OpDefs serve what nobody takes.
//
// src/providers/stub is a whole provider in one screen, made to be copied.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strop/op.h"

namespace strop {

// How the elements of a tensor lie in memory. The blocked layouts hold
// (N, C, spatial...) as (N, ceil(C / b), spatial..., b); channels beyond C
// are zero. A Tensor keeps its logical shape in every layout.
enum class Layout : uint8_t { kPlain, kBlocked8, kBlocked16 };

STROP_EXPORT std::string_view LayoutName(Layout layout);
// Channels in a block: 8 or 16; 1 for plain.
STROP_EXPORT int64_t BlockSize(Layout layout);
// Elements in memory, padding included. Blocked layouts need rank >= 2.
STROP_EXPORT int64_t StoredElementCount(const Shape& shape, Layout layout);

struct KernelInput {
  TensorInfo info = {};            // type kUndefined: left out
  Layout layout = Layout::kPlain;  // as its producer left it
  bool is_list = false;
  std::span<const TensorInfo> list = {};  // for lists
  // The value, where it is the same in every step (an initializer or a
  // folded shape); null otherwise.
  const Tensor* constant = nullptr;
};

struct KernelRequest {
  OpNode node;
  const OpDef& op;
  std::span<const KernelInput> inputs;
  std::span<const TensorInfo> outputs;  // type kUndefined: left out
  int num_threads = 1;

  bool has_input(size_t i) const {
    return i < inputs.size() &&
           (inputs[i].is_list || inputs[i].info.type != DataType::kUndefined);
  }
  bool has_output(size_t i) const {
    return i < outputs.size() && outputs[i].type != DataType::kUndefined;
  }
};

// A kernel made for one node and one tuple of shapes. Run may be called
// again and again, from one thread at a time; it allocates nothing.
class STROP_EXPORT Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Run(const KernelContext& context) = 0;
};

struct KernelChoice {
  std::unique_ptr<Kernel> kernel;  // null: declined
  std::string reason;              // why it was declined
  std::string name;                // "gemm", "conv.onednn", ... for people

  // The layouts that the kernel reads and writes; an empty list means plain
  // for all. The plan inserts a Reorder where an input lies otherwise.
  std::vector<Layout> input_layouts;
  std::vector<Layout> output_layouts;
  size_t scratch_bytes = 0;
  double flops = 0;  // floating-point operations of one run; 0: not stated

  static KernelChoice Decline(std::string reason) {
    KernelChoice choice;
    choice.reason = std::move(reason);
    return choice;
  }
};

class STROP_EXPORT ExecutionProvider {
 public:
  virtual ~ExecutionProvider() = default;

  virtual std::string_view name() const = 0;

  // A kernel for the node, or the reason why there is none. May be called
  // from any thread.
  virtual KernelChoice Choose(const KernelRequest& request) const = 0;
};

// Strop's kernels for the CPU (SIMD, GEMM, oneDNN where built in).
STROP_EXPORT std::shared_ptr<ExecutionProvider> CpuExecutionProvider();

}  // namespace strop
