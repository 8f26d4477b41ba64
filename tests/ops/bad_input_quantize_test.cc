// SPDX-License-Identifier: Apache-2.0
//
// What ops on quantized numbers, attention and the ops that pick elements say
// of inputs that do not fit.
#include <gtest/gtest.h>

#include "ops/cases/cases.h"

namespace strop {
namespace {

CaseInput Uint8s(Shape shape) {
  return Typed(DataType::kUint8, shape,
               Numbers64(static_cast<size_t>(shape.element_count()), 1));
}

void ExpectRefused(std::span<const OpCase> cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string error = ErrorOf(cases[i]);
    EXPECT_NE(error.find("\"n\"]"), std::string::npos)
        << i << ", " << cases[i].op << ": " << error;
  }
}

TEST(BadInput, QuantizeNamesTypes) {
  EXPECT_EQ(ErrorOf({.op = "QuantizeLinear",
                     .inputs = {In({2}), In({})},
                     .attributes = {{"output_dtype", int64_t{17}}}}),
            "[QuantizeLinear \"n\"] does not quantize to float8e4m3fn, only to "
            "int8, uint8, int16 and uint16");
  EXPECT_EQ(
      ErrorOf({.op = "QuantizeLinear", .inputs = {In({2, 3}), In({4})}}),
      "[QuantizeLinear \"n\"] a scale of shape (4) does not fit axis 1 of "
      "(2, 3)");
}

TEST(BadInput, OfQuantizedNumbersIsRefused) {
  const CaseInput one = Uint8s({});
  const CaseInput bytes = Uint8s({2, 2});
  const CaseAttributes bits = {
      {"K", int64_t{16}}, {"N", int64_t{1}}, {"block_size", int64_t{16}}};
  CaseAttributes three_bits = bits, no_block = bits, huge = bits;
  three_bits.push_back({"bits", int64_t{3}});
  no_block[2].second = int64_t{0};
  huge[1].second = int64_t{1} << 62;
  const OpCase bad[] = {
      {.op = "QuantizeLinear", .inputs = {In({2, 3}), In({3}), one}},
      {.op = "QuantizeLinear", .inputs = {In({2, 3}), In({1, 3})}},
      {.op = "QuantizeLinear",
       .inputs = {In({2, 3}), In({2, 2})},
       .attributes = {{"block_size", int64_t{4}}}},
      {.op = "QuantizeLinear",
       .inputs = {In({2, 3}), In({2, 1})},
       .attributes = {{"block_size", int64_t{-1}}}},
      {.op = "QuantizeLinear",
       .inputs = {In({2, 3}), In({3})},
       .attributes = {{"axis", int64_t{2}}}},
      {.op = "QuantizeLinear",
       .inputs = {In({2}), In({}), one},
       .attributes = {{"output_dtype", int64_t{3}}}},
      {.op = "QuantizeLinear", .inputs = {Int64s({1}, {1}), In({})}},
      {.op = "DequantizeLinear", .inputs = {In({2}), In({})}},
      {.op = "DequantizeLinear", .inputs = {bytes, one}},
      {.op = "DequantizeLinear", .inputs = {bytes, In({}), In({})}},
      {.op = "DequantizeLinear",
       .inputs = {bytes, In({})},
       .attributes = {{"output_dtype", int64_t{9999}}}},
      {.op = "DequantizeLinear",
       .inputs = {bytes, In({})},
       .attributes = {{"output_dtype", int64_t{3}}}},
      {.op = "DynamicQuantizeLinear",
       .inputs = {Int32s({1}, {1})},
       .outputs = "111"},
      {.op = "MatMulInteger", .inputs = {bytes, Uint8s({3, 2})}},
      {.op = "MatMulInteger", .inputs = {bytes, In({2, 2})}},
      {.op = "MatMulInteger", .inputs = {bytes, bytes, Uint8s({3})}},
      {.op = "MatMulInteger", .inputs = {bytes, bytes, Int32s({}, {1})}},
      {.op = "QLinearMatMul",
       .inputs = {bytes, In({}), one, bytes, In({3}), one, In({}), one}},
      {.op = "QLinearMatMul",
       .inputs = {bytes, In({}), one, bytes, In({}), one, In({2}), one}},
      {.op = "ConvInteger",
       .inputs = {Uint8s({1, 1, 2}), Uint8s({1, 1, 1}), Uint8s({2})}},
      {.op = "ConvInteger", .inputs = {Uint8s({1, 1, 2}), Uint8s({1, 2, 1})}},
      {.op = "QLinearConv",
       .inputs = {Uint8s({1, 1, 2}), In({}), one, Uint8s({1, 1, 1}), In({2}),
                  one, In({}), one}},
      {.op = "QLinearConv",
       .inputs = {Uint8s({1, 1, 2}), In({}), one, Uint8s({1, 1, 1}), In({}),
                  one, In({}), one, In({1})}},
      {.op = "MatMulNBits",
       .inputs = {In({1, 8}), Uint8s({1, 1, 8}), In({1})},
       .attributes = bits,
       .domain = kMs},
      {.op = "MatMulNBits",
       .inputs = {In({1, 16}), Uint8s({1, 1, 7}), In({1})},
       .attributes = bits,
       .domain = kMs},
      {.op = "MatMulNBits",
       .inputs = {In({1, 16}), Uint8s({1, 1, 8}), In({2})},
       .attributes = bits,
       .domain = kMs},
      {.op = "MatMulNBits",
       .inputs = {In({1, 16}), Uint8s({1, 1, 8}), In({1})},
       .attributes = three_bits,
       .domain = kMs},
      {.op = "MatMulNBits",
       .inputs = {In({1, 16}), Uint8s({1, 1, 8}), In({1})},
       .attributes = no_block,
       .domain = kMs},
      {.op = "MatMulNBits",
       .inputs = {In({1, 16}), Uint8s({1, 1, 8}), In({1})},
       .attributes = huge,
       .domain = kMs},
      {.op = "MatMulNBits",
       .inputs = {In({1, 16}), Uint8s({1, 1, 8}), In({1}), Omitted(),
                  Int32s({16}, Numbers64(16, 1))},
       .attributes = bits,
       .domain = kMs},
      {.op = "QLinearAdd",
       .inputs = {bytes, In({}), one, Uint8s({3}), In({}), one, In({}), one},
       .domain = kMs},
      {.op = "QLinearAdd", .inputs = {bytes, In({})}, .domain = kMs},
      {.op = "QLinearSigmoid",
       .inputs = {bytes, In({2}), one, In({}), one},
       .domain = kMs},
      {.op = "QLinearSoftmax",
       .inputs = {bytes, In({}), one, In({}), one},
       .domain = kMs},
      {.op = "QLinearConcat",
       .inputs = {In({}), one, bytes, In({})},
       .attributes = {{"axis", int64_t{0}}},
       .domain = kMs},
      {.op = "QLinearConcat",
       .inputs = {In({}), one, bytes, In({}), one, Uint8s({3}), In({}), one},
       .attributes = {{"axis", int64_t{0}}},
       .domain = kMs},
      {.op = "QLinearGlobalAveragePool",
       .inputs = {Uint8s({1, 1, 0}), In({}), one, In({}), one},
       .domain = kMs},
  };
  ExpectRefused(bad);
}

TEST(BadInput, OfAttentionIsRefused) {
  const CaseInput x = In({1, 1, 2, 4});
  const CaseInput none = Omitted();
  const auto attend = [](std::vector<CaseInput> inputs,
                         CaseAttributes attributes = {}) {
    return OpCase{.op = "Attention",
                  .inputs = std::move(inputs),
                  .attributes = std::move(attributes),
                  .opset = 25};
  };
  const int64_t two = 2;
  const OpCase bad[] = {
      attend({x, In({1, 1, 2, 3}), x}),
      attend({x, In({2, 1, 2, 4}), x}),
      attend({x, In({1, 2, 2, 4}), In({1, 2, 2, 4})}),
      attend({x, x, In({1, 1, 3, 4})}),
      attend({In({2, 4}), In({2, 4}), In({2, 4})}),
      attend({In({1, 2, 4}), In({1, 2, 4}), In({1, 2, 4})}),
      attend({In({1, 2, 5}), In({1, 2, 4}), In({1, 2, 4})},
             {{"q_num_heads", two}, {"kv_num_heads", two}}),
      attend({x, x, x, BoolsOf({3, 2}, {0, 0, 0, 0, 0, 0})}),
      attend({x, x, x, In({2, 3})}),
      attend({x, x, x, none, In({1, 1, 1, 4})}),
      attend({x, x, x, none, In({1, 1, 1, 3}), In({1, 1, 1, 4})}),
      attend({x, x, x, none, In({4}), In({4})}),
      attend({x, x, x, none, none, none, Int64s({2}, {1, 1})}),
      attend({x, x, x}, {{"qk_matmul_output_mode", int64_t{4}}}),
      attend({x, x, x}, {{"left_window_size", int64_t{-2}}}),
      {.op = "RotaryEmbedding",
       .inputs = {x, In({2, 2}), In({2, 2}), Int64s({1, 2}, {0, 2})}},
      {.op = "RotaryEmbedding",
       .inputs = {x, In({2, 2}), In({2, 2}), Int64s({1, 2}, {0, -1})}},
      {.op = "RotaryEmbedding", .inputs = {x, In({2, 2}), In({2, 2})}},
      {.op = "RotaryEmbedding",
       .inputs = {x, In({2, 3}), In({2, 3}), Int64s({1, 2}, {0, 0})}},
      {.op = "RotaryEmbedding",
       .inputs = {x, In({2, 2}), In({2, 2}), Int64s({1, 2}, {0, 0})},
       .attributes = {{"rotary_embedding_dim", int64_t{6}}}},
      {.op = "RotaryEmbedding",
       .inputs = {In({1, 2, 4}), In({}), In({}), Int64s({1, 2}, {0, 0})}},
      {.op = "RotaryEmbedding",
       .inputs = {In({1, 2, 4}), Int64s({1}, {9e18}), In({2, 2}), In({2, 2})},
       .domain = kMs},
      {.op = "TensorScatter",
       .inputs = {In({1, 3, 1}), In({1, 2, 1}), Int64s({1}, {2})},
       .opset = 24},
      {.op = "TensorScatter",
       .inputs = {In({1, 3, 1}), In({1, 2, 1}), Int64s({1}, {-1})},
       .attributes = {{"mode", std::string("circular")}},
       .opset = 24},
      {.op = "TensorScatter",
       .inputs = {In({1, 3, 1}), In({1, 4, 1})},
       .opset = 24},
      {.op = "TensorScatter", .inputs = {In({1, 3}), In({1, 2})}, .opset = 24},
      {.op = "LinearAttention",
       .inputs = {In({1, 2, 4}), In({1, 2, 4}), In({1, 2, 4})},
       .attributes = {{"q_num_heads", two}, {"kv_num_heads", two}},
       .opset = 27,
       .outputs = "11"},
      {.op = "LinearAttention",
       .inputs = {In({1, 2, 5}), In({1, 2, 4}), In({1, 2, 4})},
       .attributes = {{"q_num_heads", two},
                      {"kv_num_heads", two},
                      {"update_rule", std::string("linear")}},
       .opset = 27,
       .outputs = "11"},
      {.op = "CausalConvWithState",
       .inputs = {In({1, 2, 5}), In({2, 2, 2})},
       .opset = 27,
       .outputs = "11"},
      {.op = "CausalConvWithState",
       .inputs = {In({1, 2, 5}), In({2, 1, 2}), Omitted(), In({1, 2, 2})},
       .opset = 27,
       .outputs = "11"},
      {.op = "Attention",
       .inputs = {In({1, 2, 3}), In({3, 7})},
       .attributes = {{"num_heads", two}},
       .domain = kMs},
      {.op = "Attention",
       .inputs = {In({1, 2, 3}), In({3, 6}), In({6}), Int32s({3}, {1, 1, 1})},
       .attributes = {{"num_heads", two}},
       .domain = kMs},
      {.op = "Attention",
       .inputs = {In({1, 2, 3}), In({3, 6})},
       .attributes = {{"num_heads", int64_t{0}}},
       .domain = kMs},
      {.op = "MultiHeadAttention",
       .inputs = {In({1, 2, 3})},
       .attributes = {{"num_heads", int64_t{1}}},
       .domain = kMs},
      {.op = "MultiHeadAttention",
       .inputs = {In({1, 2, 4}), In({1, 2, 2}), In({1, 2, 4})},
       .attributes = {{"num_heads", two}},
       .domain = kMs},
      {.op = "EmbedLayerNormalization",
       .inputs = {Int32s({1, 1}, {3}), none, In({3, 2}), In({1, 2}), none,
                  In({2}), In({2})},
       .domain = kMs,
       .outputs = "11"},
      {.op = "EmbedLayerNormalization",
       .inputs = {Int32s({1, 2}, {0, 0}), none, In({3, 2}), In({1, 2}), none,
                  In({2}), In({2})},
       .domain = kMs,
       .outputs = "11"},
      {.op = "EmbedLayerNormalization",
       .inputs = {Int32s({1, 1}, {0}), none, In({}), In({1, 2}), none, In({2}),
                  In({2})},
       .domain = kMs,
       .outputs = "11"},
  };
  ExpectRefused(bad);
}

// The last position is not counted to where that may pass the largest integer.
TEST(BadInput, RotaryEmbeddingNamesPositions) {
  constexpr double kHuge = 9223372036854774784.0;  // the largest double below
  EXPECT_EQ(ErrorOf({.op = "RotaryEmbedding",
                     .inputs = {In({1, 2000, 4}), Int64s({1}, {kHuge}),
                                In({2, 2}), In({2, 2})},
                     .domain = kMs,
                     .opset = 1}),
            "[RotaryEmbedding \"n\"] position 9223372036854774784 has no "
            "angles, there are 2");
  EXPECT_EQ(ErrorOf({.op = "RotaryEmbedding",
                     .inputs = {In({1, 2, 4}), Int64s({1}, {1}), In({2, 2}),
                                In({2, 2})},
                     .domain = kMs,
                     .opset = 1}),
            "[RotaryEmbedding \"n\"] 2 rows from position 1 on have no angles, "
            "there are 2");
}

// Two rows, two heads of two numbers, one of the cache.
OpCase GroupQuery(std::vector<CaseInput> inputs,
                  CaseAttributes attributes = {}) {
  attributes.push_back({"num_heads", int64_t{2}});
  attributes.push_back({"kv_num_heads", int64_t{1}});
  return {.op = "GroupQueryAttention",
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .domain = kMs,
          .outputs = "111"};
}

TEST(BadInput, OfGroupQueryAttentionIsRefused) {
  const CaseInput q = In({1, 2, 4}), k = In({1, 2, 2}), none = Omitted();
  const CaseInput past = In({1, 1, 3, 2});
  const CaseInput length = Int32s({1}, {1}), total = Int32s({1}, {2});
  const CaseInput three = Int32s({1}, {3});
  const OpCase bad[] = {
      GroupQuery({q, k, none, none, none, length, total}),
      GroupQuery({q, k, k, past, none, length, total}),
      GroupQuery({In({1, 2, 5}), none, none, none, none, length, total}),
      GroupQuery({q, In({1, 3, 2}), k, none, none, length, total}),
      GroupQuery({q, k, k, In({1, 2, 3, 2}), past, length, total}),
      GroupQuery({q, k, k, none, none, none, total}),
      GroupQuery({q, k, k, none, none, length}),
      GroupQuery({q, k, k, none, none, Int32s({2}, {1, 1}), total}),
      // Lengths beyond the total, below the new rows, and of a past that is
      // not there.
      GroupQuery({q, k, k, none, none, Int32s({1}, {2}), total}),
      GroupQuery({q, k, k, past, past, Int32s({1}, {0}), three}),
      GroupQuery({q, k, k, none, none, Int32s({1}, {2}), three}),
      GroupQuery({q, k, k, none, none, length, Int32s({1}, {1})}),
      GroupQuery({q, k, k, none, none, length, total},
                 {{"do_rotary", int64_t{1}}}),
      // Angles for one position only, and for more pairs than there are.
      GroupQuery({q, k, k, none, none, length, total, In({1, 1}), In({1, 1})},
                 {{"do_rotary", int64_t{1}}}),
      GroupQuery({q, k, k, none, none, length, total, In({2, 2}), In({2, 2})},
                 {{"do_rotary", int64_t{1}}}),
      GroupQuery({q, k, k, none, none, length, total, none, none, none,
                  In({1, 1, 2, 3})}),
      GroupQuery({q, k, k, none, none, length, total},
                 {{"kv_cache_bit_width", int64_t{8}}}),
      GroupQuery({q, k, k, none, none, length, total},
                 {{"causal", int64_t{0}}}),
  };
  ExpectRefused(bad);
  EXPECT_EQ(ErrorOf(GroupQuery({q, k, k, none, none, length, total},
                               {{"local_window_size", int64_t{2}}})),
            "[GroupQueryAttention \"n\"] attribute local_window_size is not "
            "supported");
  EXPECT_EQ(ErrorOf(GroupQuery({q, k, k, none, none, length, total, none, none,
                                Int64s({1, 2}, {0, 1})})),
            "[GroupQueryAttention \"n\"] input 9 is not supported");
}

TEST(BadInput, OfSelectionIsRefused) {
  const CaseInput boxes = In({1, 2, 4});
  const CaseInput scores = In({1, 1, 2});
  const OpCase bad[] = {
      {.op = "Compress", .inputs = {In({2}), BoolsOf({3}, {1, 1, 1})}},
      {.op = "Compress", .inputs = {In({2}), In({2})}},
      {.op = "Compress",
       .inputs = {In({2}), BoolsOf({1}, {1})},
       .attributes = {{"axis", int64_t{1}}}},
      {.op = "ReverseSequence", .inputs = {In({2, 2}), Int64s({2}, {3, 1})}},
      {.op = "ReverseSequence", .inputs = {In({2, 2}), Int64s({2}, {-1, 1})}},
      {.op = "ReverseSequence", .inputs = {In({2}), Int64s({1}, {1})}},
      {.op = "ReverseSequence",
       .inputs = {In({2, 2}), Int64s({2}, {1, 1})},
       .attributes = {{"time_axis", int64_t{1}}}},
      {.op = "Unique",
       .inputs = {In({2})},
       .attributes = {{"axis", int64_t{1}}}},
      {.op = "Unique",
       .inputs = {In({int64_t{1} << 45, 0})},
       .attributes = {{"axis", int64_t{0}}}},
      {.op = "NonMaxSuppression", .inputs = {In({1, 2, 3}), scores}},
      {.op = "NonMaxSuppression", .inputs = {boxes, In({1, 1, 3})}},
      {.op = "NonMaxSuppression",
       .inputs = {boxes, scores, Int64s({1}, {1}), In({}, {2})}},
      {.op = "NonMaxSuppression",
       .inputs = {boxes, scores, Int64s({2}, {1, 1})}},
  };
  ExpectRefused(bad);
}

}  // namespace
}  // namespace strop
