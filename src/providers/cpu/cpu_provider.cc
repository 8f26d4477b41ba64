// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "providers/cpu/kernel_list.h"
#include "strop/execution_provider.h"

namespace strop {
namespace {

class CpuProvider final : public ExecutionProvider {
 public:
  std::string_view name() const override { return "cpu"; }

  KernelChoice Choose(const KernelRequest& request) const override {
    std::string reasons;
    for (const KernelEntry& entry : KernelList()) {
      if (entry.op != request.op.name || entry.domain != request.op.domain) {
        continue;
      }
      KernelChoice choice = entry.choose(request);
      if (choice.kernel) {
        if (choice.name.empty()) choice.name = entry.name;
        return choice;
      }
      if (!reasons.empty()) reasons += "; ";
      reasons.append(entry.name).append(": ").append(choice.reason);
    }
    return KernelChoice::Decline(reasons.empty() ? "no kernel for this op"
                                                 : std::move(reasons));
  }
};

}  // namespace

std::shared_ptr<ExecutionProvider> CpuExecutionProvider() {
  return std::make_shared<CpuProvider>();
}

}  // namespace strop
