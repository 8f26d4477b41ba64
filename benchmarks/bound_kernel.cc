// SPDX-License-Identifier: Apache-2.0
#include "bound_kernel.h"

#include <algorithm>
#include <set>
#include <utility>

#include "providers/layout_runner.h"

namespace strop {
namespace {

// An output that is an input's memory counts once.
int64_t BytesOf(std::span<const Argument* const> inputs,
                std::span<const Argument* const> outputs) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  const auto add = [&](const Tensor& tensor) {
    if (tensor.data() == nullptr || !seen.insert(tensor.data()).second) return;
    bytes += static_cast<int64_t>(tensor.byte_count());
  };
  for (const auto& arguments : {inputs, outputs}) {
    for (const Argument* argument : arguments) {
      if (argument == nullptr) continue;
      add(argument->tensor);
      for (const Tensor& tensor : argument->list) add(tensor);
    }
  }
  return bytes;
}

}  // namespace

BoundKernel::BoundKernel(OpRun& run, KernelChoice choice)
    : choice_(std::move(choice)),
      scratch_(DataType::kUint8,
               Shape{static_cast<int64_t>(choice_.scratch_bytes)}),
      inputs_(Bind(run.inputs(), choice_.input_layouts)),
      outputs_(Bind(run.outputs(), choice_.output_layouts)),
      context_(run.Context().With(
          inputs_, outputs_, static_cast<std::byte*>(scratch_.view().data()))),
      bytes_(BytesOf(run.inputs(), run.outputs())) {}

std::vector<const Argument*> BoundKernel::Bind(
    std::span<const Argument* const> plain,
    const std::vector<Layout>& layouts) {
  std::vector<const Argument*> bound(plain.begin(), plain.end());
  for (size_t i = 0; i < std::min(bound.size(), layouts.size()); ++i) {
    if (bound[i] == nullptr || layouts[i] == Layout::kPlain) continue;
    const Tensor& tensor = bound[i]->tensor;
    blocked_memory_.push_back(ToLayout(tensor, layouts[i]));
    blocked_.push_back(std::make_unique<Argument>());
    blocked_.back()->tensor = Tensor(tensor.type(), tensor.shape(),
                                     blocked_memory_.back().view().data());
    bound[i] = blocked_.back().get();
  }
  return bound;
}

}  // namespace strop
