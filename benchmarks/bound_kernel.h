// SPDX-License-Identifier: Apache-2.0
//
// A kernel bound to the tensors of an OpRun, to be run again and again: with
// scratch, and with its inputs and outputs in the layouts that it wants.
#pragma once

#include <vector>

#include "ops/op_runner.h"
#include "strop/execution_provider.h"

namespace strop {

class BoundKernel {
 public:
  // `run` is used as long as this lives.
  BoundKernel(OpRun& run, KernelChoice choice);
  BoundKernel(const BoundKernel&) = delete;

  // Inputs that the op writes into are not restored between two runs.
  void Run() { choice_.kernel->Run(context_); }

  // Floating-point operations of one run; 0 where the kernel states none.
  double flops() const { return choice_.flops; }
  // All elements of inputs and outputs, each once.
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<const Argument*> Bind(std::span<const Argument* const> plain,
                                    const std::vector<Layout>& layouts);

  KernelChoice choice_;
  OwnedTensor scratch_;
  // Blocked tensors; the pointers into the vector are kept.
  std::vector<OwnedTensor> blocked_memory_;
  std::vector<std::unique_ptr<Argument>> blocked_;
  std::vector<const Argument*> inputs_, outputs_;
  KernelContext context_;
  int64_t bytes_ = 0;
};

}  // namespace strop
