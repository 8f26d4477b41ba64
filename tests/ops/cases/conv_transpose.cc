// SPDX-License-Identifier: Apache-2.0
//
// Transposed convolution and what else spreads windows over an image, and
// pooling by norms. Expected values come from ONNX Runtime 1.32; those of
// gradients and of Col2Im from sums over all taps, written out in NumPy.
#include "ops/cases/cases.h"

namespace strop {

using IntList = std::vector<int64_t>;

namespace {

Numbers64 Counting(int n) {
  Numbers64 numbers;
  for (int i = 0; i < n; ++i) numbers.push_back(i);
  return numbers;
}

struct GroupedTranspose {
  CaseInput x = Mixed({1, 4, 2, 3}, 7, 11);
  CaseInput w = Mixed({4, 1, 3, 2}, 5, 7);
  CaseInput dy = Mixed({1, 2, 5, 3}, 3, 5);
  CaseAttributes attributes = {{"group", int64_t{2}},
                               {"strides", IntList{2, 1}},
                               {"pads", IntList{1, 0, 0, 1}},
                               {"output_padding", IntList{1, 0}}};
  Numbers64 y = {9,  11, -11, -40, 13, 24,  7,  -11, -11, 10,
                 20, 0,  1,   1,   1,  -8,  12, -12, -4,  -34,
                 16, -4, 17,  -7,  -4, -14, 8,  -2,  -2,  -2};
  Numbers64 dx = {4, 0,  -6, -6, -13, 9,  -8, -4, 2,  -6, 11,  4,
                  8, -1, 3,  1,  7,   -8, 3,  2,  -3, 8,  -11, -6};
  Numbers64 dw = {16, -2, 12, -10, -11, -13, 16, 2,  -10, -1, 13, -7,
                  -6, 6,  1,  -3,  4,   -1,  -6, 10, 1,   -5, 6,  5};
};

void AddConvTranspose(Cases& cases) {
  const GroupedTranspose grouped;
  const CaseInput line = Mixed({2, 1, 4}, 7, 11);
  const CaseInput taps = Mixed({1, 2, 3}, 5, 7);
  const CaseInput cube = Mixed({1, 1, 2, 2, 2}, 7, 11);
  const CaseInput cube_taps = Mixed({1, 1, 2, 2, 2}, 5, 7);
  const auto same = [&](const char* mode, Numbers64 expected) {
    return OpCase{.name = std::string("ConvTranspose/") + mode,
                  .op = "ConvTranspose",
                  .inputs = {line, taps},
                  .attributes = {{"auto_pad", std::string(mode)},
                                 {"strides", IntList{2}},
                                 {"dilations", IntList{2}}},
                  .expected = {std::move(expected)}};
  };
  const auto sized = [&](IntList size, Numbers64 expected) {
    return OpCase{
        .name = "ConvTranspose/output size " + std::to_string(size.back()),
        .op = "ConvTranspose",
        .inputs = {line, taps},
        .attributes = {{"strides", IntList{3}}, {"output_shape", size}},
        .expected = {std::move(expected)}};
  };
  cases.insert(
      cases.end(),
      {{.name = "ConvTranspose",
        .op = "ConvTranspose",
        .inputs = {grouped.x, grouped.w, In({2}, {1, -2})},
        .attributes = grouped.attributes,
        .expected = {grouped.y}},
       {.name = "ConvTransposeGrad",
        .op = "ConvTransposeGrad",
        .inputs = {grouped.dy, grouped.x, grouped.w},
        .attributes = grouped.attributes,
        .domain = kMs,
        .outputs = "111",
        .expected = {grouped.dx, grouped.dw, {0, 0}}},
       {.name = "ConvTransposeGrad/dW only",
        .op = "ConvTransposeGrad",
        .inputs = {grouped.dy, grouped.x, grouped.w},
        .attributes = grouped.attributes,
        .domain = kMs,
        .outputs = "01",
        .expected = {{}, grouped.dw}},
       same("SAME_LOWER",
            {-16, 0, 10,  0, -19, 0, 10, 0, -19, 0, 5,   0, -14, 0, 13, 0,
             11,  0, -18, 0, 8,   0, 0,  0, 9,   0, -16, 0, 9,   0, 4,  0}),
       same("SAME_UPPER",
            {0, -16, 0, 10,  0, -19, 0, 10, 0, -19, 0, 5,   0, -14, 0, 13,
             0, 11,  0, -18, 0, 8,   0, 0,  0, 9,   0, -16, 0, 9,   0, 4}),
       sized({9}, {0, -6, 4,  0,  6,   -4, 0,  -15, 10, -5, -4,  6,
                   2, 4,  -6, -2, -10, 15, 0,  9,   -6, 0,  -12, 8,
                   0, 0,  0,  1,  6,   -9, -3, -8,  12, 4,  0,   0}),
       // More than the taps reach; batch and channels may be named.
       sized({2, 2, 14},
             {15, -10, 0,  -6, 4,  0,  6,   -4, 0,  -15, 10, 0, 0, 0,
              10, -15, -5, -4, 6,  2,  4,   -6, -2, -10, 15, 5, 0, 0,
              -3, 2,   0,  9,  -6, 0,  -12, 8,  0,  0,   0,  0, 0, 0,
              -2, 3,   1,  6,  -9, -3, -8,  12, 4,  0,   0,  0, 0, 0}),
       {.name = "ConvTranspose/three axes",
        .op = "ConvTranspose",
        .inputs = {cube, cube_taps},
        .expected = {{15,  -16, 4,  6,   -9, 6, 0,  4,   -10,
                      -18, 12,  -4, -13, 32, 5, 2,  -7,  -15,
                      3,   -8,  -3, 11,  4,  9, -4, -12, 0}}},
       {.name = "ConvTransposeGrad/three axes",
        .op = "ConvTransposeGrad",
        .inputs = {Mixed({1, 1, 3, 3, 3}, 3, 5), cube, cube_taps},
        .domain = kMs,
        .outputs = "111",
        .expected = {{1, -8, -6, 0, 0, 1, 13, -6},
                     {10, -14, -32, 14, 14, 10, 22, -32},
                     {-1}}},
       {.name = "ConvTranspose/no batch",
        .op = "ConvTranspose",
        .inputs = {In({0, 4, 2, 3}), grouped.w},
        .expected = {{}}}});
}

void AddSpreading(Cases& cases) {
  const CaseInput pooled = In({1, 1, 2, 2}, {5, 6, 7, 8});
  const CaseInput where = Int64s({1, 1, 2, 2}, {5, 7, 13, 15});
  const CaseAttributes halves = {{"kernel_shape", IntList{2, 2}},
                                 {"strides", IntList{2, 2}}};
  cases.insert(
      cases.end(),
      {{.name = "Col2Im",
        .op = "Col2Im",
        .inputs = {Mixed({1, 8, 6}, 7, 11), Int64s({2}, {3, 4}),
                   Int64s({2}, {2, 2})},
        .attributes = {{"strides", IntList{1, 2}},
                       {"pads", IntList{0, 1, 1, 0}},
                       {"dilations", IntList{1, 2}}},
        .expected = {{0, 6, 0, 0, 0, -1, 0, -1, 0, 0, 0, -6,
                      0, 1, 0, 3, 0, 0,  0, -6, 0, 1, 0, 0}},
        .types = {DataType::kFloat32, DataType::kFloat64, DataType::kInt8}},
       {.name = "Col2Im/one axis",
        .op = "Col2Im",
        .inputs = {Mixed({1, 4, 3}, 7, 11), Int64s({1}, {5}), Int64s({1}, {2})},
        .attributes = {{"strides", IntList{2}}, {"pads", IntList{1, 1}}},
        .expected = {{5, 2, 1, -2, -3, 3, 0, -1, -4, -5}}},
       {.name = "MaxUnpool",
        .op = "MaxUnpool",
        .inputs = {pooled, where},
        .attributes = halves,
        .expected = {{0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8}}},
       // The indices count in the 4 x 4 plane all the same.
       {.name = "MaxUnpool/into a larger plane",
        .op = "MaxUnpool",
        .inputs = {pooled, where, Int64s({4}, {1, 1, 5, 5})},
        .attributes = halves,
        .expected = {{0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0, 0,
                      0, 0, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0}}},
       // (1 - 1) + 3 - 2 = 1 cell a row, the first of 3.
       {.name = "MaxUnpool/padded, into longer rows",
        .op = "MaxUnpool",
        .inputs = {In({1, 1, 2, 1}, {5, 6}), Int64s({1, 1, 2, 1}, {0, 1}),
                   Int64s({4}, {1, 1, 2, 3})},
        .attributes = {{"kernel_shape", IntList{1, 3}},
                       {"pads", IntList{0, 1, 0, 1}}},
        .expected = {{5, 0, 0, 6, 0, 0}}}});
  // A block's cells become channels and back.
  for (const std::string mode : {"DCR", "CRD"}) {
    const Numbers64 plane =
        mode == "DCR"
            ? Numbers64{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15}
            : Numbers64{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
    const CaseAttributes attributes = {{"mode", mode},
                                       {"blocksize", int64_t{2}}};
    const std::vector<DataType> types = {DataType::kFloat32, DataType::kFloat64,
                                         DataType::kInt64, DataType::kUint8,
                                         DataType::kBfloat16};
    cases.push_back({.name = "DepthToSpace/" + mode,
                     .op = "DepthToSpace",
                     .inputs = {In({1, 8, 1, 2}, Counting(16))},
                     .attributes = attributes,
                     .expected = {plane},
                     .types = types});
    OpCase back = {.name = "SpaceToDepth/" + mode,
                   .op = "SpaceToDepth",
                   .inputs = {In({1, 2, 2, 4}, plane)},
                   .attributes = attributes,
                   .opset = 28,
                   .expected = {Counting(16)},
                   .types = types};
    cases.push_back(back);
    back.name = "strop.SpaceToDepth/" + mode;
    back.domain = kStrop;
    back.opset = 1;
    cases.push_back(back);
  }
  cases.push_back({.name = "DepthToSpace/no batch",
                   .op = "DepthToSpace",
                   .inputs = {In({0, 4, 1, 1})},
                   .attributes = {{"blocksize", int64_t{2}}},
                   .expected = {{}}});
  cases.push_back(
      {.name = "CenterCropPad",
       .op = "CenterCropPad",
       .inputs = {In({2, 4}, Counting(8)), Int64s({2}, {5, 1})},
       .expected = {{0, 1, 5, 0, 0}},
       .types = {DataType::kFloat32, DataType::kFloat64, DataType::kInt16}});
  cases.push_back(
      {.name = "CenterCropPad/one axis",
       .op = "CenterCropPad",
       .inputs = {In({3, 2}, Counting(6)), Int32s({1}, {5})},
       .attributes = {{"axes", IntList{-1}}},
       .expected = {{0, 0, 1, 0, 0, 0, 2, 3, 0, 0, 0, 4, 5, 0, 0}}});
  cases.push_back({.name = "CenterCropPad/from nothing",
                   .op = "CenterCropPad",
                   .inputs = {In({0, 1}), Int64s({2}, {1, 2})},
                   .expected = {{0, 0}}});
}

void AddLpPool(Cases& cases) {
  const CaseInput plane = Mixed({1, 2, 3, 3}, 7, 19);
  const CaseInput line = In({1, 1, 7}, {0, 3, -6, 2, -5, 1, 4});
  const Numbers64 cubes = {9.00000095, 5.10446882, 7.76393652, 10.2598562,
                           3,          8.32033539, 1.25992107, 10.026597};
  const auto lp = [&](std::string name, std::string op, CaseInput x, int opset,
                      CaseAttributes attributes, Numbers64 expected) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .inputs = {std::move(x)},
                     .attributes = std::move(attributes),
                     .opset = opset,
                     .expected = {std::move(expected)}});
  };
  const CaseAttributes window = {{"kernel_shape", IntList{2, 2}},
                                 {"strides", IntList{2, 2}},
                                 {"pads", IntList{1, 1, 1, 1}}};
  const auto with = [](CaseAttributes attributes, const char* name,
                       Attribute::Value value) {
    attributes.emplace_back(name, std::move(value));
    return attributes;
  };
  lp("LpPool", "LpPool", plane, 23, with(window, "p", int64_t{3}), cubes);
  lp("LpPool/opset 1", "LpPool", plane, 1, with(window, "p", 3.0f), cubes);
  const CaseAttributes dilated = {{"kernel_shape", IntList{2}},
                                  {"strides", IntList{3}},
                                  {"dilations", IntList{2}},
                                  {"p", int64_t{1}}};
  lp("LpPool/dilated", "LpPool", line, 18, dilated, {6, 3});
  lp("LpPool/ceil", "LpPool", line, 18, with(dilated, "ceil_mode", int64_t{1}),
     {6, 3, 4});
  lp("LpPool/p is 2", "LpPool", In({1, 1, 2}, {3, -4}), 23,
     {{"kernel_shape", IntList{2}}}, {5});
  lp("GlobalLpPool", "GlobalLpPool", plane, 23, {{"p", int64_t{3}}},
     {13.4072294, 11.727663});
  lp("GlobalLpPool/opset 1", "GlobalLpPool", In({1, 1, 2}, {3, -4}), 1,
     {{"p", 1.0f}}, {7});
  lp("GlobalLpPool/no positions", "GlobalLpPool", In({1, 2, 0}), 23, {},
     {0, 0});
}

}  // namespace

Cases ConvTransposeCases() {
  Cases cases;
  AddConvTranspose(cases);
  AddSpreading(cases);
  AddLpPool(cases);
  return cases;
}

}  // namespace strop
