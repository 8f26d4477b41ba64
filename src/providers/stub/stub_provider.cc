// SPDX-License-Identifier: Apache-2.0
#include "providers/stub/stub_provider.h"

#include <string>

namespace strop {
namespace {

// y = -x. All that depends on the node and its shapes is settled in the
// constructor, once per plan; Run is called in every step.
class NegKernel final : public Kernel {
 public:
  explicit NegKernel(int64_t size) : size_(size) {}

  void Run(const KernelContext& context) override {
    const float* x = context.in<float>(0).data();
    float* y = context.out<float>(0).data();
    constexpr double kCost = 0.3;  // nanoseconds an element
    context.ParallelFor(size_, kCost, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = -x[i];
    });
  }

 private:
  int64_t size_;
};

class StubProvider final : public ExecutionProvider {
 public:
  std::string_view name() const override { return "stub"; }

  KernelChoice Choose(const KernelRequest& request) const override {
    if (!request.op.domain.empty() || request.op.name != "Neg") {
      return KernelChoice::Decline("only Neg");
    }
    const TensorInfo& x = request.inputs[0].info;
    if (x.type != DataType::kFloat32) {
      return KernelChoice::Decline("only float32, not " + DataTypeName(x.type));
    }
    KernelChoice choice;
    choice.kernel = std::make_unique<NegKernel>(x.shape.element_count());
    choice.name = "stub.neg";
    choice.flops = static_cast<double>(x.shape.element_count());
    return choice;
  }
};

}  // namespace

std::shared_ptr<ExecutionProvider> StubExecutionProvider() {
  return std::make_shared<StubProvider>();
}

}  // namespace strop
