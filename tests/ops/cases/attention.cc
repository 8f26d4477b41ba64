// SPDX-License-Identifier: Apache-2.0
//
// Attention and what stands around it. Keys are 0 and ln 3, so that a query
// of 1 weighs them 1/4 and 3/4, and a query of 0 weighs all alike.
#include "ops/cases/cases.h"

namespace strop {
namespace {

const double kLn3 = std::log(3.0);
const int64_t kOne = 1;

CaseAttributes With(CaseAttributes attributes) {
  attributes.push_back({"scale", 1.0f});
  return attributes;
}

OpCase Attend(std::string name, std::vector<CaseInput> inputs,
              CaseAttributes attributes, std::vector<Numbers64> expected,
              std::string outputs = "1") {
  return {.name = "Attention/" + name,
          .op = "Attention",
          .inputs = std::move(inputs),
          .attributes = With(std::move(attributes)),
          .opset = 25,
          .outputs = std::move(outputs),
          .expected = std::move(expected)};
}

Cases AttentionOpCases() {
  const CaseInput q = In({1, 1, 2, 1}, {1, 0});
  const CaseInput k = In({1, 1, 2, 1}, {0, kLn3});
  const CaseInput v = In({1, 1, 2, 2}, {4, 8, 8, 16});
  const CaseInput none = Omitted();
  const int64_t zero = 0;
  return {
      Attend("plain", {q, k, v}, {}, {{7, 14, 6, 12}}),
      Attend("causal", {q, k, v}, {{"is_causal", kOne}}, {{4, 8, 6, 12}}),
      Attend("mask of bools", {q, k, v, BoolsOf({2, 2}, {0, 0, 0, 1})}, {},
             {{0, 0, 8, 16}}),
      Attend("mask of numbers", {q, k, v, In({1, 2, 2}, {0, -kLn3, -kInf, 5})},
             {}, {{6, 12, 8, 16}}),
      Attend("short mask", {q, k, v, BoolsOf({1, 1, 1, 1}, {1})}, {},
             {{4, 8, 4, 8}}),
      Attend("scores", {q, k, v}, {}, {{7, 14, 6, 12}, {}, {}, {0, kLn3, 0, 0}},
             "1001"),
      Attend("weights", {q, k, v}, {{"qk_matmul_output_mode", int64_t{3}}},
             {{7, 14, 6, 12}, {}, {}, {0.25, 0.75, 0.5, 0.5}}, "1001"),
      Attend("biased scores", {q, k, v, In({2, 2}, {1, 2, 3, 4})},
             {{"qk_matmul_output_mode", int64_t{2}}},
             {{}, {}, {}, {1, 2 + kLn3, 3, 4}}, "1001"),
      Attend("softcap", {q, In({1, 1, 2, 1}, {0, 2 * std::atanh(kLn3 / 2)}), v},
             {{"softcap", 2.0f}, {"qk_matmul_output_mode", kOne}},
             {{7, 14, 6, 12}, {}, {}, {0, kLn3, 0, 0}}, "1001"),
      Attend("two heads share one", {In({1, 2, 1, 1}, {1, 0}), k, v}, {},
             {{7, 14, 6, 12}}),
      Attend("rank 3",
             {In({1, 1, 2}, {1, 0}), In({1, 2, 1}, {0, kLn3}),
              In({1, 2, 2}, {4, 8, 8, 16})},
             {{"q_num_heads", int64_t{2}}, {"kv_num_heads", kOne}},
             {{7, 14, 6, 12}}),
      Attend("past",
             {In({1, 1, 2, 1}, {0, 0}), k, In({1, 1, 2, 1}, {6, 9}), none,
              In({1, 1, 1, 1}, {7}), In({1, 1, 1, 1}, {0})},
             {{"is_causal", kOne}}, {{3, 5}, {7, 0, kLn3}, {0, 6, 9}}, "111"),
      Attend("lengths",
             {In({2, 1, 1, 1}, {0, 0}), In({2, 1, 2, 1}, {0, 0, 0, 0}),
              In({2, 1, 2, 1}, {1, 3, 5, kNan}), none, none, none,
              Int64s({2}, {2, 1})},
             {}, {{2, 5}}),
      Attend("causal lengths",
             {In({1, 1, 2, 1}, {0, 0}), In({1, 1, 3, 1}, {0, 0, 0}),
              In({1, 1, 3, 1}, {1, 3, 8}), none, none, none, Int64s({1}, {1})},
             // The first query stands before all keys.
             {{"is_causal", kOne}}, {{0, 1}}),
      Attend("window",
             {In({1, 1, 3, 1}, {0, 0, 0}), In({1, 1, 3, 1}, {0, 0, 0}),
              In({1, 1, 3, 1}, {1, 3, 8})},
             {{"left_window_size", kOne}, {"right_window_size", zero}},
             {{1, 2, 5.5}}),
      // Values as ONNX's formula gives them are in the node tests; these are
      // for gradients, and for kernels against each other.
      Attend("many heads, mask, softcap, past",
             {InRange({2, 4, 3, 2}, -1, 1), InRange({2, 2, 3, 2}, -1, 1),
              InRange({2, 2, 3, 3}, -1, 1), InRange({2, 1, 3, 5}, -1, 1),
              InRange({2, 2, 2, 2}, -1, 1), InRange({2, 2, 2, 3}, -1, 1)},
             {{"softcap", 1.5f}, {"qk_matmul_output_mode", int64_t{3}}}, {},
             "1111"),
      Attend("many heads, rank 3, causal",
             {InRange({2, 3, 8}, -1, 1), InRange({2, 3, 4}, -1, 1),
              InRange({2, 3, 6}, -1, 1)},
             {{"q_num_heads", int64_t{4}},
              {"kv_num_heads", int64_t{2}},
              {"is_causal", kOne},
              {"qk_matmul_output_mode", kOne}},
             {}, "1001"),
      Attend("many heads, short mask",
             {InRange({1, 2, 3, 2}, -1, 1), InRange({1, 2, 4, 2}, -1, 1),
              InRange({1, 2, 4, 2}, -1, 1), InRange({2, 1, 3}, -1, 1)},
             {}, {}),
      Attend("no queries", {In({1, 1, 0, 1}), k, v}, {}, {{}}),
      Attend("no keys", {q, In({1, 1, 0, 1}), In({1, 1, 0, 2})}, {},
             {{0, 0, 0, 0}}),
      {.name = "Attention/own scale",
       .op = "Attention",
       // 4 / sqrt(4) = 2
       .inputs = {In({1, 1, 1, 4}, {1, 1, 1, 1}),
                  In({1, 1, 1, 4}, {1, 1, 1, 1}), In({1, 1, 1, 1}, {5})},
       .outputs = "1001",
       .expected = {{5}, {}, {}, {2}}},
  };
}

OpCase Microsoft(std::string name, std::vector<CaseInput> inputs,
                 CaseAttributes attributes, std::vector<Numbers64> expected,
                 std::string outputs = "1") {
  CaseAttributes all = With(std::move(attributes));
  all.push_back({"num_heads", kOne});
  return {.name = name,
          .op = name.substr(0, name.find('/')),
          .inputs = std::move(inputs),
          .attributes = std::move(all),
          .domain = kMs,
          .opset = 1,
          .outputs = std::move(outputs),
          .expected = std::move(expected)};
}

// Query 1, key x, value 4 x / ln 3.
Cases MicrosoftCases() {
  const CaseInput none = Omitted();
  const CaseInput x = In({1, 2, 1}, {0, kLn3});
  const CaseInput w = In({1, 3}, {0, 1, 4 / kLn3});
  const CaseInput bias = In({3}, {1, 0, 0});
  const CaseInput q = In({1, 2, 1}, {1, 0});
  const CaseInput k = In({1, 2, 1}, {0, kLn3});
  const CaseInput v = In({1, 2, 2}, {4, 8, 8, 16});
  return {
      Microsoft("Attention/projects", {x, w, bias}, {}, {{3, 3}}),
      Microsoft("Attention/no bias", {x, w}, {}, {{2, 2}}),
      Microsoft("Attention/one way", {x, w, bias}, {{"unidirectional", kOne}},
                {{0, 3}}),
      Microsoft("Attention/mask of keys", {x, w, bias, Int32s({1, 2}, {0, 1})},
                {}, {{4, 4}}),
      Microsoft("Attention/mask of rows",
                {x, w, bias, Int32s({1, 2, 2}, {0, 1, 1, 1})}, {}, {{4, 3}}),
      Microsoft("Attention/number of keys", {x, w, bias, Int32s({1}, {1})}, {},
                {{0, 0}}),
      Microsoft("Attention/range of keys", {x, w, bias, Int32s({2}, {2, 1})},
                {}, {{4, 4}}),
      Microsoft("Attention/mask value", {x, w, bias, Int32s({1, 2}, {1, 0})},
                {{"mask_filter_value", static_cast<float>(-kLn3)}}, {{2, 2}}),
      Microsoft("Attention/attention bias",
                {x, w, bias, none, none, In({1, 1, 2, 2}, {0, -kLn3, 0, 0})},
                {}, {{2, 3}}),
      Microsoft(
          "Attention/past",
          {In({1, 1, 1}, {kLn3}), w, bias, none, In({2, 1, 1, 1, 1}, {0, 0})},
          {}, {{3}, {0, kLn3, 0, 4}}, "11"),
      {.name = "Attention/widths",
       .op = "Attention",
       // Two heads of size 1 with values of size 2.
       .inputs = {x, In({1, 8}, {0, 0, 1, 1, 1, 2, 3, 4}),
                  In({8}, {1, 0, 0, 0, 0, 0, 0, 0})},
       .attributes = {{"num_heads", int64_t{2}},
                      {"qkv_hidden_sizes", std::vector<int64_t>{2, 2, 4}}},
       .domain = kMs,
       .opset = 1,
       .expected = {{0.75 * kLn3, 1.5 * kLn3, 1.5 * kLn3, 2 * kLn3, 0.75 * kLn3,
                     1.5 * kLn3, 1.5 * kLn3, 2 * kLn3}}},
      {.name = "Attention/everything",
       .op = "Attention",
       .inputs = {InRange({2, 3, 4}, -1, 1), InRange({4, 12}, -1, 1),
                  InRange({12}, -1, 1), Int32s({4}, {5, 4, 0, 1}),
                  InRange({2, 2, 2, 2, 2}, -1, 1),
                  InRange({1, 2, 3, 5}, -1, 1)},
       .attributes = {{"num_heads", int64_t{2}}, {"mask_filter_value", -1.5f}},
       .domain = kMs,
       .opset = 1,
       .outputs = "11"},
      {.name = "MultiHeadAttention/everything",
       .op = "MultiHeadAttention",
       .inputs = {InRange({2, 3, 4}, -1, 1), InRange({2, 2, 4}, -1, 1),
                  InRange({2, 2, 6}, -1, 1), InRange({14}, -1, 1),
                  Int32s({2, 4}, {1, 0, 1, 1, 1, 1, 0, 1}),
                  InRange({2, 2, 3, 4}, -1, 1), InRange({2, 2, 2, 2}, -1, 1),
                  InRange({2, 2, 2, 3}, -1, 1)},
       .attributes = {{"num_heads", int64_t{2}},
                      {"unidirectional", kOne},
                      {"mask_filter_value", -1.5f}},
       .domain = kMs,
       .opset = 1,
       .outputs = "111"},
      Microsoft("MultiHeadAttention/plain", {q, k, v}, {}, {{7, 14, 6, 12}}),
      Microsoft("MultiHeadAttention/bias",
                {In({1, 2, 1}, {0, -1}), In({1, 2, 1}, {2, 2 + kLn3}), v,
                 In({4}, {1, -2, 10, 20})},
                {}, {{17, 34, 16, 32}}),
      Microsoft("MultiHeadAttention/mask",
                {q, k, v, none, Int32s({1, 2}, {1, 0})}, {}, {{4, 8, 4, 8}}),
      Microsoft("MultiHeadAttention/attention bias",
                {q, k, v, none, none, In({1, 1, 2, 2}, {0, -kLn3, 0, kLn3})},
                {}, {{6, 12, 7, 14}}),
      Microsoft("MultiHeadAttention/one way", {q, k, v},
                {{"unidirectional", kOne}}, {{4, 8, 6, 12}}),
      Microsoft(
          "MultiHeadAttention/past",
          {In({1, 1, 1}, {1}), In({1, 1, 1}, {kLn3}), In({1, 1, 2}, {8, 16}),
           none, none, none, In({1, 1, 1, 1}, {0}), In({1, 1, 1, 2}, {4, 8})},
          {{"unidirectional", kOne}}, {{7, 14}, {0, kLn3}, {4, 8, 8, 16}},
          "111"),
      Microsoft(
          "MultiHeadAttention/keys of rank 4",
          {q, In({1, 1, 2, 1}, {0, kLn3}), In({1, 1, 2, 2}, {4, 8, 8, 16})}, {},
          {{7, 14, 6, 12}}),
      {.name = "EmbedLayerNormalization",
       .op = "EmbedLayerNormalization",
       // Two numbers become -1 and 1, times gamma plus beta.
       .inputs = {Int32s({1, 2}, {2, 0}), Int32s({1, 2}, {0, 1}),
                  In({3, 2}, {1, 5, 0, 0, 4, 1}), In({2, 2}, {0, 1, 9, 1}),
                  In({2, 2}, {1, 1, 0, 2}), In({2}, {2, 3}), In({2}, {10, 20}),
                  Int32s({1, 2}, {1, 0})},
       .attributes = {{"epsilon", 0.0f}},
       .domain = kMs,
       .opset = 1,
       .outputs = "111",
       // 5 3 and 10 8
       .expected = {{12, 17, 12, 17}, {1}, {5, 3, 10, 8}}},
      {.name = "EmbedLayerNormalization/positions",
       .op = "EmbedLayerNormalization",
       .inputs = {Int32s({1, 2}, {2, 0}), none, In({3, 2}, {1, 5, 0, 0, 4, 1}),
                  In({2, 2}, {0, 1, 9, 1}), none, In({2}, {1, 1}),
                  In({2}, {0, 0}), none, Int32s({1, 2}, {1, 0})},
       .attributes = {{"epsilon", 0.0f}},
       .domain = kMs,
       .opset = 1,
       .outputs = "111",
       .expected = {{1, -1, -1, 1}, {0}, {13, 2, 1, 6}}},
  };
}

Cases RotaryCases() {
  // Angles of 0 and of a quarter turn.
  const CaseInput cosines = In({2, 1}, {1, 0});
  const CaseInput sines = In({2, 1}, {0, 1});
  const CaseInput x = In({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const int64_t two = 2;
  return {
      {.name = "RotaryEmbedding",
       .op = "RotaryEmbedding",
       .inputs = {x, cosines, sines, Int64s({1, 2}, {1, 0})},
       .expected = {{-2, 1, 3, 4, -6, 5, 7, 8}}},
      {.name = "RotaryEmbedding/halves, part of the head",
       .op = "RotaryEmbedding",
       .inputs = {In({1, 1, 1, 5}, {1, 2, 3, 4, 5}), In({1, 2}, {0, 0}),
                  In({1, 2}, {1, 1}), Int64s({1, 1}, {0})},
       .attributes = {{"rotary_embedding_dim", int64_t{4}}},
       .expected = {{-3, -4, 1, 2, 5}}},
      {.name = "RotaryEmbedding/neighbours",
       .op = "RotaryEmbedding",
       .inputs = {In({1, 1, 4}, {1, 2, 3, 4}), In({1, 1, 2}, {0, 0}),
                  In({1, 1, 2}, {1, 1})},
       .attributes = {{"interleaved", kOne}, {"num_heads", kOne}},
       .expected = {{-2, 1, -4, 3}}},
      {.name = "RotaryEmbedding/rank 3",
       .op = "RotaryEmbedding",
       .inputs = {In({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), cosines, sines,
                  Int64s({1, 2}, {0, 1})},
       .attributes = {{"num_heads", two}},
       .expected = {{1, 2, 3, 4, -6, 5, -8, 7}}},
      {.name = "RotaryEmbedding/microsoft",
       .op = "RotaryEmbedding",
       .inputs = {In({1, 2, 2}, {1, 2, 3, 4}), Int64s({1}, {0}), cosines,
                  sines},
       .domain = kMs,
       .opset = 1,
       .expected = {{1, 2, -4, 3}}},
      {.name = "RotaryEmbedding/microsoft, positions",
       .op = "RotaryEmbedding",
       .inputs = {x, Int64s({1, 2}, {1, 0}), cosines, sines},
       .domain = kMs,
       .opset = 1,
       .expected = {{-2, 1, 3, 4, -6, 5, 7, 8}}},
  };
}

Cases StateCases() {
  const CaseInput none = Omitted();
  const CaseInput ones = In({1, 2, 1}, {1, 1});
  const auto linear = [](std::string rule, std::vector<CaseInput> inputs,
                         Numbers64 y, Numbers64 state) {
    return OpCase{.name = "LinearAttention/" + rule,
                  .op = "LinearAttention",
                  .inputs = std::move(inputs),
                  .attributes = {{"q_num_heads", kOne},
                                 {"kv_num_heads", kOne},
                                 {"update_rule", rule}},
                  .opset = 27,
                  .outputs = "11",
                  .expected = {std::move(y), std::move(state)}};
  };
  const CaseInput k = In({1, 2, 1}, {2, 3});
  const CaseInput v = In({1, 2, 1}, {5, 7});
  const double ln2 = std::log(2.0);
  return {
      linear("linear", {ones, k, v}, {10, 31}, {31}),
      // 2 * 0.5 + 10 = 11; 11 * 2 + 21
      linear("gated",
             {ones, k, v, In({1, 1, 1, 1}, {2}), In({1, 2, 1}, {-ln2, ln2})},
             {11, 43}, {43}),
      // 1: 0 + 2 * 0.5 * 5 = 5; 2: 5 + 3 * 0.25 * (7 - 15) = -1
      linear("delta", {ones, k, v, none, none, In({1, 2, 1}, {0.5, 0.25})},
             {5, -1}, {-1}),
      // 1: 5; 2: 10 + 3 * 0.25 * (7 - 30) = -7.25
      linear("gated_delta",
             {ones, k, v, none, In({1, 2, 1}, {0, ln2}),
              In({1, 2, 1}, {0.5, 0.25})},
             {5, -7.25}, {-7.25}),
      {.name = "LinearAttention/two heads share one",
       .op = "LinearAttention",
       // State (1 * 3, 1 * 4; 2 * 3, 2 * 4), each row with its decay after.
       .inputs = {In({1, 1, 4}, {1, 0, 0, 1}), In({1, 1, 2}, {1, 2}),
                  In({1, 1, 2}, {3, 4}), In({1, 1, 2, 2}, {4, 8, 4, 8}),
                  In({1, 1, 2}, {0, -ln2})},
       .attributes = {{"q_num_heads", int64_t{2}},
                      {"kv_num_heads", kOne},
                      {"scale", 2.0f},
                      {"update_rule", std::string("gated")}},
       .opset = 27,
       .outputs = "11",
       .expected = {{14, 24, 16, 24}, {7, 12, 8, 12}}},
      {.name = "LinearAttention/many heads, everything",
       .op = "LinearAttention",
       .inputs = {InRange({2, 3, 8}, -1, 1), InRange({2, 3, 4}, -1, 1),
                  InRange({2, 3, 6}, -1, 1), InRange({2, 2, 2, 3}, -1, 1),
                  InRange({2, 3, 4}, -1, 0), InRange({2, 3, 1}, 0, 1)},
       .attributes = {{"q_num_heads", int64_t{4}},
                      {"kv_num_heads", int64_t{2}}},
       .opset = 27,
       .outputs = "11"},
      {.name = "LinearAttentionGrad/linear",
       .op = "LinearAttentionGrad",
       // Slopes of the states: 111, 110; states 10, 31.
       .inputs = {In({1, 2, 1}, {1, 10}), In({1, 1, 1, 1}, {100}), ones, k, v,
                  In({1, 1, 1, 1}, {0})},
       .attributes = {{"q_num_heads", kOne},
                      {"kv_num_heads", kOne},
                      {"update_rule", std::string("linear")}},
       .domain = "strop",
       .opset = 1,
       .outputs = "1111",
       .expected = {{10, 310}, {555, 770}, {222, 330}, {111}}},
      {.name = "LinearAttentionGrad/gated_delta",
       .op = "LinearAttentionGrad",
       // States 5, -7.25; before row 2, decayed, 10. Row 2: du = 3, w = -23,
       // u = -5.75, dw = 0.75; row 1: G = 2 (1 - 2.25) + 1 = -1.5, du = -3,
       // w = 5, u = 2.5, dw = -1.5.
       .inputs = {ones, none, ones, k, v, In({1, 1, 1, 1}, {0}),
                  In({1, 2, 1}, {0, ln2}), In({1, 2, 1}, {0.5, 0.25})},
       .attributes = {{"q_num_heads", kOne}, {"kv_num_heads", kOne}},
       .domain = "strop",
       .opset = 1,
       .outputs = "111111",
       .expected = {{5, -7.25},
                    {-3.75, -13.25},
                    {-1.5, 0.75},
                    {1.5},
                    {0, -12.5},
                    {-15, -69}}},
      {.name = "CausalConvWithState/everything",
       .op = "CausalConvWithState",
       .inputs = {InRange({2, 3, 5}, -1, 1), InRange({3, 1, 3}, -1, 1),
                  InRange({3}, -1, 1), InRange({2, 3, 2}, -1, 1)},
       .attributes = {{"activation", std::string("swish")}},
       .opset = 27,
       .outputs = "11"},
      {.name = "CausalConvWithState",
       .op = "CausalConvWithState",
       .inputs = {In({1, 2, 3}, {1, 2, 3, 4, 5, 6}),
                  In({2, 1, 2}, {10, 1, 0, 2})},
       .opset = 27,
       .outputs = "11",
       .expected = {{1, 12, 23, 8, 10, 12}, {3, 6}}},
      {.name = "CausalConvWithState/state, bias, swish",
       .op = "CausalConvWithState",
       .inputs = {In({1, 1, 1}, {2}), In({1, 1, 3}, {1, 2, 3}), In({1}, {-30}),
                  In({1, 1, 2}, {10, 7})},
       .attributes = {{"activation", std::string("silu")}},
       .opset = 27,
       .outputs = "11",
       // 10 + 14 + 6 - 30 = 0
       .expected = {{0}, {7, 2}}},
      {.name = "CausalConvWithState/nothing",
       .op = "CausalConvWithState",
       .inputs = {In({1, 1, 0}), In({1, 1, 3}, {1, 2, 3}), none,
                  In({1, 1, 2}, {10, 7})},
       .opset = 27,
       .outputs = "11",
       .expected = {{}, {10, 7}}},
      {.name = "TensorScatter",
       .op = "TensorScatter",
       .inputs = {In({2, 3, 1}, {1, 2, 3, 4, 5, 6}),
                  In({2, 2, 1}, {10, 20, 30, 40}), Int64s({2}, {1, 0})},
       .opset = 24,
       .expected = {{1, 10, 20, 30, 40, 6}}},
      {.name = "TensorScatter/from the start, axis 1",
       .op = "TensorScatter",
       .inputs = {In({1, 2, 2}, {1, 2, 3, 4}), In({1, 1, 2}, {10, 20})},
       .attributes = {{"axis", kOne}},
       .opset = 24,
       .expected = {{10, 20, 3, 4}},
       .types = {DataType::kUint8, DataType::kFloat16}},
      {.name = "TensorScatter/circular",
       .op = "TensorScatter",
       .inputs = {In({1, 3, 1}, {1, 2, 3}), In({1, 2, 1}, {10, 20}),
                  Int64s({1}, {8})},
       .attributes = {{"mode", std::string("circular")}},
       .opset = 24,
       .expected = {{20, 2, 10}}},
  };
}

}  // namespace

Cases AttentionCases() {
  Cases all;
  for (Cases (*list)() :
       {AttentionOpCases, MicrosoftCases, RotaryCases, StateCases}) {
    for (OpCase& op_case : list()) all.push_back(std::move(op_case));
  }
  return all;
}

}  // namespace strop
