// SPDX-License-Identifier: Apache-2.0
#include "ops/cases/cases.h"

namespace strop {

Cases MatrixCases() {
  // [[1 2 3] [4 5 6]] and [[1 0] [2 1] [0 3]]
  const CaseInput a = In({2, 3}, {1, 2, 3, 4, 5, 6});
  const CaseInput b = In({3, 2}, {1, 0, 2, 1, 0, 3});
  const CaseInput at = In({3, 2}, {1, 4, 2, 5, 3, 6});
  const CaseInput bt = In({2, 3}, {1, 2, 0, 0, 1, 3});
  const Numbers64 ab = {5, 11, 14, 23};
  const int64_t one = 1;
  return {
      {.name = "Gemm", .op = "Gemm", .inputs = {a, b}, .expected = {ab}},
      {.name = "Gemm/transposed",
       .op = "Gemm",
       .inputs = {at, bt, In({2}, {10, 20})},
       .attributes = {{"transA", one}, {"transB", one}},
       .expected = {{15, 31, 24, 43}}},
      {.name = "Gemm/alpha and beta",
       .op = "Gemm",
       .inputs = {a, bt, In({2, 1}, {10, 20})},
       .attributes = {{"transB", one}, {"alpha", 2.0f}, {"beta", 0.5f}},
       .expected = {{15, 27, 38, 56}}},
      {.name = "Gemm/scalar bias",
       .op = "Gemm",
       .inputs = {at, b, In({}, {1})},
       .attributes = {{"transA", one}},
       .expected = {{6, 12, 15, 24}}},
      {.name = "Gemm/no depth",
       .op = "Gemm",
       .inputs = {In({2, 0}), In({0, 2}), In({2}, {3, 4})},
       .expected = {{3, 4, 3, 4}}},
      {.name = "Gemm/int64",
       .op = "Gemm",
       .inputs = {a, b},
       .expected = {ab},
       .types = {DataType::kInt64, DataType::kInt32}},
      {.name = "MatMul", .op = "MatMul", .inputs = {a, b}, .expected = {ab}},
      {.name = "MatMul/vectors",
       .op = "MatMul",
       .inputs = {In({3}, {1, 2, 3}), In({3}, {4, 5, 6})},
       .expected = {{32}}},
      {.name = "MatMul/row",
       .op = "MatMul",
       .inputs = {In({3}, {1, 2, 3}), b},
       .expected = {{5, 11}}},
      {.name = "MatMul/column",
       .op = "MatMul",
       .inputs = {a, In({3}, {1, 0, 2})},
       .expected = {{7, 16}}},
      {.name = "MatMul/stack",
       .op = "MatMul",
       .inputs = {In({2, 1, 1, 2}, {1, 2, 3, 4}),
                  In({2, 2, 1}, {1, 10, 100, 1000})},
       .expected = {{21, 2100, 43, 4300}}},
      {.name = "MatMul/empty stack",
       .op = "MatMul",
       .inputs = {In({0, 2, 3}), b},
       .expected = {{}}},
      {.name = "MatMul/no depth",
       .op = "MatMul",
       .inputs = {In({2, 0}), In({0, 1})},
       .expected = {{0, 0}}},
      {.name = "MatMul/larger",
       .op = "MatMul",
       .inputs = {InRange({3, 17, 33}, -1, 1), InRange({33, 19}, -1, 1)}},
      {.name = "FusedMatMul",
       .op = "FusedMatMul",
       .inputs = {at, bt},
       .attributes = {{"transA", one}, {"transB", one}, {"alpha", 0.5f}},
       .domain = kMs,
       .expected = {{2.5, 5.5, 7, 11.5}}},
      {.name = "FusedMatMul/rows outermost",
       .op = "FusedMatMul",
       // A is [rows 2, batch 2, 3]: matrices [[1 2 3] [7 8 9]] and
       // [[4 5 6] [10 11 12]].
       .inputs = {In({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                  In({3, 1}, {1, 1, 1})},
       .attributes = {{"transBatchA", one}},
       .domain = kMs,
       .expected = {{6, 24, 15, 33}}},
      {.name = "FusedMatMul/rows outermost, transposed",
       .op = "FusedMatMul",
       // B is [2, batch 2, 3], each matrix 2 x 3, transposed to 3 x 2.
       .inputs = {In({2, 1, 3}, {1, 0, 0, 0, 0, 1}),
                  In({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})},
       .attributes = {{"transBatchB", one}, {"transB", one}},
       .domain = kMs,
       .expected = {{1, 7, 6, 12}}},
  };
}

}  // namespace strop
