// SPDX-License-Identifier: Apache-2.0
//
// Losses of the user's own: sub-graphs in them, and what does not fit.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "artifacts/body.h"
#include "artifacts/model_check.h"
#include "artifacts/training_graphs.h"
#include "graph/onnx_io.h"
#include "graph/subgraphs.h"

namespace strop {
namespace {

constexpr int64_t kOpset = 13;

// The names are those that the loss gives to other things.
ModelBuilder Base() {
  ModelBuilder m(kOpset);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 2});
  m.Op("MatMul", {"x", "w"}, "difference");
  m.Op("Tanh", {"difference"}, "absolute");
  m.Op("Mul", {"absolute", "difference"}, "y");
  m.Output("y");
  return m;
}

ArtifactOptions WithLoss(const std::string& loss) {
  ArtifactOptions options;
  options.loss_model = std::as_bytes(std::span(loss));
  options.optimizer = OptimizerKind::kNone;
  return options;
}

// Values of sub-graphs under names that a graph around them has.
void FindNamesTwice(const Graph& graph, std::set<std::string> around,
                    std::vector<std::string>& twice) {
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{static_cast<int32_t>(i)});
    if (!value.outer && !around.insert(value.name).second)
      twice.push_back(value.name);
  }
  for (const NodeId id : graph.order()) {
    ForEachSubgraph(graph.node(id), [&](const Graph& body) {
      FindNamesTwice(body, around, twice);
    });
  }
}

// ONNX Runtime refuses such files.
void ExpectNoNameTwice(const std::string& loss) {
  const std::string source = Base().Encode();
  const Environment environment;
  const EncodedArtifacts encoded = EncodeArtifacts(
      std::as_bytes(std::span(source)), WithLoss(loss), environment);
  for (const EncodedModel& file : encoded.models) {
    std::vector<std::string> twice;
    FindNamesTwice(ReadOnnx(std::as_bytes(std::span(file.bytes))).graph, {},
                   twice);
    EXPECT_EQ(twice, std::vector<std::string>{}) << file.name;
  }
}

// mean of c ? |y - goal| factor : (y - goal)^2
TEST(LossModel, MayHaveSubgraphs) {
  ModelBuilder m(kOpset);
  m.Input("y", {-1, 2});
  m.Input("goal", {-1, 2});
  m.Input("c", {}, DataType::kBool);
  m.Constant("factor", {2}, {0.5, 2});
  m.Op("Sub", {"y", "goal"}, "difference");
  Body robust(kOpset), square(kOpset), product(kOpset), plain(kOpset);
  product.Capture("absolute");
  product.Capture("factor");
  product.Op("Mul", {"absolute", "factor"}, "product");
  product.Output("product");
  plain.Capture("absolute");
  plain.Op("Identity", {"absolute"}, "plain");
  plain.Output("plain");
  robust.Capture("difference");
  robust.Capture("factor");
  robust.Capture("c");
  robust.Op("Abs", {"difference"}, "absolute");
  robust.Branches("c", product.Get(), plain.Get(), "chosen");
  robust.Output("chosen");
  square.Capture("difference");
  square.Op("Mul", {"difference", "difference"}, "absolute_1");
  square.Output("absolute_1");
  m.Op("If", {"c"}, "each",
       {{"then_branch", robust.Get()}, {"else_branch", square.Get()}});
  m.Op("ReduceMean", {"each"}, "mean", {{"keepdims", int64_t{0}}});
  m.Output("mean");
  const std::string loss = m.Encode();
  ExpectNoNameTwice(loss);
  PreparedModel prepared(Base(), WithLoss(loss));
  for (const double c : {1.0, 0.0}) {
    const std::map<std::string, Feed> feeds = {
        {"x", Spread({2, 3})}, {"goal", Spread({2, 2}, 4)}, {"c", {{}, {c}}}};
    EXPECT_EQ(CompareGradients(prepared, feeds), "") << c;
    // The same by hand.
    const Numbers64 x = Spread({2, 3}).values, goal = Spread({2, 2}, 4).values;
    const auto w = prepared.state().ParameterValue("w").values<double>();
    double expected = 0;
    for (size_t i = 0; i < 4; ++i) {
      double h = 0;
      for (size_t k = 0; k < 3; ++k) h += x[i / 2 * 3 + k] * w[k * 2 + i % 2];
      const double d = std::tanh(h) * h - goal[i];
      const double factor = i % 2 == 0 ? 0.5 : 2;
      expected += (c != 0 ? std::abs(d) * factor : d * d) / 4;
    }
    EXPECT_NEAR(prepared.Evaluate(feeds), expected, 1e-12) << c;
  }
}

std::string ErrorOfInput(std::vector<int64_t> dims, DataType type) {
  ModelBuilder m(kOpset);
  m.Input("y", std::move(dims), type);
  m.Op("ReduceMean", {"y"}, "mean", {{"keepdims", int64_t{0}}});
  m.Output("mean");
  const std::string loss = m.Encode();
  return ErrorOfPreparing(Base(), WithLoss(loss));
}

TEST(LossModel, ItsInputsMustBeWhatTheModelHas) {
  EXPECT_EQ(ErrorOfInput({-1, 2}, DataType::kFloat64), "");
  EXPECT_EQ(ErrorOfInput({4, -2}, DataType::kFloat64), "");
  EXPECT_NE(
      LineWith({ErrorOfInput({-1, 2}, DataType::kFloat32)},
               {"input \"y\" is float32 [batch, 2]", "is float64 [batch, 2]"}),
      "");
  EXPECT_NE(LineWith({ErrorOfInput({-1, 2, 1}, DataType::kFloat64)},
                     {"input \"y\" is float64 [batch, 2, 1]"}),
            "");
  EXPECT_NE(LineWith({ErrorOfInput({-1, 5}, DataType::kFloat64)},
                     {"input \"y\" is float64 [batch, 5]"}),
            "");
}

TEST(LossModel, MayBeOfAnotherOpset) {
  for (const int64_t opset : {int64_t{11}, int64_t{17}}) {
    SCOPED_TRACE(opset);
    ModelBuilder m(opset);
    m.Input("y", {-1, 2});
    m.Op("Mul", {"y", "y"}, "square");
    m.Op("ReduceMean", {"square"}, "mean", {{"keepdims", int64_t{0}}});
    m.Output("mean");
    const std::string loss = m.Encode();
    PreparedModel prepared(Base(), WithLoss(loss));
    EXPECT_EQ(CompareGradients(prepared, {{"x", Spread({4, 3})}}), "");
    EXPECT_EQ(LineWith(prepared.report().notes, {"opset 17"}).empty(),
              opset < kOpset);
    ArtifactOptions options = WithLoss(loss);
    options.opset = kOpset;
    const std::string error = ErrorOfPreparing(Base(), options);
    EXPECT_EQ(LineWith({error}, {"opset 17 of ai.onnx"}).empty(),
              opset < kOpset)
        << error;
  }
}

}  // namespace
}  // namespace strop
