// SPDX-License-Identifier: Apache-2.0
//
// Normalization and Dropout. Expected values come from ONNX Runtime 1.19.
#include "ops/cases/cases.h"

namespace strop {

Cases NormalizationCases() {
  const CaseInput x = Mixed({2, 3, 2}, 7, 11);
  const CaseInput dy = Mixed({2, 3, 2}, 3, 5);
  const CaseInput scale = In({3}, {1, 2, -1});
  const CaseInput bias = In({3}, {0.5, 0, 1});
  const CaseInput mean = In({3}, {1, 2, 3});
  const CaseInput variance = In({3}, {4, 5, 6});
  const Numbers64 y = {-1.0696131,   1.02320433, -1.37360513, 2.47248936,
                       -0.341639429, 1.44721317, 1.62115216,  0.425256521,
                       -2.47248936,  1.37360513, 0.552786827, 2.34163928};
  const Numbers64 running_mean = {0.925, 1.85, 2.5};
  const Numbers64 running_variance = {4.71875, 5.825, 5.9};
  const Numbers64 saved_mean = {0.25, 0.5, -2};
  const Numbers64 saved_variance = {11.1875, 13.25, 5};
  const Numbers64 saved_inverse = {0.298973918, 0.274721026, 0.447213143};
  const Numbers64 inference = {-2.49999666, 0.999999404,    -3.57770538,
                               2.68327904,  1.8164959,      3.44948769,
                               1.99999821,  5.96046448e-07, -5.36655807,
                               0.894426346, 2.63299179,     4.26598358};
  const CaseInput rows = Mixed({2, 3}, 7, 11);
  const CaseInput drows = Mixed({2, 3}, 3, 5);
  const CaseInput row_mean = In({2, 1}, {-5.0 / 3, 1});
  const CaseInput row_inverse = In({2, 1}, {0.348742723, 0.30618608});
  const Numbers64 norm_y = {-0.662475824, 2.55744648, 1.11624753,
                            1.72474432,   0,          2.22474432};
  return {
      {.name = "BatchNormalization",
       .op = "BatchNormalization",
       .inputs = {x, scale, bias, mean, variance},
       .expected = {inference}},
      {.name = "BatchNormalization/training",
       .op = "BatchNormalization",
       .inputs = {x, scale, bias, mean, variance},
       .attributes = {{"training_mode", int64_t{1}}},
       .outputs = "11111",
       .expected = {y, running_mean, running_variance, saved_mean,
                    saved_variance}},
      {.name = "BatchNormInternal",
       .op = "BatchNormInternal",
       .inputs = {x, scale, bias, mean, variance},
       .attributes = {{"training_mode", int64_t{1}}},
       .domain = kMs,
       .outputs = "11111",
       .expected = {y, running_mean, running_variance, saved_mean,
                    saved_inverse},
       .expected_inputs = {{}, {}, {}, {1, 2, 3}, {4, 5, 6}}},
      {.name = "BatchNormalizationGrad",
       .op = "BatchNormalizationGrad",
       .inputs = {dy, x, scale, In({3}, saved_mean), In({3}, saved_inverse)},
       .domain = kMs,
       .outputs = "111",
       .expected = {{0.0467663519, 0.183727145, -0.896730959, 0.570175767,
                     -0.536655307, 0.626098216, -0.0334045999, -0.197088972,
                     0.803429365, -0.476874202, 0.491934627, -0.581377566},
                    {4.85832596, 0.686802626, -1.34163928},
                    {-1, 3, -3}}},
      {.name = "LayerNormalization",
       .op = "LayerNormalization",
       .inputs = {rows, scale, bias},
       .outputs = "111",
       .expected = {norm_y, {-5.0 / 3, 1}, {0.348742723, 0.30618608}}},
      // The variance is 1.25; its root's inverse, 0.894427, is 0.89453125 in
      // bfloat16.
      {.name = "LayerNormalization/statistics in bfloat16",
       .op = "LayerNormalization",
       .inputs = {In({1, 4}, {1, 2, 3, 4}), In({4}, {1, 1, 1, 1})},
       .attributes = {{"epsilon", 0.0f}, {"stash_type", int64_t{16}}},
       .outputs = "111",
       .expected = {{-1.3416407865, -0.4472135955, 0.4472135955, 1.3416407865},
                    {2.5},
                    {0.89453125}}},
      {.name = "LayerNormalization/two axes",
       .op = "LayerNormalization",
       .inputs = {Mixed({1, 2, 3}, 7, 11), In({2, 3}, {1, 1, 1, 1, 1, 1})},
       .attributes = {{"axis", int64_t{1}}, {"epsilon", 0.0f}},
       .outputs = "1"},
      {.name = "LayerNormalizationGrad",
       .op = "LayerNormalizationGrad",
       .inputs = {drows, rows, scale, row_mean, row_inverse},
       .domain = kMs,
       .outputs = "111",
       .expected = {{-0.169659257, -0.127243221, 0.296902537, 0.204124063,
                     -0.408248097, 0.204124063},
                    {4.77444029, 1.27872324, 2.56573629},
                    {0, 1, -3}}},
      {.name = "SimplifiedLayerNormalization",
       .op = "SimplifiedLayerNormalization",
       .inputs = {rows, scale},
       .outputs = "11",
       .expected = {{-1.50755608, 1.20604479, 0.603022397, 1.46384943,
                     0.585539758, 0.878309667},
                    {0.301511198, 0.292769879}}},
      {.name = "SimplifiedLayerNormalizationGrad",
       .op = "SimplifiedLayerNormalizationGrad",
       .inputs = {drows, rows, scale, In({2, 1}, {0.301511198, 0.292769879})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{-0.054820776, 0.383741736, 0.520791888, 0.418242812,
                     -0.033459384, 0.685917914},
                    {5.94281101, 0.603022397, 2.35964155}}},
      {.name = "Dropout/inference",
       .op = "Dropout",
       .inputs = {In({3}, {1, 2, 3}), In({}, {0.5})},
       .outputs = "11",
       .expected = {{1, 2, 3}, {1, 1, 1}}},
      {.name = "Dropout/ratio 0",
       .op = "Dropout",
       .inputs = {In({3}, {1, 2, 3}), In({}, {0}), BoolsOf({}, {1})},
       .outputs = "11",
       .expected = {{1, 2, 3}, {1, 1, 1}}},
      {.name = "Dropout/training",
       .op = "Dropout",
       .inputs = {InRange({40}, 1, 2), In({}, {0.25}), BoolsOf({}, {1})},
       .outputs = "11"},
      {.name = "DropoutGrad",
       .op = "DropoutGrad",
       .inputs = {In({3}, {1, 2, 3}), BoolsOf({3}, {1, 0, 1}), In({}, {0.5}),
                  BoolsOf({}, {1})},
       .domain = kMs,
       .expected = {{2, 0, 6}}},
      {.name = "DropoutGrad/inference",
       .op = "DropoutGrad",
       .inputs = {In({3}, {1, 2, 3}), BoolsOf({3}, {1, 1, 1}), In({}, {0.5}),
                  BoolsOf({}, {0})},
       .domain = kMs,
       .expected = {{1, 2, 3}}},
  };
}

}  // namespace strop
