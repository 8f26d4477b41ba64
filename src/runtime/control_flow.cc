// SPDX-License-Identifier: Apache-2.0
#include "runtime/control_flow.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/throw.h"
#include "runtime/stack.h"

namespace strop {
namespace {

// Spreads every bit over all (the finalizer of SplitMix64).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Another stream of random numbers for each node and iteration. The step
// changes, not the seed, which a node may have for itself.
RandomKey Inner(const RandomKey& key, int32_t node, int64_t iteration) {
  RandomKey inner = key;
  inner.step = Mix(Mix(key.step) + static_cast<uint64_t>(node));
  inner.step = Mix(inner.step + static_cast<uint64_t>(iteration));
  return inner;
}

bool DrawsRandom(const LoweredGraph& lowered) {
  for (NodeId id : lowered.order) {
    if (lowered.ops[static_cast<size_t>(id.index)]->is_random) return true;
  }
  for (const auto& [node, bodies] : lowered.bodies) {
    for (const LoweredBody& body : bodies) {
      if (DrawsRandom(body.lowered)) return true;
    }
  }
  return false;
}

std::unique_ptr<OwnedTensor> Own(const Tensor& tensor) {
  return std::make_unique<OwnedTensor>(tensor);
}

bool BoolOf(const Tensor& tensor, const OpNode& node, std::string_view what) {
  if (tensor.type() != DataType::kBool || tensor.element_count() != 1) {
    node.Fail(fmt::format("{} must be one bool, not {} of shape {}", what,
                          DataTypeName(tensor.type()),
                          tensor.shape().ToString()));
  }
  return tensor.values<bool>()[0];
}

// A sub-graph with its executor.
class Body {
 public:
  Body(LoweredBody body, const ExecutorOptions& options)
      : captured_(std::move(body.captured)),
        input_count_(body.lowered.graph.inputs().size() - captured_.size()),
        executor_(std::move(body.lowered), std::make_shared<Arena>(), options) {
    arguments_.resize(input_count_ + captured_.size());
  }

  size_t input_count() const { return input_count_; }
  size_t output_count() const { return graph().outputs().size(); }
  const std::vector<ValueId>& captured() const { return captured_; }
  const Graph& graph() const { return executor_.graph(); }
  const std::string& output_name(size_t i) const {
    return graph().value_name(graph().outputs()[i]);
  }

  void Capture(const ControlFlow::ValueOf& value_of) {
    for (size_t i = 0; i < captured_.size(); ++i) {
      arguments_[input_count_ + i].tensor = value_of(captured_[i]);
    }
  }
  void SetInput(size_t i, const Tensor& tensor) {
    arguments_[i].tensor = tensor;
  }
  void Run(const RandomKey& random) { executor_.Run(arguments_, random); }
  // Until the next Run.
  Tensor output(size_t i) const { return executor_.output(i); }

  // What is stacked over no iterations: the declared type, no elements.
  OwnedTensor EmptyStack(size_t i, int64_t axis) const {
    const ValueType& type = graph().value(graph().outputs()[i]).type;
    if (type.element == DataType::kUndefined) {
      Throw(ErrorCode::kInvalidGraph,
            "\"{}\" is stacked over no iterations, and its type is not known",
            output_name(i));
    }
    std::vector<int64_t> dims;
    if (type.dims) {
      for (const Dimension& dim : *type.dims) {
        dims.push_back(dim.value.value_or(0));
      }
    }
    const auto rank = static_cast<int64_t>(dims.size()) + 1;
    if (axis < 0) axis += rank;
    dims.insert(dims.begin() + std::clamp<int64_t>(axis, 0, rank - 1), 0);
    return OwnedTensor(type.element, Shape(dims));
  }

 private:
  std::vector<ValueId> captured_;
  size_t input_count_;
  Executor executor_;
  std::vector<Argument> arguments_;
};

// What one run of a node needs.
struct Run {
  OpNode node;
  std::vector<std::optional<Tensor>> inputs;  // nullopt: left out
  RandomKey random;

  const Tensor& input(size_t i) const {
    if (i >= inputs.size() || !inputs[i]) {
      node.Fail(fmt::format("input {} may not be left out", i),
                ErrorCode::kInvalidGraph);
    }
    return *inputs[i];
  }
  RandomKey Random(int64_t iteration) const {
    return Inner(random, static_cast<int32_t>(random.node), iteration);
  }
};

void RequireCounts(const OpNode& node, const Body& body, size_t inputs,
                   size_t outputs) {
  if (body.input_count() != inputs || body.output_count() != outputs) {
    node.Fail(fmt::format("its sub-graph \"{}\" has {} inputs and {} outputs, "
                          "wanted are {} and {}",
                          body.graph().name, body.input_count(),
                          body.output_count(), inputs, outputs),
              ErrorCode::kInvalidGraph);
  }
}

ControlFlow::Tensors RunIf(const Run& run, Body& then_branch,
                           Body& else_branch) {
  Body& body = BoolOf(run.input(0), run.node, "the condition") ? then_branch
                                                               : else_branch;
  RequireCounts(run.node, body, 0, run.node.node().outputs.size());
  body.Run(run.Random(0));
  ControlFlow::Tensors results;
  for (size_t i = 0; i < body.output_count(); ++i) {
    results.push_back(Own(body.output(i)));
  }
  return results;
}

class LoopRun {
 public:
  LoopRun(const Run& run, Body& body) : run_(run), body_(body) {
    const size_t states =
        run.inputs.size() - std::min<size_t>(2, run.inputs.size());
    const size_t outputs = run.node.node().outputs.size();
    if (outputs < states) {
      run.node.Fail(
          fmt::format("has {} carried values but {} outputs", states, outputs),
          ErrorCode::kInvalidGraph);
    }
    RequireCounts(run.node, body, 2 + states, 1 + outputs);
    for (size_t i = 0; i < states; ++i) {
      states_.emplace_back(run.input(2 + i));
    }
    pieces_.resize(outputs - states);
  }

  ControlFlow::Tensors Finish() {
    const int64_t most = MostIterations();
    bool go_on = run_.inputs.size() < 2 || !run_.inputs[1] ||
                 BoolOf(*run_.inputs[1], run_.node, "the condition");
    for (int64_t i = 0; go_on && i < most; ++i) go_on = Iterate(i);
    ControlFlow::Tensors results;
    for (OwnedTensor& state : states_) {
      results.push_back(std::make_unique<OwnedTensor>(std::move(state)));
    }
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const size_t output = 1 + states_.size() + i;
      results.push_back(std::make_unique<OwnedTensor>(
          pieces_[i].empty()
              ? body_.EmptyStack(output, 0)
              : Stack(pieces_[i], 0, body_.output_name(output))));
    }
    return results;
  }

 private:
  int64_t MostIterations() const {
    if (run_.inputs.empty() || !run_.inputs[0]) {
      return std::numeric_limits<int64_t>::max();
    }
    const Tensor& most = *run_.inputs[0];
    if (most.type() != DataType::kInt64 || most.element_count() != 1) {
      run_.node.Fail(fmt::format(
          "the number of iterations must be one int64, not {} of shape {}",
          DataTypeName(most.type()), most.shape().ToString()));
    }
    return most.values<int64_t>()[0];
  }

  bool Iterate(int64_t iteration) {
    bool condition = true;
    body_.SetInput(0, Tensor(Shape{}, &iteration));
    body_.SetInput(1, Tensor(Shape{}, &condition));
    for (size_t i = 0; i < states_.size(); ++i) {
      body_.SetInput(2 + i, states_[i].view());
    }
    body_.Run(run_.Random(iteration));
    const bool go_on =
        BoolOf(body_.output(0), run_.node, "the condition of the sub-graph");
    for (size_t i = 0; i < pieces_.size(); ++i) {
      pieces_[i].emplace_back(body_.output(1 + states_.size() + i));
    }
    // Last, as outputs may be views of the states.
    std::vector<OwnedTensor> next;
    for (size_t i = 0; i < states_.size(); ++i) {
      next.emplace_back(body_.output(1 + i));
    }
    states_ = std::move(next);
    return go_on;
  }

  const Run& run_;
  Body& body_;
  std::vector<OwnedTensor> states_;
  std::vector<std::vector<OwnedTensor>> pieces_;  // by scan output
};

// One scan: states and slices of the scan inputs through the sub-graph.
class ScanRun {
 public:
  ScanRun(const OpNode& node, Body& body, size_t input_count)
      : node_(node), body_(body) {
    const int64_t scans = node.Int("num_scan_inputs");
    if (scans < 1 || scans > static_cast<int64_t>(input_count)) {
      node.Fail(fmt::format("num_scan_inputs is {} of {} inputs", scans,
                            input_count));
    }
    scan_count_ = static_cast<size_t>(scans);
    state_count_ = input_count - scan_count_;
    const size_t outputs = node.node().outputs.size();
    if (outputs < state_count_) {
      node.Fail(
          fmt::format("has {} states but {} outputs", state_count_, outputs),
          ErrorCode::kInvalidGraph);
    }
    output_count_ = outputs - state_count_;
    RequireCounts(node, body, input_count, outputs);
  }

  size_t state_count() const { return state_count_; }
  size_t scan_count() const { return scan_count_; }
  size_t output_count() const { return output_count_; }

  // Entry i of a list attribute; 0 where it is absent.
  int64_t Entry(std::string_view attribute, size_t i, size_t count) const {
    const auto values = node_.Ints(attribute);
    if (values.empty()) return 0;
    if (values.size() != count) {
      node_.Fail(fmt::format("attribute {} has {} numbers, wanted are {}",
                             attribute, values.size(), count));
    }
    return values[i];
  }

  bool IsReversed(std::string_view attribute, size_t i, size_t count) const {
    const int64_t direction = Entry(attribute, i, count);
    if (direction != 0 && direction != 1) {
      node_.Fail(fmt::format("attribute {} holds {}, wanted is 0 or 1",
                             attribute, direction));
    }
    return direction == 1;
  }

  size_t Axis(std::string_view attribute, size_t i, size_t count,
              size_t rank) const {
    const int64_t axis = Entry(attribute, i, count);
    const auto limit = static_cast<int64_t>(rank);
    if (axis < -limit || axis >= limit) {
      node_.Fail(
          fmt::format("attribute {} holds {}, which is out of range "
                      "for rank {}",
                      attribute, axis, rank));
    }
    return static_cast<size_t>(axis < 0 ? axis + limit : axis);
  }

  // One step for slice `index` of each scan input.
  void Step(const RandomKey& random, std::vector<OwnedTensor>& states,
            std::span<const OwnedTensor> slices,
            std::vector<std::vector<OwnedTensor>>& pieces) {
    for (size_t i = 0; i < state_count_; ++i) {
      body_.SetInput(i, states[i].view());
    }
    for (size_t i = 0; i < scan_count_; ++i) {
      body_.SetInput(state_count_ + i, slices[i].view());
    }
    body_.Run(random);
    for (size_t i = 0; i < output_count_; ++i) {
      pieces[i].emplace_back(body_.output(state_count_ + i));
    }
    // Last, as outputs may be views of the states.
    std::vector<OwnedTensor> next;
    for (size_t i = 0; i < state_count_; ++i) {
      next.emplace_back(body_.output(i));
    }
    states = std::move(next);
  }

 private:
  OpNode node_;
  Body& body_;
  size_t scan_count_ = 0, state_count_ = 0, output_count_ = 0;
};

// The length of all scan inputs along their axes.
int64_t CommonLength(const Run& run, std::span<const size_t> axes,
                     size_t first) {
  std::optional<int64_t> length;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Shape& shape = run.input(first + i).shape();
    if (length && *length != shape[axes[i]]) {
      run.node.Fail(fmt::format("scan inputs have lengths {} and {}", *length,
                                shape[axes[i]]));
    }
    length = shape[axes[i]];
  }
  return length.value_or(0);
}

ControlFlow::Tensors RunScan9(const Run& run, Body& body) {
  ScanRun scan(run.node, body, run.inputs.size());
  std::vector<OwnedTensor> states;
  for (size_t i = 0; i < scan.state_count(); ++i) {
    states.emplace_back(run.input(i));
  }
  std::vector<size_t> axes;
  std::vector<bool> reversed;
  for (size_t i = 0; i < scan.scan_count(); ++i) {
    const Tensor& input = run.input(scan.state_count() + i);
    axes.push_back(scan.Axis("scan_input_axes", i, scan.scan_count(),
                             input.shape().rank()));
    reversed.push_back(
        scan.IsReversed("scan_input_directions", i, scan.scan_count()));
  }
  const int64_t length = CommonLength(run, axes, scan.state_count());
  std::vector<std::vector<OwnedTensor>> pieces(scan.output_count());
  for (int64_t t = 0; t < length; ++t) {
    std::vector<OwnedTensor> slices;
    for (size_t i = 0; i < axes.size(); ++i) {
      slices.push_back(SliceOf(run.input(scan.state_count() + i), axes[i],
                               reversed[i] ? length - 1 - t : t));
    }
    scan.Step(run.Random(t), states, slices, pieces);
  }
  ControlFlow::Tensors results;
  for (OwnedTensor& state : states) {
    results.push_back(std::make_unique<OwnedTensor>(std::move(state)));
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t output = scan.state_count() + i;
    const size_t count = scan.output_count();
    if (pieces[i].empty()) {
      results.push_back(std::make_unique<OwnedTensor>(
          body.EmptyStack(output, scan.Entry("scan_output_axes", i, count))));
      continue;
    }
    if (scan.IsReversed("scan_output_directions", i, count)) {
      std::ranges::reverse(pieces[i]);
    }
    const size_t rank = pieces[i][0].shape().rank() + 1;
    results.push_back(std::make_unique<OwnedTensor>(
        Stack(pieces[i], scan.Axis("scan_output_axes", i, count, rank),
              body.output_name(output))));
  }
  return results;
}

// The lengths of the sequences of a batch.
std::vector<int64_t> SequenceLengths(const Run& run, int64_t batch,
                                     int64_t longest) {
  std::vector<int64_t> lengths(static_cast<size_t>(batch), longest);
  if (!run.inputs[0]) return lengths;
  const Tensor& given = *run.inputs[0];
  if (given.type() != DataType::kInt64 || given.element_count() != batch) {
    run.node.Fail(fmt::format(
        "sequence lengths must be {} int64, not {} of "
        "shape {}",
        batch, DataTypeName(given.type()), given.shape().ToString()));
  }
  std::ranges::copy(given.values<int64_t>(), lengths.begin());
  for (int64_t length : lengths) {
    if (length < 0 || length > longest) {
      run.node.Fail(fmt::format("a sequence length is {}, the inputs have {}",
                                length, longest));
    }
  }
  return lengths;
}

// Opset 8: everything has a batch axis in front, scan inputs their sequence
// axis behind it; outputs behind the end of a sequence are zero.
ControlFlow::Tensors RunScan8(const Run& run, Body& body) {
  ScanRun scan(run.node, body,
               run.inputs.size() - std::min<size_t>(1, run.inputs.size()));
  const size_t first_scan = 1 + scan.state_count();
  for (size_t i = 1; i < run.inputs.size(); ++i) {
    const size_t least = i < first_scan ? 1 : 2;
    if (run.input(i).shape().rank() < least ||
        run.input(i).shape()[0] != run.input(1).shape()[0]) {
      run.node.Fail(fmt::format(
          "input {} has shape {}: wanted is a batch of "
          "{} in front",
          i, run.input(i).shape().ToString(), run.input(1).shape().ToString()));
    }
  }
  const std::vector<size_t> axes(scan.scan_count(), 1);
  const int64_t longest = CommonLength(run, axes, first_scan);
  const int64_t batch = run.input(1).shape()[0];
  const auto lengths = SequenceLengths(run, batch, longest);

  std::vector<std::vector<OwnedTensor>> last(scan.state_count());
  std::vector<std::vector<OwnedTensor>> stacked(scan.output_count());
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<OwnedTensor> states, sequences;
    for (size_t i = 0; i < scan.state_count(); ++i) {
      states.push_back(SliceOf(run.input(1 + i), 0, b));
    }
    for (size_t i = 0; i < scan.scan_count(); ++i) {
      sequences.push_back(SliceOf(run.input(first_scan + i), 0, b));
    }
    std::vector<std::vector<OwnedTensor>> pieces(scan.output_count());
    const int64_t length = lengths[static_cast<size_t>(b)];
    for (int64_t t = 0; t < length; ++t) {
      std::vector<OwnedTensor> slices;
      for (size_t i = 0; i < sequences.size(); ++i) {
        const bool reversed =
            scan.IsReversed("directions", i, scan.scan_count());
        slices.push_back(
            SliceOf(sequences[i].view(), 0, reversed ? length - 1 - t : t));
      }
      scan.Step(run.Random(b * longest + t), states, slices, pieces);
    }
    for (size_t i = 0; i < states.size(); ++i) {
      last[i].push_back(std::move(states[i]));
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].empty()) {
        run.node.Fail("a sequence has no elements", ErrorCode::kNotImplemented);
      }
      while (std::ssize(pieces[i]) < longest) {
        OwnedTensor zeros(pieces[i][0].type(), pieces[i][0].shape());
        std::ranges::fill(zeros.view().bytes(), std::byte{0});
        pieces[i].push_back(std::move(zeros));
      }
      stacked[i].push_back(
          Stack(pieces[i], 0, body.output_name(scan.state_count() + i)));
    }
  }
  if (batch == 0)
    run.node.Fail("the batch is empty", ErrorCode::kNotImplemented);
  ControlFlow::Tensors results;
  for (auto* lists : {&last, &stacked}) {
    for (size_t i = 0; i < lists->size(); ++i) {
      results.push_back(std::make_unique<OwnedTensor>(
          Stack((*lists)[i], 0, body.output_name(results.size()))));
    }
  }
  return results;
}

}  // namespace

struct ControlFlow::Entry {
  std::vector<ValueId> reads;
  bool is_random = false;
  std::vector<std::unique_ptr<Body>> bodies;
};

ControlFlow::ControlFlow(LoweredGraph& lowered, const ExecutorOptions& options)
    : graph_(lowered.graph) {
  for (auto& [node, bodies] : lowered.bodies) {
    auto entry = std::make_unique<Entry>();
    entry->reads = graph_.Reads(graph_.node(NodeId{node}));
    for (LoweredBody& body : bodies) {
      entry->is_random = entry->is_random || DrawsRandom(body.lowered);
      entry->bodies.push_back(std::make_unique<Body>(std::move(body), options));
    }
    entries_.emplace(node, std::move(entry));
  }
  lowered.bodies.clear();
}

ControlFlow::~ControlFlow() = default;

bool ControlFlow::Has(NodeId node) const {
  return entries_.count(node.index) != 0;
}

const std::vector<ValueId>& ControlFlow::Reads(NodeId node) const {
  return entries_.at(node.index)->reads;
}

bool ControlFlow::IsRandom(NodeId node) const {
  return entries_.at(node.index)->is_random;
}

ControlFlow::Tensors ControlFlow::Run(NodeId id, const ValueOf& value_of,
                                      const RandomKey& random) {
  Entry& entry = *entries_.at(id.index);
  const Node& node = graph_.node(id);
  strop::Run run = {
      .node = OpNode(graph_, node), .inputs = {}, .random = random};
  run.random.node = static_cast<uint32_t>(id.index);
  for (ValueId input : node.inputs) {
    run.inputs.push_back(input ? std::optional(value_of(input)) : std::nullopt);
  }
  for (auto& body : entry.bodies) body->Capture(value_of);
  Tensors results;
  if (node.op_type == "If") {
    results = RunIf(run, *entry.bodies[0], *entry.bodies[1]);
  } else if (node.op_type == "Loop") {
    results = LoopRun(run, *entry.bodies[0]).Finish();
  } else if (graph_.opset("") < 9) {
    results = RunScan8(run, *entry.bodies[0]);
  } else {
    results = RunScan9(run, *entry.bodies[0]);
  }
  return results;
}

}  // namespace strop
