// SPDX-License-Identifier: Apache-2.0
#include "runtime/reference_kernel.h"

namespace strop {
namespace {

class ReferenceKernelRunner : public Kernel {
 public:
  explicit ReferenceKernelRunner(ReferenceKernel::Run run) : run_(run) {}
  void Run(const KernelContext& context) override { run_(context); }

 private:
  ReferenceKernel::Run run_;
};

}  // namespace

KernelChoice MakeReferenceKernel(const KernelRequest& request) {
  const ReferenceKernel& reference = request.op.reference;
  if (reference.run == nullptr) {
    return KernelChoice::Decline("reference: the op has no plain kernel");
  }
  DataType type = DataType::kUndefined;
  if (reference.type_input < 0) {
    if (request.has_output(0)) type = request.outputs[0].type;
  } else if (request.has_input(static_cast<size_t>(reference.type_input))) {
    const KernelInput& input =
        request.inputs[static_cast<size_t>(reference.type_input)];
    type = input.is_list && !input.list.empty() ? input.list[0].type
                                                : input.info.type;
  }
  if (reference.supports != nullptr && !reference.supports(type)) {
    return KernelChoice::Decline("reference: element type " +
                                 DataTypeName(type) + " is not supported");
  }
  KernelChoice choice;
  choice.kernel = std::make_unique<ReferenceKernelRunner>(reference.run);
  choice.name = "reference";
  return choice;
}

}  // namespace strop
