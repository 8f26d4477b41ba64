// SPDX-License-Identifier: Apache-2.0
#include "ops/onnx_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "graph/onnx_io.h"
#include "ops/op_runner.h"
#include "training/inference.h"

namespace strop {
namespace {

namespace fs = std::filesystem;

// --- What is left out

// Why a tensor of this type is left out; "" where it is not.
std::string LeftOut(DataType type) {
  if (DispatchType(AllTypes{}, type, []<class T>() {})) return "";
  switch (type) {
    case DataType::kUndefined:
      return "";
    case DataType::kString:
      return "strings";
    case DataType::kComplex64:
    case DataType::kComplex128:
      return "complex numbers";
    case DataType::kFloat8E4M3FN:
    case DataType::kFloat8E4M3FNUZ:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2FNUZ:
    case DataType::kFloat8E8M0:
      return "float8";
    default:
      return "types of 4 bits and less";
  }
}

std::string LeftOut(const ValueType& type) {
  if (type.kind == ValueType::Kind::kTensorList ||
      type.kind == ValueType::Kind::kOther) {
    return "sequences and optionals";
  }
  return LeftOut(type.element);
}

std::string LeftOut(const Graph& graph);

std::string LeftOut(const Attribute& attribute) {
  if (const auto* tensor = std::get_if<TensorData>(&attribute.value)) {
    return LeftOut(tensor->type);
  }
  using GraphPointer = std::shared_ptr<const Graph>;
  if (const auto* graph = std::get_if<GraphPointer>(&attribute.value)) {
    return LeftOut(**graph);
  }
  return "";
}

std::string LeftOut(const Node& node) {
  static const std::set<std::string, std::less<>> kDomains = {
      "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"};
  if (kDomains.count(node.domain)) return "domain " + node.domain;
  const std::string& op = node.op_type;
  if (op.find("Sequence") != std::string::npos ||
      op.find("Optional") != std::string::npos) {
    return "sequences and optionals";
  }
  if (op == "ImageDecoder") return "images";
  for (const Attribute& attribute : node.attributes) {
    if (std::string why = LeftOut(attribute); !why.empty()) return why;
  }
  return "";
}

std::string LeftOut(const Graph& graph) {
  for (int32_t i = 0; i < static_cast<int32_t>(graph.value_count()); ++i) {
    const Value& value = graph.value(ValueId{i});
    std::string why = LeftOut(value.type);
    if (why.empty() && value.initializer) {
      why = LeftOut(value.initializer->type);
    }
    if (!why.empty()) return why;
  }
  for (const NodeId id : graph.order()) {
    if (std::string why = LeftOut(graph.node(id)); !why.empty()) return why;
  }
  return "";
}

// --- Reading

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

// A data set's tensor for a value of `type`. Older data sets hold bfloat16
// as uint16.
OwnedTensor ReadTensor(const fs::path& path, DataType type) {
  OwnedTensor tensor = ReadTensor(path);
  if (type != DataType::kBfloat16 || tensor.type() != DataType::kUint16) {
    return tensor;
  }
  return OwnedTensor(Tensor(type, tensor.shape(), tensor.view().data()));
}

// --- Comparing

// Cases whose numbers are drawn: only types and shapes are compared.
bool IsRandom(const std::string& name) {
  static const std::set<std::string> kNames = {
      "test_bernoulli",
      "test_bernoulli_double",
      "test_bernoulli_double_expanded",
      "test_bernoulli_expanded",
      "test_bernoulli_seed",
      "test_bernoulli_seed_expanded",
      "test_training_dropout",
      "test_training_dropout_default",
      "test_training_dropout_default_mask",
      "test_training_dropout_mask"};
  return kNames.count(name) > 0;
}

// Largest difference over the largest expected magnitude. ONNX itself allows
// 1e-3 of each element.
double ToleranceOf(const std::string& name, DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 1.0 / 1024;  // two roundings to 11 bits
    case DataType::kBfloat16:
      return 1.0 / 128;  // two roundings to 8 bits
    case DataType::kFloat32:
    case DataType::kFloat64:
      // Its window functions are built with a pi of six digits, and its
      // regions of interest are written down with four.
      if (name.find("window") != std::string::npos) return 1e-3;
      return name.find("roialign") != std::string::npos ? 1e-4 : 1e-5;
    default:
      return 0;
  }
}

// The first element that differs; "" if none does.
std::string Difference(const Numbers64& actual, const Numbers64& expected,
                       double tolerance) {
  double largest = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const double a = actual[i], e = expected[i];
    const bool same = std::isnan(e)   ? std::isnan(a)
                      : std::isinf(e) ? a == e
                                      : std::abs(a - e) <= tolerance * largest;
    if (!same) return fmt::format("element {} is {} instead of {}", i, a, e);
  }
  return "";
}

CaseResult Failed(std::string reason, std::string details) {
  return {CaseResult::Kind::kFailed, std::move(reason), std::move(details)};
}

CaseResult Compare(const Tensor& actual, const Tensor& expected,
                   const std::string& name, const std::string& output) {
  if (actual.type() != expected.type()) {
    return Failed("types differ", fmt::format("{} is {} instead of {}", output,
                                              DataTypeName(actual.type()),
                                              DataTypeName(expected.type())));
  }
  if (actual.shape() != expected.shape()) {
    return Failed(
        "shapes differ",
        fmt::format("{} has shape {} instead of {}", output,
                    actual.shape().ToString(), expected.shape().ToString()));
  }
  if (IsRandom(name)) return {};
  const std::string difference = Difference(
      ToNumbers(actual), ToNumbers(expected), ToleranceOf(name, actual.type()));
  if (difference.empty()) return {};
  return Failed("values differ", output + ": " + difference);
}

// --- Running

CaseResult RunDataSet(Inference& inference, const fs::path& folder,
                      const std::string& name) {
  std::vector<OwnedTensor> inputs, outputs;
  std::vector<Tensor> views;
  for (size_t i = 0; i < inference.inputs().size(); ++i) {
    inputs.push_back(ReadTensor(folder / fmt::format("input_{}.pb", i),
                                inference.inputs()[i].type));
  }
  for (const OwnedTensor& input : inputs) views.push_back(input.view());
  inference.Run(views, &outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OwnedTensor expected =
        ReadTensor(folder / fmt::format("output_{}.pb", i), outputs[i].type());
    CaseResult result = Compare(outputs[i].view(), expected.view(), name,
                                inference.output_names()[i]);
    if (result.kind != CaseResult::Kind::kPassed) return result;
  }
  return {};
}

// "no op Foo" of "... uses ops that Strop does not have: [Foo ..." and a few
// words for other errors.
std::string ReasonOf(const Error& error) {
  const std::string text = error.what();
  const std::string missing = "does not have: [";
  const size_t at = text.find(missing);
  if (at == std::string::npos) return "error";
  const size_t begin = at + missing.size();
  return "no op " + text.substr(begin, text.find_first_of(" ]", begin) - begin);
}

}  // namespace

CaseResult RunOnnxCase(
    const fs::path& folder, const Environment& environment,
    const std::vector<std::shared_ptr<ExecutionProvider>>& providers) {
  const std::string name = folder.filename();
  const fs::path file = folder / "model.onnx";
  try {
    const Model model =
        ReadOnnx(file, environment.files(), {.normalize = false});
    if (std::string why = LeftOut(model.graph); !why.empty()) {
      return {CaseResult::Kind::kLeftOut, std::move(why)};
    }
    Inference inference(file, {}, environment, providers);
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      CaseResult result = RunDataSet(inference, entry.path(), name);
      if (result.kind != CaseResult::Kind::kPassed) return result;
    }
  } catch (const Error& error) {
    return Failed(ReasonOf(error), error.what());
  }
  return {};
}

}  // namespace strop
