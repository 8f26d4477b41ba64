// SPDX-License-Identifier: Apache-2.0
//
// A limit on memory makes a plan compute values again instead of keeping them;
// what comes out stays the same.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "artifacts/model_check.h"
#include "graph/onnx_io.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;

// ResNet-18 as of He et al., "Deep residual learning for image recognition",
// 2015, for 10 classes; float32, random weights.
class ResNet18 {
 public:
  explicit ResNet18(Ints input_dims) {
    model_.ir_version = 8;
    model_.opset_imports = {{"", 17}};
    graph().opset_imports[""] = 17;
    Describe(graph().AddInput("x", {}), input_dims);
    std::string x = Relu(ConvNorm("x", "stem", 3, 64, 7, 2));
    x = Op("MaxPool", {x},
           {{"kernel_shape", Ints{3, 3}},
            {"strides", Ints{2, 2}},
            {"pads", Ints{1, 1, 1, 1}}});
    int64_t channels = 64;
    for (const int64_t width : {64, 128, 256, 512}) {
      for (int i = 0; i < 2; ++i) {
        x = Block(x, channels, width, width != channels ? 2 : 1);
        channels = width;
      }
    }
    x = Op("Flatten", {Op("GlobalAveragePool", {x})});
    Weight("fc.weight", {10, channels}, channels);
    Weight("fc.bias", {10}, channels);
    x = Op("Gemm", {x, "fc.weight", "fc.bias"}, {{"transB", int64_t{1}}});
    Describe(graph().Find(x), {input_dims[0], 10});
    graph().MarkOutput(graph().Find(x));
  }

  std::string Encode() const { return EncodeOnnx(model_); }

 private:
  using Attributes = std::vector<std::pair<std::string, Attribute::Value>>;

  Graph& graph() { return model_.graph; }

  void Describe(ValueId id, const Ints& dims) {
    std::vector<Dimension> sizes;
    for (const int64_t d : dims) sizes.push_back({.value = d, .symbol = {}});
    graph().value(id).type =
        ValueType::OfTensor(DataType::kFloat32, std::move(sizes));
  }

  std::string Op(const std::string& op, const std::vector<std::string>& inputs,
                 const Attributes& attributes = {}) {
    Node node;
    node.op_type = op;
    node.name = op + std::to_string(graph().node_count());
    for (const auto& [name, value] : attributes) node.SetAttribute(name, value);
    for (const std::string& input : inputs)
      node.inputs.push_back(graph().Find(input));
    node.outputs = {graph().AddValue(node.name + ".y")};
    const std::string y = graph().value_name(node.outputs[0]);
    graph().AddNode(std::move(node));
    return y;
  }

  void Constant(const std::string& name, const Ints& dims, float value) {
    const OwnedTensor tensor(DataType::kFloat32, Shape(dims));
    std::ranges::fill(tensor.view().values<float>(), value);
    graph().AddInitializer(TensorData::Copy(name, tensor.view()));
  }

  void Weight(const std::string& name, const Ints& dims, int64_t fan_in) {
    const OwnedTensor tensor(DataType::kFloat32, Shape(dims));
    const float bound = std::sqrt(6.0f / static_cast<float>(fan_in));
    for (float& value : tensor.view().values<float>()) {
      value = bound * (static_cast<float>(random_() % 65536) / 32768 - 1);
    }
    graph().AddInitializer(TensorData::Copy(name, tensor.view()));
  }

  std::string ConvNorm(const std::string& x, const std::string& name,
                       int64_t in, int64_t out, int64_t kernel,
                       int64_t stride) {
    const int64_t pad = kernel / 2;
    Weight(name + ".weight", {out, in, kernel, kernel}, in * kernel * kernel);
    const std::string y = Op("Conv", {x, name + ".weight"},
                             {{"kernel_shape", Ints{kernel, kernel}},
                              {"strides", Ints{stride, stride}},
                              {"pads", Ints{pad, pad, pad, pad}}});
    Constant(name + ".scale", {out}, 1);
    Constant(name + ".shift", {out}, 0);
    Constant(name + ".mean", {out}, 0);
    Constant(name + ".variance", {out}, 1);
    return Op("BatchNormalization", {y, name + ".scale", name + ".shift",
                                     name + ".mean", name + ".variance"});
  }

  std::string Relu(const std::string& x) { return Op("Relu", {x}); }

  std::string Block(const std::string& x, int64_t in, int64_t out,
                    int64_t stride) {
    const std::string name = "block" + std::to_string(blocks_++);
    std::string y = Relu(ConvNorm(x, name + ".0", in, out, 3, stride));
    y = ConvNorm(y, name + ".1", out, out, 3, 1);
    const std::string shortcut =
        in == out ? x : ConvNorm(x, name + ".down", in, out, 1, stride);
    return Relu(Op("Add", {y, shortcut}));
  }

  Model model_;
  int blocks_ = 0;
  std::mt19937 random_{5};
};

std::vector<double> LossesOf(PreparedModel& model,
                             const std::map<std::string, Feed>& feeds) {
  std::vector<double> losses;
  for (int step = 0; step < 2; ++step) {
    losses.push_back(model.Train(feeds)[0][0]);
    model.optimizer().Step();
    model.module().LazyResetGrad();
  }
  return losses;
}

TEST(MemoryLimit, ResNet18TrainsInSixTenthsOfItsFreePlan) {
  constexpr int64_t kBatch = 2;
  const std::string onnx = ResNet18({kBatch, 3, 224, 224}).Encode();
  const ArtifactOptions artifacts = {.losses = {{}}};
  SessionOptions free;
  free.disabled_passes = {"mark_recompute"};
  PreparedModel unlimited(onnx, artifacts, free);
  const std::map<std::string, Feed> feeds = {
      {"x", Spread({kBatch, 3, 224, 224})},
      {unlimited.report().user_inputs.back(), {{kBatch}, {3, 7}}}};
  const size_t free_bytes = unlimited.PeakBytes(feeds);
  const std::vector<double> losses = LossesOf(unlimited, feeds);
  EXPECT_NE(losses[0], losses[1]);

  SessionOptions limited;
  limited.memory_limit_bytes = free_bytes * 6 / 10;
  PreparedModel model(onnx, artifacts, limited);
  EXPECT_LE(model.PeakBytes(feeds), limited.memory_limit_bytes);
  EXPECT_EQ(LossesOf(model, feeds), losses);
}

// How often a word stands in a text.
size_t Count(const std::string& text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

// One output of several is not computed again: it would be another.
TEST(MemoryLimit, NetsWithSplitTrainTheSame) {
  ModelBuilder m(13);
  m.Input("x", {4, 6});
  m.Parameter("w", {6, 8});
  m.Op("MatMul", {"x", "w"}, "h");
  m.Ops("Split", {"h"}, {"a", "b"}, {{"axis", int64_t{1}}});
  m.Op("Sigmoid", {"b"}, "gate");
  m.Output(m.Op("Mul", {"a", "gate"}, "y"));
  ArtifactOptions artifacts;
  artifacts.losses = {{.kind = LossKind::kMeanSquaredError}};
  SessionOptions limited;
  limited.memory_limit_bytes = size_t{1} << 40;
  PreparedModel free(m, artifacts), model(m.Encode(), artifacts, limited);
  const std::map<std::string, Feed> feeds = {
      {"x", Spread({4, 6})},
      {free.report().user_inputs.back(), Spread({4, 4}, 1)}};
  EXPECT_EQ(LossesOf(model, feeds), LossesOf(free, feeds));
}

// Where a plan ends because a shape comes with the data, what lies before is
// kept for what follows, and not computed again for nobody.
TEST(MemoryLimit, SegmentsComputeNothingInVain) {
  ModelBuilder m(13);  // of tensors too large to compute them before a step
  m.Input("x", {64, 32});
  m.Input("shape", {2}, DataType::kInt64);
  m.Parameter("w", {32, 32});
  std::string h = m.Op("MatMul", {"x", "w"}, "h");
  for (const char* name : {"s0", "s1", "s2"}) h = m.Op("Sigmoid", {h}, name);
  m.Output(m.Op("Reshape", {h, "shape"}, "y"));
  ArtifactOptions artifacts;
  artifacts.losses = {{.kind = LossKind::kMeanSquaredError}};
  SessionOptions profiled;
  profiled.enable_profiling = true;
  PreparedModel model(m.Encode(), artifacts, profiled);
  model.Train({{"x", Spread({64, 32})},
               {"shape", {{2}, {64, 32}}},
               {model.report().user_inputs.back(), Spread({64, 32}, 1)}});
  const std::string trace = model.module().Profile();
  EXPECT_EQ(Count(trace, "Sigmoid "), 3u) << trace;
}

}  // namespace
}  // namespace strop
