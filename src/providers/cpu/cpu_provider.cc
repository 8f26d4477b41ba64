// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "providers/cpu/kernel_list.h"
#include "strop/execution_provider.h"

namespace strop {
namespace {

class CpuProvider final : public ExecutionProvider {
 public:
  std::string_view name() const override { return "cpu"; }

  KernelChoice Choose(const KernelRequest& request) const override {
    return ChooseFromList(request);
  }
};

}  // namespace

std::shared_ptr<ExecutionProvider> CpuExecutionProvider() {
  return std::make_shared<CpuProvider>();
}

}  // namespace strop
