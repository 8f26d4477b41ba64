// SPDX-License-Identifier: Apache-2.0
//
// The ops that Specialize makes.
#include "ops/cases/cases.h"

namespace strop {

Cases FusedCases() {
  const CaseInput a = In({2, 3}, {1, 2, 3, 4, 5, 6});
  const CaseInput b = In({3, 2}, {1, 0, 2, 1, 0, 3});
  const CaseInput at = In({3, 2}, {1, 4, 2, 5, 3, 6});
  const int64_t one = 1;
  const CaseInput add = BoolsOf({1}, {0}), overwrite = BoolsOf({1}, {1});
  const CaseInput dy = Mixed({2, 1, 4}, 3, 5), x = Mixed({2, 1, 6}, 7, 11);
  const CaseInput taps = In({1, 1, 3}, {1, -2, 3});
  const CaseAttributes dilated = {{"dilations", std::vector<int64_t>{2}},
                                  {"pads", std::vector<int64_t>{1, 1}}};
  const Numbers64 dx = {1, 3, 0, -4, -1, -3, -2, 1, 3, -2, -4, 3};
  return {
      {.name = "Assign",
       .op = "Assign",
       .inputs = {In({2}, {1, 2}), In({2}, {3, 4})},
       .domain = kFused,
       .opset = 1,
       .outputs = "",
       .expected_inputs = {{3, 4}}},
      {.name = "Gemm/fused",
       .op = "Gemm",
       .inputs = {a, b, In({2}, {-6, 1})},
       .attributes = {{"activation", std::string("Relu")}},
       .domain = kFused,
       .opset = 1,
       .expected = {{0, 12, 8, 24}}},
      {.name = "Gemm/fused plain",
       .op = "Gemm",
       .inputs = {at, b},
       .attributes = {{"transA", one}, {"alpha", 2.0f}},
       .domain = kFused,
       .opset = 1,
       .expected = {{10, 22, 28, 46}}},
      {.name = "GemmAccumulate",
       .op = "GemmAccumulate",
       .inputs = {a, b, In({2, 2}, {1, 2, 3, 4}), add},
       .domain = kFused,
       .opset = 1,
       .expected = {{6, 13, 17, 27}},
       .expected_inputs = {{}, {}, {6, 13, 17, 27}}},
      {.name = "GemmAccumulate/overwrite",
       .op = "GemmAccumulate",
       .inputs = {at, b, In({2, 2}, {kNan, 2, 3, 4}), overwrite},
       .attributes = {{"transA", one}},
       .domain = kFused,
       .opset = 1,
       .expected = {{5, 11, 14, 23}}},
      {.name = "ReduceSumAccumulate",
       .op = "ReduceSumAccumulate",
       .inputs = {a, Int64s({1}, {0}), In({3}, {10, 20, 30}), add},
       .domain = kFused,
       .opset = 1,
       .expected = {{15, 27, 39}}},
      {.name = "ReduceSumAccumulate/overwrite",
       .op = "ReduceSumAccumulate",
       .inputs = {a, Int64s({1}, {1}), In({2}, {kNan, 20}), overwrite},
       .domain = kFused,
       .opset = 1,
       .expected = {{6, 15}}},
      {.name = "ConvGradAccumulate",
       .op = "ConvGradAccumulate",
       .inputs = {dy, x, taps, In({1, 1, 3}, {1, 2, 3}), In({1}, {5}), add},
       .attributes = dilated,
       .domain = kFused,
       .opset = 1,
       .outputs = "111",
       .expected = {dx, {-14, 5, -6}, {3}},
       .expected_inputs = {{}, {}, {}, {-14, 5, -6}, {3}}},
      {.name = "ConvGradAccumulate/overwrite",
       .op = "ConvGradAccumulate",
       .inputs = {dy, x, taps, In({1, 1, 3}, {1, kNan, 3}), Omitted(),
                  overwrite},
       .attributes = dilated,
       .domain = kFused,
       .opset = 1,
       .outputs = "01",
       .expected = {{}, {-15, 3, -9}}},
  };
}

}  // namespace strop
