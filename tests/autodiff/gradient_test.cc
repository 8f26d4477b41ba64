// SPDX-License-Identifier: Apache-2.0
//
// Every gradient rule, over the cases of its op.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "autodiff/differentiate.h"
#include "autodiff/gradient_check.h"
#include "base/throw.h"
#include "ops/mutation.h"
#include "ops/registry.h"
#include "runtime/executor.h"
#include "strop/error.h"

namespace strop {
namespace {

// Ops with a gradient that is not that of the function: it passes on what
// rounding would stop.
const std::set<std::string> kStraightThrough = {"FakeQuant", "QuantizeLinear"};

// Ops that only a training graph holds: gradients, optimizers, and what stands
// around them. They are not differentiated again.
const std::set<std::string> kTrainingOps = {
    "All",
    "AdamOptimizer",
    "AdamWOptimizer",
    "DivGrad",
    "GistBinarizeDecoder",
    "GistBinarizeEncoder",
    "GistPack16Decoder",
    "GistPack16Encoder",
    "InPlaceAccumulator",
    "InPlaceAccumulatorV2",
    "InplaceClipGradNorm",
    "IsAllFinite",
    "IsFinite",
    "LambOptimizer",
    "ReduceAllL2",
    "SGDOptimizer",
    "SGDOptimizerV2",
    "ZeroGradient",
};

bool IsTrainingOp(const OpDef& op) {
  return op.domain == kInternal || op.domain == kStrop ||
         op.name.find("Grad") != op.name.npos ||
         kTrainingOps.contains(std::string(op.name));
}

// What some rules say they cannot do; and what ops of the gradient refuse of
// cases without elements that the forward op lets pass: windows over nothing,
// indices of nothing.
constexpr std::string_view kLimits[] = {
    "with spatial = 0",
    "the padded input only 0",
    "is out of range for an axis of size 0",
};

bool IsLimit(std::string_view text) {
  return std::ranges::any_of(kLimits, [&](std::string_view limit) {
    return text.find(limit) != std::string_view::npos;
  });
}

std::vector<OpCase> CasesWithRules() {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : AllOpCases()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    const bool has_doubles =
        std::ranges::find(op_case.types, DataType::kFloat64) !=
        op_case.types.end();
    if (op != nullptr && op->gradient != nullptr && has_doubles &&
        !kStraightThrough.contains(op_case.op))
      cases.push_back(op_case);
  }
  return cases;
}

// Cases that hold a point at which the function jumps: a line of zeros.
const std::set<std::string> kWithJumps = {"LpNormalization/p is 1"};

void ExpectGradient(const OpCase& op_case, KnownShapes shapes) {
  SCOPED_TRACE(op_case.name.empty() ? op_case.op : op_case.name);
  try {
    const bool may_jump = kWithJumps.contains(op_case.name);
    EXPECT_EQ(CheckGradient(op_case, shapes, may_jump).failure, "");
  } catch (const Error& error) {
    // Some rules are honest about what they cannot do without shapes.
    const bool wants_shapes =
        std::string_view(error.what()).find("must be known") !=
        std::string_view::npos;
    EXPECT_TRUE(IsLimit(error.what()) ||
                (shapes == KnownShapes::kNone && wants_shapes))
        << error.what();
  }
}

TEST(Gradients, AgreeWithDifferences) {
  for (const OpCase& op_case : CasesWithRules())
    ExpectGradient(op_case, KnownShapes::kAll);
}

TEST(Gradients, AgreeWhereShapesAreUnknownBeforehand) {
  for (const OpCase& op_case : CasesWithRules())
    ExpectGradient(op_case, KnownShapes::kNone);
}

bool Runs(const OpCase& op_case) {
  try {
    OpRun(op_case, DataType::kFloat64).RunReference();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What runs on tensors without elements has a gradient there.
TEST(Gradients, AgreeWithoutElements) {
  for (const OpCase& op_case : CasesWithRules()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    ForEachEmptied(op_case, *op,
                   [&](const std::string& what, const OpCase& emptied) {
                     if (!Runs(emptied)) return;
                     SCOPED_TRACE(what);
                     ExpectGradient(emptied, KnownShapes::kAll);
                     ExpectGradient(emptied, KnownShapes::kNone);
                   });
  }
}

// A rule sees the gradients of some outputs only, of the first or of others.
TEST(Gradients, AgreeForEachOutputAlone) {
  for (const OpCase& op_case : CasesWithRules()) {
    if (std::ranges::count(op_case.outputs, '1') < 2) continue;
    OpRun run(op_case, DataType::kFloat64);
    for (size_t i = 0; i < op_case.outputs.size(); ++i) {
      if (!run.has_output(i) || run.output(i).type() != DataType::kFloat64)
        continue;
      SCOPED_TRACE(fmt::format("{}, output {}", op_case.name, i));
      try {
        EXPECT_EQ(CheckGradient(op_case, KnownShapes::kAll, false, i).failure,
                  "");
      } catch (const Error& error) {
        const std::string_view text = error.what();
        EXPECT_TRUE(IsLimit(text) ||
                    text.find("for its first output") != std::string_view::npos)
            << text;
      }
    }
  }
}

// What a rule writes for one input does not lean on what it writes for others.
TEST(Gradients, AreTheSameForEachInputAlone) {
  for (const OpCase& op_case : CasesWithRules()) {
    SCOPED_TRACE(op_case.name);
    try {
      const OneNode built =
          BuildOneNode(op_case, DataType::kFloat64, KnownShapes::kAll, 0);
      const auto together = GradientsOf(built);
      for (size_t i = 0; i < together.size(); ++i) {
        const auto alone = GradientsOf(built, DataType::kFloat64, i);
        ExpectNear(alone[i], together[i], 1e-15,
                   fmt::format("input {}", built.slots[i]));
      }
    } catch (const Error& error) {
      EXPECT_TRUE(IsLimit(error.what())) << error.what();
    }
  }
}

// On the kernels that train, which differ from the plain ones.
TEST(Gradients, OfFloat32AreThoseOfFloat64) {
  constexpr double kTolerance = 1e-4;
  for (const OpCase& op_case : CasesWithRules()) {
    if (std::ranges::find(op_case.types, DataType::kFloat32) ==
        op_case.types.end())
      continue;
    SCOPED_TRACE(op_case.name);
    std::vector<Numbers64> expected, actual;
    try {
      expected = GradientsOf(op_case, DataType::kFloat64);
      actual = GradientsOf(op_case, DataType::kFloat32);
    } catch (const Error&) {
      continue;  // another test tells
    }
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].size(), expected[i].size());
      double largest = 0;
      for (const double g : expected[i])
        if (std::isfinite(g)) largest = std::max(largest, std::abs(g));
      for (size_t k = 0; k < expected[i].size(); ++k) {
        if (!std::isfinite(expected[i][k])) continue;
        EXPECT_LE(std::abs(actual[i][k] - expected[i][k]),
                  kTolerance * std::max(largest, 1.0))
            << "input " << i << ", element " << k << ": " << actual[i][k]
            << " for " << expected[i][k];
      }
    }
  }
}

// A rule whose cases never give a gradient would pass the tests above.
TEST(Gradients, EachRuleHasACase) {
  std::set<const OpDef*> seen;
  for (const OpCase& op_case : CasesWithRules()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    if (seen.contains(op)) continue;
    try {
      if (CheckGradient(op_case, KnownShapes::kAll).has_gradient)
        seen.insert(op);
    } catch (const Error&) {
      // Another test tells.
    }
  }
  for (const OpDef* op : AllOps()) {
    if (op->gradient == nullptr ||
        kStraightThrough.contains(std::string(op->name)))
      continue;
    EXPECT_TRUE(seen.contains(op))
        << op->domain << " " << op->name << "-" << op->since
        << " has a gradient that no case shows";
  }
}

bool IsFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 ||
         type == DataType::kFloat16 || type == DataType::kBfloat16;
}

// A float input from which a gradient would be wanted; none if there is no
// float output.
bool WantsGradient(const OpCase& op_case) {
  OpRun run(op_case, op_case.types.front());
  bool gives_float = false;
  for (size_t i = 0; i < op_case.outputs.size(); ++i)
    gives_float =
        gives_float || (run.has_output(i) && IsFloat(run.output(i).type()));
  if (!gives_float) return false;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const CaseInput& input = op_case.inputs[i];
    if (input.omitted || !input.list.empty()) continue;
    if (IsFloat(run.input(i).type()) && !run.op().stops_gradient.contains(i))
      return true;
  }
  return false;
}

// Every op with float inputs and outputs has a rule, or says why it has none.
TEST(Gradients, NoOpIsForgotten) {
  std::set<const OpDef*> told;
  for (const OpCase& op_case : AllOpCases()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    if (op == nullptr || op->gradient != nullptr || op->not_differentiable ||
        IsTrainingOp(*op) || told.contains(op) || !WantsGradient(op_case))
      continue;
    told.insert(op);
    ADD_FAILURE() << op->domain << " " << op->name << "-" << op->since
                  << " has neither a gradient nor stops_gradient nor "
                     "not_differentiable";
  }
}

// Inputs that are no numbers to learn, though the outputs depend on them:
// settings, statistics, class weights and labels, frozen quantized weights.
// Rules leave them out, as those of ONNX Runtime and of PyTorch do.
bool IsNotLearned(const OpDef& op, size_t input) {
  const std::map<std::string_view, SlotSet> inputs = {
      {"BatchNormInternal", {3, 4}},
      {"BiasDropout", {3}},
      {"BiasSoftmaxDropout", {2}},
      {"BitmaskBiasDropout", {3}},
      {"BitmaskDropout", {1}},
      {"Dropout", {1}},
      {"FakeQuant", {1, 2}},
      {"MatMulBnb4", {2}},
      {"MatMulNBits", {2, 3}},
      {"MaxRoiPool", {1}},
      {"MixedPrecisionScale", {0}},
      {"NegativeLogLikelihoodLoss", {2}},
      {"NegativeLogLikelihoodLossInternal", {2}},
      {"NegativeLogLikelihoodLossInternal2", {2}},
      {"RoiAlign", {1}},
      {"Scale", {1}},
      {"SoftmaxCrossEntropy", {1}},
      {"SoftmaxCrossEntropyLoss", {2}},
      {"SoftmaxCrossEntropyLossInternal", {2}},
      {"SparseSoftmaxCrossEntropy", {2}},
  };
  const auto found = inputs.find(op.name);
  return found != inputs.end() && found->second.contains(input);
}

// Whether small steps of any element change the outputs. A step may leave
// what the op takes.
bool DependsOn(const OpCase& op_case, size_t slot) {
  OneNode built = BuildOneNode(op_case, DataType::kFloat64, KnownShapes::kAll);
  SeededFunction f(built);
  const auto at = std::ranges::find(built.slots, slot);
  if (at == built.slots.end()) return false;
  const auto i = static_cast<size_t>(at - built.slots.begin());
  if (built.values[i].view().type() != DataType::kFloat64) return false;
  const double before = f(built.values);
  for (double& x : built.values[i].view().values<double>()) {
    const double old = std::exchange(x, x + 1e-5);
    if (std::abs(f(built.values) - before) > 1e-9) return true;
    x = old;
  }
  return false;
}

// A rule may not leave out an input by calling it one that stops gradients.
TEST(Gradients, StopOnlyWhereNothingIsLost) {
  for (const OpCase& op_case : CasesWithRules()) {
    SCOPED_TRACE(op_case.name);
    const OpDef& op = *FindOp(op_case.domain, op_case.op, op_case.opset);
    for (size_t i = 0; i < op_case.inputs.size(); ++i) {
      if (!op.stops_gradient.contains(i) || IsNotLearned(op, i)) continue;
      EXPECT_FALSE(DependsOn(op_case, i)) << "input " << i;
    }
  }
}

// --- Straight through

// x -> QuantizeLinear -> DequantizeLinear -> y; the gradients of x and of the
// scale for dy = 1, 2, 3, ...
struct Quantized {
  Graph graph;
  ValueId x, scale, y;
};

Quantized QuantizedPair(const CaseAttributes& attributes, Shape scale_shape,
                        DataType type, std::string_view domain = "") {
  Quantized q;
  q.graph.opset_imports[""] = 21;
  q.graph.opset_imports["com.microsoft"] = 1;
  q.x = q.graph.AddInput("x",
                         ValueType::OfTensor(DataType::kFloat32, std::nullopt));
  q.scale = q.graph.AddInput(
      "scale", ValueType::OfTensor(DataType::kFloat32, std::nullopt));
  const OwnedTensor zero(type, scale_shape);
  std::ranges::fill(zero.view().bytes(), std::byte{0});
  const ValueId zero_point =
      q.graph.AddInitializer(TensorData::Copy("zero", zero.view()));
  ValueId value = q.x;
  for (const std::string op : {"QuantizeLinear", "DequantizeLinear"}) {
    Node node;
    node.name = op;
    node.op_type = op;
    node.domain = domain;
    for (const auto& [name, attribute] : attributes)
      node.SetAttribute(name, attribute);
    node.inputs = {value, q.scale, zero_point};
    value = q.graph.AddValue(op + "_y");
    node.outputs = {value};
    q.graph.AddNode(std::move(node));
  }
  q.y = value;
  return q;
}

std::vector<Numbers64> GradientsOfPair(Quantized q, const Tensor& x,
                                       const Tensor& scale) {
  const ValueId seed = q.graph.AddInput(
      "seed", ValueType::OfTensor(DataType::kFloat32, std::nullopt));
  const ValueId outputs[] = {q.y}, seeds[] = {seed}, wrt[] = {q.x, q.scale};
  const std::vector<ValueId> gradients =
      Differentiate(q.graph, outputs, seeds, wrt);
  q.graph.SetOutputs(gradients);
  q.graph.SortNodes();
  Executor executor(Lower(std::move(q.graph)), std::make_shared<Arena>(),
                    ExecutorOptions{});
  OwnedTensor dy(DataType::kFloat32, x.shape());
  for (size_t i = 0; i < dy.view().values<float>().size(); ++i)
    dy.view().values<float>()[i] = static_cast<float>(i + 1);
  const std::vector<Argument> arguments = {{.tensor = x, .list = {}},
                                           {.tensor = scale, .list = {}},
                                           {.tensor = dy.view(), .list = {}}};
  executor.Run(arguments, RandomKey{});
  return {ToNumbers(executor.output(0)), ToNumbers(executor.output(1))};
}

OwnedTensor Floats32(Shape shape, const Numbers64& values) {
  OwnedTensor tensor(DataType::kFloat32, shape);
  FromNumbers(values, tensor.view());
  return tensor;
}

TEST(StraightThrough, PassesWhereNothingIsCut) {
  // In steps of 0.5: -2 and 600 lie beyond uint8.
  const OwnedTensor x = Floats32({4}, {0.3, -1, 300, 127.5});
  const OwnedTensor scale = Floats32({}, {0.5});
  for (const std::string_view domain : {kOnnx, kMicrosoft}) {
    const auto gradients =
        GradientsOfPair(QuantizedPair({}, {}, DataType::kUint8, domain),
                        x.view(), scale.view());
    EXPECT_EQ(gradients[0], (Numbers64{1, 0, 0, 4}));
    // q - x / scale inside, the bound where cut:
    // 1 (1 - 0.6) + 2 * 0 + 3 * 255 + 4 * 0
    ExpectNear(gradients[1], {765.4}, 1e-6, "scale");
  }
}

TEST(StraightThrough, PassesFakeQuantWhereNothingIsCut) {
  // In steps of 0.5 around 4: -2.5 and 3 lie beyond 0 to 7.
  const OpCase op_case = {
      .op = "FakeQuant",
      .inputs = {In({4}, {0.25, -2.5, 3, 1.4}), In({}, {0.5}), In({1}, {4})},
      .attributes = {{"quant_min", int64_t{0}}, {"quant_max", int64_t{7}}},
      .domain = "com.microsoft"};
  const OneNode built =
      BuildOneNode(op_case, DataType::kFloat64, KnownShapes::kAll);
  const Numbers64 dy = ToNumbers(built.seeds[0].view());
  EXPECT_EQ(GradientsOf(built)[0], (Numbers64{dy[0], 0, 0, dy[3]}));
}

// One scale for each row of a weight of a real size.
TEST(StraightThrough, PassesAtARealSize) {
  constexpr int64_t kRows = 64, kColumns = 300;
  OwnedTensor x = Floats32({kRows, kColumns}, Numbers64(kRows * kColumns));
  const OwnedTensor scale = Floats32({kRows}, Numbers64(kRows, 0.125));
  const auto numbers = x.view().values<float>();
  Numbers64 expected(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto step = static_cast<int64_t>(i * 7919 % 400) - 200;
    numbers[i] = static_cast<float>(step) * 0.125f + 0.01f;
    const bool is_cut = step < -128 || step > 127;
    expected[i] = is_cut ? 0 : static_cast<double>(i + 1);
  }
  const auto gradients = GradientsOfPair(
      QuantizedPair({{"axis", int64_t{0}}}, {kRows}, DataType::kInt8), x.view(),
      scale.view());
  EXPECT_EQ(gradients[0], expected);
}

TEST(StraightThrough, HasAScaleForEachChannel) {
  const OwnedTensor x = Floats32({2, 2}, {0.3, 200, 0.3, 200});
  const OwnedTensor scale = Floats32({2}, {0.5, 2});
  const auto gradients = GradientsOfPair(
      QuantizedPair({{"axis", int64_t{0}}}, {2}, DataType::kInt8), x.view(),
      scale.view());
  EXPECT_EQ(gradients[0], (Numbers64{1, 0, 3, 4}));
  // 1 (1 - 0.6) + 2 * 127; 3 (0 - 0.15) + 4 (100 - 100)
  ExpectNear(gradients[1], {254.4, -0.45}, 1e-6, "scale");
}

// A quantized number that becomes a float in another way has none.
TEST(StraightThrough, ToDequantizeLinearOnly) {
  Quantized q = QuantizedPair({}, {}, DataType::kUint8);
  Node cast;
  cast.op_type = "Cast";
  cast.SetAttribute("to", static_cast<int64_t>(DataType::kFloat32));
  cast.inputs = {q.graph.Find("QuantizeLinear_y")};
  const ValueId y = q.graph.AddValue("y");
  cast.outputs = {y};
  q.graph.AddNode(std::move(cast));
  const ValueId seed = q.graph.AddInput(
      "seed", ValueType::OfTensor(DataType::kFloat32, std::nullopt));
  const ValueId outputs[] = {y}, seeds[] = {seed}, wrt[] = {q.x};
  EXPECT_FALSE(Differentiate(q.graph, outputs, seeds, wrt)[0]);
}

}  // namespace
}  // namespace strop
