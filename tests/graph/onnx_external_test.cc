// SPDX-License-Identifier: Apache-2.0
//
// Tensors whose data lie in files beside the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "graph/onnx_io.h"
#include "graph/proto.h"

namespace strop {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;

const std::vector<float> kNumbers = {1, 2, 3, 4};

class OnnxExternal : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("strop_" + std::to_string(::getpid()) + test->name());
    fs::create_directories(folder_ / "models");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path model_path() const { return folder_ / "models" / "m.onnx"; }

  static void WriteFile(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // Writes a model with one tensor of four floats that says so.
  void WriteModel(const std::vector<std::pair<std::string, std::string>>& say) {
    Proto tensor = Proto()
                       .Int(num::kDims, 4)
                       .Int(num::kType, 1)
                       .Bytes(num::kTensorName, "w")
                       .Bytes(num::kTensorDoc, "about w")
                       .Int(num::kLocation, 1);
    for (const auto& [key, value] : say) {
      tensor.Message(num::kExternal, Proto().Bytes(1, key).Bytes(2, value));
    }
    WriteFile(model_path(),
              ModelProto(Proto().Message(num::kInitializer, tensor)).text());
  }

  Model Read() { return ReadOnnx(model_path(), *files_); }

  std::vector<float> ReadNumbers() {
    const Model model = Read();
    const Tensor tensor =
        model.graph.value(model.graph.Find("w")).initializer->view();
    const std::span<float> values = tensor.values<float>();
    return {values.begin(), values.end()};
  }

  std::string ErrorText(ErrorCode code = ErrorCode::kInvalidFile) {
    try {
      Read();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
    return "no error";
  }

  fs::path folder_;
  std::shared_ptr<FileSystem> files_ = FileSystem::Default();
};

TEST_F(OnnxExternal, IsReadFromItsOffset) {
  for (const int offset : {0, 4, 7}) {  // 7 is not aligned
    WriteFile(folder_ / "models" / "w.bin",
              std::string(offset, '.') + Proto::AsText(kNumbers) + "tail");
    WriteModel({{"location", "w.bin"},
                {"offset", std::to_string(offset)},
                {"length", "16"},
                {"checksum", "anything"}});
    EXPECT_EQ(ReadNumbers(), kNumbers);
    WriteModel({{"location", "w.bin"}, {"offset", std::to_string(offset)}});
    EXPECT_EQ(ReadNumbers(), kNumbers);
  }
}

TEST_F(OnnxExternal, MayLieInAFolderBelow) {
  fs::create_directories(folder_ / "models" / "deep");
  WriteFile(folder_ / "models" / "deep" / "w.bin", Proto::AsText(kNumbers));
  WriteModel({{"location", "deep/w.bin"}});
  EXPECT_EQ(ReadNumbers(), kNumbers);
}

TEST_F(OnnxExternal, MayNotLeaveTheFolder) {
  const std::string secret = Proto::AsText(kNumbers);
  WriteFile(folder_ / "secret.bin", secret);
  WriteFile(folder_ / "models" / "w.bin", secret);
  fs::create_symlink(folder_ / "secret.bin", folder_ / "models" / "link.bin");
  fs::create_directory_symlink(folder_, folder_ / "models" / "up");
  for (const std::string& location :
       {std::string("../secret.bin"), (folder_ / "secret.bin").string(),
        std::string("deep/../../secret.bin"), std::string("link.bin"),
        std::string("up/secret.bin"), std::string(""),
        std::string("..\\secret.bin"), std::string("w.bin\0x", 7)}) {
    WriteModel({{"location", location}});
    EXPECT_THAT(ErrorText(), HasSubstr("inside the model's folder"))
        << location;
  }
  // A link that stays inside is followed.
  fs::create_symlink("w.bin", folder_ / "models" / "inside.bin");
  WriteModel({{"location", "inside.bin"}});
  EXPECT_EQ(ReadNumbers(), kNumbers);
}

TEST_F(OnnxExternal, MustHoldWhatTheTensorAsks) {
  WriteFile(folder_ / "models" / "w.bin", Proto::AsText(kNumbers));
  const std::vector<std::vector<std::pair<std::string, std::string>>> bad = {
      {{"location", "w.bin"}, {"offset", "4"}},
      {{"location", "w.bin"}, {"offset", "17"}},
      {{"location", "w.bin"}, {"offset", "18446744073709551615"}},
      {{"location", "w.bin"}, {"offset", "99999999999999999999"}},
      {{"location", "w.bin"}, {"offset", "-4"}},
      {{"location", "w.bin"}, {"offset", "0x1"}},
      {{"location", "w.bin"}, {"offset", ""}},
      {{"location", "w.bin"}, {"length", "12"}},
      {{"location", "w.bin"}, {"length", "20"}},
      {{"location", "w.bin"}, {"length", "18446744073709551615"}}};
  for (const auto& say : bad) {
    WriteModel(say);
    EXPECT_THAT(ErrorText(), HasSubstr("tensor \"w\"")) << say[1].second;
  }
  WriteModel({{"location", "missing.bin"}});
  EXPECT_THAT(ErrorText(ErrorCode::kNoSuchFile), HasSubstr("missing.bin"));
}

TEST_F(OnnxExternal, ComesBackInsideTheModel) {
  WriteFile(folder_ / "models" / "w.bin", Proto::AsText(kNumbers));
  WriteModel({{"location", "w.bin"}});
  const std::string written = EncodeOnnx(Read());
  EXPECT_EQ(written.find("w.bin"), std::string::npos);
  EXPECT_NE(written.find("about w"), std::string::npos);
  fs::remove(folder_ / "models" / "w.bin");
  WriteFile(model_path(), written);
  EXPECT_EQ(ReadNumbers(), kNumbers);
}

TEST_F(OnnxExternal, IsWrittenWhenAskedFor) {
  WriteFile(folder_ / "models" / "w.bin", Proto::AsText(kNumbers));
  WriteModel({{"location", "w.bin"}});
  Model model = Read();
  int64_t small[] = {7};
  model.graph.AddInitializer(
      TensorData::Copy("small", Tensor(Shape{1}, small)));
  float big[] = {1, 2, 3, 4, 5};
  model.graph.AddInitializer(TensorData::Copy("big", Tensor(Shape{5}, big)));
  OnnxWriteOptions options;
  options.force_external = true;
  options.external_threshold = 16;
  const fs::path path = folder_ / "models" / "written.onnx";
  WriteOnnx(model, path, *files_, options);
  // 16 bytes, padded to 64, then 20.
  EXPECT_EQ(fs::file_size(path.string() + ".data"), 84u);
  fs::remove(folder_ / "models" / "w.bin");
  const Model again = ReadOnnx(path, *files_);
  auto tensor = [&](const char* name) {
    return again.graph.value(again.graph.Find(name)).initializer->view();
  };
  EXPECT_EQ(tensor("w").values<float>()[3], 4);
  EXPECT_EQ(tensor("small").values<int64_t>()[0], 7);
  EXPECT_EQ(tensor("big").values<float>()[4], 5);
  // Reading and writing over the same files is safe.
  WriteOnnx(again, path, *files_, options);
  EXPECT_EQ(ReadOnnx(path, *files_).graph.initializers().size(), 3u);
}

// Keeps the sizes of what it is given.
class CountingFiles : public FileSystem {
 public:
  bool Exists(const fs::path&) override { return false; }
  bool IsDirectory(const fs::path&) override { return false; }
  FileContents Open(const fs::path&) override { return {}; }
  void CreateDirectories(const fs::path&) override {}
  void Write(std::span<const FileToWrite> files) override {
    ++calls;
    for (const FileToWrite& file : files) {
      uint64_t size = 0;
      for (const auto& part : file.parts) size += part.size();
      sizes[file.path.string()] = size;
    }
  }
  int calls = 0;
  std::map<std::string, uint64_t> sizes;
};

TEST(OnnxLarge, ModelsPast2GigabytesAreSplit) {
  constexpr uint64_t kBytes = uint64_t{5} << 28;  // 1.25 GB, never touched
  const std::shared_ptr<void> memory(std::calloc(kBytes, 1), std::free);
  if (memory == nullptr) GTEST_SKIP() << "no memory";
  Model model;
  model.ir_version = 8;
  for (const char* name : {"a", "b"}) {
    TensorData tensor;
    tensor.name = name;
    tensor.type = DataType::kUint8;
    tensor.dims = {static_cast<int64_t>(kBytes)};
    tensor.bytes = {static_cast<const std::byte*>(memory.get()), kBytes};
    tensor.owner = memory;
    model.graph.AddInitializer(tensor);
  }
  CountingFiles files;
  WriteOnnx(model, "folder/m.onnx", files);
  EXPECT_EQ(files.calls, 1);  // both or none
  EXPECT_EQ(files.sizes["folder/m.onnx.data"], 2 * kBytes);
  EXPECT_LT(files.sizes["folder/m.onnx"], 1000u);
  EXPECT_THROW(EncodeOnnx(model), Error);
  // Tensors of attributes cannot go outside.
  Node node;
  node.op_type = "Constant";
  for (const char* name : {"value", "more"}) {
    node.SetAttribute(
        name, *model.graph.value(model.graph.initializers()[0]).initializer);
  }
  model.graph.AddNode(std::move(node));
  EXPECT_THROW(WriteOnnx(model, "folder/m.onnx", files), Error);
}

}  // namespace
}  // namespace strop
