// SPDX-License-Identifier: Apache-2.0
//
// Runs a kernel that may read and write blocked layouts, as a plan would:
// inputs are brought into the layouts that it asks for, outputs and scratch
// are full of NaN before, and come back in plain layout. It runs twice; the
// second time must give the same bits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "strop/execution_provider.h"

namespace strop {

struct LayoutInput {
  OwnedTensor tensor;              // in plain layout
  Layout layout = Layout::kPlain;  // as its producer left it
  bool left_out = false;
};

struct LayoutOutput {
  DataType type = DataType::kFloat32;  // kUndefined: left out
  Shape shape;
  // The input whose memory it is; -1: its own.
  int alias = -1;
};

struct LayoutRun {
  bool accepted = false;
  std::string reason;
  std::vector<Layout> layouts;       // of the outputs
  std::vector<OwnedTensor> outputs;  // in plain layout
  template <class T = float>
  std::span<T> out(size_t i) const {
    return outputs[i].values<T>();
  }
};

class LayoutRunner {
 public:
  LayoutRunner(std::string_view domain, std::string_view op);

  LayoutRunner& Set(std::string_view attribute, Attribute::Value value);
  LayoutRunner& Input(const Tensor& plain, Layout layout = Layout::kPlain);
  LayoutRunner& Floats(const Shape& shape, std::vector<float> values,
                       Layout layout = Layout::kPlain);
  LayoutRunner& LeaveOut();
  LayoutRunner& Output(const Shape& shape, DataType type = DataType::kFloat32,
                       int alias = -1);
  LayoutRunner& NoOutput() { return Output({}, DataType::kUndefined); }

  LayoutRun Run(KernelChoice (*choose)(const KernelRequest&), int num_threads);

 private:
  Graph graph_;
  Node node_;
  OpDef def_;
  std::vector<LayoutInput> inputs_;
  std::vector<LayoutOutput> outputs_;
};

// The tensor in another layout, element by element; the inverse also checks
// that padding is zero.
OwnedTensor ToLayout(const Tensor& plain, Layout layout);
OwnedTensor FromLayout(const Tensor& stored, const Shape& shape, Layout layout);

// Deterministic values of deviation 1.
std::vector<float> RandomFloats(int64_t count, uint32_t seed);

}  // namespace strop
