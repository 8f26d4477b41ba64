// SPDX-License-Identifier: Apache-2.0
//
// Passes over matrix products and accumulated gradients.
#include <gtest/gtest.h>

#include "graph/print.h"
#include "passes/net.h"
#include "passes/passes.h"

namespace strop {
namespace {

Attribute Int(const char* name, int64_t value) {
  return {.name = name, .value = value, .ref_attr_name = {}, .encoded = {}};
}

TEST(FuseGemm, BiasAndReluJoin) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId w = net.Input("w", {4, 3});
  const ValueId b = net.Input("b", {4});
  const ValueId sum = net.Op("Gemm", {x, w, b}, {"s"}, {Int("transB", 1)})[0];
  net.graph.MarkOutput(net.Op("Relu", {sum}, {"y"})[0]);
  FuseGemm(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm");
  const Node& gemm = net.Only("Gemm");
  EXPECT_EQ(gemm.domain, kInternal);
  EXPECT_EQ(net.graph.value_name(gemm.outputs[0]), "y");
  EXPECT_EQ(std::get<std::string>(gemm.FindAttribute("activation")->value),
            "Relu");
  net.graph.SortNodes();
}

TEST(FuseGemm, ReluStaysWhereTheSumIsReadElsewhere) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId w = net.Input("w", {3, 4});
  const ValueId sum = net.Op("Gemm", {x, w}, {"s"})[0];
  net.graph.MarkOutput(net.Op("Relu", {sum}, {"y"})[0]);
  net.graph.MarkOutput(net.Op("Abs", {sum}, {"z"})[0]);
  FuseGemm(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm Relu Abs");
  EXPECT_EQ(net.Only("Gemm").domain, kInternal);
}

TEST(FuseGemm, OtherFormsOfTheBiasAreLeftAlone) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId w = net.Input("w", {3, 4});
  const ValueId c = net.Input("c", {-1, 4});
  net.graph.MarkOutput(net.Op("Gemm", {x, w, c}, {"s"})[0]);
  FuseGemm(net.graph);
  EXPECT_EQ(net.Only("Gemm").domain, kOnnx);
}

// --- FuseMatMul

Attribute Perm(std::vector<int64_t> axes) {
  return {.name = "perm",
          .value = std::move(axes),
          .ref_attr_name = {},
          .encoded = {}};
}

std::vector<int64_t> Axes(const Node& node, const char* name) {
  const Attribute* attribute = node.FindAttribute(name);
  return attribute == nullptr
             ? std::vector<int64_t>{}
             : std::get<std::vector<int64_t>>(attribute->value);
}

int64_t IntOf(const Node& node, const char* name) {
  const Attribute* attribute = node.FindAttribute(name);
  return attribute == nullptr ? 0 : std::get<int64_t>(attribute->value);
}

TEST(FuseMatMul, AWeightIsReadTransposedAndTheBiasJoins) {
  Net net;
  const ValueId x = net.Input("x", {-1, 8, 3});
  const ValueId w = net.Input("w", {4, 3});
  const ValueId b = net.Input("b", {4});
  const ValueId wt = net.Op("Transpose", {w}, {"wt"}, {Perm({1, 0})})[0];
  const ValueId sum = net.Op("MatMul", {x, wt}, {"s"})[0];
  net.graph.MarkOutput(net.Op("Add", {b, sum}, {"y"})[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul");
  const Node& product = net.Only("MatMul");
  EXPECT_EQ(product.domain, kInternal);
  EXPECT_EQ(product.inputs, (std::vector<ValueId>{x, w, b}));
  EXPECT_EQ(IntOf(product, "transB"), 1);
  EXPECT_EQ(net.graph.value_name(product.outputs[0]), "y");
  net.graph.SortNodes();
}

TEST(FuseMatMul, HeadsAreReadAndWrittenWhereTheyLie) {
  Net net;
  const ValueId q = net.Input("q", {2, 8, 3, 4});
  const ValueId k = net.Input("k", {2, 8, 3, 4});
  const ValueId qt = net.Op("Transpose", {q}, {"qt"}, {Perm({0, 2, 1, 3})})[0];
  const ValueId kt = net.Op("Transpose", {k}, {"kt"}, {Perm({0, 2, 3, 1})})[0];
  const ValueId s = net.Op("MatMul", {qt, kt}, {"s"})[0];
  net.graph.MarkOutput(
      net.Op("Transpose", {s}, {"y"}, {Perm({0, 2, 1, 3})})[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul");
  const Node& product = net.Only("MatMul");
  EXPECT_EQ(product.inputs, (std::vector<ValueId>{q, k}));
  EXPECT_EQ(Axes(product, "permA"), (std::vector<int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(Axes(product, "permB"), (std::vector<int64_t>{0, 2, 3, 1}));
  EXPECT_EQ(Axes(product, "permY"), (std::vector<int64_t>{0, 2, 1, 3}));
}

TEST(FuseMatMul, ATransposeOfBatchAxesIntoColumnsStays) {
  Net net;
  const ValueId a = net.Input("a", {2, 3, 4});
  const ValueId b = net.Input("b", {2, 2, 5});
  const ValueId at = net.Op("Transpose", {a}, {"at"}, {Perm({2, 1, 0})})[0];
  const ValueId s = net.Op("MatMul", {at, b}, {"s"})[0];
  net.graph.MarkOutput(net.Op("Transpose", {s}, {"y"}, {Perm({1, 2, 0})})[0]);
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "Transpose MatMul Transpose");
  EXPECT_EQ(net.Only("MatMul").domain, kOnnx);
}

TEST(FuseMatMul, FactorsJoinWhereOnlyProductsNeedThem) {
  Net net;
  const float half = 0.5f;
  const ValueId x = net.Input("x", {2, 3});
  const ValueId w = net.Input("w", {3, 3});
  const ValueId c =
      net.graph.AddInitializer(TensorData::Copy("c", Tensor(Shape{}, &half)));
  const ValueId s = net.Op("MatMul", {x, w}, {"s"})[0];
  const ValueId scaled = net.Op("Mul", {s, c}, {"scaled"})[0];
  net.graph.MarkOutput(net.Op("MatMul", {scaled, w}, {"y"})[0]);
  net.graph.MarkOutput(net.Op("MatMul", {w, scaled}, {"z"})[0]);
  const ValueId kept = net.Op("Mul", {x, c}, {"kept"})[0];
  net.graph.MarkOutput(kept);
  net.graph.MarkOutput(net.Op("MatMul", {kept, w}, {"u"})[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul MatMul MatMul Mul MatMul");
  const Node& first = net.graph.node(net.graph.order()[0]);
  EXPECT_EQ(std::get<float>(first.FindAttribute("alpha")->value), 0.5f);
  const Node& last = net.graph.node(net.graph.order()[4]);
  EXPECT_EQ(last.domain, kOnnx);
}

// Attention from its heads on: scores, mask, softmax, and the way back.
struct AttentionNet : Net {
  explicit AttentionNet(std::vector<int64_t> mask_dims) {
    const ValueId q = Input("q", {2, 3, 8, 4});
    const ValueId k = Input("k", {2, 3, 4, 8});
    mask = Input("mask", std::move(mask_dims));
    const ValueId scores = Op("MatMul", {q, k}, {"scores"})[0];
    const ValueId sum = Op("Add", {scores, mask}, {"sum"})[0];
    for (const ValueId id : {scores, sum}) {
      std::vector<Dimension> dims;
      for (const int64_t size : {2, 3, 8, 8}) {
        dims.push_back({.value = size, .symbol = {}});
      }
      graph.value(id).type = ValueType::OfTensor(DataType::kFloat32, dims);
    }
    p = Op("Softmax", {sum}, {"p"}, {Int("axis", -1)})[0];
    graph.MarkOutput(p);
  }
  ValueId mask, p;
};

TEST(FuseMatMul, SoftmaxWithItsMaskFollowsTheProduct) {
  AttentionNet net({8, 8});
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul");
  const Node& product = net.Only("MatMul");
  EXPECT_EQ(std::get<std::string>(product.FindAttribute("then")->value),
            "Softmax");
  ASSERT_EQ(product.inputs.size(), 4u);
  EXPECT_FALSE(product.inputs[2]);
  EXPECT_EQ(product.inputs[3], net.mask);
  EXPECT_EQ(product.outputs[0], net.p);
}

TEST(FuseMatMul, ASumOfUnknownShapeStays) {
  AttentionNet net({5, 1, 1, 1, 1});
  net.graph.value(net.graph.Find("sum")).type.dims = std::nullopt;
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul Add Softmax");
}

TEST(FuseMatMul, SoftmaxGradFollowsTheProduct) {
  Net net;
  const ValueId dy = net.Input("dy", {2, 8, 3, 4});
  const ValueId v = net.Input("v", {2, 3, 8, 4});
  const ValueId p = net.Input("p", {2, 3, 8, 8});
  const ValueId heads =
      net.Op("Transpose", {dy}, {"heads"}, {Perm({0, 2, 1, 3})})[0];
  const ValueId dp = net.Op("FusedMatMul", {heads, v}, {"dp"},
                            {Int("transB", 1)}, kMicrosoft)[0];
  net.graph.MarkOutput(net.Op("SoftmaxGrad_13", {dp, p}, {"ds"},
                              {Int("axis", -1)}, kMicrosoft)[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul");
  const Node& product = net.Only("MatMul");
  EXPECT_EQ(std::get<std::string>(product.FindAttribute("then")->value),
            "SoftmaxGrad");
  EXPECT_EQ(product.input(3), p);
}

TEST(FuseMatMul, ABiasOfAnotherLengthStays) {
  Net net;
  const ValueId x = net.Input("x", {2, 3});
  const ValueId w = net.Input("w", {3, 1});
  const ValueId b = net.Input("b", {4});  // broadcasts the product
  const ValueId sum = net.Op("MatMul", {x, w}, {"s"})[0];
  net.graph.MarkOutput(net.Op("Add", {sum, b}, {"y"})[0]);
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul Add");
}

TEST(FuseMatMul, ATransposedGemmReadsTheOtherWay) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId dy = net.Input("dy", {-1, 4});
  const ValueId dw = net.Op("Gemm", {x, dy}, {"dw"}, {Int("transA", 1)})[0];
  net.graph.MarkOutput(net.Op("Transpose", {dw}, {"y"}, {Perm({1, 0})})[0]);
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm");
  const Node& gemm = net.Only("Gemm");
  EXPECT_EQ(gemm.inputs, (std::vector<ValueId>{dy, x}));
  EXPECT_EQ(IntOf(gemm, "transA"), 1);
  EXPECT_EQ(IntOf(gemm, "transB"), 0);
}

TEST(FuseMatMul, AGemmReadsThroughTransposes) {
  Net net;
  const ValueId x = net.Input("x", {2, 3});
  const ValueId w = net.Input("w", {4, 3});
  const ValueId wt = net.Op("Transpose", {w}, {"wt"}, {Perm({1, 0})})[0];
  net.graph.MarkOutput(net.Op("Gemm", {x, wt}, {"y"})[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm");
  EXPECT_EQ(net.Only("Gemm").inputs, (std::vector<ValueId>{x, w}));
  EXPECT_EQ(IntOf(net.Only("Gemm"), "transB"), 1);
}

// dw = x' dy, added to its buffer.
struct GradientNet : Net {
  GradientNet() {
    dy = Input("dy", {-1, 4});
    x = Input("x", {-1, 3});
    buffer = Input("buffer", {4, 3});
    reset = Input("reset", {1}, DataType::kBool);
    dw = Op("Gemm", {dy, x}, {"dw"}, {Int("transA", 1)})[0];
  }
  ValueId dy, x, buffer, reset, dw;
};

TEST(FuseAccumulate, GemmWritesIntoTheBuffer) {
  GradientNet net;
  net.Microsoft("InPlaceAccumulatorV2", {net.buffer, net.dw, net.reset},
                "done");
  FuseGemm(net.graph);
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "GemmAccumulate");
  EXPECT_EQ(net.Only("GemmAccumulate").inputs,
            (std::vector<ValueId>{net.dy, net.x, net.buffer, net.reset}));
}

TEST(FuseAccumulate, AGradientThatIsReadElsewhereIsKept) {
  GradientNet net;
  net.Microsoft("InPlaceAccumulatorV2", {net.buffer, net.dw, net.reset},
                "done");
  net.graph.MarkOutput(net.Op("Abs", {net.dw}, {"z"})[0]);
  FuseGemm(net.graph);
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm InPlaceAccumulatorV2 Abs");
}

TEST(FuseAccumulate, AFlagThatIsReadKeepsTheAccumulator) {
  GradientNet net;
  net.graph.MarkOutput(net.Microsoft("InPlaceAccumulatorV2",
                                     {net.buffer, net.dw, net.reset}, "done"));
  FuseGemm(net.graph);
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm InPlaceAccumulatorV2");
}

// The gradient of an embedding, added to its buffer.
struct EmbeddingNet : Net {
  explicit EmbeddingNet(const char* gathered) {
    words = Input("words", {9, 4});
    indices = Input("indices", {-1}, DataType::kInt64);
    dy = Input("dy", {-1, 4});
    buffer = Input("buffer", {9, 4});
    reset = Input("reset", {1}, DataType::kBool);
    graph.MarkOutput(Op("Gather", {words, Find(gathered)}, {"rows"})[0]);
    const ValueId shape = Op("Shape", {words}, {"shape"})[0];
    const ValueId grad = Microsoft("GatherGrad", {shape, indices, dy}, "grad");
    Microsoft("InPlaceAccumulatorV2", {buffer, grad, reset}, "done");
  }
  ValueId Find(const char* name) {
    const ValueId found = graph.Find(name);
    return found ? found : Input(name, {-1}, DataType::kInt64);
  }
  ValueId words, indices, dy, buffer, reset;
};

TEST(FuseAccumulate, GatherGradAddsToTheBuffer) {
  EmbeddingNet net("indices");
  FuseAccumulate(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Gather GatherGradAccumulate");
  EXPECT_EQ(net.Only("GatherGradAccumulate").inputs,
            (std::vector<ValueId>{net.indices, net.dy, net.buffer, net.reset}));
}

// They might be found wrong when the buffer is half written.
TEST(FuseAccumulate, IndicesThatNoGatherHasCheckedKeepTheGatherGrad) {
  EmbeddingNet net("others");
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "Gather Shape GatherGrad InPlaceAccumulatorV2");
}

TEST(FuseAccumulate, ConvGradWritesWeightAndBias) {
  Net net;
  const ValueId dy = net.Input("dy", {1, 2, 4, 4});
  const ValueId x = net.Input("x", {1, 3, 6, 6});
  const ValueId w = net.Input("w", {2, 3, 3, 3});
  const ValueId dw_buffer = net.Input("dw_buffer", {2, 3, 3, 3});
  const ValueId db_buffer = net.Input("db_buffer", {2});
  const ValueId reset = net.Input("reset", {1}, DataType::kBool);
  const auto grads =
      net.Op("ConvGrad", {dy, x, w}, {"dx", "dw", "db"}, {}, kMicrosoft);
  net.graph.MarkOutput(grads[0]);
  net.Microsoft("InPlaceAccumulatorV2", {dw_buffer, grads[1], reset}, "a");
  net.Microsoft("InPlaceAccumulatorV2", {db_buffer, grads[2], reset}, "b");
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "ConvGradAccumulate");
  EXPECT_EQ(net.Only("ConvGradAccumulate").inputs,
            (std::vector<ValueId>{dy, x, w, dw_buffer, db_buffer, reset}));
}

}  // namespace
}  // namespace strop
