// SPDX-License-Identifier: Apache-2.0
//
// Names that a base model shares with what training adds.
#include <gtest/gtest.h>

#include <set>

#include "artifacts/model_check.h"
#include "artifacts/training_graphs.h"
#include "graph/onnx_io.h"

namespace strop {
namespace {

ArtifactOptions Mse() {
  return {.losses = {{.kind = LossKind::kMeanSquaredError}},
          .optimizer = OptimizerKind::kNone};
}

// y = x w w, which accumulates two gradients of w, through values and nodes
// of these names.
ModelBuilder Named(const std::string& hidden, const std::string& input = "x") {
  ModelBuilder m(13);
  m.Input(input, {-1, 3});
  m.Parameter("w", {3, 3});
  m.Op("MatMul", {input, "w"}, hidden);
  m.Op("MatMul", {hidden, "w"}, "y");
  m.Output("y");
  return m;
}

// ONNX Runtime refuses graphs with two nodes of a name.
void ExpectNodesApart(const std::string& onnx, const ArtifactOptions& options) {
  const Environment environment;
  const EncodedArtifacts encoded =
      EncodeArtifacts(std::as_bytes(std::span(onnx)), options, environment);
  for (const EncodedModel& file : encoded.models) {
    const Model model = ReadOnnx(std::as_bytes(std::span(file.bytes)));
    std::set<std::string> names;
    for (const NodeId id : model.graph.order()) {
      const std::string& name = model.graph.node(id).name;
      EXPECT_TRUE(name.empty() || names.insert(name).second)
          << file.name << ": " << name;
    }
  }
}

TEST(GeneratedNames, NodesOfTheModelMayHaveThem) {
  for (const char* taken :
       {"GradientAccumulator1", "AccumulateGrad_w_grad", "onnx::loss/Pow_1"}) {
    SCOPED_TRACE(taken);
    const ModelBuilder m = Named(taken);
    ExpectNodesApart(m.Encode(), Mse());
    PreparedModel prepared(m, Mse());
    EXPECT_EQ(CompareGradients(prepared, {{"x", Spread({2, 3})},
                                          {"target", Spread({2, 3}, 5)}}),
              "");
  }
}

TEST(GeneratedNames, NodesOfALossModelMayHaveTheModels) {
  ModelBuilder loss(13);
  loss.Input("y", {-1, 3});
  loss.Op("Abs", {"y"}, "h");
  loss.Op("ReduceMean", {"h"}, "mean", {{"keepdims", int64_t{0}}});
  loss.Output("mean");
  const std::string bytes = loss.Encode();
  ArtifactOptions options;
  options.loss_model = std::as_bytes(std::span(bytes));
  ExpectNodesApart(Named("h").Encode(), options);
}

TEST(GeneratedNames, ValuesInsideTheModelGiveWay) {
  for (const char* taken :
       {"lazy_reset_grad", "w_grad", "w_grad.accumulation.buffer",
        "w_grad.accumulation.out"}) {
    SCOPED_TRACE(taken);
    PreparedModel prepared(Named(taken), Mse());
    EXPECT_EQ(CompareGradients(prepared, {{"x", Spread({2, 3})},
                                          {"target", Spread({2, 3}, 5)}}),
              "");
  }
}

TEST(GeneratedNames, InputsAndOutputsAreTold) {
  for (const std::string taken :
       {"lazy_reset_grad", "w_grad", "w_grad.accumulation.buffer"}) {
    const std::string error = ErrorOfPreparing(Named("h", taken), Mse());
    EXPECT_NE(LineWith({error}, {"an input \"" + taken + "\"", "another name"}),
              "")
        << error;
    ModelBuilder m = Named(taken);
    m.Output(taken);
    ArtifactOptions options = Mse();
    options.losses[0].input = "y";
    options.keep_outputs = true;
    const std::string kept = ErrorOfPreparing(m, options);
    EXPECT_NE(LineWith({kept}, {"an output \"" + taken + "\""}), "") << kept;
  }
  ArtifactOptions options = Mse();
  options.losses[0].target = "w_grad";
  const std::string error = ErrorOfPreparing(Named("h"), options);
  EXPECT_NE(LineWith({error}, {"an input \"w_grad\""}), "") << error;
}

}  // namespace
}  // namespace strop
