// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "passes/net.h"
#include "passes/passes.h"

namespace strop {
namespace {

using Axes = std::vector<int64_t>;

Attribute Of(const char* name, Attribute::Value value) {
  return {.name = name,
          .value = std::move(value),
          .ref_attr_name = {},
          .encoded = {}};
}

Axes AxesOf(const Node& node, const char* name) {
  const Attribute* attribute = node.FindAttribute(name);
  return attribute == nullptr ? Axes{} : std::get<Axes>(attribute->value);
}

const Axes kByHeads = {0, 2, 1, 3};

// Attention as FuseMatMul leaves it; heads of Q, K, V and Y lie side by side:
// [batch, rows, heads, columns].
struct AttentionNet : Net {
  explicit AttentionNet(int64_t rows = 32) {
    q = Input("q", {2, rows, 3, 4});
    k = Input("k", {2, 8, 3, 4});
    v = Input("v", {2, 8, 3, 4});
    mask = Input("mask", {rows, 8});
    p = Product({q, k, {}, mask}, "p",
                {Of("permA", kByHeads), Of("permB", Axes{0, 2, 3, 1}),
                 Of("alpha", 0.5f), Of("then", std::string("Softmax"))});
    SetDims(p, {2, 3, rows, 8});
    y = Product({p, v}, "y", {Of("permB", kByHeads), Of("permY", kByHeads)});
    SetDims(y, {2, rows, 3, 4});
    graph.MarkOutput(y);
  }

  ValueId Product(std::vector<ValueId> inputs, const char* output,
                  std::vector<Attribute> attributes) {
    return Op("MatMul", std::move(inputs), {output}, std::move(attributes),
              kInternal)[0];
  }

  void AddGradientOfScores() {
    dy = Input("dy", {2, 32, 3, 4});
    ds = Product({dy, v, {}, p}, "ds",
                 {Of("permA", kByHeads), Of("permB", Axes{0, 2, 3, 1}),
                  Of("then", std::string("SoftmaxGrad"))});
    SetDims(ds, {2, 3, 32, 8});
  }
  void AddGradientOfV() {
    dv = Product({p, dy}, "dv",
                 {Of("transA", int64_t{1}), Of("permB", kByHeads),
                  Of("permY", kByHeads)});
    graph.MarkOutput(dv);
  }
  void AddGradientOfQ(const Axes& perm_y = kByHeads, float alpha = 0.5f) {
    dq = Product(
        {ds, k}, "dq",
        {Of("permB", kByHeads), Of("permY", perm_y), Of("alpha", alpha)});
    graph.MarkOutput(dq);
  }
  // K was read transposed: so its gradient is computed.
  void AddGradientOfK() {
    dk = Product({q, ds}, "dk",
                 {Of("permA", Axes{0, 2, 3, 1}), Of("permY", Axes{0, 3, 1, 2}),
                  Of("alpha", 0.5f)});
    graph.MarkOutput(dk);
  }
  void AddGradients() {
    AddGradientOfScores();
    AddGradientOfV();
    AddGradientOfQ();
    AddGradientOfK();
  }

  std::string Fuse() {
    FuseAttention(graph);
    graph.SortNodes();
    return Ops();
  }

  ValueId q, k, v, mask, p, y, dy, ds, dq, dk, dv;
};

TEST(FuseAttention, ForwardAndBackward) {
  AttentionNet net;
  net.AddGradients();
  EXPECT_EQ(net.Fuse(), "Attention AttentionGrad");
  const Node& forward = net.Only("Attention");
  EXPECT_EQ(forward.domain, kInternal);
  EXPECT_EQ(forward.inputs,
            (std::vector<ValueId>{net.q, net.k, net.v, net.mask}));
  EXPECT_EQ(forward.outputs, std::vector<ValueId>{net.y});
  EXPECT_EQ(std::get<float>(forward.FindAttribute("alpha")->value), 0.5f);
  const Node& backward = net.Only("AttentionGrad");
  EXPECT_EQ(backward.inputs,
            (std::vector<ValueId>{net.dy, net.q, net.k, net.v, net.mask}));
  EXPECT_EQ(backward.outputs, (std::vector<ValueId>{net.dq, net.dk, net.dv}));
  for (const Node* node : {&forward, &backward}) {
    for (const char* perm : {"permQ", "permK", "permV", "permY"}) {
      EXPECT_EQ(AxesOf(*node, perm), kByHeads) << perm;
    }
  }
}

TEST(FuseAttention, GradientsThatNobodyWants) {
  AttentionNet net;
  net.AddGradientOfScores();
  net.AddGradientOfK();
  EXPECT_EQ(net.Fuse(), "Attention AttentionGrad");
  EXPECT_EQ(net.Only("AttentionGrad").outputs,
            (std::vector<ValueId>{{}, net.dk, {}}));

  AttentionNet only_v;
  only_v.dy = only_v.Input("dy", {2, 32, 3, 4});
  only_v.AddGradientOfV();
  EXPECT_EQ(only_v.Fuse(), "Attention AttentionGrad");
  EXPECT_EQ(only_v.Only("AttentionGrad").outputs,
            (std::vector<ValueId>{{}, {}, only_v.dv}));
}

TEST(FuseAttention, WithoutGradientsOnlyWhereThereAreRows) {
  EXPECT_EQ(AttentionNet(16).Fuse(), "Attention");
  EXPECT_EQ(AttentionNet(1).Fuse(), "MatMul MatMul");
  EXPECT_EQ(AttentionNet(-1).Fuse(), "MatMul MatMul");
}

TEST(FuseAttention, ProbabilitiesThatAreReadElsewhereStay) {
  AttentionNet output;
  output.graph.MarkOutput(output.p);
  EXPECT_EQ(output.Fuse(), "MatMul MatMul");

  AttentionNet dropout;
  dropout.graph.MarkOutput(dropout.Op("Abs", {dropout.p}, {"a"})[0]);
  EXPECT_EQ(dropout.Fuse(), "MatMul MatMul Abs");

  AttentionNet gradient;
  gradient.AddGradients();
  gradient.graph.MarkOutput(gradient.Op("Abs", {gradient.ds}, {"a"})[0]);
  EXPECT_EQ(gradient.Fuse(), "MatMul MatMul MatMul MatMul MatMul MatMul Abs");
}

TEST(FuseAttention, GradientsOfAnotherLayoutOrFactorStay) {
  AttentionNet layout;
  layout.AddGradientOfScores();
  layout.AddGradientOfQ({0, 1, 2, 3});
  EXPECT_EQ(layout.Fuse(), "MatMul MatMul MatMul MatMul");

  AttentionNet factor;
  factor.AddGradientOfScores();
  factor.AddGradientOfQ(kByHeads, 0.25f);
  EXPECT_EQ(factor.Fuse(), "MatMul MatMul MatMul MatMul");
}

// Soft clustering: what looks like dV makes V.
TEST(FuseAttention, AProductWithTheTransposeNeedNotBeAGradient) {
  Net net;
  const ValueId q = net.Input("q", {2, 32, 4});
  const ValueId k = net.Input("k", {2, 8, 4});
  const ValueId x = net.Input("x", {2, 32, 5});
  const ValueId p =
      net.Op("MatMul", {q, k}, {"p"},
             {Of("transB", int64_t{1}), Of("then", std::string("Softmax"))},
             kInternal)[0];
  net.SetDims(p, {2, 32, 8});
  const ValueId z =
      net.Op("MatMul", {p, x}, {"z"}, {Of("transA", int64_t{1})}, kInternal)[0];
  net.SetDims(z, {2, 8, 5});
  const ValueId y = net.Op("MatMul", {p, z}, {"y"})[0];
  net.SetDims(y, {2, 32, 5});
  net.graph.MarkOutput(y);
  FuseAttention(net.graph);
  net.graph.SortNodes();
  EXPECT_EQ(net.Ops(), "MatMul MatMul MatMul");
}

TEST(FuseAttention, AGradientHasTheShapeOfWhatItIsOf) {
  AttentionNet net;
  net.dy = net.Input("dy", {2, 32, 3, 5});
  net.AddGradientOfV();
  EXPECT_EQ(net.Fuse(), "MatMul MatMul MatMul");
}

TEST(FuseAttention, AMaskOfOneColumnStays) {
  AttentionNet net;
  net.SetDims(net.mask, {32, 1});
  EXPECT_EQ(net.Fuse(), "MatMul MatMul");
}

TEST(FuseAttention, WhatIsWrittenIsReadWhereItStood) {
  AttentionNet net;
  const ValueId value = net.Input("value", {2, 8, 3, 4});
  net.graph.MarkOutput(
      net.Op("Assign", {net.k, value}, {"assigned"}, {}, kInternal)[0]);
  EXPECT_EQ(net.Fuse(), "MatMul MatMul Assign");
}

TEST(FuseAttention, DeadReadersDoNotCount) {
  AttentionNet net;
  net.AddGradients();
  net.Op("Abs", {net.ds}, {"unused"});
  EXPECT_EQ(net.Fuse(), "Attention AttentionGrad");
}

}  // namespace
}  // namespace strop
