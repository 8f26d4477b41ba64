// SPDX-License-Identifier: Apache-2.0
//
// Dropout and softmax with what ONNX Runtime fuses to them. What is drawn at
// random is tested in dropout_test.cc.
#include "ops/cases/cases.h"

namespace strop {
namespace {

CaseInput Off() { return BoolsOf({}, {0}); }

Numbers64 Ones(size_t count) { return Numbers64(count, 1); }

Cases DropoutCases() {
  const CaseInput x = In({2, 3}, {1, -2, 3, -4, 5, -6});
  const CaseInput residual = In({2, 3}, {10, 20, 30, 40, 50, 60});
  return {
      {.name = "BitmaskDropout/off",
       .op = "BitmaskDropout",
       .inputs = {x},
       .domain = kMs,
       .outputs = "11",
       .expected = {x.values, {63}}},
      {.name = "BitmaskDropout/two words",
       .op = "BitmaskDropout",
       .inputs = {In({33}, Ones(33)), In({}, {0.5}), Off()},
       .domain = kMs,
       .outputs = "11",
       .expected = {Ones(33), {4294967295.0, 1}}},
      {.name = "BitmaskDropout/empty",
       .op = "BitmaskDropout",
       .inputs = {In({0}), In({}, {0.5}), BoolsOf({}, {1})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{}, {}}},
      {.name = "BiasDropout/a row and a residual",
       .op = "BiasDropout",
       .inputs = {x, In({3}, {1, 2, 3}), residual, In({}, {0.5}), Off()},
       .domain = kMs,
       .outputs = "11",
       .expected = {{12, 20, 36, 37, 57, 57}, Ones(6)}},
      {.name = "BiasDropout/like the data",
       .op = "BiasDropout",
       .inputs = {x, residual},
       .domain = kMs,
       .expected = {{11, 18, 33, 36, 55, 54}}},
      {.name = "BiasDropout/empty",
       .op = "BiasDropout",
       .inputs = {In({2, 0}), In({0})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{}, {}}},
      {.name = "BitmaskBiasDropout/a row",
       .op = "BitmaskBiasDropout",
       .inputs = {x, In({3}, {1, 2, 3}), Omitted(), In({}, {0}),
                  BoolsOf({}, {1})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{2, 0, 6, -3, 7, -3}, {63}}},
      {.name = "BitmaskBiasDropout/a residual",
       .op = "BitmaskBiasDropout",
       .inputs = {x, In({3}, {1, 2, 3}), residual, In({}, {0.5}), Off()},
       .domain = kMs,
       .outputs = "11",
       .expected = {{12, 20, 36, 37, 57, 57}, {63}}},
      {.name = "BitmaskDropoutGrad/some",
       .op = "BitmaskDropoutGrad",
       .inputs = {x, Typed(DataType::kUint32, {1}, {0b101001}), In({}, {0.75})},
       .domain = kMs,
       .expected = {{4, 0, 0, -16, 0, -24}}},
      {.name = "BitmaskDropoutGrad/empty",
       .op = "BitmaskDropoutGrad",
       .inputs = {In({0}), Typed(DataType::kUint32, {0}, {})},
       .domain = kMs,
       .expected = {{}}},
      {.name = "BitmaskDropoutGrad/off",
       .op = "BitmaskDropoutGrad",
       .inputs = {x, Typed(DataType::kUint32, {1}, {63}), In({}, {0.75}),
                  Off()},
       .domain = kMs,
       .expected = {x.values}},
  };
}

Cases SoftmaxCases() {
  const CaseInput x = Mixed({2, 2, 3}, 7, 11, 0.5);
  const Numbers64 inner = {0.00235563308, 0.950330212, 0.0473141552,
                           0.366192216,   0.603748896, 0.0300588876,
                           0.366192216,   0.603748896, 0.0300588876,
                           0.366192216,   0.603748896, 0.0300588876};
  const auto at = [](int64_t axis) {
    return CaseAttributes{{"axis", axis}, {"is_inner_broadcast", int64_t{1}}};
  };
  const CaseInput y = In({2, 3}, {0.0259086547, 0.857976811, 0.116114535,
                                  0.866813332, 0.117310428, 0.01587624});
  const CaseInput dy = Mixed({2, 3}, 5, 7, 0.5);
  const CaseInput mask = BoolsOf({2, 3}, {1, 0, 1, 1, 1, 0});
  return {
      {.name = "BiasSoftmax/along inner axes",
       .op = "BiasSoftmax",
       .inputs = {x, Mixed({2, 1, 3}, 5, 7, 0.5)},
       .attributes = at(2),
       .domain = kMs,
       .expected = {inner}},
      {.name = "BiasSoftmax/over two axes",
       .op = "BiasSoftmax",
       .inputs = {x, Mixed({2, 1, 3}, 5, 7, 0.5)},
       .attributes = at(1),
       .domain = kMs,
       .expected = {{0.00120510688, 0.486174816, 0.0242052188, 0.17885372,
                     0.294879932, 0.0146812073, 0.227939762, 0.375809134,
                     0.0187104351, 0.138252454, 0.227939762, 0.0113484525}}},
      {.name = "BiasSoftmax/along outer axes",
       .op = "BiasSoftmax",
       .inputs = {x, Mixed({3}, 3, 5, 0.5)},
       .attributes = {{"axis", int64_t{-1}},
                      {"is_inner_broadcast", int64_t{0}}},
       .domain = kMs,
       .expected = {{0.00637746092, 0.946499123, 0.0471234165, 0.610975051,
                     0.370575101, 0.0184498479, 0.610975051, 0.370575101,
                     0.0184498479, 0.610975051, 0.370575101, 0.0184498479}}},
      {.name = "BiasSoftmax/empty",
       .op = "BiasSoftmax",
       .inputs = {In({2, 0}), In({1, 0})},
       .attributes = at(1),
       .domain = kMs,
       .expected = {{}}},
      {.name = "BiasSoftmaxDropout/nothing dropped",
       .op = "BiasSoftmaxDropout",
       .inputs = {x, Mixed({2, 1, 3}, 5, 7, 0.5), In({}, {0})},
       .attributes = at(2),
       .domain = kMs,
       .outputs = "111",
       .expected = {inner, Ones(12), inner}},
      {.name = "SoftmaxDropoutGrad/a quarter",
       .op = "SoftmaxDropoutGrad",
       .inputs = {dy, mask, y, In({}, {0.25})},
       .attributes = {{"axis", int64_t{1}}},
       .domain = kMs,
       .expected = {{-0.0504747927, 0.0444580499, 0.00601674277, -0.357303125,
                     0.34267904, 0.014624085}}},
      {.name = "SoftmaxDropoutGrad/half by default",
       .op = "SoftmaxDropoutGrad",
       .inputs = {dy, mask, y},
       .attributes = {{"axis", int64_t{-1}}},
       .domain = kMs,
       .expected = {{-0.075712189, 0.0666870748, 0.00902511416, -0.535954687,
                     0.51401856, 0.0219361274}}},
  };
}

}  // namespace

Cases FusedDropoutCases() {
  Cases cases = DropoutCases();
  for (OpCase& op_case : SoftmaxCases()) cases.push_back(std::move(op_case));
  return cases;
}

}  // namespace strop
