// SPDX-License-Identifier: Apache-2.0
#include "strop/checkpoint_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/memory_file_system.h"
#include "base/resident_bytes.h"
#include "checkpoint/checkpoint_file.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint/parameter_store.h"

namespace strop {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// An environment whose files are in memory.
struct World {
  Bytes Read(const std::string& path) const {
    const FileContents file = files->Open(path);
    return {file.bytes.begin(), file.bytes.end()};
  }
  CheckpointState Known() const {
    return CheckpointState::LoadFromBuffer(KnownFile(), environment);
  }

  std::shared_ptr<MemoryFileSystem> files =
      std::make_shared<MemoryFileSystem>();
  Environment environment{EnvironmentOptions{.files = files}};
};

TEST(Conformance, Line15_Properties) {
  const World world;
  CheckpointState state(world.environment);
  EXPECT_THAT(state.PropertyNames(), IsEmpty());
  state.SetProperty("epoch", int64_t{3});
  state.SetProperty("best", 0.25f);
  state.SetProperty("", std::string("no name"));
  EXPECT_EQ(state.GetProperty("epoch"), Property(int64_t{3}));
  EXPECT_EQ(state.GetProperty("best"), Property(0.25f));
  EXPECT_EQ(state.GetProperty(""), Property(std::string("no name")));
  EXPECT_THAT(state.PropertyNames(), ElementsAre("", "best", "epoch"));

  state.SetProperty("epoch", int64_t{4});
  EXPECT_EQ(state.GetProperty("epoch"), Property(int64_t{4}));
  state.SetProperty("epoch", std::string("five"));
  EXPECT_EQ(state.GetProperty("epoch"), Property(std::string("five")));
  EXPECT_EQ(state.PropertyNames().size(), 3u);

  EXPECT_FALSE(state.HasProperty("gone"));
  EXPECT_EQ(ErrorOf(ErrorCode::kNotFound, [&] { state.GetProperty("gone"); }),
            "no property named \"gone\" is in the checkpoint");
}

TEST(CheckpointState, OwnPropertiesAreNotListed) {
  const World world;
  CheckpointState state(world.environment);
  state.SetProperty("strop.position", int64_t{1});
  state.SetProperty("strop", int64_t{2});
  EXPECT_THAT(state.PropertyNames(), ElementsAre("strop"));
  EXPECT_TRUE(state.HasProperty("strop.position"));
  EXPECT_EQ(state.GetProperty("strop.position"), Property(int64_t{1}));
}

TEST(Conformance, Line17_SaveBeforeAnySession) {
  const World world;
  CheckpointState state = world.Known();
  state.Save("saved", /*include_optimizer_state=*/true);
  EXPECT_EQ(Hex(world.Read("saved")), Hex(KnownFile()));
  ExpectSameContent(CheckpointState::Load("saved", world.environment).store(),
                    state.store());
}

TEST(Conformance, Line47_ParameterAccess) {
  const World world;
  CheckpointState state = world.Known();
  EXPECT_THAT(state.ParameterNames(), ElementsAre("f", "w"));
  EXPECT_TRUE(state.HasParameter("w"));
  EXPECT_FALSE(state.HasParameter("W"));
  EXPECT_TRUE(state.RequiresGrad("w"));
  EXPECT_FALSE(state.RequiresGrad("f"));

  const std::vector<float> two = {1, 2};
  state.UpdateParameter("w", Tensor(Shape{2}, two.data()));
  EXPECT_THAT(FloatValues(state.ParameterValue("w")), ElementsAre(1, 2));
  // Frozen parameters may be set too.
  state.UpdateParameter("f", Tensor(Shape{1}, two.data()));
  EXPECT_THAT(FloatValues(state.ParameterValue("f")), ElementsAre(1));
  // A parameter onto itself.
  state.UpdateParameter("w", state.ParameterValue("w"));
  EXPECT_THAT(FloatValues(state.ParameterValue("w")), ElementsAre(1, 2));
}

TEST(Conformance, Line47_ParameterErrors) {
  const World world;
  CheckpointState state = world.Known();
  const std::vector<float> values = {1, 2, 3};
  const auto update = [&](std::string_view name, const Tensor& value,
                          ErrorCode code = ErrorCode::kInvalidArgument) {
    return ErrorOf(code, [&] { state.UpdateParameter(name, value); });
  };
  EXPECT_THAT(
      update("v", Tensor(Shape{2}, values.data()), ErrorCode::kNotFound),
      HasSubstr("no parameter \"v\""));
  EXPECT_EQ(update("w", Tensor(Shape{3}, values.data())),
            "parameter \"w\" has shape (2), the new value has (3)");
  EXPECT_EQ(update("w", Tensor(Shape{1, 2}, values.data())),
            "parameter \"w\" has shape (2), the new value has (1, 2)");
  const std::vector<double> doubles = {1, 2};
  EXPECT_EQ(
      update("w", Tensor(Shape{2}, doubles.data()), ErrorCode::kTypeMismatch),
      "parameter \"w\" is float32, the new value is float64");
  EXPECT_EQ(update("w", Tensor(DataType::kFloat32, Shape{2}, nullptr)),
            "the new value of parameter \"w\" has no data");
  EXPECT_THAT(FloatValues(state.ParameterValue("w")),
              ElementsAre(0.87500393f, 1.87500203f));

  for (const auto& call : std::vector<std::function<void()>>{
           [&] { state.ParameterValue("v"); }, [&] { state.RequiresGrad("v"); },
           [&] { state.Gradient("v"); }}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, call),
                HasSubstr("no parameter \"v\""));
  }
}

TEST(Conformance, Line48_ParametersNeedNoSession) {
  const World world;
  CheckpointState state = world.Known();
  const Tensor value = state.ParameterValue("w");
  value.values<float>()[1] = -4;
  EXPECT_THAT(FloatValues(state.ParameterValue("w")),
              ElementsAre(0.87500393f, -4));
  EXPECT_FALSE(state.Gradient("w").has_value());
  EXPECT_FALSE(state.Gradient("f").has_value());
}

TEST(Conformance, Line52_NominalState) {
  const World world;
  CheckpointState state = CheckpointState::LoadFromBuffer(
      Build({.trainable = {{{.name = "w", .raw = Bytes()}}},
             .frozen = {{{.name = "f", .raw = Bytes()}}},
             .is_nominal = true}),
      world.environment);
  EXPECT_TRUE(state.is_nominal());
  EXPECT_THAT(state.ParameterNames(), ElementsAre("f", "w"));
  EXPECT_TRUE(state.HasParameter("w"));
  EXPECT_TRUE(state.RequiresGrad("w"));
  EXPECT_THAT(
      ErrorOf(ErrorCode::kFailedState, [&] { state.ParameterValue("w"); }),
      HasSubstr("Please load the parameter states first"));
  const float value = 1;
  EXPECT_THAT(
      ErrorOf(ErrorCode::kFailedState,
              [&] { state.UpdateParameter("w", Tensor(Shape{}, &value)); }),
      HasSubstr("Please load all the parameter states first"));
  // An unknown name is unknown, nominal or not.
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { state.ParameterValue("v"); }),
              HasSubstr("no parameter \"v\""));

  state.Save("saved");
  EXPECT_TRUE(CheckpointState::Load("saved", world.environment).is_nominal());
}

TEST(CheckpointState, MovesKeepMemoryInPlace) {
  const World world;
  CheckpointState state = world.Known();
  const void* const data = state.ParameterValue("w").data();
  CheckpointState moved = std::move(state);
  EXPECT_EQ(moved.ParameterValue("w").data(), data);
  CheckpointState assigned(world.environment);
  assigned = std::move(moved);
  EXPECT_EQ(assigned.ParameterValue("w").data(), data);
}

TEST(CheckpointState, ABufferMayStartAnywhere) {
  const World world;
  const Bytes known = KnownFile();
  for (size_t shift = 0; shift < 8; ++shift) {
    Bytes bytes(shift);
    bytes.insert(bytes.end(), known.begin(), known.end());
    const auto state = CheckpointState::LoadFromBuffer(
        std::span(bytes).subspan(shift), world.environment);
    EXPECT_THAT(FloatValues(state.ParameterValue("f")), ElementsAre(0.5f));
  }
}

TEST(CheckpointState, ZerosOfTheFileTakeNoMemory) {
  constexpr size_t kCount = 16 << 20;
  const World world;
  ParameterStore store(world.environment);
  const TensorBlock& block = store.groups["group0"].blocks.emplace_back(
      std::vector<TensorInfo>{{DataType::kFloat32, Shape{kCount}}});
  const auto saved = block.tensors()[0].values<float>();
  saved[0] = 1;
  saved[kCount / 2 + 7] = -0.f;
  saved[kCount - 1] = 3;
  store.groups["group0"].parameters["w"].emplace("momentum0",
                                                 block.tensors()[0]);
  const SerializedCheckpoint file =
      SerializeCheckpoint(store, /*include_optimizer_state=*/true);

  const auto before = ResidentBytes();
  const ParameterStore loaded =
      ParseCheckpoint(file.bytes, /*path=*/{}, world.environment);
  const auto after = ResidentBytes();

  const Tensor& moment =
      loaded.groups.at("group0").parameters.at("w").at("momentum0");
  EXPECT_EQ(std::memcmp(moment.data(), saved.data(), saved.size_bytes()), 0);
  if (!before) GTEST_SKIP() << "this system does not tell resident memory";
  EXPECT_LT(*after, *before + saved.size_bytes() / 4);
}

TEST(CheckpointState, LoadNamesTheFile) {
  const World world;
  EXPECT_THAT(
      ErrorOf(ErrorCode::kNoSuchFile,
              [&] { CheckpointState::Load("missing", world.environment); }),
      HasSubstr("missing"));
  world.files->CreateDirectories("folder");
  EXPECT_THAT(
      ErrorOf(ErrorCode::kIo,
              [&] { CheckpointState::Load("folder", world.environment); }),
      HasSubstr("folder"));
  const Bytes text(20, std::byte{'x'});
  world.files->Write({{{.path = "text", .parts = {text}}}});
  EXPECT_THAT(
      ErrorOf(ErrorCode::kInvalidFile,
              [&] { CheckpointState::Load("text", world.environment); }),
      HasSubstr("checkpoint \"text\": not a checkpoint"));
}

TEST(CheckpointState, AFailedSaveLeavesTheOldFile) {
  const World world;
  world.Known().Save("saved", /*include_optimizer_state=*/true);
  CheckpointState state = world.Known();
  state.SetProperty("epoch", int64_t{4});
  world.files->set_fail_writes(true);
  EXPECT_THAT(ErrorOf(ErrorCode::kIo, [&] { state.Save("saved"); }),
              HasSubstr("saved"));
  EXPECT_EQ(Hex(world.Read("saved")), Hex(KnownFile()));
}

}  // namespace
}  // namespace strop
