// SPDX-License-Identifier: Apache-2.0
//
// Bits, remainders and the activations without a gradient op.
#include "ops/cases/cases.h"

namespace strop {
namespace {

const std::vector<DataType> kAllIntegers = {
    DataType::kInt8,  DataType::kInt16,  DataType::kInt32,  DataType::kInt64,
    DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64};
const std::vector<DataType> kSignedIntegers = {
    DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64};

Cases BitCases() {
  const CaseAttributes left = {{"direction", std::string("LEFT")}};
  const CaseAttributes right = {{"direction", std::string("RIGHT")}};
  return {
      {.name = "BitShift/left",
       .op = "BitShift",
       .inputs = {In({4}, {16, 4, 1, 127}), In({4}, {1, 2, 3, 0})},
       .attributes = left,
       .opset = 11,
       .expected = {{32, 16, 8, 127}},
       .types = kAllIntegers},
      {.name = "BitShift/right, column from row",
       .op = "BitShift",
       .inputs = {In({2, 1}, {16, 100}), In({3}, {0, 1, 5})},
       .attributes = right,
       .opset = 28,
       .expected = {{16, 8, 0, 100, 50, 3}},
       .types = kAllIntegers},
      // Copies of the sign bit come in; too far is all sign or nothing.
      {.name = "BitShift/right, signed",
       .op = "BitShift",
       .inputs = {In({5}, {-8, -1, -7, -7, 7}), In({5}, {1, 3, 100, -1, -1})},
       .attributes = right,
       .opset = 28,
       .expected = {{-4, -1, -1, -1, 0}},
       .types = kSignedIntegers},
      {.name = "BitShift/left, past the sign",
       .op = "BitShift",
       .inputs = {In({5}, {64, 64, -127, 3, 3}), In({5}, {1, 2, 1, 8, -1})},
       .attributes = left,
       .opset = 28,
       .expected = {{-128, 0, 2, 0, 0}},
       .types = {DataType::kInt8}},
      {.name = "BitShift/unsigned, too far",
       .op = "BitShift",
       .inputs = {In({3}, {255, 255, 255}), In({3}, {7, 8, 255})},
       .attributes = right,
       .opset = 28,
       .expected = {{1, 0, 0}},
       .types = {DataType::kUint8}},
      {.name = "BitwiseAnd",
       .op = "BitwiseAnd",
       .inputs = {In({2, 1}, {12, 7}), In({3}, {10, 0, 127})},
       .expected = {{8, 0, 12, 2, 0, 7}},
       .types = kAllIntegers},
      {.name = "BitwiseOr",
       .op = "BitwiseOr",
       .inputs = {In({3}, {12, 1, 0}), In({}, {10})},
       .expected = {{14, 11, 10}},
       .types = kAllIntegers},
      {.name = "BitwiseXor",
       .op = "BitwiseXor",
       .inputs = {In({3}, {12, 10, 0}), In({3}, {10, 10, 5})},
       .expected = {{6, 0, 5}},
       .types = kAllIntegers},
      {.name = "BitwiseXor/signed",
       .op = "BitwiseXor",
       .inputs = {In({2}, {-1, -8}), In({2}, {3, -8})},
       .expected = {{-4, 0}},
       .types = kSignedIntegers},
      {.name = "BitwiseAnd/empty",
       .op = "BitwiseAnd",
       .inputs = {In({0, 3}), In({3}, {1, 2, 3})},
       .expected = {{}},
       .types = kOnlyInt64},
      {.name = "BitwiseNot",
       .op = "BitwiseNot",
       .inputs = {In({3}, {0, -1, 5})},
       .expected = {{-1, 0, -6}},
       .types = kSignedIntegers},
      {.name = "BitwiseNot/scalar",
       .op = "BitwiseNot",
       .inputs = {In({}, {5})},
       .expected = {{250}},
       .types = {DataType::kUint8}},
      {.name = "BitCast/float32",
       .op = "BitCast",
       .inputs = {Typed(DataType::kFloat32, {3}, {1, -2, 0})},
       .attributes = {{"to", int64_t{6}}},
       .opset = 26,
       .expected = {{0x3f800000, -0x40000000, 0}},
       .types = kOnlyInt32},
      {.name = "BitCast/bool",
       .op = "BitCast",
       .inputs = {Typed(DataType::kInt8, {2, 1}, {1, 0})},
       .attributes = {{"to", int64_t{9}}},
       .opset = 26,
       .expected = {{1, 0}},
       .types = kOnlyBool},
  };
}

Cases ModCases() {
  const CaseInput a = In({6}, {-4, 7, 5, 4, -7, 8});
  const CaseInput b = In({6}, {2, -3, 8, -2, 3, 5});
  const CaseAttributes fmod = {{"fmod", int64_t{1}}};
  return {
      {.name = "Mod",
       .op = "Mod",
       .inputs = {a, b},
       .expected = {{0, -2, 5, 0, 2, 3}},
       .types = {DataType::kInt8, DataType::kInt16, DataType::kInt32,
                 DataType::kInt64, DataType::kFloat32, DataType::kFloat64}},
      {.name = "Mod/fmod",
       .op = "Mod",
       .inputs = {a, b},
       .attributes = fmod,
       .expected = {{0, 1, 5, 0, -1, 3}},
       .types = {DataType::kInt8, DataType::kInt16, DataType::kInt32,
                 DataType::kInt64, DataType::kFloat32, DataType::kFloat64}},
      {.name = "Mod/unsigned",
       .op = "Mod",
       .inputs = {In({2, 1}, {200, 7}), In({2}, {9, 100})},
       .expected = {{2, 0, 7, 7}},
       .types = {DataType::kUint8, DataType::kUint16, DataType::kUint32,
                 DataType::kUint64}},
      // The lowest number over -1 does not fit into the type.
      {.name = "Mod/lowest",
       .op = "Mod",
       .inputs = {In({2}, {-128, -128}), In({2}, {-1, 127})},
       .expected = {{0, 126}},
       .types = {DataType::kInt8}},
      {.name = "Mod/fractions",
       .op = "Mod",
       .inputs = {In({4}, {-4.25, 7.5, -0.5, 0}), In({4}, {2, -3, 2, 3})},
       .expected = {{1.75, -1.5, 1.5, 0}}},
      {.name = "Mod/infinite and zero divisors",
       .op = "Mod",
       .inputs = {In({6}, {kInf, 1, 2, -2, kNan, 0}),
                  In({6}, {2, 0, kInf, kInf, 1, kInf})},
       .expected = {{kNan, kNan, 2, kInf, kNan, 0}}},
      {.name = "Mod/fmod, infinite and zero divisors",
       .op = "Mod",
       .inputs = {In({5}, {kInf, 1, 2, -2, kNan}),
                  In({5}, {2, 0, kInf, kInf, 1})},
       .attributes = fmod,
       .expected = {{kNan, kNan, 2, -2, kNan}}},
      {.name = "Mod/empty",
       .op = "Mod",
       .inputs = {In({0}), In({1}, {3})},
       .expected = {{}},
       .types = kOnlyInt32},
  };
}

}  // namespace

Cases ElementwiseCases() {
  const Numbers64 numbers = {-30, -2, -0.5, 0, 0.5, 2};
  const CaseInput x = In({2, 3}, numbers);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  Numbers64 swish, gated, celu;
  const Numbers64 values = {1, -3, 2, 5, -0.25, 4};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double v = numbers[i];
    swish.push_back(v * sigmoid(0.5 * v));
    gated.push_back(v * sigmoid(v) * values[i]);
    celu.push_back(std::max(0.0, v) + std::min(0.0, 2 * (std::exp(v / 2) - 1)));
  }
  Cases cases = {
      {.name = "Celu",
       .op = "Celu",
       .inputs = {x},
       .attributes = {{"alpha", 2.0f}},
       .expected = {celu}},
      {.name = "Celu/extremes",
       .op = "Celu",
       .inputs = {In({3}, {-kInf, kInf, kNan})},
       .expected = {{-1, kInf, kNan}}},
      {.name = "Mish",
       .op = "Mish",
       .inputs = {x},
       .expected = {Each(
           numbers,
           [](double v) { return v * std::tanh(std::log1p(std::exp(v))); })}},
      {.name = "Mish/large",
       .op = "Mish",
       .inputs = {In({}, {1000})},
       .expected = {{1000}}},
      {.name = "Swish",
       .op = "Swish",
       .inputs = {x},
       .attributes = {{"alpha", 0.5f}},
       .opset = 24,
       .expected = {swish}},
      {.name = "SwiGLU",
       .op = "SwiGLU",
       .inputs = {x, In({2, 3}, values)},
       .opset = 28,
       .expected = {gated}},
      {.name = "SwiGLU/alpha",
       .op = "SwiGLU",
       .inputs = {x, In({2, 3}, {1, 1, 1, 1, 1, 1})},
       .attributes = {{"alpha", 0.5f}},
       .opset = 28,
       .expected = {swish}},
      {.name = "ThresholdedRelu",
       .op = "ThresholdedRelu",
       .inputs = {In({4}, {-2, 1, 1.5, 2})},
       .expected = {{0, 0, 1.5, 2}}},
      {.name = "ThresholdedRelu/alpha",
       .op = "ThresholdedRelu",
       .inputs = {In({4}, {-2, -0.5, 0.5, 2})},
       .attributes = {{"alpha", -1.0f}},
       .expected = {{0, -0.5, 0.5, 2}}},
      {.name = "Shrink",
       .op = "Shrink",
       .inputs = {In({5}, {-2, -0.5, 0.25, 0.5, 2})},
       .expected = {{-2, 0, 0, 0, 2}}},
      {.name = "Shrink/soft",
       .op = "Shrink",
       .inputs = {In({5}, {-2, -1.5, 0.25, 1.5, 2})},
       .attributes = {{"lambd", 1.5f}, {"bias", 1.25f}},
       .expected = {{-0.75, 0, 0, 0, 0.75}}},
      {.name = "Shrink/integers",
       .op = "Shrink",
       .inputs = {In({4}, {0, 1, 2, 5})},
       .attributes = {{"lambd", 1.5f}, {"bias", 1.25f}},
       .expected = {{0, 0, 0, 3}},
       .types = kAllIntegers},
      // What does not fit stops at the last number that does.
      {.name = "Shrink/unsigned below zero",
       .op = "Shrink",
       .inputs = {In({2}, {1, 255})},
       .attributes = {{"lambd", 0.5f}, {"bias", 2.0f}},
       .expected = {{0, 253}},
       .types = {DataType::kUint8}},
      {.name = "PRelu",
       .op = "PRelu",
       .inputs = {x, In({2, 3}, {0.5, 0.25, 2, 9, 9, 9})},
       .expected = {{-15, -0.5, -1, 0, 0.5, 2}}},
      {.name = "PRelu/slope of channels",
       .op = "PRelu",
       .inputs = {In({1, 2, 2}, {-1, 2, -3, -4}), In({2, 1}, {0.5, 10})},
       .expected = {{-0.5, 2, -30, -40}}},
      {.name = "PRelu/integers",
       .op = "PRelu",
       .inputs = {In({4}, {-3, 0, 4, -1}), In({}, {2})},
       .expected = {{-6, 0, 4, -2}},
       .types = {DataType::kInt32, DataType::kInt64}},
      {.name = "PRelu/unsigned",
       .op = "PRelu",
       .inputs = {In({2}, {3, 0}), In({1}, {2})},
       .expected = {{3, 0}},
       .types = {DataType::kUint32, DataType::kUint64}},
      {.name = "PRelu/empty",
       .op = "PRelu",
       .inputs = {In({0, 2}), In({2}, {1, 2})},
       .expected = {{}}},
  };
  for (Cases (*list)() : {BitCases, ModCases}) {
    for (OpCase& op_case : list()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace strop
