// SPDX-License-Identifier: Apache-2.0
//
// Files that no writer would write: one clear error each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/checkpoint_file.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint_generated.h"

namespace strop {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::SizeIs;

const Environment& TestEnvironment() {
  static const Environment environment;
  return environment;
}

std::string ParseError(std::span<const std::byte> bytes) {
  return ErrorOf(ErrorCode::kInvalidFile, [&] {
    ParseCheckpoint(bytes, /*path=*/{}, TestEnvironment());
  });
}

std::string ParseError(const CheckpointFile& file) {
  return ParseError(Build(file));
}

TEST(Conformance, Line03_BadIdentifierTruncatedEmpty) {
  EXPECT_THAT(ParseError(std::span<const std::byte>()),
              HasSubstr("checkpoint in memory: not a checkpoint: 0 bytes"));
  Bytes bytes = KnownFile();
  bytes[5] = std::byte{'X'};
  EXPECT_THAT(ParseError(bytes), HasSubstr("not a checkpoint"));
  bytes = KnownFile();
  bytes.resize(556);
  EXPECT_THAT(ParseError(bytes),
              HasSubstr("verification failed: its 556 bytes are damaged"));
}

TEST(CheckpointBadInput, TruncatedAtEveryLength) {
  std::vector<Bytes> files = {KnownFile()};
  for (const auto& path : GoldenFiles("nominal_checkpoint")) {
    files.push_back(ReadFile(path));
  }
  const auto after = GoldenFiles("checkpoint_after");
  files.push_back(ReadFile(*std::ranges::find_if(after, [](const auto& path) {
    return path.parent_path().filename() == "nominal";
  })));
  ASSERT_THAT(files, SizeIs(3));
  for (const Bytes& file : files) {
    for (size_t size = 0; size < file.size(); ++size) {
      // A block of exactly this size, so that a sanitizer sees each byte
      // behind it.
      const Bytes bytes(file.begin(), file.begin() + size);
      EXPECT_THAT(ParseError(bytes), AnyOf(HasSubstr("not a checkpoint"),
                                           HasSubstr("verification failed")))
          << size << " of " << file.size();
    }
  }
}

TEST(CheckpointBadInput, Dimensions) {
  constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> wrong[] = {{-1},
                                        {kLarge},
                                        {kLarge, 2},
                                        {1 << 30, 1 << 30, 1 << 30},
                                        {std::numeric_limits<int64_t>::min()},
                                        {0, -1},
                                        std::vector<int64_t>(13, 1),
                                        std::vector<int64_t>(1000, 0),
                                        {(int64_t{1} << 62) - 1},
                                        {int64_t{1} << 61}};
  for (const bool is_nominal : {false, true}) {
    for (const auto& dims : wrong) {
      const CheckpointFile file = {
          .trainable = {{{.dims = dims, .raw = Bytes(4)}}},
          .is_nominal = is_nominal};
      EXPECT_THAT(ParseError(file), HasSubstr("tensor \"w\""))
          << testing::PrintToString(dims);
    }
  }
}

TEST(CheckpointBadInput, Groups) {
  EXPECT_THAT(ParseError({.groups = {{.name = {}}}}),
              HasSubstr("an optimizer group has no name"));
  EXPECT_THAT(ParseError({.groups = {{.states = {}}}}),
              HasSubstr("optimizer group \"group0\" has no list of states"));
  EXPECT_THAT(ParseError({.groups = {{}, {.name = "a"}, {}}}),
              HasSubstr("optimizer group \"group0\" is there twice"));
  EXPECT_THAT(ParseError({.groups = {{.states = {{{.parameter = {}}}}}}}),
              HasSubstr("a state of optimizer group \"group0\" has no "
                        "parameter name"));
  EXPECT_THAT(ParseError({.groups = {{.states = {{{.tensors = {}}}}}}}),
              HasSubstr("parameter \"w\" in optimizer group \"group0\" has no "
                        "moments"));
}

TEST(CheckpointBadInput, Properties) {
  EXPECT_THAT(ParseError({.properties = {{.name = {}, .value = 1.0f}}}),
              HasSubstr("a property has no name"));
  EXPECT_THAT(ParseError({.properties = {{.name = {}, .value = int64_t{1}}}}),
              HasSubstr("a property has no name"));
  EXPECT_THAT(ParseError({.properties = {{.name = "tag", .value = {}}}}),
              HasSubstr("property \"tag\" has no value"));
}

TEST(CheckpointBadInput, LongNamesAreCut) {
  const std::string error = ParseError(
      {.trainable = {{{.name = std::string(100000, 'n'), .raw = {}}}}});
  EXPECT_THAT(error, AllOf(HasSubstr("nnn...\" has no data"),
                           testing::Not(HasSubstr(std::string(101, 'n')))));
}

// Many tables that point to the same bytes: a small file that would need much
// memory.
TEST(CheckpointBadInput, TensorsMayNotShareBytes) {
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<uint8_t> data(1 << 16);
  const auto raw = builder.CreateVector(data);
  const auto dims = builder.CreateVector(std::vector<int64_t>{1 << 14});
  std::vector<flatbuffers::Offset<fbs::Tensor>> tensors;
  for (int i = 0; i < 10000; ++i) {
    const auto name = builder.CreateString(std::to_string(i));
    tensors.push_back(fbs::CreateTensor(builder, name, 0, dims, 1, raw));
  }
  const auto trainable = builder.CreateVector(tensors);
  const auto frozen =
      builder.CreateVector(std::vector<flatbuffers::Offset<fbs::Tensor>>());
  const auto state = fbs::CreateModuleState(builder, trainable, frozen);
  fbs::FinishCheckpointBuffer(builder,
                              fbs::CreateCheckpoint(builder, 2, state));
  EXPECT_THAT(ParseError(std::as_bytes(
                  std::span(builder.GetBufferPointer(), builder.GetSize()))),
              HasSubstr("shares its bytes with something else"));
}

}  // namespace
}  // namespace strop
