// SPDX-License-Identifier: Apache-2.0
#include "ops/fold.h"

#include "ops/reference_kernel.h"

namespace strop {

std::optional<std::vector<std::unique_ptr<OwnedTensor>>> RunReferenceNow(
    const KernelRequest& request, std::span<const Tensor> inputs) {
  const KernelChoice choice = MakeReferenceKernel(request);
  if (choice.kernel == nullptr) return std::nullopt;
  const size_t in_count = request.inputs.size();
  const size_t out_count = request.outputs.size();
  std::vector<std::unique_ptr<OwnedTensor>> results(out_count);
  std::vector<Argument> arguments(in_count + out_count);
  std::vector<const Argument*> pointers(arguments.size(), nullptr);
  for (size_t i = 0; i < in_count; ++i) {
    if (!request.has_input(i)) continue;
    arguments[i].tensor = inputs[i];
    pointers[i] = &arguments[i];
  }
  for (size_t i = 0; i < out_count; ++i) {
    if (!request.has_output(i)) continue;
    results[i] = std::make_unique<OwnedTensor>(request.outputs[i].type,
                                               request.outputs[i].shape);
    arguments[in_count + i].tensor = results[i]->view();
    pointers[in_count + i] = &arguments[in_count + i];
  }
  const std::span<const Argument* const> all(pointers);
  KernelContext context(request.node, all.first(in_count),
                        all.subspan(in_count));
  OwnedTensor scratch(DataType::kUint8,
                      {static_cast<int64_t>(choice.scratch_bytes)});
  context.set_scratch(static_cast<std::byte*>(scratch.view().data()));
  choice.kernel->Run(context);
  return results;
}

}  // namespace strop
