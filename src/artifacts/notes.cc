// SPDX-License-Identifier: Apache-2.0
#include "artifacts/notes.h"

#include <algorithm>
#include <map>

#include "artifacts/training_graphs.h"
#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/infer_shapes.h"
#include "ops/number.h"
#include "strop/op.h"

namespace strop {
namespace {

void AddList(Lines& lines, std::string_view title,
             const std::vector<std::string>& names) {
  if (!names.empty())
    lines.push_back(fmt::format("{}: {}", title, Listing(names)));
}

std::string DescribeData(const TensorData& data, const std::string& name) {
  return fmt::format("\"{}\" {} {}", name, DataTypeName(data.type),
                     Shape(data.dims).ToString());
}

// More than one number of a float type.
bool IsFloatTensor(const TensorData& data) {
  return ops::IsFloatingPoint(data.type) &&
         Shape(data.dims).element_count() > 1;
}

void AddConstantsOf(const Graph& body, const std::string& where, Lines& lines) {
  const auto add = [&](const TensorData& data, ValueId id) {
    if (IsFloatTensor(data))
      lines.push_back(DescribeData(data, body.value_name(id)) + where);
  };
  for (const ValueId id : body.initializers())
    add(*body.value(id).initializer, id);
  for (const NodeId id : body.order()) {
    const Node& node = body.node(id);
    const Attribute* value = node.FindAttribute("value");
    if (node.op_type == "Constant" && node.output(0) && value != nullptr)
      if (const auto* data = std::get_if<TensorData>(&value->value))
        add(*data, node.outputs[0]);
    ForEachSubgraph(node, [&](const Graph& inner) {
      AddConstantsOf(
          inner, fmt::format(" in {}{}", Describe(body, node), where), lines);
    });
  }
}

std::vector<std::string> SparseInitializers(const Graph& graph) {
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value({static_cast<int32_t>(i)});
    if (value.is_sparse_initializer) names.push_back(value.name);
  }
  return names;
}

}  // namespace

std::string Listing(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMost)
    text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

std::string DescribeType(const ValueType& type) {
  if (type.kind == ValueType::Kind::kUnknown) return "of unknown type";
  if (type.kind != ValueType::Kind::kTensor) return "no tensor";
  std::string text = DataTypeName(type.element);
  if (!type.dims) return text + " of unknown rank";
  text += " [";
  for (size_t i = 0; i < type.dims->size(); ++i) {
    const auto& [value, symbol] = (*type.dims)[i];
    if (i > 0) text += ", ";
    if (value) {
      text += fmt::format("{}", *value);
    } else {
      text += symbol.empty() || IsDerivedSymbol(symbol) ? "?" : symbol;
    }
  }
  return text + "]";
}

std::string DescribeConstant(const Graph& graph, ValueId id) {
  return DescribeData(*graph.value(id).initializer, graph.value_name(id));
}

Lines ConstantsInside(const Graph& graph) {
  Lines lines;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    ForEachSubgraph(node, [&](const Graph& body) {
      AddConstantsOf(body, " in " + Describe(graph, node), lines);
    });
  }
  return lines;
}

Lines InsideNotes(const Graph& graph) {
  Lines lines;
  AddList(lines, "inside a sub-graph and therefore constant",
          ConstantsInside(graph));
  return lines;
}

Lines UntrainedWeights(const Graph& graph, const Weights& weights) {
  Lines lines;
  const auto add = [&](ValueId id, std::string_view why) {
    const std::string origin = weights.OriginOf(id);
    lines.push_back(fmt::format("{}: {}{}", DescribeConstant(graph, id), why,
                                origin.empty() ? "" : ", " + origin));
  };
  for (const ValueId id : weights.quantized)
    add(id, "a quantized weight, not trained, the gradient passes on");
  for (const ValueId id : weights.tables)
    add(id, "a table, trained only if it is named");
  std::vector<std::string> in_formulas;
  for (const auto& [id, kind] : weights.numbers) {
    if (kind == Weights::kInFormula)
      in_formulas.push_back(graph.value_name(id));
    else
      add(id, kind + ", trained only if it is named");
  }
  AddList(lines, "numbers in formulas", in_formulas);
  for (const std::string& name : SparseInitializers(graph))
    lines.push_back(fmt::format("\"{}\": a sparse initializer", name));
  return lines;
}

Lines WeightNotes(const Graph& graph, const Weights& weights,
                  const std::set<ValueId>& trainable) {
  std::vector<std::string> untied, constants, quantized, tables, numbers;
  for (const ValueId id : weights.untied)
    untied.push_back(graph.value_name(id));
  const auto is_there = [&](ValueId id) {
    return graph.value(id).initializer && !trainable.contains(id);
  };
  for (const ValueId id : weights.parameters) {
    if (trainable.contains(id) && weights.OriginOf(id).starts_with("the value"))
      constants.push_back(graph.value_name(id));
  }
  for (const ValueId id : weights.quantized)
    if (is_there(id)) quantized.push_back(graph.value_name(id));
  for (const ValueId id : weights.tables)
    if (is_there(id)) tables.push_back(graph.value_name(id));
  for (const auto& [id, kind] : weights.numbers)
    if (is_there(id) && kind != Weights::kInFormula)
      numbers.push_back(graph.value_name(id));
  Lines lines;
  AddList(lines,
          "merged with equal tensors in the file, now with values of their own",
          untied);
  AddList(lines, "values of Constant nodes are trained", constants);
  AddList(lines, "quantized weights stay as they are, the gradient passes them",
          quantized);
  AddList(lines, "tables stay as they are unless they are named as trainable",
          tables);
  AddList(lines, "numbers stay as they are unless they are named as trainable",
          numbers);
  AddList(lines, "sparse initializers stay as they are",
          SparseInitializers(graph));
  return lines;
}

Lines SharedStatisticsNotes(const Graph& graph,
                            const std::set<ValueId>& trainable) {
  std::map<ValueId, std::vector<std::string>> writers;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!TrainsOnBatch(graph, node, trainable)) continue;
    for (const size_t i : {size_t{3}, size_t{4}})
      if (node.input(i))
        writers[node.input(i)].push_back(Describe(graph, node));
  }
  Lines lines;
  for (const auto& [statistic, nodes] : writers) {
    if (nodes.size() < 2) continue;
    lines.push_back(
        fmt::format("{} share the running statistics \"{}\": each step keeps "
                    "what the last of them makes of the old ones",
                    Listing(nodes), graph.value_name(statistic)));
  }
  return lines;
}

namespace {

bool IsBackward(const Graph& graph, const Node& node) {
  const bool is_recurrent =
      node.op_type == "LSTMTraining" || node.op_type == "GRUTraining";
  return is_recurrent &&
         OpNode(graph, node).String("direction", "forward") != "forward";
}

bool HasNegativeStep(const Graph& graph, const Node& node) {
  constexpr size_t kSteps = 5;
  if (node.op_type != "SliceGrad" || !node.input(kSteps)) return false;
  const auto& steps = graph.value(node.inputs[kSteps]).initializer;
  if (!steps || steps->type != DataType::kInt64) return false;
  return std::ranges::any_of(steps->view().values<int64_t>(),
                             [](int64_t step) { return step < 0; });
}

// What its kernels lack, wherever such a node stands in the graph.
void AddLacks(const Graph& graph, Lines& lines) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::string_view why;
    if (IsBackward(graph, node)) why = "goes backwards in time";
    if (HasNegativeStep(graph, node)) why = "has a negative step";
    if (!why.empty()) {
      lines.push_back(fmt::format("{} {}: its gradient runs in Strop only",
                                  Describe(graph, node), why));
    }
  }
}

// Its optimizers and its accumulation are for float32.
void AddWideParameters(const Graph& training, Lines& lines) {
  std::vector<std::string> names;
  for (const NodeId id : training.order()) {
    const Node& node = training.node(id);
    if (node.op_type != "InPlaceAccumulatorV2") continue;
    const Value& buffer = training.value(node.inputs[0]);
    if (buffer.type.element == DataType::kFloat64)
      names.push_back(buffer.name.substr(0, buffer.name.rfind("_grad.")));
  }
  AddList(lines, "float64 parameters, which train in Strop only", names);
}

}  // namespace

Lines StropOpNotes(const Graph& training) {
  std::set<std::string> ops;
  for (const NodeId id : training.order())
    if (training.node(id).domain == kStrop)
      ops.insert(training.node(id).op_type);
  Lines lines;
  for (const std::string& op : ops) {
    lines.push_back(fmt::format(
        "the training model holds strop.{}, which runs in Strop only", op));
  }
  AddLacks(training, lines);
  AddWideParameters(training, lines);
  return lines;
}

}  // namespace strop
