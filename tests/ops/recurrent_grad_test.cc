// SPDX-License-Identifier: Apache-2.0
//
// LSTMGrad and GRUGrad against central differences of the forward ops, in
// float64.
#include <gtest/gtest.h>

#include "ops/cases/cases.h"

namespace strop {
namespace {

constexpr int64_t kSteps = 3, kBatch = 2, kInput = 2, kHidden = 3;

// What varies between the tests.
struct Variant {
  std::string name;
  CaseAttributes attributes = {};
  Numbers64 lengths = {};
  bool bias = true, first = true, peepholes = false;
  bool d_all = true, d_last = true;
};

bool Has(const Variant& variant, const std::string& name,
         const std::string& text) {
  for (const auto& [key, value] : variant.attributes) {
    const auto* string = std::get_if<std::string>(&value);
    if (key == name && string != nullptr && *string == text) return true;
  }
  return false;
}

bool BatchFirst(const Variant& variant) {
  for (const auto& [key, value] : variant.attributes) {
    if (key == "layout") return true;
  }
  return false;
}

class Recurrent {
 public:
  Recurrent(const Variant& variant, bool is_lstm)
      : variant_(variant),
        is_lstm_(is_lstm),
        directions_(Has(variant, "direction", "bidirectional") ? 2 : 1),
        batch_first_(BatchFirst(variant)) {
    const int64_t gates = is_lstm ? 4 : 3;
    const int64_t n = gates * kHidden, d = directions_;
    const Shape state =
        batch_first_ ? Shape{kBatch, d, kHidden} : Shape{d, kBatch, kHidden};
    x_ = batch_first_ ? Shape{kBatch, kSteps, kInput}
                      : Shape{kSteps, kBatch, kInput};
    inputs_ = {Spread(x_), Spread({d, n, kInput}), Spread({d, n, kHidden})};
    inputs_.push_back(variant.bias ? Spread({d, 2 * n}) : Omitted());
    inputs_.push_back(variant.lengths.empty()
                          ? Omitted()
                          : Int32s({kBatch}, variant.lengths));
    inputs_.push_back(variant.first ? Spread(state) : Omitted());
    if (is_lstm) {
      inputs_.push_back(variant.first ? Spread(state) : Omitted());
      inputs_.push_back(variant.peepholes ? Spread({d, 3 * kHidden})
                                          : Omitted());
    }
  }

  // The outputs, and one weight for each: loss = sum of weight times output.
  void RunForward() {
    const OpCase forward = {.name = "forward",
                            .op = is_lstm_ ? "LSTMTraining" : "GRUTraining",
                            .inputs = inputs_,
                            .attributes = variant_.attributes,
                            .domain = kMs,
                            .outputs = is_lstm_ ? "11111" : "111"};
    OpRun run(forward, DataType::kFloat64);
    run.RunReference();
    outputs_.clear();
    for (size_t i = 0; i < forward.outputs.size(); ++i) {
      outputs_.push_back(In(run.output(i).shape(), run.OutputValues(i)));
    }
    if (weights_.empty()) {
      for (size_t i = 0; i < (is_lstm_ ? 3 : 2); ++i) {
        const bool used = i == 0 ? variant_.d_all : variant_.d_last;
        weights_.push_back(used ? Spread(outputs_[i].shape) : Omitted());
      }
    }
  }

  double Loss() {
    RunForward();
    double loss = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      for (size_t j = 0; j < weights_[i].values.size(); ++j) {
        loss += weights_[i].values[j] * outputs_[i].values[j];
      }
    }
    return loss;
  }

  // Which forward input the i-th output of the gradient belongs to.
  std::vector<size_t> Targets() const {
    return is_lstm_ ? std::vector<size_t>{0, 1, 2, 3, 5, 6, 7}
                    : std::vector<size_t>{0, 1, 2, 3, 5};
  }

  OpCase Backward() const {
    OpCase backward = {.name = "backward",
                       .op = is_lstm_ ? "LSTMGrad" : "GRUGrad",
                       .inputs = {},
                       .attributes = variant_.attributes,
                       .domain = kMs,
                       .outputs = ""};
    for (const size_t i : Targets()) {
      backward.outputs += inputs_[i].omitted ? '0' : '1';
    }
    for (size_t i = 0; i < 6 + (is_lstm_ ? 1 : 0); ++i) {
      if (!is_lstm_ || i != 3) backward.inputs.push_back(inputs_[i]);
    }
    backward.inputs.push_back(outputs_[0]);
    if (is_lstm_) backward.inputs.push_back(outputs_[3]);
    backward.inputs.push_back(outputs_.back());
    for (const CaseInput& weight : weights_) backward.inputs.push_back(weight);
    if (is_lstm_) backward.inputs.push_back(inputs_[7]);
    return backward;
  }

  Numbers64 Differences(size_t input) {
    constexpr double kStep = 1e-5;
    Numbers64 slopes;
    for (double& x : inputs_[input].values) {
      const double old = x;
      x = old + kStep;
      const double above = Loss();
      x = old - kStep;
      const double below = Loss();
      x = old;
      slopes.push_back((above - below) / (2 * kStep));
    }
    return slopes;
  }

 private:
  // Different numbers in [-1, 1) for each tensor.
  CaseInput Spread(const Shape& shape) {
    Numbers64 values;
    for (int64_t i = 0; i < shape.element_count(); ++i) {
      values.push_back(2 * std::fmod(0.6180339887 * ++drawn_, 1.0) - 1);
    }
    return In(shape, std::move(values));
  }

  const Variant& variant_;
  const bool is_lstm_;
  const int64_t directions_;
  const bool batch_first_;
  double drawn_ = 0;
  Shape x_;
  std::vector<CaseInput> inputs_, outputs_, weights_;
};

void ExpectGradients(const Variant& variant, bool is_lstm) {
  SCOPED_TRACE(variant.name);
  Recurrent recurrent(variant, is_lstm);
  recurrent.RunForward();
  const OpCase backward = recurrent.Backward();
  OpRun run(backward, DataType::kFloat64);
  run.RunReference();
  const auto targets = recurrent.Targets();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!run.has_output(i)) continue;
    ExpectNear(run.OutputValues(i), recurrent.Differences(targets[i]), 1e-8,
               variant.name + ", gradient " + std::to_string(i));
  }
}

using Names = std::vector<std::string>;
using FloatList = std::vector<float>;

CaseAttributes Directed(const char* direction, CaseAttributes more = {}) {
  more.emplace_back("direction", std::string(direction));
  return more;
}

TEST(RecurrentGrad, OfLstm) {
  const Variant variants[] = {
      {.name = "plain"},
      {.name = "weights only", .bias = false, .first = false},
      {.name = "gradient of all steps only", .d_last = false},
      {.name = "gradient of the last state only", .d_all = false},
      {.name = "peepholes", .peepholes = true},
      {.name = "peepholes without first states",
       .first = false,
       .peepholes = true},
      {.name = "reverse, lengths",
       .attributes = Directed("reverse"),
       .lengths = {2, 3},
       .peepholes = true},
      {.name = "both directions, an empty sequence",
       .attributes = Directed("bidirectional"),
       .lengths = {0, 2},
       .peepholes = true},
      {.name = "sequences first",
       .attributes = Directed("bidirectional", {{"layout", int64_t{1}}}),
       .lengths = {1, 3},
       .peepholes = true},
      {.name = "coupled",
       .attributes = {{"input_forget", int64_t{1}}},
       .peepholes = true},
      {.name = "clip", .attributes = {{"clip", 0.5f}}, .peepholes = true},
      {.name = "other activations",
       .attributes =
           Directed("bidirectional",
                    {{"activations", Names{"HardSigmoid", "ScaledTanh", "Elu",
                                           "Softsign", "Affine", "Softplus"}},
                     {"activation_alpha", FloatList{0.5f, 0.75f, 0.5f, 1.5f}},
                     {"activation_beta", FloatList{0.375f, 1.25f, 0.25f}}}),
       .peepholes = true},
  };
  for (const Variant& variant : variants)
    ExpectGradients(variant, /*is_lstm=*/true);
}

TEST(RecurrentGrad, OfGru) {
  for (const int64_t linear : {0, 1}) {
    const CaseAttributes reset = {{"linear_before_reset", linear}};
    const auto with = [&](CaseAttributes more) {
      more.insert(more.end(), reset.begin(), reset.end());
      return more;
    };
    const Variant variants[] = {
        {.name = "plain", .attributes = reset},
        {.name = "weights only",
         .attributes = reset,
         .bias = false,
         .first = false},
        {.name = "gradient of all steps only",
         .attributes = reset,
         .d_last = false},
        {.name = "gradient of the last state only",
         .attributes = reset,
         .d_all = false},
        {.name = "reverse, lengths",
         .attributes = Directed("reverse", reset),
         .lengths = {2, 3}},
        {.name = "both directions, an empty sequence",
         .attributes = Directed("bidirectional", reset),
         .lengths = {0, 2}},
        {.name = "sequences first",
         .attributes =
             Directed("bidirectional", with({{"layout", int64_t{1}}})),
         .lengths = {1, 3}},
        {.name = "clip", .attributes = with({{"clip", 0.5f}})},
        {.name = "other activations",
         .attributes = Directed(
             "bidirectional",
             with({{"activations",
                    Names{"Softsign", "LeakyRelu", "Tanh", "ThresholdedRelu"}},
                   {"activation_alpha", FloatList{0.25f, 0.125f}}}))},
        {.name = "rectified",
         .attributes = with({{"activations", Names{"Sigmoid", "Relu"}}})},
    };
    for (const Variant& variant : variants)
      ExpectGradients(variant, /*is_lstm=*/false);
  }
}

// From the value alone, a folded function does not tell its argument's sign.
TEST(RecurrentGrad, RefusesFoldedActivations) {
  const OpCase folded = {
      .name = "n",
      .op = "GRUTraining",
      .inputs = {In({1, 1, 1}), In({1, 3, 1}), In({1, 3, 1})},
      .attributes = {{"activations", Names{"Sigmoid", "LeakyRelu"}},
                     {"activation_alpha", FloatList{-0.5f}}},
      .domain = kMs};
  try {
    OpRun run(folded, DataType::kFloat32);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotImplemented);
    EXPECT_NE(std::string(error.what()).find("alpha -0.5"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace strop
