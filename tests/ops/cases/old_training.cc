// SPDX-License-Identifier: Apache-2.0
//
// Ops of mixed precision, quantization aware training and ONNX Runtime's
// retired trainer. Expected values by hand, those of the optimizers from the
// formulas in NumPy's float64.
#include "ops/cases/cases.h"

namespace strop {
namespace {

using FloatList = std::vector<float>;

Cases OptimizerCases() {
  const CaseInput rate = In({}, {0.1});
  const CaseInput step = Int64s({}, {3});
  const CaseInput w = In({3}, {1, -2, 0.5});
  const CaseInput g = In({3}, {0.5, -1, 2});
  const CaseInput m = In({3}, {0.1, 0.2, -0.3});
  const CaseInput v = In({3}, {0.01, 0.04, 0.09});
  const CaseInput half = Typed(DataType::kBfloat16, {3}, {0, 0, 0});
  const CaseInput scale = In({}, {4});
  const Numbers64 new_m = {0.102500001, 0.154999989, -0.219999981};
  const Numbers64 new_v = {0.0100056249, 0.0400224997, 0.0901599979};
  const auto adam = [&](const char* name, int64_t mode, int64_t corrects,
                        Numbers64 new_w, Numbers64 delta) {
    return OpCase{.name = std::string("AdamOptimizer/") + name,
                  .op = "AdamOptimizer",
                  .inputs = {rate, step, w, g, m, v, Omitted(), scale},
                  .attributes = {{"lambda", 0.01f},
                                 {"weight_decay_mode", mode},
                                 {"do_bias_correction", corrects}},
                  .domain = kMs,
                  .outputs = "11111",
                  .expected = {{4}, new_m, new_v, new_w, delta},
                  .expected_inputs = {{}, {4}, new_w, delta, new_m, new_v}};
  };
  return {
      {.name = "SGDOptimizer/both outputs",
       .op = "SGDOptimizer",
       .inputs = {rate, w, g},
       .domain = kMs,
       .outputs = "11",
       .expected = {{0.95, -1.9, 0.3}, {-0.05, 0.1, -0.2}},
       .expected_inputs = {{}, {0.95, -1.9, 0.3}, {-0.05, 0.1, -0.2}}},
      {.name = "SGDOptimizer/weights only",
       .op = "SGDOptimizer",
       .inputs = {rate, w, g},
       .domain = kMs,
       .expected = {{0.95, -1.9, 0.3}},
       .expected_inputs = {{}, {0.95, -1.9, 0.3}, g.values}},
      adam("decay with the step", 0, 1, {0.978299872, -2.01365131, 0.51430086},
           {-0.0217001276, -0.0136513149, 0.0143008604}),
      adam("decay with the step, not corrected", 0, 0,
           {0.896528825, -2.0754782, 0.572768227},
           {-0.103471175, -0.0754782034, 0.072768227}),
      adam("decay last", 1, 1, {0.978320574, -2.01363566, 0.514286059},
           {-0.0216794255, -0.0136356629, 0.0142860591}),
      adam("decay last, not corrected", 1, 0,
           {0.896631296, -2.07540073, 0.572694959},
           {-0.103368704, -0.0754007252, 0.0726949588}),
      {.name = "AdamOptimizer/cut norm",
       .op = "AdamOptimizer",
       .inputs = {rate, step, w, g, m, v, Omitted(), In({}, {2}), In({}, {8})},
       .domain = kMs,
       .outputs = "0001",
       .expected = {{}, {}, {}, {0.980550683, -2.01692343, 0.516499943}},
       .expected_inputs =
           {{}, {4}, {0.980550683, -2.01692343, 0.516499943}, g.values}},
      {.name = "AdamOptimizer/skipped",
       .op = "AdamOptimizer",
       .inputs = {rate, step, w, g, m, v, half, Omitted(), Omitted(),
                  BoolsOf({}, {0})},
       .domain = kMs,
       .outputs = "111111",
       .expected = {{3}, m.values, v.values, w.values, g.values, {0, 0, 0}}},
      // With a rate of 0 the 16-bit weights become the weights.
      {.name = "AdamOptimizer/16-bit weights",
       .op = "AdamOptimizer",
       .inputs = {In({}, {0}), step, w, g, m, v, half},
       .domain = kMs,
       .outputs = "000001",
       .expected = {{}, {}, {}, {}, {}, w.values}},
      {.name = "AdamOptimizer/empty",
       .op = "AdamOptimizer",
       .inputs = {rate, step, In({0}), In({0}), In({0}), In({0})},
       .domain = kMs,
       .outputs = "1001",
       .expected = {{4}, {}, {}, {}}},
      {.name = "LambOptimizer/two groups",
       .op = "LambOptimizer",
       .inputs = {Omitted(), Omitted(), Omitted(), rate, Int64s({}, {2}), w, g,
                  m, v, Omitted(), In({2}, {0, 0}), In({2}, {1, -1}),
                  In({2}, {0, 0}), In({2}, {0, 0})},
       .attributes = {{"lambda", FloatList{0.01f, 0.01f}}},
       .domain = kMs,
       .outputs = "11111011",
       .expected = {{3},
                    {0.778332902, -2.04823417, 0.532205006},
                    {-0.221667098, -0.0482341701, 0.0322050058},
                    {0.14000001, 0.0799999714, -0.0699999452},
                    {0.0102399969, 0.0409599876, 0.0939099497},
                    {},
                    {-0.0744135783, 0.0744135783},
                    {-0.0744135783, 0.0744135783}},
       .expected_inputs = {{}, {}, {}, {}, {3}}},
      {.name = "LambOptimizer/ratio cut, gradients scaled",
       .op = "LambOptimizer",
       .inputs = {BoolsOf({}, {1}), In({}, {4}), Omitted(), rate,
                  Int64s({}, {2}), In({2}, {3, 4}), In({2}, {4, -4}),
                  In({2}, {0, 0}), In({2}, {0, 0}),
                  Typed(DataType::kFloat16, {2}, {0, 0})},
       .attributes = {{"ratio_min", 0.5f}, {"ratio_max", 2.0f}},
       .domain = kMs,
       .outputs = "010001",
       .expected = {{}, {2.85117284, 4.14882716}, {}, {}, {}, {}},
       .expected_inputs =
           {{}, {}, {}, {}, {3}, {2.85117284, 4.14882716}, {4, -4}}},
      // The moments stay where the direction is not finite.
      {.name = "LambOptimizer/overflow",
       .op = "LambOptimizer",
       .inputs = {Omitted(), Omitted(), Omitted(), rate, Int64s({}, {2}),
                  In({1}, {3}), In({1}, {kInf}), In({1}, {0.5}),
                  In({1}, {0.25})},
       .domain = kMs,
       .outputs = "01011",
       .expected = {{}, {3}, {}, {0.5}, {0.25}}},
      {.name = "LambOptimizer/skipped",
       .op = "LambOptimizer",
       .inputs = {BoolsOf({}, {0}), Omitted(), Omitted(), rate, Int64s({}, {2}),
                  w, g, m, v},
       .domain = kMs,
       .outputs = "11",
       .expected = {{2}, w.values}},
  };
}

Cases AccumulateCases() {
  const CaseInput buffer = In({2}, {1, 2}), value = In({2}, {10, 20});
  return {
      {.name = "InPlaceAccumulator/adds",
       .op = "InPlaceAccumulator",
       .inputs = {buffer, value},
       .domain = kMs,
       .expected = {{11, 22}},
       .expected_inputs = {{11, 22}}},
      {.name = "InPlaceAccumulator/off",
       .op = "InPlaceAccumulator",
       .inputs = {buffer, value, BoolsOf({}, {0})},
       .domain = kMs,
       .expected = {{1, 2}},
       .expected_inputs = {{1, 2}}},
      {.name = "ZeroGradient/clears",
       .op = "ZeroGradient",
       .inputs = {buffer, Int64s({1}, {0})},
       .domain = kMs,
       .expected = {{0, 0}},
       .expected_inputs = {{0, 0}}},
  };
}

Cases ScaleCases() {
  const CaseAttributes scales = {
      {"scale_0", 2.0f}, {"scale_1", -1.0f}, {"scale_2", 0.5f}};
  const CaseInput a = In({2}, {1, 2}), b = In({2}, {10, 20});
  const auto to = [](DataType type, int64_t fuse) {
    return CaseAttributes{{"to", static_cast<int64_t>(type)},
                          {"fuse_outputs", fuse}};
  };
  return {
      {.name = "ScaledSum/two",
       .op = "ScaledSum",
       .inputs = {a, b},
       .attributes = scales,
       .domain = kMs,
       .expected = {{-8, -16}}},
      {.name = "ScaledSum/three",
       .op = "ScaledSum",
       .inputs = {a, b, In({2}, {4, 8})},
       .attributes = scales,
       .domain = kMs,
       .expected = {{-6, -12}}},
      {.name = "ScaledSum/empty",
       .op = "ScaledSum",
       .inputs = {In({0}), In({0})},
       .attributes = scales,
       .domain = kMs,
       .expected = {{}}},
      {.name = "BatchScale/three",
       .op = "BatchScale",
       .inputs = {a},
       .attributes = scales,
       .domain = kMs,
       .outputs = "111",
       .expected = {{2, 4}, {-1, -2}, {0.5, 1}}},
      {.name = "MixedPrecisionScale/to float16",
       .op = "MixedPrecisionScale",
       .inputs = {In({}, {0.5}), a, In({1, 1}, {3})},
       .attributes = to(DataType::kFloat16, 0),
       .domain = kMs,
       .outputs = "11",
       .expected = {{0.5, 1}, {1.5}}},
      {.name = "MixedPrecisionScale/float64",
       .op = "MixedPrecisionScale",
       .inputs = {In({}, {0.5}), a, In({1, 1}, {3})},
       .attributes = to(DataType::kFloat64, 0),
       .domain = kMs,
       .outputs = "11",
       .expected = {{0.5, 1}, {1.5}}},
      {.name = "MixedPrecisionScale/float64, fused",
       .op = "MixedPrecisionScale",
       .inputs = {In({}, {0.5}), a, In({1, 1}, {3})},
       .attributes = to(DataType::kFloat64, 1),
       .domain = kMs,
       .expected = {{0.5, 1, 1.5}}},
      {.name = "MixedPrecisionScale/from 16 bits, fused",
       .op = "MixedPrecisionScale",
       .inputs = {Typed(DataType::kFloat32, {}, {4}), a, In({1, 1}, {3})},
       .attributes = to(DataType::kFloat32, 1),
       .domain = kMs,
       .expected = {{4, 8, 12}},
       .types = {DataType::kBfloat16, DataType::kFloat16, DataType::kFloat32}},
  };
}

Cases CheckCases() {
  const auto all_finite = [](const char* name, double x,
                             CaseAttributes attributes, double expected) {
    return OpCase{.name = std::string("IsAllFinite/") + name,
                  .op = "IsAllFinite",
                  .inputs = {In({2}, {1, 2}), In({}, {x})},
                  .attributes = std::move(attributes),
                  .domain = kMs,
                  .expected = {{expected}}};
  };
  const CaseAttributes inf = {{"isinf_only", int64_t{1}}};
  const CaseAttributes nan = {{"isnan_only", int64_t{1}}};
  return {
      {.name = "IsFinite/all kinds",
       .op = "IsFinite",
       .inputs = {In({4}, {1, kInf, -kInf, kNan})},
       .domain = kMs,
       .expected = {{1, 0, 0, 0}}},
      {.name = "IsFinite/rank 0",
       .op = "IsFinite",
       .inputs = {In({}, {1})},
       .domain = kMs,
       .expected = {{1}}},
      all_finite("finite", 3, {}, 1),
      all_finite("infinite", -kInf, {}, 0),
      all_finite("nan", kNan, {}, 0),
      all_finite("infinite where infinities count", kInf, inf, 0),
      all_finite("nan where infinities count", kNan, inf, 1),
      all_finite("infinite where nans count", kInf, nan, 1),
      all_finite("nan where nans count", kNan, nan, 0),
      {.name = "All/true",
       .op = "All",
       .inputs = {In({2, 2}, {1, 1, 1, 1})},
       .domain = kMs,
       .expected = {{1}},
       .types = kOnlyBool},
      {.name = "All/false",
       .op = "All",
       .inputs = {In({2, 2}, {1, 1, 0, 1})},
       .domain = kMs,
       .expected = {{0}},
       .types = kOnlyBool},
      {.name = "All/nothing",
       .op = "All",
       .inputs = {In({0})},
       .domain = kMs,
       .expected = {{1}},
       .types = kOnlyBool},
      {.name = "ReduceAllL2/three tensors",
       .op = "ReduceAllL2",
       .inputs = {In({2}, {1, -2}), In({}, {4}), In({0})},
       .domain = kMs,
       .expected = {{std::sqrt(21.0)}}},
  };
}

Cases PlumbingCases() {
  return {
      {.name = "PassThrough/three types",
       .op = "PassThrough",
       .inputs = {In({2}, {1, 2}), Int64s({}, {7}), BoolsOf({1}, {1})},
       .domain = kMs,
       .outputs = "111",
       .expected = {{1, 2}, {7}, {1}}},
      {.name = "Group/is done",
       .op = "Group",
       .inputs = {In({2}), Int64s({}, {7})},
       .domain = kMs,
       .expected = {{1}}},
      {.name = "View/two parts and nothing",
       .op = "View",
       .inputs = {In({3, 2}, {1, 2, 3, 4, 5, 6}), Int64s({2}, {1, 2}),
                  Int64s({3}, {0, 4, 1}), Int64s({1}, {4})},
       .domain = kMs,
       .outputs = "111",
       .expected = {{1, 2}, {}, {3, 4, 5, 6}}},
      {.name = "View/a part left out",
       .op = "View",
       .inputs = {In({3}, {1, 2, 3}), Int64s({1}, {2}), Int64s({0}, {})},
       .domain = kMs,
       .outputs = "01",
       .expected = {{}, {3}}},
      {.name = "ShrunkenGather/rows",
       .op = "ShrunkenGather",
       .inputs = {In({3, 2}, {1, 2, 3, 4, 5, 6}), Int64s({2}, {2, -3})},
       .domain = kMs,
       .expected = {{5, 6, 1, 2}}},
      {.name = "PadAndUnflatten/rows",
       .op = "PadAndUnflatten",
       .inputs = {In({2, 2}, {1, 2, 3, 4}), Int64s({2}, {3, 0}),
                  Int64s({2}, {2, 2})},
       .domain = kMs,
       .expected = {{3, 4, 0, 0, 0, 0, 1, 2}}},
      {.name = "PadAndUnflatten/numbers",
       .op = "PadAndUnflatten",
       .inputs = {In({1}, {5}), Int32s({1}, {1}), Int32s({2}, {1, 3})},
       .domain = kMs,
       .expected = {{0, 5, 0}}},
      {.name = "PadAndUnflatten/nothing",
       .op = "PadAndUnflatten",
       .inputs = {In({0, 2}), Int64s({0}, {}), Int64s({2}, {1, 2})},
       .domain = kMs,
       .expected = {{0, 0, 0, 0}}},
      {.name = "FlattenAndUnpad/rows",
       .op = "FlattenAndUnpad",
       .inputs = {In({2, 2, 2}, {3, 4, 0, 0, 0, 0, 1, 2}), Int64s({2}, {3, 0})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{1, 2, 3, 4}, {2, 2}},
       .types = {DataType::kFloat32, DataType::kFloat64, DataType::kInt64}},
      {.name = "FlattenAndUnpad/nothing",
       .op = "FlattenAndUnpad",
       .inputs = {In({2, 2, 2}), Int64s({0}, {})},
       .domain = kMs,
       .expected = {{}}},
      {.name = "TransposeMatMul/both",
       .op = "TransposeMatMul",
       .inputs = {In({3, 2}, {1, 2, 3, 4, 5, 6}), In({1, 3}, {1, 0, -1})},
       .attributes = {{"transA", int64_t{1}},
                      {"transB", int64_t{1}},
                      {"alpha", 0.5f}},
       .domain = kMs,
       .expected = {{-2, -2}}},
  };
}

Cases QuantizationCases() {
  const CaseInput a = Mixed({2, 4}, 3, 7, 0.5);
  const CaseInput codes =
      Typed(DataType::kUint8, {6}, {0x12, 0x3b, 0x74, 0xf5, 0x9a, 0x68});
  const CaseInput largest = In({3}, {2, 0.5, 1.5});
  const auto bnb4 = [&](const char* name, const CaseInput& left, int64_t type,
                        int64_t transposed, Numbers64 expected) {
    return OpCase{.name = std::string("MatMulBnb4/") + name,
                  .op = "MatMulBnb4",
                  .inputs = {left, codes, largest},
                  .attributes = {{"K", int64_t{4}},
                                 {"N", int64_t{3}},
                                 {"block_size", int64_t{4}},
                                 {"quant_type", type},
                                 {"transB", transposed}},
                  .domain = kMs,
                  .expected = {std::move(expected)}};
  };
  const auto decode = [](const char* op, DataType encoded,
                         CaseAttributes attributes) {
    return OpCase{.name = std::string(op) + "/numbers",
                  .op = op,
                  .inputs = {In({2}, {0, 1})},
                  .attributes = std::move(attributes),
                  .domain = kMs,
                  .expected = {{0, 1}},
                  .types = {encoded}};
  };
  const CaseAttributes to_double = {
      {"to", static_cast<int64_t>(DataType::kFloat64)}};
  return {
      // Half to even; 3 and -3.5 are cut.
      {.name = "FakeQuant/rounds and cuts",
       .op = "FakeQuant",
       .inputs = {In({6}, {0.25, 0.75, -0.3, 1.5, 3, -3.5}), In({}, {0.5}),
                  In({1}, {4})},
       .attributes = {{"quant_min", int64_t{0}}, {"quant_max", int64_t{7}}},
       .domain = kMs,
       .outputs = "11",
       .expected = {{0, 1, -0.5, 1.5, 1.5, -2}, {1, 1, 1, 1, 0, 0}}},
      {.name = "FakeQuant/8 bits by default",
       .op = "FakeQuant",
       .inputs = {In({2}, {255.4, -1}), In({1}, {1}), In({}, {0})},
       .domain = kMs,
       .expected = {{255, 0}}},
      {.name = "FakeQuantGrad/through",
       .op = "FakeQuantGrad",
       .inputs = {In({3}, {1, 2, 3}), BoolsOf({3}, {1, 0, 1})},
       .domain = kMs,
       .expected = {{1, 0, 3}}},
      bnb4("fp4", a, 0, 1,
           {3.984375, -0.5, 0.38671875, 2.67708333, -0.479166667, 1.1171875}),
      bnb4("nf4", a, 1, 1,
           {0.565910697, 0.796193358, -0.626640759, -1.75090271, 0.530800764,
            -0.375116352}),
      bnb4("not transposed", Mixed({2, 3}, 3, 7, 0.5), 0, 0,
           {-0.02734375, -3.5, -2.625, 3, 0.127604167, 0.5, -1.375, 1.25}),
      bnb4("no row", In({0, 4}), 0, 1, {}),
      {.name = "GistBinarizeEncoder/signs",
       .op = "GistBinarizeEncoder",
       .inputs = {In({4}, {0, 1, -1, 0.5})},
       .domain = kMs,
       .expected = {{0, 1, 0, 1}}},
      decode("GistBinarizeDecoder", DataType::kBool, to_double),
      {.name = "GistPack16Encoder/rounds",
       .op = "GistPack16Encoder",
       .inputs = {In({2}, {1.5, 2049})},
       .domain = kMs,
       .expected = {{1.5, 2048}}},
      decode("GistPack16Decoder", DataType::kFloat16, {}),
  };
}

}  // namespace

Cases OldTrainingCases() {
  Cases cases = OptimizerCases();
  for (Cases (*list)() : {AccumulateCases, ScaleCases, CheckCases,
                          PlumbingCases, QuantizationCases}) {
    for (OpCase& op_case : list()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace strop
