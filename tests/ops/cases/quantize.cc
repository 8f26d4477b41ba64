// SPDX-License-Identifier: Apache-2.0
//
// Ops on quantized numbers. Where no formula stands beside a case, ONNX
// Runtime gave the expected numbers.
#include "ops/cases/cases.h"

namespace strop {
namespace {

const std::vector<DataType> kOnlyFloat32 = {DataType::kFloat32};

CaseInput Uint8s(Shape shape, Numbers64 values) {
  return Typed(DataType::kUint8, shape, std::move(values));
}
CaseInput Int8s(Shape shape, Numbers64 values) {
  return Typed(DataType::kInt8, shape, std::move(values));
}
// A scale, a bias.
CaseInput Float(Numbers64 values) {
  const auto count = static_cast<int64_t>(values.size());
  return Typed(DataType::kFloat32, count == 1 ? Shape{} : Shape{count},
               std::move(values));
}

// 0, step, 2 step, ... modulo `modulus`
CaseInput Bytes(Shape shape, int64_t step, int64_t first, int64_t modulus) {
  Numbers64 values;
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    values.push_back(static_cast<double>((i * step + first) % modulus));
  }
  return Uint8s(shape, std::move(values));
}

Cases LinearCases() {
  const int64_t zero = 0;
  const Numbers64 halves = {-0.75, 0.25, 0.75, 1.25};  // / 0.5: -1.5 ... 2.5
  return {
      {.name = "QuantizeLinear/halves go to even",
       .op = "QuantizeLinear",
       .inputs = {In({4}, halves), In({}, {0.5}), Uint8s({}, {3})},
       .expected = {{1, 3, 5, 5}}},
      {.name = "QuantizeLinear/saturates",
       .op = "QuantizeLinear",
       .inputs = {In({5}, {-1000, 1000, kInf, -kInf, kNan}), In({1}, {2}),
                  Int8s({1}, {-5})},
       .expected = {{-128, 127, 127, -128, -5}}},
      {.name = "QuantizeLinear/uint8 without a zero point",
       .op = "QuantizeLinear",
       .inputs = {In({2}, {-1, 7}), In({}, {0.25})},
       .expected = {{0, 28}}},
      {.name = "QuantizeLinear/output_dtype",
       .op = "QuantizeLinear",
       .inputs = {In({2}, {-1e6, 300}), In({}, {1})},
       .attributes = {{"output_dtype", int64_t{5}}},
       .expected = {{-32768, 300}}},
      {.name = "QuantizeLinear/uint16",
       .op = "QuantizeLinear",
       .inputs = {In({3}, {-1e6, 300, 1e6}), In({}, {2}),
                  Typed(DataType::kUint16, {}, {1000})},
       .expected = {{0, 1150, 65535}}},
      {.name = "QuantizeLinear/axis 0",
       .op = "QuantizeLinear",
       .inputs = {In({2, 2}, {1, 2, 3, -4}), In({2}, {0.5, 0.25}),
                  Int8s({2}, {3, -5})},
       .attributes = {{"axis", zero}},
       .expected = {{5, 7, 7, -21}}},
      {.name = "QuantizeLinear/last axis",
       .op = "QuantizeLinear",
       .inputs = {In({2, 2}, {1, 2, 3, -4}), In({2}, {0.5, 0.25}),
                  Int8s({2}, {3, -5})},
       .attributes = {{"axis", int64_t{-1}}},
       .expected = {{5, 3, 9, -21}}},
      {.name = "QuantizeLinear/blocks",
       .op = "QuantizeLinear",
       .inputs = {In({3, 2}, {1, 2, 3, 4, 5, 6}), In({2, 2}, {1, 0.5, 0.25, 2}),
                  Int8s({2, 2}, {0, 1, 2, 3})},
       .attributes = {{"axis", zero}, {"block_size", int64_t{2}}},
       .expected = {{1, 5, 3, 9, 22, 6}}},
      {.name = "QuantizeLinear/blocks of the last axis",
       .op = "QuantizeLinear",
       .inputs = {In({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}),
                  In({2, 2}, {1, 0.5, 0.25, 2})},
       .attributes = {{"block_size", int64_t{2}}},
       .expected = {{1, 2, 6, 8, 20, 24, 4, 4}}},
      {.name = "QuantizeLinear/nothing",
       .op = "QuantizeLinear",
       .inputs = {In({0, 3}), In({3}, {1, 2, 3})},
       .expected = {{}}},
      {.name = "QuantizeLinear/int32",
       .op = "QuantizeLinear",
       .inputs = {Int32s({2}, {7, -8}), Float({2}), Int8s({}, {1})},
       .expected = {{5, -3}},  // 3.5 -> 4
       .types = kOnlyFloat32},
      {.name = "QuantizeLinear/float16 divides in float16",
       .op = "QuantizeLinear",
       // 4100 / 1.5 lies between 2732 and 2734, neighbours in float16
       .inputs = {In({2}, {4100, -6}), In({}, {1.5}),
                  Typed(DataType::kInt16, {}, {1})},
       .expected = {{2735, -3}},
       .types = {DataType::kFloat16}},
      {.name = "QuantizeLinear/microsoft",
       .op = "QuantizeLinear",
       .inputs = {In({2}, {1, 2}), In({}, {0.5}), Uint8s({}, {3})},
       .domain = kMs,
       .opset = 1,
       .expected = {{5, 7}}},
      {.name = "DequantizeLinear",
       .op = "DequantizeLinear",
       .inputs = {Uint8s({3}, {0, 3, 255}), In({}, {0.5}), Uint8s({}, {3})},
       .expected = {{-1.5, 0, 126}}},
      {.name = "DequantizeLinear/axis",
       .op = "DequantizeLinear",
       .inputs = {Int8s({1, 2, 2}, {-128, 127, 4, 5}), In({2}, {0.5, 2}),
                  Int8s({2}, {1, -1})},
       .expected = {{-64.5, 63, 10, 12}}},
      {.name = "DequantizeLinear/blocks",
       .op = "DequantizeLinear",
       .inputs = {Int8s({3, 2}, {1, 2, 3, 4, 5, 6}),
                  In({2, 2}, {1, 0.5, 0.25, 2}), Int8s({2, 2}, {0, 1, 2, 3})},
       .attributes = {{"axis", zero}, {"block_size", int64_t{2}}},
       .expected = {{1, 0.5, 3, 1.5, 0.75, 6}}},
      {.name = "DequantizeLinear/int32",
       .op = "DequantizeLinear",
       .inputs = {Int32s({}, {-70000}), In({}, {0.5})},
       .expected = {{-35000}},
       .types = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16},
       .tolerance = 1e-3},  // float16 has ten bits
      {.name = "DequantizeLinear/microsoft",
       .op = "DequantizeLinear",
       .inputs = {Typed(DataType::kUint16, {2}, {0, 65535}), In({}, {2})},
       .domain = kMs,
       .opset = 1,
       .expected = {{0, 131070}}},
      {.name = "QuantizeLinearGrad",
       .op = "QuantizeLinearGrad",
       // q = 3, 0, 602 (cut to 255) and 22; slopes 1 / 0.5 but for the cut
       // one. The scale's: -(2 * 0.4 - 4 * 1 + 8 * 10) / 0.5
       .inputs = {In({4}, {1, 2, 3, 4}), In({4}, {0.4, -1, 300, 10}),
                  In({}, {0.5}), Uint8s({}, {2})},
       .domain = "strop",
       .opset = 1,
       .outputs = "11",
       .expected = {{2, 4, 0, 8}, {-153.6}}},
      {.name = "QuantizeLinearGrad/axis",
       .op = "QuantizeLinearGrad",
       .inputs = {In({2, 2}, {1, 1, 1, 1}), In({2, 2}, {1, -1, 10, 200}),
                  In({2}, {1, 0.5}), Int8s({2}, {0, 0})},
       .attributes = {{"axis", zero}},
       .domain = "strop",
       .opset = 1,
       .outputs = "11",
       .expected = {{1, 1, 2, 0}, {0, -40}}},
      {.name = "DequantizeLinearGrad",
       .op = "DequantizeLinearGrad",
       // 1 * 3 + 2 * -3 + 3 * -1
       .inputs = {In({3}, {1, 2, 3}), Int8s({3}, {4, -2, 0}), In({}, {0.5}),
                  Int8s({}, {1})},
       .domain = "strop",
       .opset = 1,
       .outputs = "11",
       .expected = {{0.5, 1, 1.5}, {-6}}},
      {.name = "DequantizeLinearGrad/blocks",
       .op = "DequantizeLinearGrad",
       .inputs = {In({3, 1}, {1, 2, 3}), Int8s({3, 1}, {4, -2, 5}),
                  In({2, 1}, {0.5, 2})},
       .attributes = {{"axis", zero}, {"block_size", int64_t{2}}},
       .domain = "strop",
       .opset = 1,
       .outputs = "11",
       .expected = {{0.5, 1, 6}, {0, 15}}},
      {.name = "DynamicQuantizeLinear",
       .op = "DynamicQuantizeLinear",
       // scale 5 / 255, zero point 102
       .inputs = {In({4}, {1, -2, 3, 0.4})},
       .outputs = "111",
       .expected = {{153, 0, 255, 122}, {5.0 / 255}, {102}},
       .types = kOnlyFloat32},
      {.name = "DynamicQuantizeLinear/zeros",
       .op = "DynamicQuantizeLinear",
       .inputs = {In({2}, {0, 0})},
       .outputs = "111",
       .expected = {{0, 0}, {1}, {0}},
       .types = kOnlyFloat32},
      {.name = "DynamicQuantizeLinear/nothing",
       .op = "DynamicQuantizeLinear",
       .inputs = {In({0})},
       .outputs = "111",
       .expected = {{}, {1}, {0}},
       .types = kOnlyFloat32},
  };
}

Cases ProductCases() {
  const int64_t one = 1;
  const CaseInput a = Uint8s({2, 3}, {1, 2, 3, 4, 5, 6});
  const CaseInput b = Int8s({3, 2}, {-3, 5, 7, -1, 4, 2});
  const CaseInput real =
      Typed(DataType::kFloat32, {2, 3}, {1, -2, 0.5, 3, 0.25, -1});
  return {
      {.name = "MatMulInteger",
       .op = "MatMulInteger",
       .inputs = {a, b},
       .expected = {{23, 9, 47, 27}},
       .types = kOnlyFloat32},
      {.name = "MatMulInteger/zero points of lines",
       .op = "MatMulInteger",
       // (-1 0 1; 0 1 2) times (-4 3; 6 -3; 3 0)
       .inputs = {a, b, Uint8s({2}, {2, 4}), Int8s({2}, {1, 2})},
       .expected = {{7, -3, 12, -3}},
       .types = kOnlyFloat32},
      {.name = "MatMulInteger/batch",
       .op = "MatMulInteger",
       .inputs = {Uint8s({2, 1, 2}, {1, 2, 3, 4}), Int8s({2, 1}, {5, -6}),
                  Uint8s({2, 1, 1}, {0, 1})},
       .expected = {{-7, -8}},  // 2 * 5 - 3 * 6
       .types = kOnlyFloat32},
      {.name = "MatMulInteger/vectors",
       .op = "MatMulInteger",
       .inputs = {Uint8s({2}, {1, 255}), Uint8s({2}, {3, 255})},
       .expected = {{65028}},
       .types = kOnlyFloat32},
      {.name = "MatMulInteger/nothing to add",
       .op = "MatMulInteger",
       .inputs = {Uint8s({2, 0}, {}), Int8s({0, 2}, {})},
       .expected = {{0, 0, 0, 0}},
       .types = kOnlyFloat32},
      {.name = "QLinearMatMul",
       .op = "QLinearMatMul",
       // (-1 0 1; 2 3 4) / 2 times (-4 4; 6 -2; 3 1) / 4, by 0.25, + 10
       .inputs = {a, In({}, {0.5}), Uint8s({}, {2}), b, In({}, {0.25}),
                  Int8s({}, {1}), In({}, {0.25}), Uint8s({}, {10})},
       .expected = {{14, 8, 21, 13}},  // sums 7, -3, 22, 6; 8.5 and 21 as is
       .types = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16}},
      {.name = "QLinearMatMul/scales of columns",
       .op = "QLinearMatMul",
       .inputs = {a, In({}, {0.5}), Uint8s({}, {2}), b, In({2}, {0.25, 1}),
                  Int8s({2}, {1, 1}), In({}, {0.25}), Int8s({}, {-10})},
       .expected = {{-6, -16, 1, 2}}},
      {.name = "ConvInteger",
       .op = "ConvInteger",
       .inputs = {Uint8s({1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10}),
                  Uint8s({1, 1, 2, 2}, {1, 1, 1, 1}), Uint8s({}, {1})},
       .expected = {{12, 16, 24, 28}},
       .types = kOnlyFloat32},
      {.name = "ConvInteger/zero points of channels",
       .op = "ConvInteger",
       .inputs = {Int8s({1, 2, 3}, {1, 2, 3, -4, -5, -6}),
                  Int8s({2, 1, 2}, {1, 2, 3, 5}), Int8s({}, {1}),
                  Int8s({2}, {0, 4})},
       .attributes = {{"group", int64_t{2}},
                      {"pads", std::vector<int64_t>{1, 0}}},
       // channel 0: (0 1 2) * (1 2); channel 1: (-5 -6 -7) * (-1 1)
       .expected = {{0, 2, 5, -5, -1, -1}},
       .types = kOnlyFloat32},
      {.name = "QLinearConv",
       .op = "QLinearConv",
       // x - 1 = 1 2 3; w - zero = (1 2), (-1 1); bias 4, -8
       .inputs = {Uint8s({1, 1, 3}, {2, 3, 4}), In({}, {0.5}), Uint8s({}, {1}),
                  Int8s({2, 1, 2}, {1, 2, 3, 5}), In({2}, {0.5, 2}),
                  Int8s({2}, {0, 4}), In({}, {0.25}), Uint8s({}, {100}),
                  Int32s({2}, {4, -8})},
       // sums 5, 8, 1, 1; with the bias 9, 12, -7, -7; times 1 and 4
       .expected = {{109, 112, 72, 72}}},
      {.name = "MatMulIntegerToFloat",
       .op = "MatMulIntegerToFloat",
       .inputs = {a, b, Float({0.5}), Float({0.25, 0.5}), Uint8s({}, {2}),
                  Int8s({2}, {1, 2}), Float({10, 20})},
       .domain = kMs,
       .expected = {{10.875, 19.25, 12.75, 19.25}},
       .types = kOnlyFloat32},
      {.name = "DynamicQuantizeMatMul",
       .op = "DynamicQuantizeMatMul",
       .inputs = {real, b, Float({0.25, 0.5}), Int8s({2}, {1, 2}),
                  Float({10, 20})},
       .domain = kMs,
       .expected = {{6.382352828979492, 24.5, 6.632352828979492,
                     24.117647171020508}},
       .types = kOnlyFloat32},
      {.name = "QGemm/to float",
       .op = "QGemm",
       .inputs = {a, Float({0.5}), Uint8s({}, {2}), b, Float({0.25, 0.5}),
                  Int8s({2}, {1, 2}), Int32s({2}, {3, -4})},
       .attributes = {{"alpha", 0.5f}},
       .domain = kMs,
       .expected = {{0.625, -0.875, 1.5625, -0.875}},
       .types = kOnlyFloat32},
      {.name = "QGemm/transposed",
       .op = "QGemm",
       .inputs = {Uint8s({3, 2}, {1, 4, 2, 5, 3, 6}), Float({0.5}),
                  Uint8s({}, {2}), Int8s({2, 3}, {-3, 7, 4, 5, -1, 2}),
                  Float({0.25}), Int8s({}, {1}), Int32s({2}, {3, -4}),
                  Float({0.25}), Uint8s({}, {60})},
       .attributes = {{"transA", one}, {"transB", one}},
       .domain = kMs,
       .expected = {{65, 56, 72, 61}},
       .types = kOnlyFloat32},
  };
}

Cases BitsCases() {
  const int64_t k = 24, n = 3, block = 16;
  Numbers64 numbers, groups;
  for (int64_t i = 0; i < 2 * k; ++i) {
    numbers.push_back(0.5 * static_cast<double>(i % 7 - 3));
  }
  for (int64_t i = 0; i < k; ++i) {
    groups.push_back(static_cast<double>(i * 5 % 2));
  }
  const CaseInput a = In({2, k}, numbers);
  const CaseInput scales = In({n, 2}, {0.25, 0.5, 0.75, 1, 1.25, 1.5});
  const auto b = [&](int64_t bits) {
    return Bytes({n, 2, block * bits / 8}, 73, 11, 256);
  };
  const CaseInput zeros = Uint8s({3, 1}, {0x37, 0x91, 0x5a});
  const auto make = [&](std::string name, int64_t bits,
                        std::vector<CaseInput> inputs, Numbers64 expected) {
    return OpCase{.name = "MatMulNBits/" + name,
                  .op = "MatMulNBits",
                  .inputs = std::move(inputs),
                  .attributes = {{"K", k},
                                 {"N", n},
                                 {"bits", bits},
                                 {"block_size", block}},
                  .domain = kMs,
                  .expected = {std::move(expected)}};
  };
  const CaseInput dy = In({2, n}, {1, -2, 0.5, 0, 1, 3});
  const auto backward = [&](std::string name, int64_t bits,
                            std::vector<CaseInput> inputs, Numbers64 expected) {
    OpCase result = make("", bits, std::move(inputs), std::move(expected));
    result.name = "MatMulNBitsGrad/" + name;
    result.op = "MatMulNBitsGrad";
    result.domain = "strop";
    return result;
  };
  return {
      make("4 bits", 4, {a, b(4), scales},
           {-6.375, -39.375, 39.625, -14, 35.875, -46.25}),
      make("4 bits, zero points", 4, {a, b(4), scales, zeros},
           {-8.25, -52, 43.625, -11.375, 37.5, -43}),
      make("4 bits, real zero points", 4,
           {a, b(4), scales, In({n, 2}, {0, 0.5, 1, 1.5, 2, 2.5})},
           {-13.25, -55.75, 16.75, -9.25, 45, -34.25}),
      make("4 bits, bias", 4,
           {a, b(4), scales, zeros, Omitted(), In({n}, {1, 2, 3})},
           {-7.25, -50, 46.625, -10.375, 39.5, -40}),
      make("4 bits, groups", 4,
           {a, b(4), scales, Omitted(), Int32s({k}, groups)},
           {-0.75, -42, 50.75, -17.375, 45.625, -49.375}),
      // ONNX Runtime forgets the zero points here; this is by the formula.
      make("4 bits, groups and zero points", 4,
           {a, b(4), scales, zeros, Int32s({k}, groups)},
           {-6, -45.25, 44.25, -12.5, 41, -39.125}),
      make("8 bits", 8, {a, b(8), scales},
           {304.875, 716.875, 72.875, 264, -265.25, -42.5}),
      make("8 bits, zero points", 8,
           {a, b(8), scales, Uint8s({n, 2}, {3, 100, 128, 200, 7, 9})},
           {219.75, 752.875, -394.5, 293.625, -337.25, 211.625}),
      make("2 bits", 2, {a, b(2), scales, Uint8s({n, 1}, {0x6, 0xb, 0x1})},
           {-4.375, 6.125, -13.375, 2.875, -4.5, 10.25}),
      make("no rows", 4, {In({0, 5, k}), b(4), scales}, {}),
      // dY B', with B as NumPy dequantizes it.
      backward("groups and zero points", 4,
               {dy, b(4), scales, zeros, Int32s({k}, groups)},
               {-13.375, -3.75, -9,     -7.5, -14.625, 21.5,  -10.25, 5.75,
                -15.875, -5.25, -11.5,  23,   -7.125,  19.25, -12.75, -3.75,
                -8.375,  -7.5,  -14,    21.5, -9.625,  5.75,  -15.25, -5.25,
                11.25,   -13.5, -20.25, 14,   20.25,   20,    -11.25, -24.5,
                29.25,   -2.5,  -2.25,  9,    -33.75,  36.5,  6.75,   -13.5,
                -24.75,  14,    15.75,  20,   -15.75,  -24.5, 24.75,  -2.5}),
      backward("8 bits", 8, {dy, b(8), scales},
               {65.125, 19.5,  -26.125, 152.25, 42.625, -3,   -208.625, 65.75,
                20.125, -25.5, 152.875, 43.25,  -2.375, -208, 66.375,   20.75,
                -36.25, 229,   46.25,   -8.5,   -63.25, 74,   19.25,    -35.5,
                -262.5, 66,    394.5,   -429,   -100.5, 228,  -403.5,   -267,
                61.5,   390,   -433.5,  -105,   223.5,  -408, -271.5,   57,
                468.5,  -538,  -136.5,  265,    666.5,  -340, 61.5,     463}),
      backward("no rows", 4, {In({0, 5, n}), b(4), scales}, {}),
  };
}

Cases QLinearCases() {
  const CaseInput none = Omitted();
  const CaseInput x = Bytes({1, 2, 4, 4}, 37, 0, 101);
  CaseInput last = x;  // the same with the channels last
  last.shape = {1, 4, 4, 2};
  for (size_t i = 0; i < 32; ++i) {
    last.values[i] = x.values[i % 2 * 16 + i / 2];
  }
  const auto pool = [](std::string name, CaseInput input,
                       CaseAttributes attributes, Numbers64 expected) {
    OpCase result = {
        .name = "QLinearAveragePool/" + name,
        .op = "QLinearAveragePool",
        .inputs = {std::move(input), Float({0.5}), Uint8s({}, {20}),
                   Float({0.25}), Uint8s({}, {30})},
        .attributes = {{"kernel_shape", std::vector<int64_t>{3, 3}},
                       {"strides", std::vector<int64_t>{2, 2}},
                       {"pads", std::vector<int64_t>{1, 1, 1, 1}}},
        .domain = kMs,
        .expected = {std::move(expected)},
        .types = kOnlyFloat32};
    for (auto& attribute : attributes) result.attributes.push_back(attribute);
    return result;
  };
  const auto softmax = [](std::string name, int64_t axis, int64_t opset,
                          Numbers64 expected) {
    return OpCase{
        .name = "QLinearSoftmax/" + name,
        .op = "QLinearSoftmax",
        .inputs = {Uint8s({2, 2, 2}, {10, 20, 30, 40, 50, 44, 0, 200}),
                   Float({0.1}), Uint8s({}, {3}), Float({1 / 256.0}),
                   Uint8s({}, {0})},
        .attributes = {{"axis", axis}, {"opset", opset}},
        .domain = kMs,
        .expected = {std::move(expected)},
        .types = kOnlyFloat32};
  };
  return {
      {.name = "QLinearSigmoid",
       .op = "QLinearSigmoid",
       .inputs = {Int8s({4}, {-128, 0, 5, 127}), Float({0.05}), Int8s({}, {5}),
                  Float({1 / 256.0}), Int8s({}, {-128})},
       .domain = kMs,
       .expected = {{-128, -16, 0, 127}},
       .types = kOnlyFloat32},
      {.name = "QLinearSigmoid/no zero points",
       .op = "QLinearSigmoid",
       .inputs = {Uint8s({3}, {0, 100, 255}), Float({0.05}), none,
                  Float({1 / 256.0})},
       .domain = kMs,
       .expected = {{128, 254, 255}},
       .types = kOnlyFloat32},
      {.name = "QLinearLeakyRelu",
       .op = "QLinearLeakyRelu",
       .inputs = {Uint8s({4}, {0, 100, 128, 255}), Float({0.5}),
                  Uint8s({}, {128}), Float({0.25}), Uint8s({}, {10})},
       .attributes = {{"alpha", 0.1f}},
       .domain = kMs,
       .expected = {{0, 4, 10, 255}},
       .types = kOnlyFloat32},
      softmax("one line", 1, 11, {8, 22, 61, 165, 0, 0, 0, 255}),
      softmax("along axis 1", 1, 13, {31, 31, 225, 225, 254, 0, 2, 255}),
      {.name = "QLinearAdd",
       .op = "QLinearAdd",
       .inputs = {Uint8s({2, 2}, {0, 100, 128, 255}), Float({0.5}),
                  Uint8s({}, {128}), Uint8s({2}, {7, 20}), Float({0.25}),
                  Uint8s({}, {10}), Float({0.5}), Uint8s({}, {100})},
       .domain = kMs,
       .expected = {{0, 77, 98, 232}},
       .types = kOnlyFloat32},
      {.name = "QLinearMul",
       .op = "QLinearMul",
       .inputs = {Int8s({2, 2}, {-100, 100, 12, 127}), Float({0.5}),
                  Int8s({}, {1}), Int8s({2, 1}, {7, 20}), Float({0.25}),
                  Int8s({}, {10}), Float({2}), Int8s({}, {-3})},
       .domain = kMs,
       .expected = {{16, -22, 4, 76}},
       .types = kOnlyFloat32},
      {.name = "QLinearWhere",
       .op = "QLinearWhere",
       .inputs = {BoolsOf({2}, {1, 0}), Uint8s({2, 2}, {10, 20, 30, 40}),
                  Float({0.5}), Uint8s({}, {0}), Uint8s({1}, {7}), Float({2}),
                  Uint8s({}, {1}), Float({1}), Uint8s({}, {3})},
       .domain = kMs,
       .expected = {{8, 15, 18, 15}},
       .types = kOnlyFloat32},
      {.name = "QLinearConcat",
       .op = "QLinearConcat",
       .inputs = {Float({0.5}), Uint8s({}, {10}), Uint8s({2, 2}, {1, 2, 3, 4}),
                  Float({0.25}), Uint8s({}, {0}), Uint8s({2, 1}, {20, 30}),
                  Float({1}), Uint8s({}, {15})},
       .attributes = {{"axis", int64_t{1}}},
       .domain = kMs,
       .expected = {{10, 11, 20, 12, 12, 40}},
       .types = kOnlyFloat32},
      pool("pads left out", x, {}, {74, 84, 114, 79, 96, 90, 86, 96}),
      pool("pads count", x, {{"count_include_pad", int64_t{1}}},
           {50, 66, 86, 79, 60, 70, 67, 96}),
      pool("channels last", last, {{"channels_last", int64_t{1}}},
           {74, 96, 84, 90, 114, 86, 79, 96}),
      {.name = "QLinearGlobalAveragePool",
       .op = "QLinearGlobalAveragePool",
       .inputs = {x, Float({0.5}), Uint8s({}, {20}), Float({0.25}),
                  Uint8s({}, {30})},
       .domain = kMs,
       .expected = {{78, 100}},
       .types = kOnlyFloat32},
      {.name = "QLinearGlobalAveragePool/channels last",
       .op = "QLinearGlobalAveragePool",
       .inputs = {last, Float({0.5}), Uint8s({}, {20}), Float({0.25}),
                  Uint8s({}, {30})},
       .attributes = {{"channels_last", int64_t{1}}},
       .domain = kMs,
       .expected = {{78, 100}},
       .types = kOnlyFloat32},
  };
}

// Numbers without a pattern: (i * step + first) % modulus - shift.
Numbers64 Scattered(int64_t count, int64_t step, int64_t first, int64_t modulus,
                    int64_t shift) {
  Numbers64 values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>((i * step + first) % modulus - shift));
  }
  return values;
}

// The elements of (1, channels, cells) with the channels last.
Numbers64 WithChannelsLast(const Numbers64& x, size_t channels) {
  const size_t cells = x.size() / channels;
  Numbers64 y;
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(x[i % channels * cells + i / channels]);
  }
  return y;
}

// com.microsoft's: four channels in and out, an image of 3 x 4.
Cases QLinearConvCases() {
  const DataType u8 = DataType::kUint8, i8 = DataType::kInt8;
  const Numbers64 unsigned_x = Scattered(48, 37, 11, 200, 0);
  const Numbers64 signed_x = Scattered(48, 37, 11, 200, 100);
  const auto make = [](std::string name, CaseInput x, double x_zero,
                       CaseInput w, CaseInput w_scale, double y_zero,
                       CaseInput bias, CaseAttributes attributes,
                       Numbers64 expected) {
    const DataType type = x.type;
    CaseInput w_zero =
        Typed(w.type, {}, {w.type == DataType::kUint8 ? 60. : 0});
    OpCase result = {
        .name = "QLinearConv/" + name,
        .op = "QLinearConv",
        .inputs = {std::move(x), Float({0.05}), Typed(type, {}, {x_zero}),
                   std::move(w), std::move(w_scale), std::move(w_zero),
                   Float({1}), Typed(type, {}, {y_zero}), std::move(bias)},
        .attributes = {{"pads", std::vector<int64_t>{1, 0, 1, 1}}},
        .domain = kMs,
        .expected = {std::move(expected)},
        .types = kOnlyFloat32};
    for (auto& attribute : attributes) result.attributes.push_back(attribute);
    return result;
  };
  const auto last = [](CaseAttributes attributes) {
    attributes.push_back({"channels_last", int64_t{1}});
    return attributes;
  };
  const CaseInput w = Typed(u8, {4, 4, 2, 2}, Scattered(64, 29, 5, 120, 0));
  const CaseInput bias = Int32s({4}, {100, -200, 300, 0});
  const Numbers64 y = {128, 127, 128, 129, 137, 137, 127, 116, 128, 127, 138,
                       126, 126, 116, 128, 138, 128, 126, 128, 129, 122, 128,
                       130, 128, 122, 130, 129, 126, 131, 131, 130, 124, 129,
                       126, 129, 131, 137, 129, 124, 130, 115, 137, 128, 128,
                       129, 120, 134, 126, 130, 124, 130, 131, 132, 125, 128,
                       131, 125, 127, 127, 130, 132, 129, 125, 126};
  return {
      make("microsoft", Typed(u8, {1, 4, 3, 4}, unsigned_x), 100, w,
           Float({0.02}), 128, bias, {}, y),
      make("channels last",
           Typed(u8, {1, 3, 4, 4}, WithChannelsLast(unsigned_x, 4)), 100, w,
           Float({0.02}), 128, bias, last({}), WithChannelsLast(y, 4)),
      make("channels last, groups and strides",
           Typed(u8, {1, 3, 4, 4}, WithChannelsLast(unsigned_x, 4)), 100,
           Typed(i8, {4, 2, 2, 2}, Scattered(32, 29, 5, 120, 60)),
           Float({0.02}), 120, bias,
           last({{"group", int64_t{2}},
                 {"strides", std::vector<int64_t>{2, 1}}}),
           {118, 119, 121, 120, 120, 120, 119, 117, 123, 121, 119,
            120, 120, 119, 122, 123, 126, 119, 115, 116, 121, 125,
            118, 118, 122, 113, 127, 126, 121, 120, 118, 117}),
      make("channels last, depthwise, no bias",
           Typed(i8, {1, 3, 4, 4}, WithChannelsLast(signed_x, 4)), -3,
           Typed(i8, {4, 1, 2, 2}, Scattered(16, 29, 5, 120, 60)),
           Float({0.02, 0.01, 0.03, 0.04}), 5, Omitted(),
           last({{"group", int64_t{4}}}),
           {3,  5,  6,  7, 4, 5, 7, 0,  6, 6, 1,  5,  5, 5, 6,  6,
            14, 6,  3,  5, 6, 4, 5, 22, 4, 3, 18, -5, 4, 3, -3, 2,
            1,  10, -2, 2, 4, 6, 2, 4,  7, 5, 4,  21, 6, 5, 10, -6,
            3,  2,  17, 0, 0, 3, 1, 2,  2, 8, 2,  3,  9, 6, 6,  11}),
  };
}

// Expected: DequantizeLinear, ReduceMean and QuantizeLinear in a row.
Cases QLinearReduceCases() {
  const auto make = [](std::string name, DataType type, double zero,
                       double y_zero, CaseAttributes attributes,
                       Numbers64 expected) {
    const int64_t shift = type == DataType::kUint8 ? 0 : 125;
    return OpCase{
        .name = "QLinearReduceMean/" + name,
        .op = "QLinearReduceMean",
        .inputs = {Typed(type, {2, 3, 2}, Scattered(12, 37, 0, 251, shift)),
                   Float({0.5}), Typed(type, {}, {zero}), Float({0.25}),
                   Typed(type, {}, {y_zero})},
        .attributes = std::move(attributes),
        .domain = kMs,
        .expected = {std::move(expected)},
        .types = kOnlyFloat32};
  };
  using Axes = std::vector<int64_t>;
  const DataType u8 = DataType::kUint8, i8 = DataType::kInt8;
  const int64_t no = 0;
  return {
      make("middle axis", u8, 100, 30, {{"axes", Axes{1}}}, {0, 52, 87, 0}),
      make("outer axes", i8, -3, 7, {{"axes", Axes{0, 2}}, {"keepdims", no}},
           {-103, -81, 67}),
      make("last axis", i8, -3, 7, {{"axes", Axes{-1}}, {"keepdims", no}},
           {-128, -52, 96, -7, -110, 38}),
      make("all axes", u8, 100, 30, {}, {28}),
  };
}

}  // namespace

Cases QuantizeCases() {
  Cases all;
  for (Cases (*list)() : {LinearCases, ProductCases, BitsCases, QLinearCases,
                          QLinearConvCases, QLinearReduceCases}) {
    for (OpCase& op_case : list()) all.push_back(std::move(op_case));
  }
  return all;
}

}  // namespace strop
