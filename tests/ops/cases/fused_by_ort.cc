// SPDX-License-Identifier: Apache-2.0
//
// What ONNX Runtime's optimizer writes into ordinary models.
#include "ops/cases/cases.h"

namespace strop {

Cases FusedByOrtCases() {
  // A B + C = (-6, -1, 0.5, 3) before the activation.
  const std::vector<CaseInput> gemm = {In({2, 1}, {-1, 1}), In({1, 2}, {6, 2}),
                                       In({2, 2}, {0, 1, -5.5, 1})};
  const Numbers64 x = {-6, -1, 0.5, 3};
  const auto fused_gemm = [&](const char* activation, CaseAttributes attributes,
                              Numbers64 expected) {
    attributes.emplace_back("activation", std::string(activation));
    return OpCase{.name = std::string("FusedGemm/") + activation,
                  .op = "FusedGemm",
                  .inputs = gemm,
                  .attributes = std::move(attributes),
                  .domain = kMs,
                  .expected = {std::move(expected)}};
  };
  // One tap of 2 over (-3, 0.5, 1), a bias of 1: (-5, 2, 3).
  const CaseInput image = In({1, 1, 3}, {-3, 0.5, 1});
  const CaseInput tap = In({1, 1, 1}, {2}), bias = In({1}, {1});
  const auto fused_conv = [&](const char* activation,
                              std::vector<float> parameters,
                              Numbers64 expected) {
    OpCase op_case = {.name = std::string("FusedConv/") + activation,
                      .op = "FusedConv",
                      .inputs = {image, tap, bias},
                      .attributes = {{"activation", std::string(activation)}},
                      .domain = kMs,
                      .expected = {std::move(expected)}};
    if (!parameters.empty()) {
      op_case.attributes.emplace_back("activation_params", parameters);
    }
    return op_case;
  };
  return {
      {.name = "FusedGemm",
       .op = "FusedGemm",
       .inputs = gemm,
       .domain = kMs,
       .expected = {x}},
      {.name = "FusedGemm/transposed, scaled",
       .op = "FusedGemm",
       .inputs = {In({1, 2}, {-1, 1}), In({2, 1}, {6, 2}), In({2}, {1, -1})},
       .attributes = {{"transA", int64_t{1}},
                      {"transB", int64_t{1}},
                      {"alpha", 0.5f},
                      {"beta", 2.0f},
                      {"activation", std::string("Relu")}},
       .domain = kMs,
       .expected = {{0, 0, 5, 0}}},
      fused_gemm("Relu", {}, {0, 0, 0.5, 3}),
      fused_gemm("LeakyRelu", {{"activation_alpha", 0.25f}},
                 {-1.5, -0.25, 0.5, 3}),
      fused_gemm("Elu", {{"activation_alpha", 2.0f}},
                 {2 * std::expm1(-6), 2 * std::expm1(-1), 0.5, 3}),
      fused_gemm("Selu",
                 {{"activation_alpha", 2.0f}, {"activation_gamma", 0.5f}},
                 {std::expm1(-6), std::expm1(-1), 0.25, 1.5}),
      fused_gemm("Sigmoid", {},
                 Each(x, [](double v) { return 1 / (1 + std::exp(-v)); })),
      fused_gemm("Tanh", {}, Each(x, [](double v) { return std::tanh(v); })),
      fused_gemm("Softplus", {},
                 Each(x, [](double v) { return std::log1p(std::exp(v)); })),
      fused_gemm("Softsign", {}, {-6.0 / 7, -0.5, 1.0 / 3, 0.75}),
      fused_gemm("ThresholdedRelu", {}, {0, 0, 0, 3}),
      fused_gemm("HardSigmoid", {}, {0, 0.3, 0.6, 1}),
      fused_conv("", {}, {-5, 2, 3}),
      fused_conv("Relu", {}, {0, 2, 3}),
      fused_conv("LeakyRelu", {0.5f}, {-2.5, 2, 3}),
      fused_conv("Clip", {-1, 2.5f}, {-1, 2, 2.5}),
      fused_conv("HardSigmoid", {0.25f, 0.5f}, {0, 1, 1}),
      {.name = "FusedConv/sum",
       .op = "FusedConv",
       .inputs = {image, tap, Omitted(), In({1, 1, 3}, {7, -2, -2})},
       .attributes = {{"activation", std::string("Relu")}},
       .domain = kMs,
       .expected = {{1, 0, 0}}},
      {.name = "FusedConv/empty",
       .op = "FusedConv",
       .inputs = {In({0, 1, 3}), tap},
       .domain = kMs,
       .expected = {{}}},
      {.name = "BiasAdd",
       .op = "BiasAdd",
       .inputs = {In({1, 2, 2}, {1, 2, 3, 4}), In({2}, {10, 20}),
                  In({1, 2, 2}, {100, 200, 300, 400})},
       .domain = kMs,
       .expected = {{111, 222, 313, 424}}},
      {.name = "BiasAdd/empty",
       .op = "BiasAdd",
       .inputs = {In({2, 0}), In({0}), In({2, 0})},
       .domain = kMs,
       .expected = {{}}},
  };
}

}  // namespace strop
