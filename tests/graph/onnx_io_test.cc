// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/print.h"
#include "graph/proto.h"

namespace strop {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model Read(const Proto& model, const OnnxReadOptions& options = {}) {
  return ReadOnnx(model.bytes(), options);
}

Model ReadText(const std::string& text, const OnnxReadOptions& options = {}) {
  return ReadOnnx(std::as_bytes(std::span(text)), options);
}

Error ErrorOf(const Proto& model) {
  try {
    Read(model);
  } catch (const Error& e) {
    return e;
  }
  return {ErrorCode::kInternal, "no error"};
}

// x -> Relu -> y
Proto ReluGraph() {
  return Proto()
      .Message(num::kGraphInput, ValueInfoProto("x", 1, {2, 3}))
      .Message(num::kGraphNode, NodeProto("Relu", {"x"}, {"y"}))
      .Message(num::kGraphOutput, ValueInfoProto("y", 1, {2, 3}));
}

Proto Floats(std::string_view name, const std::vector<float>& values) {
  return Proto()
      .Int(num::kDims, static_cast<int64_t>(values.size()))
      .Int(num::kType, 1)
      .PackedFixed(num::kFloatData, values)
      .Bytes(num::kTensorName, name);
}

TEST(OnnxIo, ReadsAGraph) {
  const Model model = Read(ModelProto(ReluGraph()));
  EXPECT_EQ(model.ir_version, 8);
  EXPECT_EQ(model.graph.opset(kOnnx), 17);
  EXPECT_EQ(model.graph.opset("other"), 0);
  EXPECT_EQ(Print(model.graph), "(x: float32[2, 3]) {\n  y = Relu(x)\n} (y)\n");
}

TEST(OnnxIo, AModelNeedsNoOpsetAndNoNodes) {
  const Model model =
      Read(Proto().Int(num::kIrVersion, 8).Bytes(num::kModelGraph, ""));
  EXPECT_EQ(Print(model.graph), "() {\n} ()\n");
  EXPECT_EQ(model.graph.opset(kOnnx), 0);
  EXPECT_EQ(Print(ReadText(EncodeOnnx(model)).graph), "() {\n} ()\n");
}

TEST(OnnxIo, TheDefaultDomainHasTwoNames) {
  const Proto named =
      NodeProto("Relu", {"x"}, {"y"}).Bytes(num::kNodeDomain, "ai.onnx");
  const Proto graph = Proto()
                          .Message(num::kGraphInput, ValueInfoProto("x", 1, {}))
                          .Message(num::kGraphNode, named);
  const Proto file =
      Proto()
          .Int(num::kIrVersion, 8)
          .Message(num::kModelGraph, graph)
          .Message(num::kOpsetImport, Proto().Bytes(1, "ai.onnx").Int(2, 15));
  const Model model = Read(file);
  EXPECT_EQ(model.graph.opset(kOnnx), 15);
  EXPECT_EQ(model.graph.node(model.graph.order()[0]).domain, "");
  const std::string written = EncodeOnnx(model);
  EXPECT_EQ(written.size(), file.text().size());
  EXPECT_NE(written.find("ai.onnx"), written.rfind("ai.onnx"));
}

TEST(OnnxIo, TypesOfValues) {
  const Proto unnamed = Proto().Int(1, 1).Message(
      2, Proto().Message(1, Proto()).Message(1, Proto().Bytes(2, "n")));
  const Proto list = Proto().Message(
      4, Proto().Message(1, Proto().Message(1, unnamed)));  // sequence
  const Proto map = Proto().Message(5, Proto().Int(1, 7));
  auto input = [](std::string_view name, const Proto& type) {
    return Proto().Bytes(1, name).Message(2, type);
  };
  const Proto graph =
      Proto()
          .Message(num::kGraphInput, input("a", Proto().Message(1, unnamed)))
          .Message(num::kGraphInput, input("b", list))
          .Message(num::kGraphInput, input("c", map))
          .Message(num::kGraphInput,
                   input("d", Proto().Message(1, Proto().Int(1, 7))))
          .Message(num::kGraphInput, Proto().Bytes(1, "e"));
  const Model model = Read(ModelProto(graph));
  using Kind = ValueType::Kind;
  auto type = [&](const char* name) -> const ValueType& {
    return model.graph.value(model.graph.Find(name)).type;
  };
  EXPECT_EQ(type("a").kind, Kind::kTensor);
  ASSERT_EQ(type("a").dims->size(), 2u);
  EXPECT_FALSE((*type("a").dims)[0].value);
  EXPECT_EQ((*type("a").dims)[0].symbol, "");
  EXPECT_EQ((*type("a").dims)[1].symbol, "n");
  EXPECT_EQ(type("b").kind, Kind::kTensorList);
  EXPECT_EQ(type("b").element, DataType::kFloat32);
  EXPECT_EQ(type("b").dims->size(), 2u);
  EXPECT_EQ(type("c").kind, Kind::kOther);
  EXPECT_EQ(type("d").element, DataType::kInt64);
  EXPECT_FALSE(type("d").dims);
  EXPECT_EQ(type("e").kind, Kind::kUnknown);
}

TEST(OnnxIo, TypesMadeHereCanBeRead) {
  Model model;
  model.ir_version = 8;
  Dimension three, symbol;
  three.value = 3;
  symbol.symbol = "n";
  ValueType type =
      ValueType::OfTensor(DataType::kFloat16, {{three, symbol, Dimension{}}});
  model.graph.AddInput("x", type);
  type.kind = ValueType::Kind::kTensorList;
  model.graph.AddInput("list", type);
  model.graph.AddInput(
      "scalar", ValueType::OfTensor(DataType::kBool, std::vector<Dimension>()));
  model.graph.AddInput("any",
                       ValueType::OfTensor(DataType::kBool, std::nullopt));
  model.graph.opset_imports["com.microsoft"] = 1;
  const Model again = ReadText(EncodeOnnx(model));
  EXPECT_EQ(Print(again.graph), Print(model.graph));
  EXPECT_EQ(Print(again.graph),
            "(x: float16[3, n, ?], list: list(float16[3, n, ?]), "
            "scalar: bool[], any: bool[*]) {\n} ()\n");
  EXPECT_EQ(again.graph.opset("com.microsoft"), 1);
}

TEST(OnnxIo, InitializersMayBeInputs) {
  const Proto graph =
      Proto()
          .Message(num::kInitializer, Floats("w", {1, 2}))
          .Message(num::kGraphInput, ValueInfoProto("x", 1, {}))
          .Message(num::kGraphInput, ValueInfoProto("w", 1, {2}))
          .Message(num::kGraphNode, NodeProto("Add", {"x", "w"}, {"y"}))
          .Message(num::kGraphOutput, ValueInfoProto("y", 1, {2}));
  const Model model = Read(ModelProto(graph));
  const Value& w = model.graph.value(model.graph.Find("w"));
  EXPECT_TRUE(w.is_input);
  EXPECT_TRUE(w.initializer);
  EXPECT_EQ(model.graph.inputs().size(), 2u);
  EXPECT_EQ(EncodeOnnx(model).size(), ModelProto(graph).text().size());
}

TEST(OnnxIo, OldVersionsListInitializersAsInputs) {
  Model model = Read(ModelProto(ReluGraph()));
  model.ir_version = 3;
  float number = 1;
  model.graph.AddInitializer(TensorData::Copy("w", Tensor(Shape{1}, &number)));
  EXPECT_EQ(ReadText(EncodeOnnx(model)).graph.inputs().size(), 2u);
  model.ir_version = 4;
  EXPECT_EQ(ReadText(EncodeOnnx(model)).graph.inputs().size(), 1u);
}

TEST(OnnxIo, NewerVersionsAreTriedWithAWarning) {
  std::vector<std::string> lines;
  OnnxReadOptions options;
  options.log = [&](LogLevel, std::string_view line) {
    lines.emplace_back(line);
  };
  Proto file = Proto().Int(num::kIrVersion, 14).Bytes(num::kModelGraph, "");
  Read(file, options);
  EXPECT_TRUE(lines.empty());
  Read(file.Int(num::kIrVersion, 99), options);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("IR version 99")));
}

TEST(OnnxIo, WhatIsNotInterpretedIsCarried) {
  const Proto sparse = Proto().Message(1, Floats("sparse", {5})).Int(3, 100);
  const Proto node = NodeProto("Op", {"x", "sparse", ""}, {"y", ""},
                               {Proto()
                                    .Bytes(1, "future")
                                    .Int(20, 13)
                                    .Message(14, Proto().Int(9, 9)),
                                IntAttribute("i", 3).Bytes(13, "about i")})
                         .Bytes(6, "about the node")
                         .Bytes(777, "in a field of the future");
  const Proto graph =
      Proto()
          .Message(num::kGraphInput,
                   ValueInfoProto("x", 1, {}).Bytes(3, "about x"))
          .Message(num::kGraphNode, node)
          .Message(num::kSparse, sparse)
          .Message(num::kQuantization, Proto().Bytes(1, "x"))
          .Bytes(10, "about the graph")
          .Message(num::kValueInfo, ValueInfoProto("gone", 1, {}))
          .Message(num::kValueInfo, ValueInfoProto("y", 1, {4}));
  const Proto file = ModelProto(graph)
                         .Message(num::kMetadata, Proto().Bytes(1, "key"))
                         .Message(num::kTrainingInfo, Proto().Bytes(1, "t"))
                         .Bytes(999, "more of the future");
  const Model model = Read(file);
  EXPECT_TRUE(
      model.graph.value(model.graph.Find("sparse")).is_sparse_initializer);
  EXPECT_FALSE(model.graph.Find("gone"));
  const std::string written = EncodeOnnx(model);
  EXPECT_EQ(written.size(), file.text().size());
  for (const char* text :
       {"about the node", "in a field of the future", "about x",
        "about the graph", "about i", "gone", "key", "more of the future"}) {
    EXPECT_NE(written.find(text), std::string::npos) << text;
  }
  // Once more: now nothing may move.
  EXPECT_EQ(EncodeOnnx(ReadText(written)), written);
}

TEST(OnnxIo, AttributesOfAllKinds) {
  Proto list = Proto().Bytes(1, "ints").Int(20, 7);
  list.Int(8, -1).PackedVarints<int64_t>(8, {5, INT64_MIN});
  Proto floats = Proto().Bytes(1, "floats").Int(20, 6);
  floats.Float(7, 0.5f).PackedFixed<float>(7, {1, 2});
  const Proto node = NodeProto(
      "Op", {}, {"y"},
      {IntAttribute("i", -7), Proto().Bytes(1, "f").Float(2, 2.5f).Int(20, 1),
       Proto().Bytes(1, "s").Bytes(4, "text").Int(20, 3), list, floats,
       Proto().Bytes(1, "strings").Bytes(9, "a").Bytes(9, "b").Int(20, 8),
       Proto().Bytes(1, "t").Message(5, Floats("", {3})).Int(20, 4),
       Proto().Bytes(1, "untyped").Int(3, 1),
       Proto().Bytes(1, "empty").Int(20, 7)});
  const Model model = Read(ModelProto(Proto().Message(num::kGraphNode, node)));
  const std::string text =
      "() {\n  y = Op() {i = -7, f = 2.5, s = \"text\", ints = [-1, 5, "
      "-9223372036854775808], floats = [0.5, 1, 2], strings = [\"a\", "
      "\"b\"], t = float32[1] {3}, untyped = 1, empty = []}\n} ()\n";
  EXPECT_EQ(Print(model.graph), text);
  EXPECT_EQ(Print(ReadText(EncodeOnnx(model)).graph), text);
}

// If(c) with a branch that holds an If: both read names from outside.
Proto NestedGraph() {
  const Proto innermost =
      Proto()
          .Message(num::kGraphNode, NodeProto("Add", {"x", "a"}, {"b"}))
          .Message(num::kGraphOutput, Proto().Bytes(1, "b"));
  const Proto inner =
      Proto()
          .Message(num::kGraphNode, NodeProto("Neg", {"x"}, {"a"}))
          .Message(num::kGraphNode,
                   NodeProto("If", {"c"}, {"d"},
                             {GraphAttribute("then_branch", innermost)}))
          .Message(num::kGraphOutput, Proto().Bytes(1, "d"));
  return Proto()
      .Message(num::kGraphInput, ValueInfoProto("c", 9, {}))
      .Message(
          num::kGraphNode,
          NodeProto("If", {"c"}, {"y"}, {GraphAttribute("then_branch", inner)}))
      .Message(num::kGraphNode, NodeProto("Relu", {"c"}, {"x"}))
      .Message(num::kGraphOutput, ValueInfoProto("y", 1, {}));
}

TEST(OnnxIo, SubgraphsReadNamesFromOutside) {
  const Model model = Read(ModelProto(NestedGraph()));
  EXPECT_EQ(Print(model.graph),
            "(c: bool[]) {\n"
            "  x = Relu(c)\n"  // sorted before its reader
            "  y = If(c) {then_branch = () {\n"
            "    a = Neg(x)\n"
            "    d = If(c) {then_branch = () {\n"
            "      b = Add(x, a)\n"
            "    } (b)}\n"
            "  } (d)}\n"
            "} (y)\n");
  const auto consumers = model.graph.Consumers();
  EXPECT_EQ(consumers[model.graph.Find("x").index].size(), 2u);
  EXPECT_EQ(EncodeOnnx(ReadText(EncodeOnnx(model))), EncodeOnnx(model));
}

TEST(OnnxIo, ANameThatIsNowhereIsAnError) {
  const Proto inner =
      Proto()
          .Message(num::kGraphNode, NodeProto("Neg", {"nowhere"}, {"a"}))
          .Message(num::kGraphOutput, Proto().Bytes(1, "a"));
  const Proto graph =
      Proto()
          .Message(num::kGraphInput, ValueInfoProto("c", 9, {}))
          .Message(num::kGraphNode,
                   NodeProto("If", {"c"}, {"y"},
                             {GraphAttribute("then_branch", inner)}));
  const Error error = ErrorOf(ModelProto(graph));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidGraph);
  EXPECT_THAT(error.what(), HasSubstr("\"nowhere\""));
}

TEST(OnnxIo, GraphsThatAreNoneAreErrors) {
  auto relu = [](const char* in, const char* out) {
    return NodeProto("Relu", {in}, {out});
  };
  const Proto twice = ReluGraph().Message(num::kGraphNode, relu("x", "y"));
  EXPECT_THAT(ErrorOf(ModelProto(twice)).what(), HasSubstr("\"y\""));
  const Proto input =
      ReluGraph().Message(num::kGraphInput, ValueInfoProto("x", 1, {}));
  EXPECT_THAT(ErrorOf(ModelProto(input)).what(), HasSubstr("\"x\""));
  const Proto weights = ReluGraph()
                            .Message(num::kInitializer, Floats("w", {1}))
                            .Message(num::kInitializer, Floats("w", {2}));
  EXPECT_THAT(ErrorOf(ModelProto(weights)).what(), HasSubstr("\"w\""));
  const Proto made = ReluGraph().Message(num::kInitializer, Floats("y", {1}));
  EXPECT_THAT(ErrorOf(ModelProto(made)).what(), HasSubstr("\"y\""));
  const Proto cycle = Proto()
                          .Message(num::kGraphNode, relu("a", "b"))
                          .Message(num::kGraphNode, relu("b", "a"));
  EXPECT_THAT(ErrorOf(ModelProto(cycle)).what(), HasSubstr("cycle"));
  const Proto output =
      Proto().Message(num::kGraphOutput, ValueInfoProto("y", 1, {}));
  EXPECT_THAT(ErrorOf(ModelProto(output)).what(), HasSubstr("\"y\""));
  for (const Proto* bad : {&twice, &input, &weights, &made, &cycle, &output}) {
    EXPECT_EQ(ErrorOf(ModelProto(*bad)).code(), ErrorCode::kInvalidGraph);
  }
}

TEST(OnnxIo, FilesThatAreNoneAreErrors) {
  const Proto wrong_type = Proto().Int(num::kModelGraph, 3);
  const Proto no_graph = Proto().Int(num::kIrVersion, 8);
  const Proto two_graphs =
      ModelProto(ReluGraph()).Message(num::kModelGraph, ReluGraph());
  const Proto float_for_int = Proto().Float(num::kIrVersion, 8);
  for (const Proto& file :
       {Proto(), wrong_type, no_graph, two_graphs, float_for_int}) {
    EXPECT_EQ(ErrorOf(file).code(), ErrorCode::kInvalidFile)
        << ErrorOf(file).what();
  }
  EXPECT_THROW(ReadText("a text file, say"), Error);
  EXPECT_THROW(ReadText(std::string(11, '\xff')), Error);
}

TEST(OnnxIo, AnErrorSaysWhere) {
  const Proto node = NodeProto("Op", {}, {"y"}, {Proto().Int(1, 1)});
  EXPECT_THAT(
      ErrorOf(ModelProto(ReluGraph().Message(num::kGraphNode, node))).what(),
      HasSubstr("graph, node 1, attribute 0"));
}

TEST(OnnxIo, NestingHasALimit) {
  auto nested = [](int depth) {
    Proto graph;
    for (int i = 0; i < depth; ++i) {
      graph = Proto().Message(
          num::kGraphNode,
          NodeProto("If", {}, {}, {GraphAttribute("then_branch", graph)}));
    }
    return ModelProto(graph);
  };
  EXPECT_NO_THROW(Read(nested(60)));
  EXPECT_THAT(ErrorOf(nested(200)).what(), HasSubstr("nested more than"));
}

using OpsetMap = std::map<std::string, int64_t>;

OpsetMap Opsets(const Model& model) {
  OpsetMap opsets;
  for (const OpsetImport& import : model.opset_imports) {
    opsets[import.domain] = import.version;
  }
  return opsets;
}

TEST(OnnxIo, OpsetsFollowTheGraph) {
  Model model = Read(ModelProto(ReluGraph()));
  model.graph.opset_imports["com.microsoft"] = 1;
  model.graph.opset_imports[std::string(kOnnx)] = 18;
  model.graph.opset_imports[std::string(kInternal)] = 1;
  const Model again = ReadText(EncodeOnnx(model));
  EXPECT_EQ(Opsets(again), (OpsetMap{{"", 18}, {"com.microsoft", 1}}));
}

TEST(OnnxIo, AddedOpsetsAreWritten) {
  Model model = Read(ModelProto(ReluGraph()));
  const OpsetMap read = Opsets(model);
  EXPECT_EQ(Opsets(ReadText(EncodeOnnx(model))), read);
  model.opset_imports.push_back({"example", 3});
  model.graph.opset_imports["example"] = 3;
  OpsetMap wanted = read;
  wanted["example"] = 3;
  EXPECT_EQ(Opsets(ReadText(EncodeOnnx(model))), wanted);
}

TEST(OnnxIo, ReadsEveryGoldenModel) {
  namespace fs = std::filesystem;
  const std::shared_ptr<FileSystem> files = FileSystem::Default();
  int count = 0, lists = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(STROP_TEST_DATA "/golden")) {
    if (entry.path().extension() != ".onnx") continue;
    const Model model = ReadOnnx(entry.path(), *files);
    for (const ValueId id : model.graph.inputs()) {
      if (model.graph.value(id).type.kind == ValueType::Kind::kTensorList)
        ++lists;
    }
    EXPECT_FALSE(model.graph.order().empty()) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 100);
  EXPECT_GT(lists, 20);  // optimizer models take lists
}

TEST(OnnxIo, AMissingFileIsNotFound) {
  const std::shared_ptr<FileSystem> files = FileSystem::Default();
  try {
    ReadOnnx("no_such_folder/model.onnx", *files);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kNoSuchFile);
    EXPECT_THAT(e.what(), HasSubstr("model.onnx"));
  }
}

}  // namespace
}  // namespace strop
