// SPDX-License-Identifier: Apache-2.0
//
// ONNX's own test cases (Debian package libonnx-testdata): every model made
// of ops that we have must give the values that stand beside it.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "graph/onnx_io.h"
#include "ops/graph_runner.h"
#include "ops/op_runner.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

// Cases that are about what we leave out or do otherwise on purpose.
const std::map<std::string, std::string> kLeftOut = {
    {"test_training_dropout", "other random numbers"},
    {"test_training_dropout_default", "other random numbers"},
    {"test_training_dropout_default_mask", "other random numbers"},
    {"test_training_dropout_mask", "other random numbers"},
};

void AppendField(std::string& to, int number, std::string_view bytes) {
  to.push_back(static_cast<char>(number << 3 | 2));
  for (size_t size = bytes.size();;) {
    const char low = static_cast<char>(size & 0x7f);
    size >>= 7;
    to.push_back(size == 0 ? low : static_cast<char>(low | 0x80));
    if (size == 0) break;
  }
  to.append(bytes);
}

// The files hold bare TensorProtos: one is read as the value of a Constant.
OwnedTensor ReadTensor(const fs::path& path) {
  const FileContents file = FileSystem::Default()->Open(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes.data()),
                               file.bytes.size());
  std::string attribute, node, graph, model;
  AppendField(attribute, 1, "value");
  AppendField(attribute, 5, bytes);
  attribute += std::string("\xa0\x01\x04", 3);  // type = TENSOR
  AppendField(node, 2, "y");
  AppendField(node, 4, "Constant");
  AppendField(node, 5, attribute);
  AppendField(graph, 1, node);
  AppendField(model, 7, graph);
  const Model read = ReadOnnx(std::as_bytes(std::span(model)));
  const Node& constant = read.graph.node(read.graph.order()[0]);
  const auto* data =
      std::get_if<TensorData>(&constant.FindAttribute("value")->value);
  return OwnedTensor(data->view());
}

// ONNX itself allows a relative difference of 1e-3. Its window functions need
// that: they are built with a pi of six digits.
double ToleranceOf(const std::string& name) {
  return name.find("window") != std::string::npos ? 1e-3 : 1e-5;
}

void ExpectSame(const Tensor& actual, const Tensor& expected,
                const std::string& name) {
  EXPECT_EQ(actual.type(), expected.type()) << name;
  EXPECT_EQ(actual.shape().ToString(), expected.shape().ToString()) << name;
  if (actual.type() == expected.type() && actual.shape() == expected.shape()) {
    ExpectNear(ToNumbers(actual), ToNumbers(expected), ToleranceOf(name), name);
  }
}

// Runs one data set; returns whether we have all it needs.
bool RunDataSet(const Graph& graph, const fs::path& folder,
                const std::string& what) {
  NamedTensors inputs;
  size_t index = 0;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    if (value.type.kind != ValueType::Kind::kTensor) return false;
    const fs::path file = folder / ("input_" + std::to_string(index++) + ".pb");
    if (!fs::exists(file)) return false;
    OwnedTensor tensor = ReadTensor(file);
    // The data sets of bfloat16 hold uint16.
    if (tensor.type() != value.type.element) return false;
    inputs.emplace(value.name, std::move(tensor));
  }
  const NamedTensors outputs = RunGraph(graph, inputs);
  index = 0;
  for (const ValueId id : graph.outputs()) {
    const fs::path file =
        folder / ("output_" + std::to_string(index++) + ".pb");
    const OwnedTensor expected = ReadTensor(file);
    if (graph.value(id).type.element != expected.type()) return false;
    ExpectSame(outputs.at(graph.value(id).name).view(), expected,
               what + " output " + std::to_string(index - 1));
  }
  return true;
}

TEST(OnnxNodeTests, GiveTheirValues) {
  const fs::path root = STROP_ONNX_TESTDATA;
  if (!fs::exists(root)) GTEST_SKIP() << root << " is not installed";
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) {
    folders.insert(entry.path());
  }
  int ran = 0, skipped = 0;
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename();
    if (kLeftOut.count(name)) continue;
    SCOPED_TRACE(name);
    try {
      const Model model =
          ReadOnnx(folder / "model.onnx", *FileSystem::Default());
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (!entry.is_directory()) continue;
        (RunDataSet(model.graph, entry.path(), name) ? ran : skipped) += 1;
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotImplemented) {
        ADD_FAILURE() << error.what();
      }
      ++skipped;
    }
  }
  std::cout << ran << " data sets ran, " << skipped
            << " need what we do not have\n";
  EXPECT_GT(ran, 600);
}

}  // namespace
}  // namespace strop
