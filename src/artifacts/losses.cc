// SPDX-License-Identifier: Apache-2.0
//
// Losses as nodes. Names are those of ONNX Runtime's onnxblock in a fresh
// process, where each generated name has a number: users read the loss by
// its name, and files of both look alike.
#include <algorithm>
#include <map>

#include "artifacts/notes.h"
#include "artifacts/training_graphs.h"
#include "base/throw.h"
#include "ops/graph_builder.h"
#include "ops/infer_shapes.h"

namespace strop {
namespace {

// The opset that brought SoftmaxCrossEntropyLoss.
constexpr int64_t kCrossEntropySince = 12;

// What nobody knows fits.
bool IsOf(DataType given, DataType wanted) {
  return given == DataType::kUndefined || given == wanted;
}

bool MayBeEqual(const Dimension& a, const Dimension& b) {
  return !a.value || !b.value || *a.value == *b.value;
}

bool AreLabels(const ValueType& given, const ValueType& wanted) {
  if (!IsOf(given.element, DataType::kInt64) &&
      !IsOf(given.element, DataType::kInt32))
    return false;
  return !given.dims || !wanted.dims ||
         std::ranges::equal(*given.dims, *wanted.dims, MayBeEqual);
}

// They may broadcast to the shape that is wanted, but not beyond it: [N] for
// [N, 1] would be compared each with each.
bool AreTargets(const ValueType& given, const ValueType& wanted) {
  if (!IsOf(given.element, wanted.element)) return false;
  if (!given.dims || !wanted.dims) return true;
  if (given.dims->size() > wanted.dims->size()) return false;
  const bool is_shorter = given.dims->size() < wanted.dims->size();
  const auto fits = [&](const Dimension& g, const Dimension& w) {
    if (g.value == 1) return true;
    return is_shorter && w.value == 1 ? false : MayBeEqual(g, w);
  };
  return std::equal(given.dims->rbegin(), given.dims->rend(),
                    wanted.dims->rbegin(), fits);
}

class LossWriter {
 public:
  LossWriter(Graph& graph, int names_used)
      : graph_(graph), builder_(graph, "onnx::loss/"), used_(names_used) {}

  // `count`: how many losses there are.
  Var Write(const Loss& loss, size_t count) {
    const Var x = InputOf(loss);
    switch (loss.kind) {
      case LossKind::kCrossEntropy:
        NoteProbabilities(x);
        return CrossEntropy(loss, x, LabelsFor(loss, x, count));
      case LossKind::kMeanSquaredError: {
        const Var difference = x - TargetFor(loss, x, count);
        const Var two = builder_.Scalar(2, builder_.type(x));
        return Reduced(loss, builder_.Op("Pow", {difference, two}),
                       "pow_output", 4);
      }
      case LossKind::kL1: {
        const Var difference = x - TargetFor(loss, x, count);
        return Reduced(loss, builder_.Op("Abs", {difference}), "abs_output", 3);
      }
      case LossKind::kBinaryCrossEntropyWithLogits: {
        NoteProbabilities(x);
        const Var target = TargetFor(loss, x, count);
        const int factors = 2 * (int{loss.weights != nullptr} +
                                 int{loss.positive_weights != nullptr});
        return Reduced(loss, BinaryCrossEntropy(loss, x, target), "neg_output",
                       21 + factors);
      }
    }
    Throw(ErrorCode::kInvalidArgument, "there is no such loss");
  }

  // The weighted sum of several losses: a constant and a Mul for each, and
  // the Adds between.
  Var Sum(const std::vector<Var>& parts, const std::vector<Loss>& losses) {
    Var total;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Var part = parts[i] * losses[i].weight;
      total = total ? total + part : part;
    }
    const int n = static_cast<int>(parts.size());
    const int last = n == 1 ? 2 : 3 * n + 2 * (n - 2) + 1;
    Name(total, n == 1 ? "mul_output" : "add_output", last);
    used_ += last + 1;
    return total;
  }

  int names_used() const { return used_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Var InputOf(const Loss& loss) {
    const auto outputs = graph_.outputs();
    if (loss.input.empty()) {
      if (outputs.size() == 1) return builder_.Of(outputs[0]);
      Throw(ErrorCode::kInvalidArgument,
            "the model has {} outputs ({}): say which one the loss reads",
            outputs.size(), OutputNames());
    }
    const ValueId id = graph_.Find(loss.input);
    if (!id) {
      Throw(ErrorCode::kNotFound,
            "the loss reads \"{}\", which the model does not have; its "
            "outputs are {}",
            loss.input, OutputNames());
    }
    return builder_.Of(id);
  }

  void NoteProbabilities(Var x) {
    const NodeId producer = graph_.value(x.id).producer;
    if (!producer) return;
    const Node& node = graph_.node(producer);
    if (node.op_type != "Softmax" && node.op_type != "Sigmoid") return;
    notes_.push_back(fmt::format(
        "the loss wants scores, but \"{}\" of {} looks like probabilities; "
        "name the value before it as the output that the loss reads: \"{}\"",
        graph_.value_name(x.id), Describe(graph_, node),
        graph_.value_name(node.input(0))));
  }

  std::string OutputNames() const {
    std::string names;
    for (const ValueId id : graph_.outputs())
      names += (names.empty() ? "" : ", ") + graph_.value_name(id);
    return names;
  }

  // A value of the model of that name, or a new input. Losses of one output
  // that want the same of it share one.
  Var TargetNamed(const Loss& loss, Var x, const std::string& name,
                  ValueType type) {
    const ValueId there = graph_.Find(name);
    if (!there) {
      const Var added = builder_.Of(graph_.AddInput(name, std::move(type)));
      added_.emplace(name, x.id);
      return added;
    }
    if (there == x.id) {
      Throw(ErrorCode::kInvalidArgument,
            "the loss would compare \"{}\" with itself: give the target "
            "another name",
            name);
    }
    const auto added = added_.find(name);
    const bool is_shared = added != added_.end() && added->second == x.id;
    if (loss.target.empty() && !is_shared) {
      Throw(ErrorCode::kInvalidArgument,
            "the loss adds an input \"{}\", but {} that name: give the target "
            "another name, or name that value as the target",
            name,
            added == added_.end() ? "the model has a value of"
                                  : "the input of another loss has");
    }
    CheckTarget(loss, there, type);
    return builder_.Of(there);
  }

  void CheckTarget(const Loss& loss, ValueId there, const ValueType& wanted) {
    const Value& target = graph_.value(there);
    const bool labels = loss.kind == LossKind::kCrossEntropy;
    if (labels ? AreLabels(target.type, wanted)
               : AreTargets(target.type, wanted))
      return;
    Throw(ErrorCode::kInvalidArgument, "the {} \"{}\" are {}, wanted are {}",
          labels ? "labels" : "targets", target.name, DescribeType(target.type),
          DescribeType(wanted));
  }

  std::string TargetName(const Loss& loss, Var x, std::string_view kind,
                         size_t count) const {
    if (!loss.target.empty()) return loss.target;
    if (count == 1) return std::string(kind);
    return fmt::format("{}_{}", graph_.value_name(x.id), kind);
  }

  Var TargetFor(const Loss& loss, Var x, size_t count) {
    return TargetNamed(loss, x, TargetName(loss, x, "target", count),
                       ValueType::OfTensor(builder_.type(x), DeclaredDims(x)));
  }

  Var LabelsFor(const Loss& loss, Var x, size_t count) {
    std::optional<std::vector<Dimension>> dims = DeclaredDims(x);
    if (dims && dims->size() < 2) {
      Throw(ErrorCode::kInvalidArgument,
            "cross entropy wants scores of shape [N, C, ...], but \"{}\" has "
            "rank {}",
            graph_.value_name(x.id), dims->size());
    }
    if (dims && (*dims)[1].value == 1) {
      Throw(ErrorCode::kInvalidArgument,
            "cross entropy wants scores of two classes or more, but \"{}\" is "
            "{}: its loss would always be 0; bce is the loss of one score",
            graph_.value_name(x.id), DescribeType(graph_.value(x.id).type));
    }
    if (dims) dims->erase(dims->begin() + 1);
    return TargetNamed(loss, x, TargetName(loss, x, "labels", count),
                       ValueType::OfTensor(DataType::kInt64, std::move(dims)));
  }

  // Without the names that inference gave to sizes.
  std::optional<std::vector<Dimension>> DeclaredDims(Var x) {
    std::optional<std::vector<Dimension>> dims = builder_.dims(x);
    if (!dims) return dims;
    for (Dimension& dimension : *dims)
      if (IsDerivedSymbol(dimension.symbol)) dimension.symbol.clear();
    return dims;
  }

  Var CrossEntropy(const Loss& loss, Var x, Var labels) {
    const DataType type = builder_.type(x);
    Attributes attributes = {{"reduction", ReductionName(loss.reduction)}};
    Var weights;
    if (loss.weights) weights = Weights(*loss.weights, "celoss.weight", type);
    const DataType types[] = {type, type};
    std::vector<Var> outputs;
    if (graph_.opset(kOnnx) >= kCrossEntropySince) {
      if (loss.ignore_index)
        attributes.emplace_back("ignore_index", *loss.ignore_index);
      const Var inputs[] = {x, labels, weights};
      outputs =
          builder_.Ops("SoftmaxCrossEntropyLoss", inputs, types, attributes);
    } else {
      // ONNX Runtime's op of the same meaning, which has no opset.
      graph_.opset_imports[std::string(kMicrosoft)] = 1;
      Var ignored;
      if (loss.ignore_index) ignored = builder_.Int(*loss.ignore_index);
      const Var inputs[] = {x, labels, weights, ignored};
      outputs = builder_.Ops("SoftmaxCrossEntropyLossInternal", inputs, types,
                             attributes, kMicrosoft);
    }
    Name(outputs[0], "loss", 2);
    Name(outputs[1], "log_prob", 3);
    used_ += 4;
    builder_.SetDims(outputs[1], builder_.dims(x));
    return outputs[0];
  }

  // -p t log s(x) - (1 - t) log(1 - s(x)), s the logistic function, as
  // (1 - t) x + (1 + (p - 1) t) log(1 + e^-x), which does not overflow.
  Var BinaryCrossEntropy(const Loss& loss, Var x, Var t) {
    GraphBuilder& b = builder_;
    const Var softplus = b.Op("Softplus", {-x});
    Var each;
    if (loss.positive_weights) {
      const Var p =
          Weights(*loss.positive_weights, "bceloss.pos_weight", b.type(x));
      each = (1 - t) * x + (1 + (p - 1) * t) * softplus;
    } else {
      each = (1 - t) * x + softplus;
    }
    if (!loss.weights) return each;
    return Weights(*loss.weights, "bceloss.weight", b.type(x)) * each;
  }

  Var Weights(const OwnedTensor& weights, std::string_view name,
              DataType type) {
    const Var constant = builder_.Constant(name, weights.view());
    return builder_.Cast(constant, type);
  }

  // `unreduced` and `number`: what ONNX Runtime calls `each`.
  Var Reduced(const Loss& loss, Var each, std::string_view unreduced,
              int number) {
    if (loss.reduction == Reduction::kNone) {
      Name(each, unreduced, number);
      used_ += number + 1;
      return each;
    }
    const bool mean = loss.reduction == Reduction::kMean;
    const Var reduced = builder_.Op(mean ? "ReduceMean" : "ReduceSum", {each},
                                    {{"keepdims", int64_t{0}}});
    builder_.SetDims(reduced, std::vector<Dimension>{});
    Name(reduced, mean ? "reducemean_output" : "reducesum_output", number + 2);
    used_ += number + 3;
    return reduced;
  }

  // `number` counts from the end of the losses before.
  void Name(Var x, std::string_view token, int number) {
    graph_.Rename(x.id, graph_.FreshName(fmt::format("onnx::{}::{}", token,
                                                     used_ + number)));
  }

  static std::string ReductionName(Reduction reduction) {
    switch (reduction) {
      case Reduction::kSum:
        return "sum";
      case Reduction::kNone:
        return "none";
      default:
        return "mean";
    }
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<std::string> notes_;
  std::map<std::string, ValueId> added_;  // targets, and what they are for
  int used_;                              // generated names of what came before
};

}  // namespace

AddedLoss AddLosses(Graph& graph, const std::vector<Loss>& losses,
                    int names_used) {
  InferShapes(graph);
  LossWriter writer(graph, names_used);
  std::vector<Var> parts;
  for (const Loss& loss : losses)
    parts.push_back(writer.Write(loss, losses.size()));
  const bool plain = losses.size() == 1 && losses[0].weight == 1;
  const Var loss = plain ? parts[0] : writer.Sum(parts, losses);
  return {loss.id, writer.names_used(), writer.notes()};
}

}  // namespace strop
