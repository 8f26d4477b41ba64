// SPDX-License-Identifier: Apache-2.0
//
// ExportModelForInferencing against the conformance list of ONNX Runtime's
// training API: a test is named after the line that it shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "graph/onnx_io.h"
#include "training/golden.h"
#include "training/inference.h"
#include "training/tiny.h"

namespace strop::tiny {
namespace {

using Names = std::vector<std::string>;

// A session over files in a folder of its own.
class ConformanceExport : public testing::Test {
 protected:
  ConformanceExport() {
    std::filesystem::create_directories(folder_);
    WriteOnnx(EvalModel(), eval_path_, environment_.files());
    ModelIdentifiers identifiers = models_.identifiers();
    identifiers.eval = eval_path_;
    module_ = std::make_unique<Module>(identifiers, &state_, SessionOptions{},
                                       environment_);
  }
  ~ConformanceExport() override { std::filesystem::remove_all(folder_); }

  Model ExportAndRead(const Names& outputs) {
    module_->ExportModelForInferencing(path_, outputs);
    return ReadOnnx(path_, environment_.files());
  }

  static Names InputNames(const Model& model) {
    Names names;
    for (ValueId id : model.graph.inputs()) {
      names.push_back(model.graph.value_name(id));
    }
    return names;
  }
  static Names OutputNames(const Model& model) {
    Names names;
    for (ValueId id : model.graph.outputs()) {
      names.push_back(model.graph.value_name(id));
    }
    return names;
  }
  static Names InitializerNames(const Model& model) {
    Names names;
    for (ValueId id : model.graph.initializers()) {
      names.push_back(model.graph.value_name(id));
    }
    return names;
  }
  static Names Ops(const Model& model) {
    Names names;
    for (NodeId id : model.graph.order()) {
      names.push_back(model.graph.node(id).op_type);
    }
    return names;
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / "strop_export_test";
  std::filesystem::path eval_path_ = folder_ / "eval.onnx";
  std::filesystem::path path_ = folder_ / "inference.onnx";
  Models models_ = Models::Default();
  Environment environment_;
  CheckpointState state_ = State(environment_);
  std::unique_ptr<Module> module_;
};

TEST_F(ConformanceExport, Line55_OutputsAreASubsetInTheOrderAskedFor) {
  EXPECT_EQ(OutputNames(ExportAndRead({"y", "loss"})), (Names{"y", "loss"}));
  const Model model = ExportAndRead({"y"});
  EXPECT_EQ(OutputNames(model), Names{"y"});
  EXPECT_EQ(Ops(model), (Names{"Mul", "Add"}));
  EXPECT_EQ(InputNames(model), Names{"x"});
  // In the order of the eval graph's inputs, where b comes first.
  EXPECT_EQ(InitializerNames(model), (Names{"b", "w"}));
  const auto& w = model.graph.value(model.graph.Find("w")).initializer;
  EXPECT_EQ(Values(w->view()), (std::vector<float>{1, -2}));
  EXPECT_EQ(model.ir_version, EvalModel().ir_version);
  EXPECT_EQ(model.graph.opset_imports, EvalModel().graph.opset_imports);
  EXPECT_EQ(model.graph.name, "eval");
}

TEST_F(ConformanceExport, Line55_ParametersLieInRawData) {
  ExportAndRead({"y"});
  std::ifstream file(path_, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  // Field 9 of TensorProto, 8 bytes, the values of w.
  std::string field = "\x4a\x08";
  const float w[] = {1, -2};
  field.append(reinterpret_cast<const char*>(w), sizeof(w));
  EXPECT_NE(bytes.find(field), std::string::npos);
}

TEST_F(ConformanceExport, Line55_IntermediateValuesGetTheirType) {
  const Model model = ExportAndRead({"scaled"});
  EXPECT_EQ(Ops(model), Names{"Mul"});
  EXPECT_EQ(InitializerNames(model), Names{"w"});  // b is not read
  const ValueType& type = model.graph.value(model.graph.Find("scaled")).type;
  EXPECT_EQ(type.element, DataType::kFloat32);
  ASSERT_TRUE(type.dims.has_value());
  ASSERT_EQ(type.dims->size(), 2u);
  EXPECT_EQ((*type.dims)[0].symbol, "batch");
  EXPECT_EQ((*type.dims)[1].value, 2);
}

TEST_F(ConformanceExport, Line55_ParametersAndInputsMayBeOutputs) {
  const Model model = ExportAndRead({"w"});
  EXPECT_EQ(OutputNames(model), Names{"w"});
  EXPECT_TRUE(InputNames(model).empty());
  EXPECT_EQ(InitializerNames(model), Names{"w"});
}

TEST_F(ConformanceExport, Line55_ValuesAreTheCurrentOnes) {
  const OwnedTensor w = FloatTensor({2}, {7, 9});
  state_.UpdateParameter("w", w);
  const Model model = ExportAndRead({"y"});
  const auto& exported = model.graph.value(model.graph.Find("w")).initializer;
  EXPECT_EQ(Values(exported->view()), (std::vector<float>{7, 9}));
}

TEST_F(ConformanceExport, Line56_Errors) {
  const auto export_to = [&](const std::filesystem::path& path,
                             const Names& outputs) {
    return ErrorOf([&] { module_->ExportModelForInferencing(path, outputs); });
  };
  Thrown thrown = export_to(path_, {"y", "nobody"});
  EXPECT_EQ(thrown.code, ErrorCode::kNotFound);
  EXPECT_NE(thrown.text.find("\"nobody\""), std::string::npos) << thrown.text;
  EXPECT_EQ(export_to(path_, {}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(export_to(path_, {""}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(export_to(folder_, {"y"}).code, ErrorCode::kIo);
  std::filesystem::remove(eval_path_);
  EXPECT_EQ(export_to(path_, {"y"}).code, ErrorCode::kNoSuchFile);
  EXPECT_FALSE(std::filesystem::exists(path_));

  Session from_bytes;
  const Names outputs = {"y"};
  thrown = ErrorOf(
      [&] { from_bytes.module.ExportModelForInferencing(path_, outputs); });
  EXPECT_EQ(thrown.code, ErrorCode::kFailedState);
  EXPECT_NE(thrown.text.find("eval model was not provided"), std::string::npos)
      << thrown.text;
}

TEST_F(ConformanceExport, Line57_TheExportedModelRunsWithoutALoss) {
  ExportAndRead({"y"});
  Inference inference(path_, {}, environment_);
  ASSERT_EQ(inference.inputs().size(), 1u);
  EXPECT_EQ(inference.inputs()[0].name, "x");
  const OwnedTensor x = FloatTensor({1, 2}, {3, 5});
  std::vector<OwnedTensor> outputs;
  inference.Run({&x.view(), 1}, &outputs);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(Values(outputs[0]), (std::vector<float>{3.5f, -9.75f}));
}

TEST_F(ConformanceExport, Line57_AGoldenExportHasNoLossNode) {
  const golden::Case golden("lenet_ce_sgd");
  golden::TrainingRun run(golden, "checkpoint", /*threads=*/1);
  run.module().ExportModelForInferencing(path_, Names{"logits"});
  const Model model = ReadOnnx(path_, environment_.files());
  const Names ops = Ops(model);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "SoftmaxCrossEntropyLoss"), 0);
  EXPECT_EQ(InputNames(model), Names{"input"});
  const Model theirs =
      ReadOnnx(golden.file("inference.onnx"), environment_.files());
  EXPECT_EQ(InitializerNames(model), InitializerNames(theirs));
  EXPECT_EQ(ops.size(), Ops(theirs).size());
}

TEST_F(ConformanceExport, OldIrKeepsParametersAmongTheInputs) {
  // Below IR 4 every initializer is an input too.
  Model old = EvalModel();
  old.ir_version = 3;
  WriteOnnx(old, eval_path_, environment_.files());
  const Model model = ExportAndRead({"y"});
  EXPECT_EQ(InputNames(model), (Names{"b", "w", "x"}));
  EXPECT_EQ(InitializerNames(model), (Names{"b", "w"}));
  Inference inference(path_, {}, environment_);
  ASSERT_EQ(inference.inputs().size(), 1u);
  EXPECT_EQ(inference.inputs()[0].name, "x");
}

TEST_F(ConformanceExport, ExternalDataFollowsTheState) {
  state_.store().has_external_data = true;
  std::vector<float> many(100, 2.0f);
  AddParameter(state_, "large", /*requires_grad=*/false, many);
  Model eval = EvalModel();
  eval.graph.AddInput(
      "large", ValueType::OfTensor(
                   DataType::kFloat32,
                   std::vector<Dimension>{{.value = 100, .symbol = {}}}));
  WriteOnnx(eval, eval_path_, environment_.files());
  module_.reset();
  ModelIdentifiers identifiers = models_.identifiers();
  identifiers.eval = eval_path_;
  module_ = std::make_unique<Module>(identifiers, &state_, SessionOptions{},
                                     environment_);
  ASSERT_TRUE(path_.is_absolute());
  const Model model = ExportAndRead({"large", "y"});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "inference.onnx.data"));
  const auto& large = model.graph.value(model.graph.Find("large")).initializer;
  EXPECT_EQ(Values(large->view()), many);
}

}  // namespace
}  // namespace strop::tiny
