// SPDX-License-Identifier: Apache-2.0
//
// Activations with gradients of their own. Expected values come from ONNX
// Runtime 1.19 unless a formula stands beside them.
#include "ops/cases/cases.h"

namespace strop {

Cases ActivationCases() {
  const CaseInput x = In({2, 3}, {-2, -0.5, 0, 0.5, 2, 3});
  const CaseInput dy = In({2, 3}, {1, 2, -1, 0.5, 1, 1});
  const CaseInput bias = In({3}, {0.5, -0.25, 1});
  const CaseInput y = In({2, 3}, {0.1, 0.25, 0.5, 0.75, 0.9, 0});
  const auto ms = [](const char* op, std::vector<CaseInput> inputs,
                     Numbers64 expected) {
    return OpCase{.name = op,
                  .op = op,
                  .inputs = std::move(inputs),
                  .domain = kMs,
                  .expected = {std::move(expected)}};
  };
  const auto onnx = [&](const char* op, Numbers64 expected) {
    return OpCase{
        .name = op, .op = op, .inputs = {x}, .expected = {std::move(expected)}};
  };
  const Numbers64 gelu = {-0.0455002785, -0.154268771, 0,
                          0.345731229,   1.95449972,   2.99595022};
  const Numbers64 fast_gelu = {-0.045402348, -0.154285997, 0,
                               0.345714003,  1.95459771,   2.99636269};
  const CaseInput s = Mixed({2, 3, 2}, 7, 11, 0.5);
  const CaseInput ds = Mixed({2, 3, 2}, 3, 5);
  const auto softmax = [&](const char* op, int64_t opset, int64_t axis,
                           Numbers64 expected) {
    return OpCase{.name = op + ("/" + std::to_string(opset)) + " axis " +
                          std::to_string(axis),
                  .op = op,
                  .inputs = {s},
                  .attributes = {{"axis", axis}},
                  .opset = opset,
                  .expected = {std::move(expected)}};
  };
  const auto gradient = [&](const char* op, int64_t axis, Numbers64 output,
                            Numbers64 expected) {
    return OpCase{.name = std::string(op) + "/axis " + std::to_string(axis),
                  .op = op,
                  .inputs = {ds, In({2, 3, 2}, std::move(output))},
                  .attributes = {{"axis", axis}},
                  .domain = kMs,
                  .expected = {std::move(expected)}};
  };
  const Numbers64 softmax_middle = {0.0391125716, 0.179734111,  0.175290391,
                                    0.805512369,  0.785597026,  0.0147534739,
                                    0.908759892,  0.179734111,  0.0166445188,
                                    0.805512369,  0.0745955557, 0.0147534739};
  const Numbers64 softmax_rows = {0.00476612337, 0.157832339,  0.0213602837,
                                  0.70735544,    0.0957301483, 0.0129556675,
                                  0.539556026,   0.0730209649, 0.0098823132,
                                  0.327257276,   0.0442894548, 0.00599392643};
  const Numbers64 log_middle = {-3.24131131,   -1.71627676,  -1.74131131,
                                -0.21627675,   -0.241311327, -4.21627665,
                                -0.0956743732, -1.71627676,  -4.09567451,
                                -0.21627675,   -2.59567428,  -4.21627665};
  const Numbers64 log_rows = {-5.34622192,  -1.84622204, -3.84622192,
                              -0.346222013, -2.34622192, -4.34622192,
                              -0.617008686, -2.61700869, -4.61700869,
                              -1.11700869,  -3.11700869, -5.11700869};
  return {
      // dy where x > 0
      ms("ReluGrad", {dy, x}, {0, 0, 0, 0.5, 1, 1}),
      ms("SigmoidGrad", {dy, y}, {0.09, 0.375, -0.25, 0.09375, 0.09, 0}),
      ms("TanhGrad", {dy, y}, {0.99, 1.875, -0.75, 0.21875, 0.19, 1}),
      onnx("LeakyRelu", {-0.02, -0.005, 0, 0.5, 2, 3}),
      {.name = "LeakyReluGrad",
       .op = "LeakyReluGrad",
       .inputs = {dy, x},
       .attributes = {{"alpha", 0.25f}},
       .domain = kMs,
       .expected = {{0.25, 0.5, -0.25, 0.5, 1, 1}}},
      onnx("Selu",
           {-1.52016652, -0.691758156, 0, 0.525350511, 2.10140204, 3.15210295}),
      onnx("HardSigmoid", {0.1, 0.4, 0.5, 0.6, 0.9, 1}),
      onnx("HardSwish",
           {-1.0 / 3, -0.208333328, 0, 0.291666657, 1.66666675, 3}),
      {.name = "Elu/alpha",
       .op = "Elu",
       .inputs = {x},
       .attributes = {{"alpha", 2.0f}},
       .expected = {{2 * std::expm1(-2), 2 * std::expm1(-0.5), 0, 0.5, 2, 3}}},
      onnx("Gelu", gelu),
      {.name = "Gelu/tanh",
       .op = "Gelu",
       .inputs = {x},
       .attributes = {{"approximate", std::string("tanh")}},
       .expected = {fast_gelu}},
      ms("Gelu", {x}, gelu),
      ms("GeluGrad", {dy, x},
         {-0.0852317959, 0.265009761, -0.5, 0.43374756, 1.08523178,
          1.01194572}),
      ms("BiasGelu", {x, bias},
         {-0.100210816, -0.169970512, 0.841344714, 0.841344714, 1.67989647,
          3.99987316}),
      ms("BiasGeluGrad_dX", {dy, x, bias},
         {-0.127469227, 0.00154858828, -1.08331549, 0.541657746, 1.11092615,
          1.00050378}),
      ms("FastGelu", {x}, fast_gelu),
      {.name = "FastGelu/bias",
       .op = "FastGelu",
       .inputs = {x, bias},
       .domain = kMs,
       .expected = {{-0.100428432, -0.170039445, 0.841192007, 0.841192007,
                     1.67979538, 3.9999299}}},
      ms("FastGeluGrad", {dy, x},
         {-0.0860992074, 0.26526016, -0.5, 0.433684945, 1.08609915,
          1.01158428}),
      ms("BiasFastGeluGrad_dX", {dy, x, bias},
         {-0.1277107, 0.00212347507, -1.08296406, 0.541482031, 1.11159694,
          1.00033498}),
      ms("QuickGelu", {x},
         {-0.0643413663, -0.149611577, 0, 0.350388408, 1.93565869, 2.98192883}),
      ms("QuickGeluGrad", {dy, x},
         {-0.0738153458, 0.241556212, -0.5, 0.439610928, 1.07381523,
          1.02454829}),
      softmax("Softmax", 13, 1, softmax_middle),
      softmax("Softmax", 11, 1, softmax_rows),
      softmax("LogSoftmax", 13, 1, log_middle),
      softmax("LogSoftmax", 11, 1, log_rows),
      {.name = "Hardmax",
       .op = "Hardmax",
       .inputs = {In({2, 3}, {1, 3, 3, -2, -1, -3})},
       .expected = {{0, 1, 0, 0, 1, 0}}},
      {.name = "Hardmax/axis 0",
       .op = "Hardmax",
       .inputs = {In({2, 3}, {1, 3, 3, -2, 4, -3})},
       .attributes = {{"axis", int64_t{0}}},
       .expected = {{1, 0, 1, 0, 1, 0}}},
      {.name = "Hardmax/11",
       .op = "Hardmax",
       .inputs = {In({2, 2, 2}, {1, 3, 5, 2, 9, 0, 9, 0})},
       .opset = 11,
       .expected = {{0, 0, 1, 0, 1, 0, 0, 0}}},
      {.name = "Hardmax/empty",
       .op = "Hardmax",
       .inputs = {In({2, 0})},
       .expected = {{}}},
      {.name = "Softmax/far",
       .op = "Softmax",
       .inputs = {In({2, 2}, {1000, 1000, -kInf, 5})},
       .expected = {{0.5, 0.5, 0, 1}}},
      {.name = "LogSoftmax/empty",
       .op = "LogSoftmax",
       .inputs = {In({0, 3})},
       .expected = {{}}},
      gradient("SoftmaxGrad_13", 1, softmax_middle,
               {-0.0683095008, -0.136822939, -0.130851552, 0.19231452,
                0.199161053, -0.0554915331, 0.188242555, -0.150081456,
                0.0200923011, 0.132893935, -0.208334774, 0.0171875115}),
      gradient("SoftmaxGrad", 1, softmax_rows,
               {-0.016756447, -0.0814003646, -0.0537369065, 0.342544347,
                -0.145101964, -0.045548752, 0.321729362, -0.102500595,
                0.0157749914, -0.132118568, -0.106459215, 0.00357409054}),
      gradient("LogSoftmaxGrad_13", 1, log_middle,
               {-1.8826623, 0.820265889, -0.474128842, 1.19448769, 2.35679102,
                -2.01475358, 0.0912401676, -1, 1.98335552, 0, -2.07459545, 1}),
      gradient("LogSoftmaxGrad", 1, log_rows,
               {-1.99046779, 1.31566465, -0.957279444, 3.41471076, 0.191460311,
                -1.97408867, 0.460443974, -1.07302094, 1.99011767, -0.327257276,
                -2.04428935, 0.994006097}),
  };
}

}  // namespace strop
