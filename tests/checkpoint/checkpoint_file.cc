// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/throw.h"
#include "checkpoint_generated.h"

namespace strop {
namespace {

constexpr std::string_view kKnownFile =
    "180000004f445443000000000c00140010000c00080004000c00000024000000"
    "0c000000800100000200000001000000a000000000000a0010000c0008000400"
    "0a0000000c000000100000001400000001000000140000000100000050000000"
    "0100000028000000ccfeffff080000000c000000020000006869000003000000"
    "7461670008001400100004000800000003000000000000000000000004000000"
    "0500000065706f636800000010ffffff0000803e040000000400000062657374"
    "000000000c00180014000800100004000c000000140000000100000000000000"
    "0000003e0c00000001000000100000000600000067726f757030000060ffffff"
    "080000001000000002000000500000000c00000001000000770000002effffff"
    "10000000010000001400000020000000080000000012833a0012833b01000000"
    "020000000000000000000000090000006d6f6d656e74756d310000006effffff"
    "1000000001000000140000002000000008000000d0cccc3dd0cc4c3e01000000"
    "020000000000000000000000090000006d6f6d656e74756d3000000008000c00"
    "0800040008000000080000000c000000010000000c0000000100000040000000"
    "d2ffffff10000000010000001000000018000000040000000000003f01000000"
    "01000000000000000100000066000e001400100000000c00080004000e000000"
    "1000000001000000140000001c000000080000004200603f1100f03f01000000"
    "02000000000000000100000077000000";

using Builder = flatbuffers::FlatBufferBuilder;

flatbuffers::Offset<flatbuffers::String> Text(
    Builder& builder, const std::optional<std::string>& text) {
  if (!text) return 0;
  return builder.CreateString(*text);
}

flatbuffers::Offset<fbs::Tensor> Add(Builder& builder,
                                     const FileTensor& tensor) {
  const auto name = Text(builder, tensor.name);
  flatbuffers::Offset<flatbuffers::Vector<int64_t>> dims;
  if (tensor.dims) dims = builder.CreateVector(*tensor.dims);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> raw;
  if (tensor.raw) {
    raw = builder.CreateVector(
        reinterpret_cast<const uint8_t*>(tensor.raw->data()),
        tensor.raw->size());
  }
  return fbs::CreateTensor(builder, name, 0, dims, tensor.type, raw, 0,
                           tensor.external_offset);
}

template <class T>
using ListOffset =
    flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<T>>>;

ListOffset<fbs::Tensor> Add(Builder& builder, const FileTensors& tensors) {
  if (!tensors) return 0;
  std::vector<flatbuffers::Offset<fbs::Tensor>> offsets;
  for (const FileTensor& tensor : *tensors) {
    offsets.push_back(Add(builder, tensor));
  }
  return builder.CreateVector(offsets);
}

flatbuffers::Offset<fbs::OptimizerGroup> Add(Builder& builder,
                                             const FileGroup& group) {
  const auto name = Text(builder, group.name);
  ListOffset<fbs::ParameterOptimizerState> states;
  if (group.states) {
    std::vector<flatbuffers::Offset<fbs::ParameterOptimizerState>> offsets;
    for (const FileMoments& moments : *group.states) {
      const auto parameter = Text(builder, moments.parameter);
      const auto tensors = Add(builder, moments.tensors);
      offsets.push_back(
          fbs::CreateParameterOptimizerState(builder, parameter, tensors));
    }
    states = builder.CreateVector(offsets);
  }
  return fbs::CreateOptimizerGroup(builder, name, group.step,
                                   group.initial_learning_rate, states);
}

flatbuffers::Offset<fbs::PropertyBag> Add(
    Builder& builder, const std::vector<FileProperty>& properties) {
  std::vector<flatbuffers::Offset<fbs::IntProperty>> ints;
  std::vector<flatbuffers::Offset<fbs::FloatProperty>> floats;
  std::vector<flatbuffers::Offset<fbs::StringProperty>> strings;
  for (const FileProperty& property : properties) {
    const auto name = Text(builder, property.name);
    if (!property.value) {
      strings.push_back(fbs::CreateStringProperty(builder, name, 0));
    } else if (const auto* i = std::get_if<int64_t>(&*property.value)) {
      ints.push_back(fbs::CreateIntProperty(builder, name, *i));
    } else if (const auto* f = std::get_if<float>(&*property.value)) {
      floats.push_back(fbs::CreateFloatProperty(builder, name, *f));
    } else {
      const auto text =
          builder.CreateString(std::get<std::string>(*property.value));
      strings.push_back(fbs::CreateStringProperty(builder, name, text));
    }
  }
  return fbs::CreatePropertyBagDirect(builder, &ints, &floats, &strings);
}

void ExpectSameTensor(const Tensor& actual, const Tensor& expected,
                      const std::string& what) {
  EXPECT_EQ(actual.type(), expected.type()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  ASSERT_EQ(actual.data() == nullptr, expected.data() == nullptr) << what;
  if (actual.data() == nullptr) return;
  EXPECT_TRUE(std::ranges::equal(actual.bytes(), expected.bytes())) << what;
}

}  // namespace

Bytes KnownFile() {
  Bytes bytes;
  for (size_t i = 0; i < kKnownFile.size(); i += 2) {
    const std::string digits(kKnownFile.substr(i, 2));
    bytes.push_back(static_cast<std::byte>(std::stoi(digits, nullptr, 16)));
  }
  return bytes;
}

std::vector<std::filesystem::path> GoldenFiles(std::string_view file) {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path root = STROP_TEST_DATA "/golden";
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (std::filesystem::exists(entry.path() / file)) {
      paths.push_back(entry.path() / file);
    }
  }
  std::ranges::sort(paths);
  return paths;
}

Bytes ReadFile(const std::filesystem::path& path) {
  const FileContents file = FileSystem::Default()->Open(path);
  return {file.bytes.begin(), file.bytes.end()};
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += fmt::format("{:02x}", static_cast<int>(byte));
  }
  return text;
}

Bytes Build(const CheckpointFile& file) {
  Builder builder;
  flatbuffers::Offset<fbs::ModuleState> module_state;
  if (file.has_module_state) {
    const auto trainable = Add(builder, file.trainable);
    const auto frozen = Add(builder, file.frozen);
    module_state = fbs::CreateModuleState(
        builder, trainable, frozen, file.is_nominal, file.has_external_data);
  }
  std::vector<flatbuffers::Offset<fbs::OptimizerGroup>> groups;
  for (const FileGroup& group : file.groups) {
    groups.push_back(Add(builder, group));
  }
  const auto group_list = builder.CreateVector(groups);
  const auto properties = Add(builder, file.properties);
  fbs::FinishCheckpointBuffer(
      builder, fbs::CreateCheckpoint(builder, file.version, module_state,
                                     group_list, properties));
  const auto bytes =
      std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {bytes.begin(), bytes.end()};
}

FileTensor Floats1D(std::string name, std::initializer_list<float> values) {
  return {.name = std::move(name),
          .dims = std::vector{static_cast<int64_t>(values.size())},
          .raw = BytesOf(values)};
}

std::vector<float> FloatValues(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

void ExpectSameContent(const ParameterStore& actual,
                       const ParameterStore& expected) {
  EXPECT_EQ(actual.is_nominal, expected.is_nominal);
  EXPECT_EQ(actual.has_external_data, expected.has_external_data);
  EXPECT_EQ(actual.properties, expected.properties);

  ASSERT_EQ(actual.parameters.size(), expected.parameters.size());
  for (size_t i = 0; i < actual.parameters.size(); ++i) {
    const Parameter& parameter = actual.parameters[i];
    EXPECT_EQ(parameter.name, expected.parameters[i].name);
    EXPECT_EQ(parameter.requires_grad, expected.parameters[i].requires_grad)
        << parameter.name;
    ExpectSameTensor(parameter.value, expected.parameters[i].value,
                     parameter.name);
  }

  ASSERT_EQ(actual.groups.size(), expected.groups.size());
  for (const auto& [name, group] : actual.groups) {
    ASSERT_TRUE(expected.groups.contains(name)) << name;
    const OptimizerGroup& other = expected.groups.find(name)->second;
    EXPECT_EQ(group.step, other.step);
    EXPECT_EQ(group.initial_learning_rate, other.initial_learning_rate);
    EXPECT_EQ(group.learning_rate, other.learning_rate);
    ASSERT_EQ(group.parameters.size(), other.parameters.size());
    for (const auto& [parameter, moments] : group.parameters) {
      ASSERT_TRUE(other.parameters.contains(parameter)) << parameter;
      const Moments& others = other.parameters.find(parameter)->second;
      ASSERT_EQ(moments.size(), others.size()) << parameter;
      for (const auto& [moment, tensor] : moments) {
        ASSERT_TRUE(others.contains(moment)) << parameter << moment;
        ExpectSameTensor(tensor, others.find(moment)->second,
                         parameter + "/" + moment);
      }
    }
  }
}

std::string DescribeError(ErrorCode wanted, const Error& error) {
  if (error.code() == wanted) return error.what();
  return "(another code, " + std::to_string(static_cast<int>(error.code())) +
         ") " + error.what();
}

}  // namespace strop
