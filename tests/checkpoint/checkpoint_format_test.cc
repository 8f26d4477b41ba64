// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/memory_file_system.h"
#include "checkpoint/checkpoint_file.h"

namespace strop {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

const Environment& TestEnvironment() {
  static const Environment environment;
  return environment;
}

ParameterStore Parse(const Bytes& bytes) {
  return ParseCheckpoint(bytes, /*path=*/{}, TestEnvironment());
}

Bytes Serialize(const ParameterStore& store,
                bool include_optimizer_state = true) {
  const SerializedCheckpoint checkpoint =
      SerializeCheckpoint(store, include_optimizer_state);
  return {checkpoint.bytes.begin(), checkpoint.bytes.end()};
}

std::string ParseError(const CheckpointFile& file) {
  return ErrorOf(ErrorCode::kInvalidFile, [&] { Parse(Build(file)); });
}

TEST(Conformance, Line01_LoadV2File) {
  ParameterStore store = Parse(KnownFile());
  ASSERT_EQ(store.parameters.size(), 2u);
  EXPECT_TRUE(store.Get("w").requires_grad);
  EXPECT_FALSE(store.Get("f").requires_grad);
  EXPECT_EQ(store.Get("w").value.shape(), Shape{2});
  EXPECT_THAT(FloatValues(store.Get("w").value),
              ElementsAre(0.87500393f, 1.87500203f));
  EXPECT_THAT(FloatValues(store.Get("f").value), ElementsAre(0.5f));
  EXPECT_FALSE(store.is_nominal);
  EXPECT_FALSE(store.has_external_data);

  ASSERT_EQ(store.groups.size(), 1u);
  const OptimizerGroup& group = store.groups.at("group0");
  EXPECT_EQ(group.step, 1);
  EXPECT_EQ(group.initial_learning_rate, 0.125f);
  ASSERT_EQ(group.parameters.size(), 1u);
  const Moments& moments = group.parameters.at("w");
  EXPECT_THAT(FloatValues(moments.at("momentum0")),
              ElementsAre(FloatEq(0.10000002f), FloatEq(0.20000005f)));
  EXPECT_THAT(FloatValues(moments.at("momentum1")),
              ElementsAre(FloatEq(0.00099998713f), FloatEq(0.0039999485f)));

  EXPECT_EQ(store.properties.size(), 3u);
  EXPECT_EQ(store.properties.at("epoch"), Property(int64_t{3}));
  EXPECT_EQ(store.properties.at("best"), Property(0.25f));
  EXPECT_EQ(store.properties.at("tag"), Property(std::string("hi")));
}

TEST(CheckpointFormat, TheKnownFileIsWrittenByteForByte) {
  EXPECT_EQ(Hex(Serialize(Parse(KnownFile()))), Hex(KnownFile()));
}

TEST(CheckpointFormat, GoldenFilesAreWrittenByteForByte) {
  const auto paths = GoldenFiles("checkpoint_after");
  ASSERT_GE(paths.size(), 20u);
  for (const auto& path : paths) {
    const Bytes bytes = ReadFile(path);
    EXPECT_TRUE(Serialize(Parse(bytes)) == bytes) << path;
  }
}

// Files of the offline writer lack fields that a state's writer gives, so
// their content is compared.
TEST(CheckpointFormat, OfflineFilesKeepTheirContent) {
  auto paths = GoldenFiles("checkpoint");
  ASSERT_GE(paths.size(), 20u);
  for (const auto& path : GoldenFiles("nominal_checkpoint")) {
    paths.push_back(path);
  }
  for (const auto& path : paths) {
    const ParameterStore store = Parse(ReadFile(path));
    EXPECT_FALSE(store.parameters.empty()) << path;
    EXPECT_TRUE(store.groups.empty()) << path;
    const Bytes saved = Serialize(store);
    ExpectSameContent(Parse(saved), store);
    // From then on the bytes are stable.
    EXPECT_TRUE(Serialize(Parse(saved)) == saved) << path;
  }
}

TEST(Conformance, Line02_LoadV1File) {
  const ParameterStore store =
      Parse(Build({.version = 1,
                   .trainable = {{Floats1D("w", {1, 2})}},
                   .frozen = {{Floats1D("f", {3})}}}));
  ASSERT_EQ(store.parameters.size(), 2u);
  EXPECT_THAT(FloatValues(store.parameters[0].value), ElementsAre(3));
  EXPECT_THAT(FloatValues(store.parameters[1].value), ElementsAre(1, 2));
}

TEST(Conformance, Line04_OtherVersions) {
  EXPECT_THAT(ParseError({.version = 0}),
              HasSubstr("version 0 is not supported"));
  EXPECT_THAT(ParseError({.version = 3}),
              HasSubstr("version 3 is not supported"));
  EXPECT_THAT(ParseError({.version = -1}),
              HasSubstr("version -1 is not supported"));
}

TEST(Conformance, Line05_MissingLists) {
  EXPECT_THAT(ParseError({.trainable = std::nullopt}),
              HasSubstr("list of trainable parameters is missing"));
  EXPECT_THAT(ParseError({.frozen = std::nullopt}),
              HasSubstr("list of frozen parameters is missing"));
  // Without a module state there is nothing that could lack lists.
  EXPECT_TRUE(Parse(Build({.has_module_state = false})).parameters.empty());
}

TEST(Conformance, Line06_MissingTensorFields) {
  const Bytes one = BytesOf({1.0f});
  EXPECT_THAT(ParseError({.trainable = {{{.name = {}, .raw = one}}}}),
              HasSubstr("a tensor has no name"));
  EXPECT_THAT(ParseError({.trainable = {{{.name = "", .raw = one}}}}),
              HasSubstr("a tensor has an empty name"));
  EXPECT_THAT(ParseError({.frozen = {{{.dims = std::nullopt, .raw = one}}}}),
              HasSubstr("tensor \"w\" has no dimensions"));
  EXPECT_THAT(ParseError({.frozen = {{{.raw = {}}}}}),
              HasSubstr("tensor \"w\" has no data"));
}

TEST(Conformance, Line07_ElementTypes) {
  const std::pair<int, size_t> loadable[] = {
      {1, 4}, {2, 1},  {3, 1},  {4, 2},  {5, 2},  {6, 4}, {7, 8},
      {9, 1}, {10, 2}, {11, 8}, {12, 4}, {13, 8}, {16, 2}};
  for (const auto& [type, size] : loadable) {
    Bytes raw;
    for (size_t i = 0; i < 3 * size; ++i) {
      raw.push_back(static_cast<std::byte>(type == 9 ? i % 2 : 17 * i + 1));
    }
    const CheckpointFile file = {
        .trainable = {{{.dims = {{3}}, .type = type, .raw = raw}}}};
    ParameterStore store = Parse(Build(file));
    const Tensor& value = store.Get("w").value;
    EXPECT_EQ(static_cast<int>(value.type()), type);
    EXPECT_EQ(Bytes(value.bytes().begin(), value.bytes().end()), raw);
    // Saved and loaded again.
    ExpectSameContent(Parse(Serialize(store)), store);
  }
  for (const int type : {0, 8, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 99, -1,
                         std::numeric_limits<int>::min()}) {
    EXPECT_THAT(
        ParseError(
            {.trainable = {{{.dims = {{0}}, .type = type, .raw = Bytes()}}}}),
        HasSubstr("tensor \"w\" has the unsupported element type"))
        << type;
  }
}

TEST(CheckpointFormat, BooleansBecomeZeroOrOne) {
  const CheckpointFile file = {
      .frozen = {
          {{.dims = {{3}}, .type = 9, .raw = BytesOf<uint8_t>({0, 1, 255})}}}};
  ParameterStore store = Parse(Build(file));
  const auto bytes = store.Get("w").value.bytes();
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), BytesOf<uint8_t>({0, 1, 1}));
}

TEST(Conformance, Line08_WrongDataLength) {
  for (const size_t size : {0, 4, 7, 9, 12}) {
    EXPECT_THAT(
        ParseError({.trainable = {{{.dims = {{2}}, .raw = Bytes(size)}}}}),
        AllOf(HasSubstr("tensor \"w\" of type float32 and shape (2) has " +
                        std::to_string(size) + " bytes of data"),
              HasSubstr("instead of 2 times 4")));
  }
}

TEST(CheckpointFormat, ScalarsAndEmptyTensorsAreTensors) {
  const CheckpointFile file = {
      .trainable = {{{.name = "empty", .dims = {{0, 3}}, .raw = Bytes()},
                     {.name = "scalar", .raw = BytesOf({2.5f})}}}};
  ParameterStore store = Parse(Build(file));
  EXPECT_EQ(store.Get("scalar").value.shape(), Shape());
  EXPECT_THAT(FloatValues(store.Get("scalar").value), ElementsAre(2.5f));
  EXPECT_EQ(store.Get("empty").value.shape(), (Shape{0, 3}));
  ExpectSameContent(Parse(Serialize(store)), store);
}

// --- External data

CheckpointFile ExternalFile() {
  return {
      .trainable = {{{.name = "b", .dims = {{3}}, .external_offset = 0},
                     Floats1D("inside", {7})}},
      .frozen =
          {{{.name = "n", .dims = {{1}}, .type = 7, .external_offset = 16}}},
      .has_external_data = true};
}

Bytes ExternalData() {
  Bytes data = BytesOf({1.0f, 2.0f, 3.0f, 0.0f});
  const Bytes number = BytesOf({int64_t{-5}});
  data.insert(data.end(), number.begin(), number.end());
  return data;
}

class ExternalCheckpoint : public testing::Test {
 protected:
  void Write(const std::string& path, const Bytes& bytes) {
    files_->Write({{{.path = path, .parts = {bytes}}}});
  }
  Bytes Read(const std::string& path) {
    const FileContents file = files_->Open(path);
    return {file.bytes.begin(), file.bytes.end()};
  }
  std::string LoadError(ErrorCode code) {
    return ErrorOf(code, [&] { CheckpointState::Load("dir/c", environment_); });
  }

  std::shared_ptr<MemoryFileSystem> files_ =
      std::make_shared<MemoryFileSystem>();
  Environment environment_{EnvironmentOptions{.files = files_}};
};

TEST_F(ExternalCheckpoint, Line09_ExternalDataFromPath) {
  Write("dir/c", Build(ExternalFile()));
  Write("dir/c.data", ExternalData());
  const auto state = CheckpointState::Load("dir/c", environment_);
  EXPECT_THAT(FloatValues(state.ParameterValue("b")), ElementsAre(1, 2, 3));
  EXPECT_THAT(FloatValues(state.ParameterValue("inside")), ElementsAre(7));
  EXPECT_EQ(state.ParameterValue("n").values<int64_t>()[0], -5);
}

TEST_F(ExternalCheckpoint, Line09_MissingOrShortExternalData) {
  Write("dir/c", Build(ExternalFile()));
  EXPECT_THAT(LoadError(ErrorCode::kNoSuchFile), HasSubstr("dir/c.data"));
  const Bytes data = ExternalData();
  for (size_t size = 0; size < data.size(); ++size) {
    Write("dir/c.data", Bytes(data.begin(), data.begin() + size));
    EXPECT_THAT(LoadError(ErrorCode::kInvalidFile),
                AllOf(HasSubstr("dir/c.data"),
                      HasSubstr("which ends at " + std::to_string(size))));
  }
}

TEST_F(ExternalCheckpoint, OffsetsAreCheckedWithoutOverflow) {
  Write("dir/c.data", ExternalData());
  const std::pair<int64_t, std::vector<int64_t>> wrong[] = {
      {25, {0}},
      {-2, {1}},
      {std::numeric_limits<int64_t>::max(), {1}},
      {std::numeric_limits<int64_t>::min(), {1}},
      {4, {int64_t{1} << 61}},
      {4, {(int64_t{1} << 62) - 1}}};
  for (const auto& [offset, dims] : wrong) {
    CheckpointFile file = ExternalFile();
    (*file.trainable)[0].dims = dims;
    (*file.trainable)[0].external_offset = offset;
    Write("dir/c", Build(file));
    EXPECT_THAT(LoadError(ErrorCode::kInvalidFile), HasSubstr("tensor \"b\""))
        << offset;
  }
}

// A few bytes of file must not ask for much memory.
TEST_F(ExternalCheckpoint, TensorsMayNotShareExternalData) {
  CheckpointFile file = ExternalFile();
  (*file.trainable)[1] = {.name = "b2", .dims = {{4}}, .external_offset = 0};
  Write("dir/c", Build(file));
  Write("dir/c.data", ExternalData());
  EXPECT_THAT(LoadError(ErrorCode::kInvalidFile),
              HasSubstr("shares external data"));
}

TEST_F(ExternalCheckpoint, Line10_ExternalDataFromBuffer) {
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidFile,
                      [&] {
                        CheckpointState::LoadFromBuffer(Build(ExternalFile()),
                                                        environment_);
                      }),
              HasSubstr("load it from its path"));
}

TEST_F(ExternalCheckpoint, OffsetWithoutTheFlag) {
  CheckpointFile file = ExternalFile();
  file.has_external_data = false;
  Write("dir/c", Build(file));
  Write("dir/c.data", ExternalData());
  EXPECT_THAT(LoadError(ErrorCode::kInvalidFile),
              HasSubstr("the file says that nothing is outside"));
}

TEST_F(ExternalCheckpoint, Line11_ExternalAlignment) {
  // In the order of the file: a1 int8[3] at 0, d double[1] at 8, f float[1],
  // i int64 at 24, s int8[1], u uint64 at 36 (in the group of 4), v int16.
  const CheckpointFile file = {
      .trainable = {{{.name = "a1",
                      .dims = {{3}},
                      .type = 3,
                      .raw = BytesOf<uint8_t>({1, 2, 3})},
                     {.name = "d", .type = 11, .raw = BytesOf({1.5})},
                     {.name = "f", .raw = BytesOf({2.5f})}}},
      .frozen = {{{.name = "i", .type = 7, .raw = BytesOf({int64_t{-1}})},
                  {.name = "s", .type = 3, .raw = BytesOf<uint8_t>({9})},
                  {.name = "u", .type = 13, .raw = BytesOf({uint64_t{7}})},
                  {.name = "v", .type = 5, .raw = BytesOf({int16_t{5}})},
                  {.name = "z", .dims = {{0}}, .raw = Bytes()}}}};
  ParameterStore store = Parse(Build(file));
  store.has_external_data = true;
  const SerializedCheckpoint saved =
      SerializeCheckpoint(store, /*include_optimizer_state=*/false);
  ASSERT_TRUE(saved.has_external_data);
  Bytes data;
  for (const auto part : saved.external_data) {
    data.insert(data.end(), part.begin(), part.end());
  }
  Bytes expected = BytesOf<uint8_t>({1, 2, 3, 0, 0, 0, 0, 0});
  const auto append = [&](const Bytes& bytes) {
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  };
  append(BytesOf({1.5}));
  append(BytesOf({2.5f}));
  append(Bytes(4));
  append(BytesOf({int64_t{-1}}));
  append(BytesOf<uint8_t>({9, 0, 0, 0}));
  append(BytesOf({uint64_t{7}}));
  append(BytesOf({int16_t{5}}));
  // The empty tensor after it is aligned too.
  append(Bytes(2));
  EXPECT_EQ(data, expected);

  Write("dir/c", {saved.bytes.begin(), saved.bytes.end()});
  Write("dir/c.data", data);
  ExpectSameContent(CheckpointState::Load("dir/c", environment_).store(),
                    store);
}

TEST_F(ExternalCheckpoint, Line12_ExternalInheritance) {
  CheckpointFile file = ExternalFile();
  file.groups = {
      {.states = {{{.parameter = "b",
                    .tensors = {{Floats1D("momentum0", {4, 5, 6})}}}}}}};
  Write("dir/c", Build(file));
  Write("dir/c.data", ExternalData());
  const auto state = CheckpointState::Load("dir/c", environment_);
  state.Save("other", /*include_optimizer_state=*/true);

  // b, then what was inside, then n at a multiple of 8; no moments.
  Bytes expected = BytesOf({1.0f, 2.0f, 3.0f, 7.0f});
  const Bytes number = BytesOf({int64_t{-5}});
  expected.insert(expected.end(), number.begin(), number.end());
  EXPECT_EQ(Read("other.data"), expected);
  ExpectSameContent(CheckpointState::Load("other", environment_).store(),
                    state.store());

  // An inline state stays inline.
  Write("inline", KnownFile());
  CheckpointState::Load("inline", environment_).Save("inline2");
  EXPECT_FALSE(files_->Exists("inline2.data"));
}

TEST_F(ExternalCheckpoint, ParametersThatDoNotFitInsideGoOutside) {
  const ParameterStore store = Parse(KnownFile());
  EXPECT_FALSE(SerializeCheckpoint(store, true, /*max_inline_bytes=*/12)
                   .has_external_data);
  const SerializedCheckpoint saved =
      SerializeCheckpoint(store, true, /*max_inline_bytes=*/11);
  ASSERT_TRUE(saved.has_external_data);
  ASSERT_EQ(saved.external_data.size(), 2u);
  EXPECT_EQ(saved.external_data[0].data(), store.parameters[1].value.data());
}

// --- What is written

TEST(Conformance, Line13_SaveSorted) {
  const CheckpointFile file = {
      .trainable = {{Floats1D("b", {1}), Floats1D("B", {2}),
                     Floats1D("\xc3\xa9", {3}), Floats1D("a", {4})}},
      .frozen = {{Floats1D("z", {5}), Floats1D("A", {6})}},
      .groups = {{.name = "g2"},
                 {.name = "g1",
                  .states = {{{.parameter = "b",
                               .tensors = {{Floats1D("momentum1", {1}),
                                            Floats1D("momentum0", {2})}}},
                              {.parameter = "a"}}}}},
      .properties = {{.name = "y", .value = int64_t{1}},
                     {.name = "x", .value = int64_t{2}}}};
  const CheckpointFile sorted = {
      .trainable = {{Floats1D("B", {2}), Floats1D("a", {4}), Floats1D("b", {1}),
                     Floats1D("\xc3\xa9", {3})}},
      .frozen = {{Floats1D("A", {6}), Floats1D("z", {5})}},
      .groups = {{.name = "g1",
                  .states = {{{.parameter = "a"},
                              {.parameter = "b",
                               .tensors = {{Floats1D("momentum0", {2}),
                                            Floats1D("momentum1", {1})}}}}}},
                 {.name = "g2"}},
      .properties = {{.name = "x", .value = int64_t{2}},
                     {.name = "y", .value = int64_t{1}}}};
  EXPECT_EQ(Hex(Serialize(Parse(Build(file)))),
            Hex(Serialize(Parse(Build(sorted)))));
  const ParameterStore store = Parse(Build(file));
  std::vector<std::string> names;
  for (const Parameter& parameter : store.parameters) {
    names.push_back(parameter.name);
  }
  EXPECT_THAT(names, ElementsAre("A", "B", "a", "b", "z", "\xc3\xa9"));
}

TEST(Conformance, Line14_SaveWithoutOptimizer) {
  const ParameterStore store = Parse(KnownFile());
  const ParameterStore saved =
      Parse(Serialize(store, /*include_optimizer_state=*/false));
  EXPECT_TRUE(saved.groups.empty());
  EXPECT_EQ(saved.parameters.size(), 2u);
  EXPECT_EQ(saved.properties, store.properties);
}

TEST(Conformance, Line16_PropertyDefaultsSurvive) {
  ParameterStore store(TestEnvironment());
  store.properties["int"] = int64_t{0};
  store.properties["float"] = 0.0f;
  store.properties["string"] = std::string();
  store.properties[""] = int64_t{std::numeric_limits<int64_t>::min()};
  store.properties["nul"] = std::string("a\0b", 3);
  const ParameterStore loaded = Parse(Serialize(store));
  EXPECT_EQ(loaded.properties, store.properties);
  EXPECT_EQ(loaded.properties.at("nul"), Property(std::string("a\0b", 3)));
}

TEST(CheckpointFormat, ALaterPropertyOfTheSameNameWins) {
  const ParameterStore store = Parse(Build(
      {.properties = {
           {.value = int64_t{1}}, {.value = int64_t{2}}, {.value = 3.0f}}}));
  EXPECT_EQ(store.properties.size(), 1u);
  EXPECT_EQ(store.properties.at("p"), Property(3.0f));
}

TEST(CheckpointFormat, AnEmptyStateIsAFile) {
  const ParameterStore empty(TestEnvironment());
  ExpectSameContent(Parse(Serialize(empty)), empty);
}

TEST(CheckpointFormat, OfANameThatComesTwiceTheFirstAndTrainableCounts) {
  ParameterStore store =
      Parse(Build({.trainable = {{Floats1D("w", {1}), Floats1D("w", {2, 3})}},
                   .frozen = {{Floats1D("w", {4}), Floats1D("f", {5}),
                               Floats1D("f", {6})}}}));
  ASSERT_EQ(store.parameters.size(), 2u);
  EXPECT_TRUE(store.Get("w").requires_grad);
  EXPECT_THAT(FloatValues(store.Get("w").value), ElementsAre(1));
  EXPECT_FALSE(store.Get("f").requires_grad);
  EXPECT_THAT(FloatValues(store.Get("f").value), ElementsAre(5));
}

// --- Optimizer groups

TEST(Conformance, Line40_EmptyGroupKeepsStepAndRate) {
  const ParameterStore store =
      Parse(Build({.groups = {{.step = 7, .initial_learning_rate = 0.5f}}}));
  const OptimizerGroup& group = store.groups.at("group0");
  EXPECT_EQ(group.step, 7);
  EXPECT_EQ(group.initial_learning_rate, 0.5f);
  EXPECT_TRUE(group.parameters.empty());
}

TEST(Conformance, Line41_OtherGroupsArePreserved) {
  const CheckpointFile file = {
      .groups = {{.name = "group0", .step = 1},
                 {.name = "mine",
                  .step = 2,
                  .initial_learning_rate = 0.25f,
                  .states = {{{.parameter = "x",
                               .tensors = {{Floats1D("velocity", {1})}}}}}}}};
  const ParameterStore store = Parse(Build(file));
  EXPECT_EQ(store.groups.size(), 2u);
  ExpectSameContent(Parse(Serialize(store)), store);
}

TEST(Conformance, Line39_SurplusMomentsArePreserved) {
  const CheckpointFile file = {
      .trainable = {{Floats1D("w", {1})}},
      .groups = {{.states = {{{.parameter = "w",
                               .tensors = {{Floats1D("momentum0", {1}),
                                            Floats1D("momentum7", {2})}}},
                              {.parameter = "gone",
                               .tensors = {{Floats1D("momentum0", {3})}}}}}}}};
  const ParameterStore store = Parse(Build(file));
  EXPECT_EQ(store.groups.at("group0").parameters.size(), 2u);
  ExpectSameContent(Parse(Serialize(store)), store);
}

TEST(Conformance, Line35_RateAfterLoad) {
  ParameterStore store = Parse(KnownFile());
  OptimizerGroup& group = store.groups.at("group0");
  // A file without our property: the group's initial rate.
  EXPECT_EQ(group.learning_rate, 0.125f);

  group.learning_rate = 0.0625f;
  ParameterStore loaded = Parse(Serialize(store));
  EXPECT_EQ(loaded.groups.at("group0").learning_rate, 0.0625f);
  EXPECT_EQ(loaded.groups.at("group0").initial_learning_rate, 0.125f);
  EXPECT_FALSE(loaded.properties.contains("strop.learning_rate.group0"));

  // Back at the initial rate nothing is added to ORT's file.
  loaded.groups.at("group0").learning_rate = 0.125f;
  EXPECT_EQ(Hex(Serialize(loaded)), Hex(KnownFile()));

  // A rate of 0 is a rate: warm-up starts with it.
  store.groups.at("group0").learning_rate = 0;
  EXPECT_EQ(Parse(Serialize(store)).groups.at("group0").learning_rate, 0.0f);
}

// ONNX Runtime keeps our property when it trains on; the rate in it is that
// of a moment long gone.
TEST(CheckpointFormat, ARateOfAnotherStepDoesNotCount) {
  ParameterStore store = Parse(KnownFile());
  OptimizerGroup& group = store.groups.at("group0");
  group.learning_rate = 0;
  const ParameterStore same = Parse(Serialize(store));
  EXPECT_EQ(same.groups.at("group0").learning_rate, 0.0f);

  store.properties["strop.learning_rate.group0"] = 0.0f;
  store.properties["strop.learning_rate_step.group0"] = group.step;
  group.learning_rate = group.initial_learning_rate;
  group.step += 5;
  const ParameterStore later = Parse(Serialize(store));
  EXPECT_EQ(later.groups.at("group0").learning_rate, 0.125f);
  EXPECT_FALSE(later.properties.contains("strop.learning_rate.group0"));
  EXPECT_FALSE(later.properties.contains("strop.learning_rate_step.group0"));
}

TEST(CheckpointFormat, HiddenPropertiesGoWithTheOptimizerState) {
  ParameterStore store = Parse(KnownFile());
  store.properties["strop.position"] = int64_t{5};
  store.groups.at("group0").learning_rate = 0.5f;
  const ParameterStore with = Parse(Serialize(store, true));
  EXPECT_EQ(with.properties, store.properties);
  const ParameterStore without = Parse(Serialize(store, false));
  EXPECT_EQ(without.properties.size(), 3u);
  EXPECT_TRUE(without.properties.contains("epoch"));
}

// --- Nominal files

TEST(CheckpointFormat, NominalParametersHaveNamesOnly) {
  const CheckpointFile file = {
      .trainable = {{{.name = "w", .raw = Bytes()},
                     {.name = "v", .dims = {{100, 100}}, .raw = Bytes()}}},
      .frozen = {{{.name = "f", .dims = {{2}}, .raw = Bytes(8)}}},
      .is_nominal = true};
  ParameterStore store = Parse(Build(file));
  EXPECT_TRUE(store.is_nominal);
  ASSERT_EQ(store.parameters.size(), 3u);
  for (const Parameter& parameter : store.parameters) {
    EXPECT_EQ(parameter.value.data(), nullptr) << parameter.name;
  }
  EXPECT_TRUE(store.Get("v").requires_grad);
  EXPECT_FALSE(store.Get("f").requires_grad);
  ExpectSameContent(Parse(Serialize(store)), store);
}

TEST(CheckpointFormat, MomentsOfANominalFileNeedTheirData) {
  EXPECT_THAT(
      ParseError(
          {.is_nominal = true,
           .groups = {{.states = {{{.parameter = "w",
                                    .tensors = {{{.name = "momentum0",
                                                  .raw = Bytes()}}}}}}}}}),
      HasSubstr("has 0 bytes of data instead of 1 times 4"));
}

}  // namespace
}  // namespace strop
