// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"
#include "ops/fused_activation.h"
#include "ops/gradient_formula.h"
#include "ops/matrix.h"
#include "ops/matrix_gradient.h"

namespace strop::ops {

GemmSizes ReadGemmSizes(const OpNode& node, const Shape& a, const Shape& b) {
  if (a.rank() != 2 || b.rank() != 2) {
    Fail(node, "wants two matrices: A is {}, B is {}", a.ToString(),
         b.ToString());
  }
  const bool trans_a = node.Int("transA", 0) != 0;
  const bool trans_b = node.Int("transB", 0) != 0;
  const int64_t k = a[trans_a ? 0 : 1];
  if (k != b[trans_b ? 1 : 0]) {
    Fail(node, "inner dimensions differ: A is {}{}, B is {}{}", a.ToString(),
         trans_a ? " transposed" : "", b.ToString(),
         trans_b ? " transposed" : "");
  }
  return {a[trans_a ? 1 : 0], b[trans_b ? 0 : 1], k, trans_a, trans_b};
}

namespace {

using GemmTypes = TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>;

void InferGemm(InferContext& c) {
  RequireSameType(c, 0, 1);
  const GemmSizes s =
      ReadGemmSizes(c.node(), c.input(0).shape, c.input(1).shape);
  const Shape y = {s.m, s.n};
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    RequireBroadcastTo(c.node(), "C", c.input(2).shape, y);
  }
  c.SetOutput(0, c.input(0).type, y);
}

template <class T>
void Gemm(const KernelContext& c) {
  const Shape& a = c.input(0).shape();
  const Shape& b = c.input(1).shape();
  const GemmSizes s = ReadGemmSizes(c.node(), a, b);
  const T alpha = static_cast<T>(c.node().Float("alpha", 1));
  const T beta = static_cast<T>(c.node().Float("beta", 1));
  T* y = c.out<T>(0).data();
  const bool has_c = c.has_input(2) && beta != T{0};
  if (has_c) {
    // Input 2 comes first, broadcast and scaled; the product is added to it.
    const Tensor& bias = c.input(2);
    const T* from = c.in<T>(2).data();
    const BroadcastLoop<1> loop(c.output(0).shape(), {&bias.shape()});
    loop.Run(0, s.m * s.n,
             [&](int64_t o, const std::array<int64_t, 1>& in, int64_t count) {
               for (int64_t j = 0; j < count; ++j) {
                 y[o + j] = Times(beta, from[in[0] + j * loop.step(0)]);
               }
             });
  }
  Multiply<T>(c, s.m, s.n, s.k, alpha, View(c.in<T>(0).data(), a[1], s.trans_a),
              View(c.in<T>(1).data(), b[1], s.trans_b), y, has_c);
}

// --- Gradients

// dC = beta dY, summed over the axes along which C was broadcast
void GemmGradient(GradientContext& c) {
  const OpNode node = c.node();
  MatrixProductGradient(c, {.trans_a = node.Int("transA", 0) != 0,
                            .trans_b = node.Int("transB", 0) != 0,
                            .alpha = node.Float("alpha", 1)});
  if (!c.needs(2)) return;
  const float beta = c.node().Float("beta", 1);
  const Var dc = c.build().ReduceToShapeOf(c.dy(), c.y(), c.x(2));
  c.Set(2, beta == 1 ? dc : dc * beta);
}

std::vector<Var> FusedGemmFormula(GradientContext& c) {
  GraphBuilder& b = c.build();
  Attributes attributes = c.attributes();
  std::erase_if(attributes, [](const auto& attribute) {
    return attribute.first.starts_with("activation");
  });
  const Var bias = c.has_input(2) ? c.x(2) : Var{};
  const Var sum = b.Op("Gemm", {c.x(0), c.x(1), bias}, attributes);
  b.SetDims(sum, b.dims(c.y()));
  return {ActivationNode(b, ReadGemmActivation(c.node()), sum)};
}

}  // namespace

// Y = alpha A' B' + beta C, where ' transposes if transA or transB is set
// and C (optional) broadcasts to Y.
extern constexpr OpDef kGemm = {
    .name = "Gemm",
    .inputs = {2, 3},
    .infer = InferGemm,
    .reference = Instantiate<GemmTypes>(
        []<class T>(const KernelContext& c) { Gemm<T>(c); }),
    .gradient = Rule(GemmGradient)};

// Y = activation(Gemm(A, B, C)), as ONNX Runtime's optimizer writes it.
extern constexpr OpDef kFusedGemm = {
    .name = "FusedGemm",
    .domain = kMicrosoft,
    .inputs = {2, 3},
    .infer =
        [](InferContext& c) {
          ReadGemmActivation(c.node());
          InferGemm(c);
        },
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      Gemm<T>(c);
      Activate<T>(c, ReadGemmActivation(c.node()), c.output(0));
    }),
    .gradient = Rule(FromFormula<FusedGemmFormula>)};

}  // namespace strop::ops
