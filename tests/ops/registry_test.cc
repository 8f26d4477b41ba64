// SPDX-License-Identifier: Apache-2.0
#include "ops/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/graph.h"

namespace strop {
namespace {

TEST(Registry, FindsTheVersionThatHolds) {
  const OpDef* old = FindOp("", "Softmax", 12);
  const OpDef* current = FindOp("", "Softmax", 13);
  ASSERT_NE(old, nullptr);
  ASSERT_NE(current, nullptr);
  EXPECT_EQ(old->since, 1);
  EXPECT_EQ(current->since, 13);
  EXPECT_EQ(FindOp("", "Softmax", 6), old);
  EXPECT_EQ(FindOp("", "Softmax", 23), current);
}

TEST(Registry, KnowsNoOthers) {
  EXPECT_EQ(FindOp("", "Softma", 13), nullptr);
  EXPECT_EQ(FindOp("", "Softmaxx", 13), nullptr);
  EXPECT_EQ(FindOp("", "A", 13), nullptr);
  EXPECT_EQ(FindOp("zzz", "Softmax", 13), nullptr);
  EXPECT_EQ(FindOp("", "Relu", 0), nullptr);
  EXPECT_EQ(FindOp("", "SoftmaxCrossEntropyLoss", 11), nullptr);
}

TEST(Registry, TellsDomainsApart) {
  EXPECT_NE(FindOp("", "Gemm", 13), FindOp(kInternal, "Gemm", 1));
  EXPECT_EQ(FindOp(kInternal, "Gemm", 1)->domain, kInternal);
  EXPECT_EQ(FindOp(kMicrosoft, "ReluGrad", 1)->name, "ReluGrad");
}

TEST(Registry, AsksCustomDomainsFirst) {
  static constexpr OpDef kTwice = {.name = "Twice", .domain = "example"};
  static constexpr OpDef kTwice2 = {
      .name = "Twice", .domain = "example", .since = 2};
  static constexpr OpDef kOwnRelu = {.name = "Relu"};
  const CustomOpDomain example = {"example", {&kTwice, &kTwice2}};
  const CustomOpDomain onnx = {"", {&kOwnRelu}};
  const CustomOpDomain* custom[] = {&example, &onnx};
  EXPECT_EQ(FindOp("example", "Twice", 1, custom), &kTwice);
  EXPECT_EQ(FindOp("example", "Twice", 7, custom), &kTwice2);
  EXPECT_EQ(FindOp("example", "Thrice", 7, custom), nullptr);
  EXPECT_EQ(FindOp("", "Relu", 13, custom), &kOwnRelu);
  EXPECT_NE(FindOp("", "Exp", 13, custom), nullptr);
}

TEST(Registry, ListsEachOpOnce) {
  const auto ops = AllOps();
  EXPECT_GT(ops.size(), 100u);
  for (size_t i = 1; i < ops.size(); ++i) {
    const auto key = [](const OpDef* op) {
      return std::tie(op->domain, op->name, op->since);
    };
    EXPECT_LT(key(ops[i - 1]), key(ops[i])) << ops[i]->name;
  }
}

// What an op says of itself fits together.
TEST(Registry, HoldsConsistentFacts) {
  for (const OpDef* op : AllOps()) {
    SCOPED_TRACE(std::string(op->domain) + ":" + std::string(op->name));
    EXPECT_NE(op->infer, nullptr);
    EXPECT_LE(op->inputs.min, op->inputs.max);
    EXPECT_LE(op->outputs.min, op->outputs.max);
    EXPECT_EQ(op->reference.run == nullptr, op->reference.supports == nullptr);
    for (const Alias& alias : op->aliases) {
      if (alias.output < 0) continue;
      EXPECT_LT(alias.output, op->outputs.max);
      EXPECT_TRUE(op->mutates.contains(static_cast<size_t>(alias.input)))
          << "input " << alias.input;
    }
  }
}

}  // namespace
}  // namespace strop
