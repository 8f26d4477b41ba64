// SPDX-License-Identifier: Apache-2.0
//
// Normalization by groups of channels and by norms, layer normalization of
// sums. Expected values come from ONNX Runtime 1.32 or from the formulas,
// evaluated in double by NumPy.
#include "ops/cases/cases.h"

namespace strop {

using IntList = std::vector<int64_t>;

namespace {

void AddGroupNorm(Cases& cases) {
  const CaseInput x = Mixed({2, 4, 2, 1}, 7, 11);
  const CaseInput scale = In({4}, {1, 2, -1, 3});
  const CaseInput bias = In({4}, {0.5, 0, 1, -1});
  const CaseAttributes groups = {{"num_groups", int64_t{2}}};
  const Numbers64 silu = {
      -0.249804108,  -0.272212308, 0.551979723, 3.07466605,
      0.754554956,   2.44892796,   2.2003843,   -0.26877061,
      -0.0990789117, 0.297931806,  0.551979723, 3.07466605,
      1.7900976,     -0.230206,    2.2003843,   -0.26877061};
  cases.insert(
      cases.end(),
      {{.name = "InstanceNormalization",
        .op = "InstanceNormalization",
        .inputs = {x, scale, bias},
        .expected = {{-0.499999583, 1.49999964, -1.99999928, 1.99999917, 0,
                      1.99999881, 1.99999642, -3.99999642, -0.499999642,
                      1.49999964, 1.99999762, -1.99999785, 0, 1.99999881,
                      1.99999619, -3.99999666}}},
       // With two elements a channel any x gives the same y; here are more.
       {.name = "InstanceNormalization/many elements",
        .op = "InstanceNormalization",
        .inputs = {In({2, 3, 5}), In({3}, {1, 2, -1}), In({3}, {0.5, 0, 1})}},
       {.name = "InstanceNormalization/no channels",
        .op = "InstanceNormalization",
        .inputs = {In({2, 0, 3}), In({0}), In({0})},
        .expected = {{}}},
       {.name = "GroupNormalization",
        .op = "GroupNormalization",
        .inputs = {x, scale, bias},
        .attributes = groups,
        .expected = {{-0.813063876, 1.02522555, -1.0504511, 2.62612775,
                      0.80000016, 2.39999888, 3.19999664, -1.59999952,
                      -0.222897023, 2.02611594, 0.481931349, -2.08836918,
                      0.80000016, 2.39999888, 3.19999664, -1.59999952}}},
       {.name = "GroupNormalization/opset 18",
        .op = "GroupNormalization",
        .inputs = {x, In({2}, {1, 2}), In({2}, {0.5, -1})},
        .attributes = groups,
        .opset = 18,
        .expected = {{-0.813063876, 1.02522555, -0.0252255503, 1.81306388,
                      -0.60000032, -3.79999776, 1.79999776, -1.39999968,
                      -0.222897023, 2.02611594, 0.740965674, -0.544184589,
                      -0.60000032, -3.79999776, 1.79999776, -1.39999968}}},
       // The same numbers with the channels last, and SiLU behind.
       {.name = "GroupNorm",
        .op = "GroupNorm",
        .inputs = {In({2, 2, 1, 4},
                      {-5, -2, 1, 4, 2, 5, -3, 0, -4, -1, 2, 5, 3, -5, -2, 1}),
                   scale, bias},
        .attributes = {{"groups", int64_t{2}}, {"activation", int64_t{1}}},
        .domain = kMs,
        .expected = {silu}},
       {.name = "GroupNorm/channels first",
        .op = "GroupNorm",
        .inputs = {x, scale, bias},
        .attributes = {{"groups", int64_t{2}},
                       {"activation", int64_t{0}},
                       {"channels_last", int64_t{0}}},
        .domain = kMs,
        .expected = {{-0.813063876, 1.02522555, -1.0504511, 2.62612775,
                      0.80000016, 2.39999888, 3.19999664, -1.59999952,
                      -0.222897023, 2.02611594, 0.481931349, -2.08836918,
                      0.80000016, 2.39999888, 3.19999664, -1.59999952}}}});
}

void AddNormalize(Cases& cases) {
  cases.insert(
      cases.end(),
      {{.name = "LpNormalization/p is 1",
        .op = "LpNormalization",
        .inputs = {In({3, 3}, {1, -3, 0, 0, 0, 0, 2, 2, -4})},
        .attributes = {{"p", int64_t{1}}},
        .expected = {{0.25, -0.75, 0, 0, 0, 0, 0.25, 0.25, -0.5}}},
       {.name = "LpNormalization/p is 2",
        .op = "LpNormalization",
        .inputs = {Mixed({2, 3, 2}, 7, 11)},
        .attributes = {{"axis", int64_t{-2}}},
        .expected = {{-0.912870884, 0.324442834, -0.365148365, 0.811107099,
                      0.182574183, -0.486664265, 0.696310639, 0, -0.696310639,
                      0.51449579, -0.17407766, -0.857492983}}},
       {.name = "LRN",
        .op = "LRN",
        .inputs = {Mixed({1, 5, 2}, 7, 11)},
        .attributes = {{"size", int64_t{4}},
                       {"alpha", 0.5f},
                       {"beta", 0.6f},
                       {"bias", 2.0f}},
        .expected = {{-1.75052888, 0.635986229, -0.585394925, 1.58996557,
                      0.321579571, -0.904615488, 1.34833037, 0, -1.36511495,
                      1.51429759}}},
       // The defaults, and more channels asked for than there are.
       {.name = "LRN/wide",
        .op = "LRN",
        .inputs = {In({1, 2}, {3, 4})},
        .attributes = {{"size", int64_t{9}}},
        .expected = {{3 / std::pow(1 + 0.0001f / 9 * 25, 0.75),
                      4 / std::pow(1 + 0.0001f / 9 * 25, 0.75)}}},
       {.name = "MeanVarianceNormalization",
        .op = "MeanVarianceNormalization",
        .inputs = {Mixed({2, 2, 2, 2}, 7, 11)},
        .expected = {{-1.15030766, 0.80172962, -0.313720286, 1.63831699, 0,
                      -1.56892908, 1.17669678, -0.392232269, -0.871445239,
                      1.08059204, -0.0348578095, -1.15030766, 0.392232269,
                      -1.17669678, 1.56892908, 0}}},
       {.name = "MeanVarianceNormalization/middle axis",
        .op = "MeanVarianceNormalization",
        .inputs = {Mixed({2, 3, 2}, 7, 11)},
        .attributes = {{"axes", IntList{-2}}},
        .expected = {{-1.22474487, 0.202030509, 0, 1.1111678, 1.22474487,
                      -1.31319831, 1.31319831, 0.202030509, -1.1111678,
                      1.1111678, -0.202030509, -1.31319831}}},
       {.name = "MeanVarianceNormalization/outer axes",
        .op = "MeanVarianceNormalization",
        .inputs = {Mixed({2, 3, 2}, 7, 11)},
        .attributes = {{"axes", IntList{0, 2}}},
        .expected = {{-1.56961369, 0.523204565, -0.68680282, 1.23624508,
                      1.34164079, -0.447213595, 1.12115264, -0.0747435093,
                      -1.23624508, 0.68680282, 0.447213595, -1.34164079}}},
       {.name = "MeanVarianceNormalization/nothing",
        .op = "MeanVarianceNormalization",
        .inputs = {In({2, 3, 0, 1})},
        .expected = {{}}}});
}

void AddLayerNorm(Cases& cases) {
  const CaseInput x = Mixed({2, 2, 3}, 7, 11);
  const CaseInput skip = Mixed({2, 3}, 3, 5);
  const CaseInput gamma = In({3}, {1, 2, -1});
  const CaseInput beta = In({3}, {0.5, 0, 1});
  const CaseInput rows = Mixed({2, 3}, 7, 11);
  const Numbers64 skipped = {
      -0.813198308, 2.2223356,  0.797969491,  1.8641205,
      -0.717958159, 2.00514142, 1.72474487,   0,
      2.22474487,   1.8641205,  -0.717958159, 2.00514142};
  const Numbers64 simplified = {-1.48119263, 1.26959369,  0.634796843,
                                1.399972,    0.399992,    0.999980001,
                                0.632423912, 0.632423912, 1.58105978,
                                0.999980001, -0.399992,   1.399972};
  cases.insert(
      cases.end(),
      {{.name = "RMSNormalization/scale per row",
        .op = "RMSNormalization",
        .inputs = {rows, In({2, 1}, {2, 3})},
        .expected = {{-3.01511208, 1.20604483, -1.20604483, 4.39154845,
                      0.878309689, -2.63492907}}},
       {.name = "RMSNormalization/one scale, two axes",
        .op = "RMSNormalization",
        .inputs = {In({1, 2, 2}, {1, -1, 1, -1}), In({1}, {3})},
        .attributes = {{"axis", int64_t{-2}}, {"epsilon", 0.0f}},
        .expected = {{3, -3, 3, -3}}},
       {.name = "LayerNormalization/scale per row",
        .op = "LayerNormalization",
        .inputs = {rows, In({2, 1}, {2, 3}), Mixed({2, 3}, 7, 11, 0.5)},
        .expected = {{-4.82495136, 3.5574465, -1.23249514, 6.17423289, 0.5,
                      -5.17423289}}},
       {.name = "SkipLayerNormalization",
        .op = "SkipLayerNormalization",
        .inputs = {x, skip, gamma, beta, In({3}, {1, -1, 2})},
        .domain = kMs,
        .outputs = "1111",
        .expected = {skipped,
                     {-5.0 / 3, 5.0 / 3, 0, -1.0 / 3},
                     {0.303045763, 0.215387448, 0.40824829, 0.215387448},
                     {-6, 2, -1, 8, 0, -3, 3, 0, -3, 6, -2, -5}}},
       {.name = "SkipLayerNormalization/skip of one sample",
        .op = "SkipLayerNormalization",
        .inputs = {x, Mixed({1, 2, 3}, 3, 5), gamma, beta, In({3}, {1, -1, 2})},
        .domain = kMs,
        .expected = {skipped}},
       {.name = "SkipLayerNormalization/no beta, the sum as well",
        .op = "SkipLayerNormalization",
        .inputs = {x, skip, gamma, Omitted(), In({3}, {1, -1, 2})},
        .domain = kMs,
        .outputs = "1001",
        .expected = {{-1.313198308, 2.2223356, -0.202030509, 1.3641205,
                      -0.717958159, 1.00514142, 1.22474487, 0, 1.22474487,
                      1.3641205, -0.717958159, 1.00514142},
                     {},
                     {},
                     {-6, 2, -1, 8, 0, -3, 3, 0, -3, 6, -2, -5}}},
       {.name = "SkipSimplifiedLayerNormalization/the sum as well",
        .op = "SkipSimplifiedLayerNormalization",
        .inputs = {x, skip, gamma},
        .attributes = {{"epsilon", 1e-3f}},
        .domain = kMs,
        .outputs = "1001",
        .expected =
            {simplified, {}, {}, {-7, 3, -3, 7, 1, -5, 2, 1, -5, 5, -1, -7}}},
       {.name = "SkipSimplifiedLayerNormalization",
        .op = "SkipSimplifiedLayerNormalization",
        .inputs = {x, skip, gamma},
        .attributes = {{"epsilon", 1e-3f}},
        .domain = kMs,
        .outputs = "1111",
        .expected = {simplified,
                     {0, 0, 0, 0},
                     {0.211598948, 0.199996, 0.316211956, 0.199996},
                     {-7, 3, -3, 7, 1, -5, 2, 1, -5, 5, -1, -7}}},
       // The gradient of LayerNormalizationGrad's case, from its output.
       {.name = "InvertibleLayerNormalizationGrad",
        .op = "InvertibleLayerNormalizationGrad",
        .inputs = {Mixed({2, 3}, 3, 5),
                   In({2, 3}, {-0.662475824, 2.55744648, 1.11624753, 1.72474432,
                               0, 2.22474432}),
                   gamma, beta, In({2, 1}, {0.348742723, 0.30618608})},
        .domain = kMs,
        .outputs = "111",
        .expected = {{-0.169659257, -0.127243221, 0.296902537, 0.204124063,
                      -0.408248097, 0.204124063},
                     {4.77444029, 1.27872324, 2.56573629},
                     {0, 1, -3}}}});
}

void AddBatchNorm(Cases& cases) {
  const CaseInput x = Mixed({2, 2, 2}, 7, 11);
  const CaseInput scale = In({2, 2}, {1, 2, 3, 4});
  const CaseInput bias = In({2, 2}, {0.5, 1, 1.5, 2});
  const CaseInput mean = In({2, 2}, {0.25, 0.5, 0.75, 1});
  const CaseInput variance = In({2, 2}, {2, 4, 6, 8});
  cases.insert(
      cases.end(),
      {{.name = "BatchNormalization/per position",
        .op = "BatchNormalization",
        .inputs = {x, scale, bias, mean, variance},
        .attributes = {{"spatial", int64_t{0}}},
        .opset = 7,
        .expected = {{-3.21230132, 2.49999813, -1.86804559, 7.65685071,
                      1.03032876, -2.49999563, 5.48041752, 0.585787322}}},
       {.name = "BatchNormalization/per position, training",
        .op = "BatchNormalization",
        .inputs = {x, scale, bias, mean, variance},
        .attributes = {{"spatial", int64_t{0}}},
        .opset = 7,
        .outputs = "111",
        .expected = {{-0.499999444, 2.9999984, -1.49999833, 5.9999968,
                      1.49999944, -0.9999984, 4.49999833, -1.9999968},
                     {0.025, 0.4, 0.775, 1.15},
                     {2.7, 4.225, 6.3, 7.825}}},
       {.name = "BatchNormalization/one axis",
        .op = "BatchNormalization",
        .inputs = {In({3}, {1, 2, 5}), In({1}, {2}), In({1}, {1}), In({1}, {2}),
                   In({1}, {4})},
        .attributes = {{"epsilon", 0.0f}},
        .expected = {{0, 1, 4}}}});
}

}  // namespace

Cases GroupNormCases() {
  Cases cases;
  AddGroupNorm(cases);
  AddNormalize(cases);
  AddLayerNorm(cases);
  AddBatchNorm(cases);
  return cases;
}

}  // namespace strop
