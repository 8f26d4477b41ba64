// SPDX-License-Identifier: Apache-2.0
//
// Networks of well-known kinds, exported by PyTorch, prepared and trained for
// a few steps; PyTorch gave the numbers (tests/data/architectures).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <tuple>

#include "artifacts/model_check.h"
#include "data/arrays.h"
#include "graph/onnx_io.h"
#include "training/golden.h"

namespace strop {
namespace {

struct Architecture {
  const char* name;
  LossKind loss = LossKind::kCrossEntropy;
};

constexpr Architecture kArchitectures[] = {
    {"bert"},
    {"gpt"},
    {"group_norm"},
    {"group_norm_21"},
    {"gru"},
    {"lstm"},
    {"mobilenet_v2"},
    {"qdq"},
    {"resnet"},
    {"tcn", LossKind::kMeanSquaredError},
    {"unet_resized", LossKind::kBinaryCrossEntropyWithLogits},
    {"unet_transposed"},
    {"vit"},
};

// --- The same model in float64

OwnedTensor Converted(const Tensor& tensor, DataType type) {
  OwnedTensor converted(type, tensor.shape());
  FromNumbers(ToNumbers(tensor), converted.view());
  return converted;
}

void WidenTensor(TensorData& data) {
  if (data.type != DataType::kFloat32) return;
  data = TensorData::Copy(data.name,
                          Converted(data.view(), DataType::kFloat64).view());
}

// Inputs that are float32 whatever the others are.
std::set<ValueId> AlwaysFloat32(const Graph& graph) {
  std::set<ValueId> found;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op_type == "Resize") {
      found.insert(node.input(1));
      found.insert(node.input(2));
    }
  }
  return found;
}

void WidenNode(Node& node) {
  constexpr auto kFloat32 = static_cast<int64_t>(DataType::kFloat32);
  for (Attribute& attribute : node.attributes) {
    auto* tensor = std::get_if<TensorData>(&attribute.value);
    if (tensor != nullptr) WidenTensor(*tensor);
  }
  const Attribute* to = node.FindAttribute("to");
  if (to != nullptr && std::get<int64_t>(to->value) == kFloat32)
    node.SetAttribute("to", static_cast<int64_t>(DataType::kFloat64));
}

void Widen(Graph& graph) {
  const std::set<ValueId> kept = AlwaysFloat32(graph);
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    Value& value = graph.value(id);
    if (kept.contains(id)) continue;
    if (value.initializer) WidenTensor(*value.initializer);
    if (value.type.element != DataType::kFloat32) continue;
    value.type.element = DataType::kFloat64;
    value.type.encoded.clear();
  }
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (!kept.contains(node.output(0))) WidenNode(node);
  }
}

// --- Training

class Trains
    : public testing::TestWithParam<std::tuple<Architecture, DataType>> {
 protected:
  Trains()
      : folder_(std::filesystem::path(STROP_TEST_DATA) / "architectures" /
                architecture().name),
        inputs_(data::ReadNpz(folder_ / "inputs.npz", *files_)),
        expected_(data::ReadNpz(folder_ / "expected.npz", *files_)) {}

  static const Architecture& architecture() {
    return std::get<Architecture>(GetParam());
  }
  static DataType type() { return std::get<DataType>(GetParam()); }

  std::string Source() const {
    Model model = ReadOnnx(folder_ / "model.onnx", *files_);
    if (type() == DataType::kFloat64) Widen(model.graph);
    return EncodeOnnx(model);
  }

  std::map<std::string, Feed> FeedsOf(size_t step) const {
    std::map<std::string, Feed> feeds;
    const std::string suffix = fmt::format("/{:04}", step);
    for (const auto& [key, tensor] : inputs_) {
      if (!key.ends_with(suffix)) continue;
      const auto dims = tensor.shape().dims();
      feeds[key.substr(0, key.size() - suffix.size())] = {
          {dims.begin(), dims.end()}, ToNumbers(tensor.view())};
    }
    return feeds;
  }

  // Those whose key is `prefix`/NAME, by NAME, in the type of the run.
  golden::Named ExpectedUnder(const std::string& prefix) const {
    golden::Named found;
    for (const auto& [key, tensor] : expected_) {
      if (key.starts_with(prefix))
        found.emplace(key.substr(prefix.size()),
                      Converted(tensor.view(), type()));
    }
    return found;
  }

  // Compares what was trained with the expected tensors, each against at
  // least a thousandth of the largest of all.
  void ExpectNear(PreparedModel& model, const std::string& prefix,
                  const std::function<Tensor(const std::string&)>& actual,
                  double tolerance) const {
    const golden::Named expected = ExpectedUnder(prefix);
    double largest = 0;
    for (const auto& [name, tensor] : expected)
      largest = std::max(largest, golden::LargestMagnitude(tensor));
    size_t trained = 0;
    for (const std::string& name : model.state().ParameterNames()) {
      if (!model.state().RequiresGrad(name)) continue;
      ++trained;
      const auto wanted = expected.find(name);
      ASSERT_NE(wanted, expected.end()) << name << " should not be trained";
      EXPECT_LE(golden::Difference(wanted->second.view(), actual(name),
                                   1e-3 * largest),
                tolerance)
          << prefix << name;
    }
    EXPECT_EQ(trained, expected.size());
  }

  // A few steps of SGD.
  void TrainAndCompare(ArtifactOptions options) const;
  // The least memory in which a step can be made.
  size_t LeastBytes(const ArtifactOptions& options) const;

  std::shared_ptr<FileSystem> files_ = FileSystem::Default();
  std::filesystem::path folder_;
  golden::Arrays inputs_, expected_;
};

TEST_P(Trains, AsInPyTorch) { TrainAndCompare({}); }

TEST_P(Trains, AsInPyTorchInANewerOpset) { TrainAndCompare({.opset = 21}); }

void Trains::TrainAndCompare(ArtifactOptions options) const {
  options.losses = {{.kind = architecture().loss}};
  options.optimizer = OptimizerKind::kSgd;
  PreparedModel model(Source(), options);
  model.optimizer().SetLearningRate(expected_.at("rate").values<float>()[0]);
  const bool wide = type() == DataType::kFloat64;
  const double tolerance = wide ? 1e-9 : 1e-4;
  const auto losses = expected_.at("loss").values<double>();
  for (size_t step = 0; step < losses.size(); ++step) {
    const double loss = model.Train(FeedsOf(step))[0][0];
    EXPECT_NEAR(loss, losses[step], tolerance * losses[step])
        << "step " << step;
    if (step == 0) {
      ExpectNear(
          model, "grad/",
          [&](const std::string& name) {
            return *model.state().Gradient(name);
          },
          tolerance);
    }
    model.optimizer().Step();
    model.module().LazyResetGrad();
  }
  // The file holds float32.
  ExpectNear(
      model, "param/",
      [&](const std::string& name) {
        return model.state().ParameterValue(name);
      },
      wide ? 1e-7 : 1e-4);
}

// The limit that the errors about lower ones end at: the first may come from a
// constant, before there is a plan.
size_t Trains::LeastBytes(const ArtifactOptions& options) const {
  SessionOptions session;
  session.memory_limit_bytes = 1;
  while (true) {
    try {
      PreparedModel(Source(), options, session).Train(FeedsOf(0));
      return session.memory_limit_bytes;
    } catch (const Error& error) {
      const std::string text = error.what();
      const size_t at = text.find("holds ");
      if (at == std::string::npos) throw;
      session.memory_limit_bytes = std::stoull(text.substr(at + 6));
    }
  }
}

// With all that can be computed again computed again, the bits stay the same.
TEST_P(Trains, TheSameInTheLeastMemory) {
  ArtifactOptions options;
  options.losses = {{.kind = architecture().loss}};
  options.optimizer = OptimizerKind::kSgd;
  SessionOptions free, least;
  free.disabled_passes = {"mark_recompute"};
  PreparedModel wanted(Source(), options, free);
  least.memory_limit_bytes = LeastBytes(options);
  PreparedModel model(Source(), options, least);
  EXPECT_NE(model.Plan(FeedsOf(0)).find("_again"), std::string::npos);
  EXPECT_EQ(model.Train(FeedsOf(0)), wanted.Train(FeedsOf(0)));
  for (const std::string& name : wanted.state().ParameterNames()) {
    if (!wanted.state().RequiresGrad(name)) continue;
    EXPECT_EQ(model.Gradient(name), wanted.Gradient(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Trains,
                         testing::Combine(testing::ValuesIn(kArchitectures),
                                          testing::Values(DataType::kFloat32,
                                                          DataType::kFloat64)),
                         [](const auto& info) {
                           return fmt::format(
                               "{}_{}", std::get<0>(info.param).name,
                               DataTypeName(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace strop
