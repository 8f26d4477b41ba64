// SPDX-License-Identifier: Apache-2.0
//
// Losses, accumulation and optimizers. Expected losses and their gradients
// come from ONNX Runtime 1.19; optimizer values from the formulas.
#include "ops/cases/cases.h"

namespace strop {
namespace {

// -weights[label] log_prob[label], by hand.
Cases LogLikelihoodCases() {
  const CaseInput x = In({2, 3, 2}, {1, 2, 2, 2, 3, 2, 0, 1, 2, 2, 1, 4});
  const CaseInput labels = Int64s({2, 2}, {2, 1, 0, 2});
  const CaseInput weights = In({3}, {0.25, 0.5, 2});
  const auto loss = [&](const char* reduction, bool weighted,
                        Numbers64 expected) {
    OpCase op_case = {
        .name = std::string("NegativeLogLikelihoodLoss/") + reduction,
        .op = "NegativeLogLikelihoodLoss",
        .inputs = {x, labels},
        .attributes = {{"reduction", std::string(reduction)}},
        .expected = {std::move(expected)}};
    if (weighted) {
      op_case.name += " weighted";
      op_case.inputs.push_back(weights);
    }
    return op_case;
  };
  return {
      loss("none", false, {-3, -2, 0, -4}),
      loss("sum", false, {-9}),
      loss("mean", false, {-2.25}),
      loss("none", true, {-6, -1, 0, -8}),
      loss("sum", true, {-15}),
      loss("mean", true, {-15 / 4.75}),
      {.name = "NegativeLogLikelihoodLoss/ignored",
       .op = "NegativeLogLikelihoodLoss",
       .inputs = {x, labels, weights},
       .attributes = {{"ignore_index", int64_t{2}}},
       .expected = {{-1 / 0.75}}},
      {.name = "NegativeLogLikelihoodLoss/ignored out of range",
       .op = "NegativeLogLikelihoodLoss",
       .inputs = {x, Int32s({2, 2}, {-100, 1, 0, -100})},
       .attributes = {{"ignore_index", int64_t{-100}},
                      {"reduction", std::string("none")}},
       .expected = {{0, -2, 0, 0}}},
      {.name = "NegativeLogLikelihoodLoss/all ignored",
       .op = "NegativeLogLikelihoodLoss",
       .inputs = {In({2, 3}), Int64s({2}, {1, 1})},
       .attributes = {{"ignore_index", int64_t{1}}},
       .expected = {{0}}},
      {.name = "NegativeLogLikelihoodLoss/five axes",
       .op = "NegativeLogLikelihoodLoss",
       .inputs = {In({1, 2, 1, 2, 1, 1, 1}, {1, 2, 3, 4}),
                  Int64s({1, 1, 2, 1, 1, 1}, {1, 0})},
       .expected = {{-2.5}}},
      {.name = "NegativeLogLikelihoodLoss/empty batch",
       .op = "NegativeLogLikelihoodLoss",
       .inputs = {In({0, 3}), Int64s({0}, {})},
       .attributes = {{"reduction", std::string("none")}},
       .expected = {{}}},
  };
}

Cases LossCases() {
  const CaseInput x = Mixed({4, 3}, 7, 11, 0.5);
  const CaseInput labels = Int64s({4}, {2, 0, 1, 1});
  const CaseInput weights = In({3}, {1, 2, 0.5});
  const Numbers64 log_prob = {-3.65317822, -0.153178245, -2.15317822,
                              -0.1429317,  -2.1429317,   -4.14293194,
                              -0.1429317,  -2.1429317,   -4.14293194,
                              -0.1429317,  -2.1429317,   -4.14293194};
  const auto loss = [&](const char* reduction, bool weighted,
                        Numbers64 expected) {
    OpCase op_case = {
        .name = std::string("SoftmaxCrossEntropyLoss/") + reduction,
        .op = "SoftmaxCrossEntropyLoss",
        .inputs = {x, labels},
        .attributes = {{"reduction", std::string(reduction)}},
        .outputs = "11",
        .expected = {std::move(expected), log_prob}};
    if (weighted) {
      op_case.name += " weighted";
      op_case.inputs.push_back(weights);
    }
    return op_case;
  };
  const auto gradient = [&](const char* reduction, bool weighted,
                            Numbers64 expected) {
    const bool none = std::string(reduction) == "none";
    OpCase op_case = {
        .name = std::string("SoftmaxCrossEntropyLossGrad/") + reduction,
        .op = "SoftmaxCrossEntropyLossGrad",
        .inputs = {none ? In({4}, {2, -1, 0.5, 1}) : In({}, {2}),
                   In({4, 3}, log_prob), labels},
        .attributes = {{"reduction", std::string(reduction)}},
        .domain = kMs,
        .expected = {std::move(expected)}};
    if (weighted) {
      op_case.name += " weighted";
      op_case.inputs.push_back(weights);
    }
    return op_case;
  };
  const CaseAttributes ignore_0 = {{"ignore_index", int64_t{0}}};
  const CaseAttributes ignore_far = {{"ignore_index", int64_t{-100}}};
  Cases cases = {
      loss("mean", false, {1.64549339}),
      loss("mean", true, {1.78022683}),
      loss("sum", false, {6.58197355}),
      loss("sum", true, {9.79124737}),
      loss("none", false, {2.15317822, 0.1429317, 2.1429317, 2.1429317}),
      loss("none", true, {1.07658911, 0.1429317, 4.2858634, 4.2858634}),
      {.name = "SoftmaxCrossEntropyLoss/ignored",
       .op = "SoftmaxCrossEntropyLoss",
       .inputs = {x, labels, weights},
       .attributes = ignore_0,
       .expected = {{2.14407015}}},
      {.name = "SoftmaxCrossEntropyLoss/all ignored",
       .op = "SoftmaxCrossEntropyLoss",
       .inputs = {x, Int32s({4}, {-100, -100, -100, -100})},
       .attributes = ignore_far,
       .expected = {{0}}},
      {.name = "SoftmaxCrossEntropyLoss/positions",
       .op = "SoftmaxCrossEntropyLoss",
       .inputs = {Mixed({2, 3, 2}, 7, 11, 0.5), Int64s({2, 2}, {2, 0, 1, 1})},
       .expected = {{1.56738496}}},
      {.name = "SoftmaxCrossEntropyLoss/empty batch",
       .op = "SoftmaxCrossEntropyLoss",
       .inputs = {In({0, 3}), Int64s({0}, {})},
       .outputs = "11",
       .expected = {{0}, {}}},
      gradient("mean", false,
               {0.0129543273, 0.428988397, -0.441942722, -0.0665933788,
                0.0586552098, 0.00793811772, 0.433406621, -0.441344798,
                0.00793811772, 0.433406621, -0.441344798, 0.00793811772}),
      gradient("mean", true,
               {0.00471066451, 0.155995786, -0.160706446, -0.0484315492,
                0.0426583365, 0.0057731769, 0.630409658, -0.641956091,
                0.0115463538, 0.630409658, -0.641956091, 0.0115463538}),
      gradient("sum", true,
               {0.0259086546, 0.857976794, -0.883885443, -0.266373515,
                0.234620839, 0.0317524709, 3.46725297, -3.53075838,
                0.0635049418, 3.46725297, -3.53075838, 0.0635049418}),
      gradient("none", true,
               {0.0259086546, 0.857976794, -0.883885443, 0.133186758,
                -0.11731042, -0.0158762354, 0.866813242, -0.882689595,
                0.0158762354, 1.73362648, -1.76537919, 0.0317524709}),
      {.name = "SoftmaxCrossEntropyLossGrad/ignored",
       .op = "SoftmaxCrossEntropyLossGrad",
       .inputs = {In({}, {2}), In({4, 3}, log_prob), labels, weights},
       .attributes = ignore_0,
       .domain = kMs,
       .expected = {{0.005757479, 0.190661505, -0.196418986, 0, 0, 0,
                     0.77050066, -0.784612954, 0.014112209, 0.77050066,
                     -0.784612954, 0.014112209}}},
      // Weights are not read at an ignored label out of range.
      {.name = "SoftmaxCrossEntropyLossGrad/all ignored",
       .op = "SoftmaxCrossEntropyLossGrad",
       .inputs = {In({}, {2}), In({4, 3}, log_prob),
                  Int32s({4}, {-100, -100, -100, -100}), weights},
       .attributes = ignore_far,
       .domain = kMs,
       .expected = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}},
  };
  return cases;
}

// One step by the formulas, in double.
struct AdamWStep {
  Numbers64 w, m, v;
};
AdamWStep StepAdamW(int mode, bool correct, double step, const Numbers64& w,
                    const Numbers64& g, const Numbers64& m,
                    const Numbers64& v) {
  const double a = 0.9f, b = 0.999f, lr = 0.125f, eps = 1e-3f, decay = 0.25f;
  const double c1 = correct ? 1 - std::pow(a, step) : 1;
  const double c2 = correct ? 1 - std::pow(b, step) : 1;
  AdamWStep next = {w, m, v};
  for (size_t i = 0; i < w.size(); ++i) {
    if (mode == 0) next.w[i] -= lr * decay * next.w[i];
    next.m[i] = a * m[i] + (1 - a) * g[i];
    next.v[i] = b * v[i] + (1 - b) * g[i] * g[i];
    if (mode == 0) {
      next.w[i] -= lr * next.m[i] / (c1 * (std::sqrt(next.v[i] / c2) + eps));
    } else {
      next.w[i] -=
          lr * std::sqrt(c2) / c1 * next.m[i] / (std::sqrt(next.v[i]) + eps);
      next.w[i] -= lr * decay * next.w[i];
    }
  }
  return next;
}

Cases OptimizerCases() {
  const Numbers64 w = {1, -2, 0.5, 3, 0.25}, g = {0.5, -1, 2, 0, -0.125};
  const Numbers64 m = {0.1, 0, -0.25, 1, 0}, v = {0.5, 0.25, 0, 1, 2};
  // Two tensors: the first three numbers, and the others.
  const auto list = [](const Numbers64& x) {
    return ListOf({In({3}, {x[0], x[1], x[2]}), In({2, 1}, {x[3], x[4]})});
  };
  const auto round = [](Numbers64 x) {
    for (double& value : x) value = static_cast<float>(value);
    return x;
  };
  const CaseInput lr = Typed(DataType::kFloat32, {1}, {0.125});
  const auto adamw = [&](int mode, bool correct, int64_t step) {
    const AdamWStep next =
        StepAdamW(mode, correct, static_cast<double>(step), w, g, round(m), v);
    return OpCase{.name = "AdamWOptimizer/mode " + std::to_string(mode) +
                          (correct ? "" : " uncorrected"),
                  .op = "AdamWOptimizer",
                  .inputs = {lr, Int64s({1}, {static_cast<double>(step)}),
                             list(w), list(g), list(round(m)), list(v)},
                  .attributes = {{"alpha", 0.9f},
                                 {"beta", 0.999f},
                                 {"epsilon", 1e-3f},
                                 {"weight_decay", 0.25f},
                                 {"adam_mode", int64_t{mode}},
                                 {"correct_bias", int64_t{correct}}},
                  .domain = kMs,
                  .outputs = "1111",
                  .expected = {{1}, next.w, next.m, next.v},
                  .expected_inputs = {{}, {}, next.w, g, next.m, next.v}};
  };
  const double norm = std::sqrt(0.25 + 1 + 4 + 0.015625);
  const double clip = 0.5 / (norm + 1e-6);
  Numbers64 clipped;
  for (const double value : g) clipped.push_back(value * clip);
  return {
      adamw(0, true, 3),
      adamw(1, true, 1),
      adamw(1, false, 2),
      {.name = "AdamWOptimizer/no update",
       .op = "AdamWOptimizer",
       .inputs = {lr, Int64s({1}, {1}), list(w), list(g), list(m), list(v),
                  BoolsOf({1}, {0})},
       .domain = kMs,
       .outputs = "1",
       .expected = {{0}},
       .expected_inputs = {{}, {}, w, g, round(m), v}},
      {.name = "SGDOptimizerV2",
       .op = "SGDOptimizerV2",
       .inputs = {lr, list(w), list(g)},
       .domain = kMs,
       .outputs = "11",
       .expected = {{1}, {0.9375, -1.875, 0.25, 3, 0.265625}}},
      {.name = "SGDOptimizerV2/no update",
       .op = "SGDOptimizerV2",
       .inputs = {lr, list(w), list(g), BoolsOf({1}, {0})},
       .domain = kMs,
       .outputs = "1",
       .expected = {{0}},
       .expected_inputs = {{}, w}},
      {.name = "InplaceClipGradNorm",
       .op = "InplaceClipGradNorm",
       .inputs = {list(g)},
       .attributes = {{"max_norm", 0.5f}},
       .domain = kMs,
       .expected = {clipped}},
      {.name = "InplaceClipGradNorm/small",
       .op = "InplaceClipGradNorm",
       .inputs = {list(g)},
       .attributes = {{"max_norm", 5.0f}},
       .domain = kMs,
       .expected = {g}},
  };
}

}  // namespace

Cases TrainingCases() {
  Cases cases = LossCases();
  for (OpCase& op_case : LogLikelihoodCases()) {
    cases.push_back(std::move(op_case));
  }
  for (OpCase& op_case : OptimizerCases()) {
    cases.push_back(std::move(op_case));
  }
  const CaseInput a = In({2, 3}, {1, -2, 3, 4, -5, 8});
  const CaseInput b = In({3}, {2, 4, -1});
  const CaseInput dy = In({2, 3}, {1, 2, 3, -1, 0.5, 2});
  const Cases others = {
      {.name = "InPlaceAccumulatorV2",
       .op = "InPlaceAccumulatorV2",
       .inputs = {In({3}, {1, 2, 3}), In({3}, {10, 20, 30})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{1}, {11, 22, 33}},
       .expected_inputs = {{11, 22, 33}, {10, 20, 30}}},
      {.name = "InPlaceAccumulatorV2/overwrite",
       .op = "InPlaceAccumulatorV2",
       .inputs = {In({3}, {1, kNan, 3}), In({3}, {10, 20, 30}),
                  BoolsOf({1}, {1})},
       .domain = kMs,
       .expected = {{1}},
       .expected_inputs = {{10, 20, 30}}},
      // da = dy / b; db = -dy a / b^2, summed over the rows
      {.name = "DivGrad",
       .op = "DivGrad",
       .inputs = {dy, a, b},
       .domain = kMs,
       .outputs = "11",
       .expected = {{0.5, 0.5, -3, -0.5, 0.125, -2},
                    {-0.25 + 1, 0.25 + 0.15625, -9 - 16}}},
      {.name = "BroadcastGradientArgs",
       .op = "BroadcastGradientArgs",
       .inputs = {Int64s({4}, {2, 16, 1, 1024}),
                  Int64s({4}, {1, 1, 1024, 1024})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{2}, {1, 0}},
       .types = kOnlyInt64},
      {.name = "BroadcastGradientArgs/ranks",
       .op = "BroadcastGradientArgs",
       .inputs = {Int64s({3}, {1, 4, 5}), Int64s({4}, {2, 3, 1, 1})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{1, 0}, {3, 2}},
       .types = kOnlyInt64},
      {.name = "BroadcastGradientArgs/scalar",
       .op = "BroadcastGradientArgs",
       .inputs = {Int64s({4}, {2, 3, 4, 5}), Int64s({0}, {})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{}, {3, 2, 1, 0}},
       .types = kOnlyInt64},
  };
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

}  // namespace strop
