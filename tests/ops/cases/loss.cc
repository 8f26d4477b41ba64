// SPDX-License-Identifier: Apache-2.0
//
// Losses beyond ONNX's own: ONNX Runtime's internal forms and the old ones.
// Expected values: the formulas in NumPy's float64.
#include "ops/cases/cases.h"

namespace strop {
namespace {

const Numbers64 kLogProb = {-3.65317821,  -0.153178207, -2.15317821,
                            -0.142931628, -2.14293163,  -4.14293163,
                            -0.142931628, -2.14293163,  -4.14293163,
                            -0.142931628, -2.14293163,  -4.14293163};
const Numbers64 kLosses = {2.15317821, 0.142931628, 2.14293163, 2.14293163};

CaseInput Scores() { return Mixed({4, 3}, 7, 11, 0.5); }
CaseInput Labels() { return Int64s({4}, {2, 0, 1, 1}); }
CaseInput Weights() { return In({3}, {1, 2, 0.5}); }
CaseInput OneHot() { return In({4, 3}, {0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0}); }

CaseAttributes Reduced(const char* how) {
  return {{"reduction", std::string(how)}};
}

Cases InternalCases() {
  const Numbers64 gradient = {0.0172724365,
                              0.57198454,
                              -0.589256977,
                              -0.177582224,
                              0.156413904,
                              0.02116832,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0};
  return {
      {.name = "SoftmaxCrossEntropyLossInternal/ignored, weighted",
       .op = "SoftmaxCrossEntropyLossInternal",
       .inputs = {Scores(), Labels(), Weights(), Int64s({}, {1})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{0.813013821}, kLogProb}},
      {.name = "SoftmaxCrossEntropyLossInternal/none, the input wins",
       .op = "SoftmaxCrossEntropyLossInternal",
       .inputs = {Scores(), Int32s({4}, {2, 0, 1, 1}), Omitted(),
                  Int64s({}, {1})},
       .attributes = {{"reduction", std::string("none")},
                      {"ignore_index", int64_t{0}}},
       .domain = kMs,
       .outputs = "11",
       .expected = {{2.15317821, 0.142931628, 0, 0}, kLogProb}},
      {.name = "SoftmaxCrossEntropyLossInternal/empty batch",
       .op = "SoftmaxCrossEntropyLossInternal",
       .inputs = {In({0, 3}), Int64s({0}, {})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{0}, {}}},
      {.name = "SoftmaxCrossEntropyLossInternalGrad/ignored, weighted",
       .op = "SoftmaxCrossEntropyLossInternalGrad",
       .inputs = {In({}, {2}), In({4, 3}, kLogProb), Labels(), Weights(),
                  Int64s({}, {1})},
       .domain = kMs,
       .expected = {gradient}},
      {.name = "SoftmaxCrossEntropyLossInternalGrad/bias",
       .op = "SoftmaxCrossEntropyLossInternalGrad",
       .inputs = {In({}, {2}), In({4, 3}, kLogProb), Labels(), Weights(),
                  Int64s({}, {1}), Mixed({12}, 5, 7, 0.25)},
       .domain = kMs,
       .expected = {{-0.732727564, 1.07198454, -0.589256977, -0.677582224,
                     0.906413904, 0.27116832, -0.25, -0.75, 0.5, 0, -0.5,
                     0.75}}},
      {.name = "NegativeLogLikelihoodLossInternal/ignored, weighted",
       .op = "NegativeLogLikelihoodLossInternal",
       .inputs = {In({4, 3}, kLogProb), Labels(), Weights(), Int64s({}, {1})},
       .domain = kMs,
       .expected = {{0.813013821}}},
      {.name = "NegativeLogLikelihoodLossInternal2/none",
       .op = "NegativeLogLikelihoodLossInternal2",
       .inputs = {In({4, 3}, kLogProb), Labels()},
       .attributes = Reduced("none"),
       .domain = kMs,
       .expected = {kLosses}},
  };
}

Cases SparseCases() {
  const CaseInput weights = In({4}, {1, 0, 2, 0.5});
  return {
      {.name = "SparseSoftmaxCrossEntropy/mean",
       .op = "SparseSoftmaxCrossEntropy",
       .inputs = {Scores(), Labels()},
       .outputs = "11",
       .expected = {{1.64549327}, kLogProb}},
      {.name = "SparseSoftmaxCrossEntropy/weighted",
       .op = "SparseSoftmaxCrossEntropy",
       .inputs = {Scores(), Labels(), weights},
       .expected = {{2.14585922}}},
      {.name = "SparseSoftmaxCrossEntropy/sum of two axes",
       .op = "SparseSoftmaxCrossEntropy",
       .inputs = {Mixed({2, 2, 3}, 7, 11, 0.5), Int64s({2, 2}, {2, 0, 1, 1})},
       .attributes = Reduced("sum"),
       .expected = {{6.58197309}}},
      {.name = "SparseSoftmaxCrossEntropy/none",
       .op = "SparseSoftmaxCrossEntropy",
       .inputs = {Scores(), Labels()},
       .attributes = Reduced("none"),
       .expected = {kLosses}},
      {.name = "SparseSoftmaxCrossEntropy/one sample",
       .op = "SparseSoftmaxCrossEntropy",
       .inputs = {In({2}, {0, 0}), Int64s({}, {1})},
       .expected = {{std::log(2.0)}}},
      {.name = "SparseSoftmaxCrossEntropyGrad/weighted",
       .op = "SparseSoftmaxCrossEntropyGrad",
       .inputs = {In({}, {3}), In({4, 3}, kLogProb), Labels(), weights},
       .expected = {{0.0222074183, 0.735408695, -0.757616113, 0, 0, 0,
                     1.48596571, -1.51318212, 0.0272164114, 0.371491428,
                     -0.378295531, 0.00680410285}}},
      {.name = "SparseSoftmaxCrossEntropyGrad/none",
       .op = "SparseSoftmaxCrossEntropyGrad",
       .inputs = {In({4}, {2, -1, 0.5, 1}), In({4, 3}, kLogProb), Labels()},
       .attributes = Reduced("none"),
       .expected = {{0.0518173094, 1.71595362, -1.76777093, 0.133186668,
                     -0.117310428, -0.01587624, 0.433406666, -0.441344786,
                     0.00793811999, 0.866813332, -0.882689572, 0.01587624}}},
  };
}

Cases OneHotCases() {
  const CaseInput log_prob = In({4, 3}, kLogProb);
  return {
      {.name = "SoftmaxCrossEntropy/mean",
       .op = "SoftmaxCrossEntropy",
       .inputs = {Scores(), OneHot()},
       .domain = kMs,
       .outputs = "11",
       .expected = {{1.64549327}, kLogProb}},
      {.name = "SoftmaxCrossEntropy/sum",
       .op = "SoftmaxCrossEntropy",
       .inputs = {Scores(), OneHot()},
       .attributes = Reduced("sum"),
       .domain = kMs,
       .expected = {{6.58197309}}},
      {.name = "SoftmaxCrossEntropy/none",
       .op = "SoftmaxCrossEntropy",
       .inputs = {Scores(), OneHot()},
       .attributes = Reduced("none"),
       .domain = kMs,
       .expected = {kLosses}},
      {.name = "SoftmaxCrossEntropy/empty batch",
       .op = "SoftmaxCrossEntropy",
       .inputs = {In({0, 3}), In({0, 3})},
       .domain = kMs,
       .outputs = "11",
       .expected = {{0}, {}}},
      {.name = "SoftmaxCrossEntropy/no class",
       .op = "SoftmaxCrossEntropy",
       .inputs = {In({2, 0}), In({2, 0})},
       .attributes = Reduced("none"),
       .domain = kMs,
       .expected = {{0, 0}}},
      {.name = "SoftmaxCrossEntropyGrad/mean",
       .op = "SoftmaxCrossEntropyGrad",
       .inputs = {In({}, {2}), log_prob, OneHot()},
       .domain = kMs,
       .expected = {{0.0129543274, 0.428988405, -0.441942733, -0.0665933339,
                     0.0586552139, 0.00793811999, 0.433406666, -0.441344786,
                     0.00793811999, 0.433406666, -0.441344786, 0.00793811999}}},
      {.name = "SoftmaxCrossEntropyGrad/none",
       .op = "SoftmaxCrossEntropyGrad",
       .inputs = {In({4}, {2, -1, 0.5, 1}), log_prob, OneHot()},
       .attributes = Reduced("none"),
       .domain = kMs,
       .expected = {{0.0518173094, 1.71595362, -1.76777093, 0.133186668,
                     -0.117310428, -0.01587624, 0.433406666, -0.441344786,
                     0.00793811999, 0.866813332, -0.882689572, 0.01587624}}},
  };
}

}  // namespace

Cases MoreLossCases() {
  Cases cases = InternalCases();
  for (Cases (*list)() : {SparseCases, OneHotCases}) {
    for (OpCase& op_case : list()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace strop
