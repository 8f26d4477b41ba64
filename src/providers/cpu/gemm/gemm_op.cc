// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>

#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/gemm/kernels.h"

namespace strop {
namespace {

const float* Floats(const KernelContext& context, size_t input) {
  return static_cast<const float*>(context.input(input).data());
}

// The product of the first two inputs; throws nothing, because `infer` has
// checked the shapes.
GemmProblem ProblemOf(const KernelRequest& request) {
  const Shape& a = request.inputs[0].info.shape;
  const Shape& b = request.inputs[1].info.shape;
  const bool trans_a = request.node.Int("transA", 0) != 0;
  const bool trans_b = request.node.Int("transB", 0) != 0;
  return GemmProblem::Dense(trans_a, trans_b, a[trans_a ? 1 : 0],
                            b[trans_b ? 0 : 1], a[trans_a ? 0 : 1],
                            request.node.Float("alpha", 1.0f));
}

std::string WhyNot(const KernelRequest& request) {
  for (size_t i = 0; i < 2; ++i) {
    const TensorInfo& info = request.inputs[i].info;
    if (info.type != DataType::kFloat32) return DataTypeName(info.type);
    if (info.shape.rank() != 2) {
      return "rank " + std::to_string(info.shape.rank());
    }
  }
  return {};
}

template <class KernelType>
KernelChoice Accept(std::unique_ptr<KernelType> kernel) {
  KernelChoice choice;
  choice.scratch_bytes = kernel->gemm().scratch_bytes();
  choice.flops = kernel->gemm().flops();
  choice.kernel = std::move(kernel);
  return choice;
}

// Y = act(alpha * op(A) * op(B) + bias)
class FusedGemmKernel final : public Kernel {
 public:
  FusedGemmKernel(const Gemm& gemm, bool has_bias, bool relu)
      : gemm_(gemm), has_bias_(has_bias), relu_(relu) {}

  const Gemm& gemm() const { return gemm_; }

  void Run(const KernelContext& context) override {
    gemm_.Run(context,
              {.a = Floats(context, 0),
               .b = Floats(context, 1),
               .c = static_cast<float*>(context.output(0).data()),
               .bias = has_bias_ ? Floats(context, 2) : nullptr,
               .relu = relu_},
              context.scratch());
  }

 private:
  Gemm gemm_;
  bool has_bias_;
  bool relu_;
};

// Y = beta * C, then Y += alpha * op(A) * op(B): for every C that is not a
// plain bias.
class PrefilledGemmKernel final : public Kernel {
 public:
  PrefilledGemmKernel(const Gemm& gemm, const Shape& y, const Shape& c,
                      float beta)
      : gemm_(gemm), rows_(y[0]), columns_(y[1]), beta_(beta) {
    const size_t rank = c.rank();
    column_step_ = rank >= 1 && c[rank - 1] != 1 ? 1 : 0;
    row_step_ = rank >= 2 && c[0] != 1 ? c[1] : 0;
  }

  const Gemm& gemm() const { return gemm_; }

  void Run(const KernelContext& context) override {
    const float* c = Floats(context, 2);
    float* y = static_cast<float*>(context.output(0).data());
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < columns_; ++j) {
        y[i * columns_ + j] = beta_ * c[i * row_step_ + j * column_step_];
      }
    }
    gemm_.Run(context,
              {.a = Floats(context, 0),
               .b = Floats(context, 1),
               .c = y,
               .accumulate = true},
              context.scratch());
  }

 private:
  Gemm gemm_;
  int64_t rows_;
  int64_t columns_;
  int64_t row_step_;
  int64_t column_step_;
  float beta_;
};

// buffer = (overwrite ? 0 : buffer) + alpha * op(A) * op(B)
class GemmAccumulateKernel final : public Kernel {
 public:
  explicit GemmAccumulateKernel(const Gemm& gemm) : gemm_(gemm) {}

  const Gemm& gemm() const { return gemm_; }

  void Run(const KernelContext& context) override {
    gemm_.Run(context,
              {.a = Floats(context, 0),
               .b = Floats(context, 1),
               .c = static_cast<float*>(context.input(2).data()),
               .accumulate = !context.scalar<bool>(3)},
              context.scratch());
  }

 private:
  Gemm gemm_;
};

// One number for each column of the result.
bool IsBias(const Shape& c, int64_t columns) {
  return (c.rank() == 1 && c[0] == columns) ||
         (c.rank() == 2 && c[0] == 1 && c[1] == columns);
}

}  // namespace

KernelChoice ChooseGemm(const KernelRequest& request) {
  std::string reason = WhyNot(request);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const Gemm gemm(ProblemOf(request), request.num_threads);
  const float beta = request.node.Float("beta", 1.0f);
  if (!request.has_input(2) || beta == 0) {
    return Accept(std::make_unique<FusedGemmKernel>(gemm, false, false));
  }
  const Shape& y = request.outputs[0].shape;
  const Shape& c = request.inputs[2].info.shape;
  if (beta == 1 && IsBias(c, y[1])) {
    return Accept(std::make_unique<FusedGemmKernel>(gemm, true, false));
  }
  return Accept(std::make_unique<PrefilledGemmKernel>(gemm, y, c, beta));
}

KernelChoice ChooseFusedGemm(const KernelRequest& request) {
  std::string reason = WhyNot(request);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const std::string_view activation = request.node.String("activation", "");
  if (!activation.empty() && activation != "Relu") {
    return KernelChoice::Decline("activation " + std::string(activation));
  }
  return Accept(std::make_unique<FusedGemmKernel>(
      Gemm(ProblemOf(request), request.num_threads), request.has_input(2),
      activation == "Relu"));
}

KernelChoice ChooseGemmAccumulate(const KernelRequest& request) {
  std::string reason = WhyNot(request);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  return Accept(std::make_unique<GemmAccumulateKernel>(
      Gemm(ProblemOf(request), request.num_threads)));
}

}  // namespace strop
