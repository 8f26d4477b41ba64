// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/parameter_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/checkpoint_file.h"

namespace strop {
namespace {

using testing::HasSubstr;

TEST(TensorBlock, TensorsAreAlignedZeroedAndApart) {
  const TensorBlock block({{DataType::kFloat32, Shape{3}},
                           {DataType::kUint8, Shape{65}},
                           {DataType::kFloat64, Shape{0, 2}},
                           {DataType::kUndefined, Shape{}},
                           {DataType::kFloat64, Shape{}}});
  const auto& tensors = block.tensors();
  ASSERT_EQ(tensors.size(), 5u);
  const auto* base = static_cast<std::byte*>(tensors[0].data());
  const auto offset = [&](size_t i) {
    return static_cast<std::byte*>(tensors[i].data()) - base;
  };
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % 64, 0u);
  EXPECT_EQ(offset(1), 64);
  EXPECT_EQ(offset(2), 192);
  EXPECT_EQ(offset(4), 192);
  EXPECT_EQ(tensors[1].shape(), Shape{65});
  EXPECT_EQ(tensors[3].type(), DataType::kUndefined);
  EXPECT_EQ(tensors[3].data(), nullptr);
  EXPECT_TRUE(std::all_of(base, base + 256,
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(TensorBlock, NothingNeedsNoElements) {
  EXPECT_TRUE(TensorBlock().tensors().empty());
  EXPECT_TRUE(TensorBlock(std::vector<TensorInfo>()).tensors().empty());
  const TensorBlock empty({{DataType::kFloat32, Shape{0}}});
  EXPECT_NE(empty.tensors()[0].data(), nullptr);
}

TEST(TensorBlock, SizesDoNotOverflow) {
  const TensorInfo huge = {DataType::kFloat32, Shape{(int64_t{1} << 62) - 1}};
  const TensorInfo large = {DataType::kUint8, Shape{int64_t{1} << 60}};
  for (const auto& infos : std::vector<std::vector<TensorInfo>>{
           {huge}, {large, large, large, large}, {large}}) {
    EXPECT_EQ(ErrorOf(ErrorCode::kOutOfMemory, [&] { TensorBlock b(infos); })
                  .find("(another code"),
              std::string::npos);
    EXPECT_THROW(TensorBlock b(infos), Error);
  }
}

ParameterStore StoreOf(const Environment& environment,
                       std::vector<std::pair<std::string, bool>> parameters) {
  ParameterStore store(environment);
  for (const auto& [name, requires_grad] : parameters) {
    Parameter& parameter = store.parameters.emplace_back();
    parameter.name = name;
    parameter.requires_grad = requires_grad;
  }
  return store;
}

TEST(ParameterStore, FindsByName) {
  const Environment environment;
  ParameterStore store =
      StoreOf(environment, {{"A", true}, {"a", true}, {"ab", false}});
  for (const char* name : {"A", "a", "ab"}) {
    ASSERT_NE(store.Find(name), nullptr) << name;
    EXPECT_EQ(store.Get(name).name, name);
  }
  for (const char* name : {"", "B", "aa", "abc", "b"}) {
    EXPECT_EQ(store.Find(name), nullptr) << name;
  }
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { store.Get("b"); }),
              HasSubstr("no parameter \"b\""));
}

TEST(ParameterStore, GradientsAreZeroAndLastAsLongAsTheStore) {
  const Environment environment;
  TensorBlock values({{DataType::kFloat32, Shape{2}},
                      {DataType::kFloat32, Shape{3}},
                      {DataType::kFloat32, Shape{4}}});
  ParameterStore store =
      StoreOf(environment, {{"a", true}, {"b", false}, {"c", true}});
  for (size_t i = 0; i < 3; ++i) {
    store.parameters[i].value = values.tensors()[i];
  }
  store.AttachGradients();
  EXPECT_EQ(store.Get("a").gradient.shape(), Shape{2});
  EXPECT_EQ(store.Get("b").gradient.type(), DataType::kUndefined);
  EXPECT_EQ(store.Get("c").gradient.shape(), Shape{4});
  for (const float x : store.Get("c").gradient.values<float>()) {
    EXPECT_EQ(x, 0);
  }
  // A second Module shares the gradients of the first.
  const void* const data = store.Get("a").gradient.data();
  store.Get("a").gradient.values<float>()[0] = 5;
  store.AttachGradients();
  EXPECT_EQ(store.Get("a").gradient.data(), data);
  EXPECT_EQ(store.Get("a").gradient.values<float>()[0], 5);
}

TEST(Conformance, Line53_NominalCompletion) {
  const Environment environment;
  ParameterStore store =
      StoreOf(environment, {{"a", true}, {"b", true}, {"c", false}});
  store.is_nominal = true;
  EXPECT_THAT(
      ErrorOf(ErrorCode::kFailedState,
              [&] { store.RequireValues("TrainStep"); }),
      testing::AllOf(HasSubstr("TrainStep"),
                     HasSubstr("Please load the model parameters first.")));

  store.AllocateValues({{DataType::kFloat32, Shape{2}},
                        {},  // not in the graph
                        {DataType::kInt64, Shape{}}});
  EXPECT_FALSE(store.is_nominal);
  store.RequireValues("TrainStep");
  EXPECT_EQ(store.Get("a").value.values<float>()[1], 0);
  EXPECT_EQ(store.Get("b").value.element_count(), 0);
  EXPECT_EQ(store.Get("c").value.values<int64_t>()[0], 0);
}

}  // namespace
}  // namespace strop
