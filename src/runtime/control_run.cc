// SPDX-License-Identifier: Apache-2.0
#include "runtime/control_run.h"

#include "base/throw.h"

namespace strop {
namespace {

// Spreads every bit over all (the finalizer of SplitMix64).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

const Tensor& ControlRun::input(size_t i) const {
  if (i >= inputs.size() || !inputs[i]) {
    node.Fail(fmt::format("input {} may not be left out", i),
              ErrorCode::kInvalidGraph);
  }
  return *inputs[i];
}

// The step changes, not the seed, which a node may have for itself.
RandomKey ControlRun::Random(int64_t iteration) const {
  RandomKey inner = random;
  inner.step = Mix(Mix(random.step) + random.node);
  inner.step = Mix(inner.step + static_cast<uint64_t>(iteration));
  return inner;
}

void ControlRun::RequireCounts(const Body& body, size_t inputs,
                               size_t outputs) const {
  if (body.input_count() != inputs || body.output_count() != outputs) {
    node.Fail(fmt::format("its sub-graph \"{}\" has {} inputs and {} outputs, "
                          "wanted are {} and {}",
                          body.graph().name, body.input_count(),
                          body.output_count(), inputs, outputs),
              ErrorCode::kInvalidGraph);
  }
}

bool ControlRun::BoolOf(const Tensor& tensor, std::string_view what) const {
  if (tensor.type() != DataType::kBool || tensor.element_count() != 1) {
    node.Fail(fmt::format("{} must be one bool, not {} of shape {}", what,
                          DataTypeName(tensor.type()),
                          tensor.shape().ToString()));
  }
  return tensor.values<bool>()[0];
}

std::vector<HeldTensor> RunIf(const ControlRun& run, Body& then_branch,
                              Body& else_branch) {
  Body& body =
      run.BoolOf(run.input(0), "the condition") ? then_branch : else_branch;
  run.RequireCounts(body, 0, run.node.node().outputs.size());
  body.Run(run.Random(0));
  std::vector<HeldTensor> results;
  for (size_t i = 0; i < body.output_count(); ++i) {
    results.emplace_back(run.budget, body.output(i));
  }
  return results;
}

}  // namespace strop
