// SPDX-License-Identifier: Apache-2.0
//
// Runs one kernel of a provider on given tensors, as an executor would.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "graph/graph.h"
#include "strop/execution_provider.h"

namespace strop {

class KernelRunner {
 public:
  KernelRunner(std::string_view domain, std::string_view op) {
    def_.domain = domain;
    def_.name = op;
    node_.domain = domain;
    node_.op_type = op;
    node_.name = "test";
  }

  OpDef& def() { return def_; }

  KernelRunner& Set(std::string_view attribute, Attribute::Value value) {
    node_.SetAttribute(attribute, std::move(value));
    return *this;
  }
  // An input with the given value; `constant`: known when planning.
  KernelRunner& Input(const Tensor& tensor, bool constant = false,
                      Layout layout = Layout::kPlain) {
    Slot& slot = inputs_.emplace_back();
    slot.argument.tensor = tensor;
    slot.constant = constant;
    slot.layout = layout;
    return *this;
  }
  KernelRunner& List(std::vector<Tensor> tensors) {
    Slot& slot = inputs_.emplace_back();
    slot.list = std::move(tensors);
    slot.is_list = true;
    return *this;
  }
  KernelRunner& LeaveOut() {
    inputs_.emplace_back().left_out = true;
    return *this;
  }
  KernelRunner& Output(const Tensor& tensor) {
    Slot& slot = outputs_.emplace_back();
    slot.argument.tensor = tensor;
    slot.left_out = tensor.type() == DataType::kUndefined;
    return *this;
  }

  KernelChoice Choose(const ExecutionProvider& provider, int num_threads = 1) {
    std::vector<KernelInput> inputs;
    for (Slot& slot : inputs_) {
      KernelInput input;
      if (slot.is_list) {
        slot.infos.clear();
        for (const Tensor& tensor : slot.list) {
          slot.infos.push_back({tensor.type(), tensor.shape()});
        }
        input.is_list = true;
        input.list = slot.infos;
      } else if (!slot.left_out) {
        const Tensor& tensor = slot.argument.tensor;
        input.info = {tensor.type(), tensor.shape()};
        input.layout = slot.layout;
        if (slot.constant) input.constant = &tensor;
      }
      inputs.push_back(input);
    }
    std::vector<TensorInfo> outputs;
    for (const Slot& slot : outputs_) {
      outputs.push_back(
          {slot.argument.tensor.type(), slot.argument.tensor.shape()});
    }
    return provider.Choose({.node = OpNode(graph_, node_),
                            .op = def_,
                            .inputs = inputs,
                            .outputs = outputs,
                            .num_threads = num_threads});
  }

  // Chooses and runs; fails the test if the provider declines.
  void Run(int num_threads = 1,
           const ExecutionProvider& provider = *CpuExecutionProvider()) {
    KernelChoice choice = Choose(provider, num_threads);
    ASSERT_NE(choice.kernel, nullptr) << choice.reason;
    std::vector<std::byte> scratch(choice.scratch_bytes + 64, std::byte{0xff});
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    ThreadPool pool(num_threads, /*part_nanoseconds=*/0);
    std::vector<const Argument*> inputs;
    for (Slot& slot : inputs_) {
      if (slot.is_list) slot.argument.list = slot.list;
      inputs.push_back(slot.left_out ? nullptr : &slot.argument);
    }
    std::vector<const Argument*> outputs;
    for (const Slot& slot : outputs_) {
      outputs.push_back(slot.left_out ? nullptr : &slot.argument);
    }
    KernelContext context(OpNode(graph_, node_), inputs, outputs);
    context.set_scratch(scratch.data() + (64 - address % 64) % 64);
    context.set_threads(&pool, num_threads);
    choice.kernel->Run(context);
  }

 private:
  struct Slot {
    Argument argument;
    std::vector<Tensor> list;
    std::vector<TensorInfo> infos;
    bool is_list = false;
    bool left_out = false;
    bool constant = false;
    Layout layout = Layout::kPlain;
  };

  Graph graph_;
  Node node_;
  OpDef def_;
  std::vector<Slot> inputs_;
  std::vector<Slot> outputs_;
};

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class RandomValues {
 public:
  explicit RandomValues(uint32_t seed) : generator_(seed) {}

  std::vector<float> Floats(int64_t n) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = normal(generator_);
    return values;
  }
  uint32_t operator()() { return static_cast<uint32_t>(generator_()); }

 private:
  std::mt19937 generator_;
};

// `n` values that every test must overwrite.
inline std::vector<float> Nans(int64_t n) {
  return std::vector<float>(static_cast<size_t>(n), kNan);
}

}  // namespace strop
