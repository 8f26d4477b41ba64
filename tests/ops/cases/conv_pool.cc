// SPDX-License-Identifier: Apache-2.0
//
// Convolution and pooling. Expected values come from ONNX Runtime 1.19.
#include "ops/cases/cases.h"

namespace strop {

using IntList = std::vector<int64_t>;

// Grouped, strided, padded at one side only.
struct GroupedConv {
  CaseInput x = Mixed({1, 2, 4, 4}, 7, 11);
  CaseInput w = Mixed({4, 1, 2, 3}, 5, 7);
  CaseInput dy = Mixed({1, 4, 2, 3}, 3, 5);
  CaseAttributes attributes = {{"group", int64_t{2}},
                               {"strides", IntList{2, 1}},
                               {"pads", IntList{1, 0, 0, 1}}};
  Numbers64 y = {15, -4, 20, 8,  4,  -24, -8, 21, -8, 9,  -20, 8,
                 -3, 19, 3,  16, 17, -2,  21, -8, -4, 33, -19, -18};
  Numbers64 dx = {4,  -10, 8, -9, -6, 6, 11, -11, -4, 6, 10, -14, 0, 0, 0, 0,
                  -8, 8,   8, -8, 1,  1, 8,  1,   -7, 7, -6, 2,   0, 0, 0, 0};
  Numbers64 dw = {-6, -6, 8,  8,  5,   7,   10, -8, 0,  -18, 11, 3,
                  -2, -5, 12, 19, -10, -13, -6, 8,  -7, -11, 14, 4};
  Numbers64 db = {-2, 1, -1, 2};
};

Cases ConvPoolCases() {
  const GroupedConv grouped;
  const CaseAttributes dilated = {{"dilations", IntList{2}},
                                  {"pads", IntList{1, 1}}};
  const CaseInput line = Mixed({2, 1, 6}, 7, 11);
  const CaseInput taps = In({1, 1, 3}, {1, -2, 3});
  const CaseInput plane = [] {
    CaseInput input = Mixed({1, 2, 3, 3}, 7, 19);
    return input;
  }();
  Numbers64 counting;
  for (int i = 1; i <= 32; ++i) counting.push_back(i);
  const auto same = [](const char* mode, Numbers64 expected) {
    return OpCase{.name = std::string("Conv/") + mode,
                  .op = "Conv",
                  .inputs = {Mixed({1, 1, 5}, 7, 11), In({1, 1, 2}, {1, -2})},
                  .attributes = {{"auto_pad", std::string(mode)},
                                 {"strides", IntList{2}}},
                  .expected = {std::move(expected)}};
  };
  const CaseAttributes half = {{"kernel_shape", IntList{2, 2}},
                               {"strides", IntList{2, 2}},
                               {"pads", IntList{1, 1, 1, 1}}};
  const auto average = [](int64_t include) {
    return CaseAttributes{{"kernel_shape", IntList{2, 2}},
                          {"pads", IntList{1, 1, 1, 1}},
                          {"count_include_pad", include}};
  };
  return {
      {.name = "Conv",
       .op = "Conv",
       .inputs = {grouped.x, grouped.w, In({4}, {1, 2, 3, 4})},
       .attributes = grouped.attributes,
       .expected = {grouped.y}},
      {.name = "ConvGrad",
       .op = "ConvGrad",
       .inputs = {grouped.dy, grouped.x, grouped.w},
       .attributes = grouped.attributes,
       .domain = kMs,
       .outputs = "111",
       .expected = {grouped.dx, grouped.dw, grouped.db}},
      {.name = "ConvGrad/without dX",
       .op = "ConvGrad",
       .inputs = {grouped.dy, grouped.x, grouped.w},
       .attributes = grouped.attributes,
       .domain = kMs,
       .outputs = "011",
       .expected = {{}, grouped.dw, grouped.db}},
      {.name = "Conv/dilated",
       .op = "Conv",
       .inputs = {line, taps},
       .attributes = dilated,
       .expected = {{11, 2, -17, -4, 9, 9, -21, -2}}},
      {.name = "ConvGrad/dilated",
       .op = "ConvGrad",
       .inputs = {Mixed({2, 1, 4}, 3, 5), line, taps},
       .attributes = dilated,
       .domain = kMs,
       .outputs = "111",
       .expected = {{1, 3, 0, -4, -1, -3, -2, 1, 3, -2, -4, 3},
                    {-15, 3, -9},
                    {-2}}},
      {.name = "Conv/three axes",
       .op = "Conv",
       .inputs = {Mixed({1, 1, 3, 3, 3}, 7, 11), Mixed({1, 1, 2, 2, 2}, 5, 7)},
       .expected = {{29, -25, -1, -11, 5, -27, -25, -13}}},
      {.name = "ConvGrad/three axes",
       .op = "ConvGrad",
       .inputs = {Mixed({1, 1, 2, 2, 2}, 3, 5), Mixed({1, 1, 3, 3, 3}, 7, 11),
                  Mixed({1, 1, 2, 2, 2}, 5, 7)},
       .domain = kMs,
       .outputs = "111",
       .expected = {{6, -7, 2,  3,  -4, 2,  0,  2, -4, -6, 7,  -3, -4, 15,
                     1, 1,  -1, -4, 0,  -6, -2, 3, 0,  5,  -1, -2, 3},
                    {15, -10, -5, -30, -1, -4, -10, 20},
                    {-2}}},
      {.name = "Conv/no batch",
       .op = "Conv",
       .inputs = {In({0, 2, 4, 4}), grouped.w},
       .attributes = grouped.attributes,
       .expected = {{}}},
      same("SAME_UPPER", {-9, -12, 1}),
      same("SAME_LOWER", {10, 6, 3}),
      same("VALID", {-9, -12}),
      {.name = "MaxPool",
       .op = "MaxPool",
       .inputs = {plane},
       .attributes = half,
       .outputs = "11",
       .expected = {{-9, 5, -5, 9, -3, 4, 1, 8}, {0, 2, 6, 8, 9, 10, 15, 16}}},
      {.name = "MaxPool/ceil",
       .op = "MaxPool",
       .inputs = {In({1, 1, 7}, {0, 3, 6, 2, 5, 1, 4})},
       .attributes = {{"kernel_shape", IntList{2}},
                      {"strides", IntList{3}},
                      {"ceil_mode", int64_t{1}}},
       .expected = {{3, 5, 4}}},
      {.name = "MaxPool/columns first",
       .op = "MaxPool",
       .inputs = {In({1, 1, 2, 3}, {1, 2, 9, 4, 5, 6})},
       .attributes = {{"kernel_shape", IntList{2, 2}},
                      {"storage_order", int64_t{1}}},
       .outputs = "11",
       .expected = {{5, 9}, {3, 4}}},
      {.name = "MaxPool/NaN and infinity",
       .op = "MaxPool",
       .inputs = {In({1, 1, 4}, {-kInf, -kInf, kNan, 1})},
       .attributes = {{"kernel_shape", IntList{2}}, {"strides", IntList{2}}},
       .outputs = "11",
       .expected = {{-kInf, kNan}, {0, 2}}},
      {.name = "MaxPoolGrad",
       .op = "MaxPoolGrad",
       .inputs = {In({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                  Int64s({1, 2, 2, 2}, {0, 2, 6, 8, 9, 10, 15, 16}), plane},
       .attributes = half,
       .domain = kFused,
       .opset = 1,
       .expected = {{1, 0, 2, 0, 0, 0, 3, 0, 4, 5, 6, 0, 0, 0, 0, 7, 8, 0}}},
      {.name = "MaxPoolGrad/overlap",
       .op = "MaxPoolGrad",
       .inputs = {In({1, 1, 2}, {1, 2}), Int64s({1, 1, 2}, {1, 1}),
                  In({1, 1, 3})},
       .attributes = {{"kernel_shape", IntList{2}}},
       .domain = kFused,
       .opset = 1,
       .expected = {{0, 3, 0}}},
      {.name = "AveragePool",
       .op = "AveragePool",
       .inputs = {plane},
       .attributes = average(0),
       .expected = {{-9, -5.5, 1.5,  5,   -8, -4.5, 2.5, 6,   -6, -2.5, 4.5,
                     8,  -5,   -1.5, 5.5, 9,  -3,   0.5, -2,  -8, -2,   1.5,
                     -1, -7,   0,    3.5, 1,  -5,   1,   4.5, 2,  -4}}},
      {.name = "AveragePool/with padding",
       .op = "AveragePool",
       .inputs = {plane},
       .attributes = average(1),
       .expected = {{-2.25, -2.75, 0.75, 1.25, -4,    -4.5,  2.5,  3,
                     -3,    -2.5,  4.5,  4,    -1.25, -0.75, 2.75, 2.25,
                     -0.75, 0.25,  -1,   -2,   -1,    1.5,   -1,   -3.5,
                     0,     3.5,   1,    -2.5, 0.25,  2.25,  1,    -1}}},
      {.name = "AveragePoolGrad",
       .op = "AveragePoolGrad",
       .inputs = {In({1, 2, 4, 4}, counting), plane},
       .attributes = average(0),
       .domain = kFused,
       .opset = 1,
       .expected = {{6, 5.75, 11.25, 11, 8.5, 14.5, 27, 19.75, 32.25, 42, 29.75,
                     47.25, 35, 24.5, 38.5, 63, 43.75, 68.25}}},
      {.name = "AveragePoolGrad/in files",
       .op = "AveragePoolGrad",
       .inputs = {In({1, 2, 4, 4}, counting), plane},
       .attributes = average(0),
       .domain = "strop",
       .opset = 1,
       .expected = {{6, 5.75, 11.25, 11, 8.5, 14.5, 27, 19.75, 32.25, 42, 29.75,
                     47.25, 35, 24.5, 38.5, 63, 43.75, 68.25}}},
      {.name = "AveragePoolGrad/with padding",
       .op = "AveragePoolGrad",
       .inputs = {In({1, 2, 4, 4}, counting), plane},
       .attributes = average(1),
       .domain = kFused,
       .opset = 1,
       .expected = {{3.5, 4.5, 5.5, 7.5, 8.5, 9.5, 11.5, 12.5, 13.5, 19.5, 20.5,
                     21.5, 23.5, 24.5, 25.5, 27.5, 28.5, 29.5}}},
      {.name = "GlobalAveragePool",
       .op = "GlobalAveragePool",
       .inputs = {In({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, -8})},
       .expected = {{2.5, 2.5}}},
      {.name = "GlobalMaxPool",
       .op = "GlobalMaxPool",
       .inputs = {In({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, -8})},
       .expected = {{4, 7}}},
  };
}

}  // namespace strop
