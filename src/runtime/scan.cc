// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <span>

#include "base/throw.h"
#include "runtime/control_run.h"
#include "runtime/iterations.h"
#include "runtime/stack.h"

namespace strop {
namespace {

// The attributes of a Scan.
class ScanNode {
 public:
  // `input_count`: states and scan inputs.
  ScanNode(const OpNode& node, size_t input_count) : node_(node) {
    const int64_t scans = node.Int("num_scan_inputs");
    if (scans < 1 || scans > static_cast<int64_t>(input_count)) {
      node.Fail(fmt::format("num_scan_inputs is {} of {} inputs", scans,
                            input_count));
    }
    scan_count_ = static_cast<size_t>(scans);
    state_count_ = input_count - scan_count_;
  }

  size_t state_count() const { return state_count_; }
  size_t scan_count() const { return scan_count_; }

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

 private:
  OpNode node_;
  size_t scan_count_ = 0, state_count_ = 0;
};

// A scan input: cut into slices along an axis.
struct Sequence {
  Tensor tensor;
  size_t axis;
  bool reversed;
};

// Runs the sub-graph on slice after slice of the sequences. `random_offset`:
// added to the number of an iteration to give its random stream.
void RunSlices(const ControlRun& run, Iterations& iterations, Body& body,
               size_t first_input, std::span<const Sequence> sequences,
               int64_t length, int64_t random_offset) {
  for (int64_t t = 0; t < length; ++t) {
    std::vector<HeldTensor> slices;
    for (const Sequence& sequence : sequences) {
      slices.push_back(SliceOf(run.budget, sequence.tensor, sequence.axis,
                               sequence.reversed ? length - 1 - t : t));
      body.SetInput(first_input + slices.size() - 1, slices.back().view());
    }
    iterations.Run(random_offset + t);
    iterations.Keep();
  }
}

// The length of all sequences along their axes.
int64_t CommonLength(const ControlRun& run,
                     std::span<const Sequence> sequences) {
  std::optional<int64_t> common;
  for (const Sequence& sequence : sequences) {
    const int64_t length = sequence.tensor.shape()[sequence.axis];
    if (common && *common != length) {
      run.node.Fail(
          fmt::format("scan inputs have lengths {} and {}", *common, length));
    }
    common = length;
  }
  return common.value_or(0);
}

HeldTensor StackOutput(const ScanNode& scan, Iterations& iterations, size_t i) {
  const size_t count = iterations.stacked_count();
  auto& pieces = iterations.pieces(i);
  if (pieces.empty()) {
    return iterations.EmptyStack(i, scan.Entry("scan_output_axes", i, count));
  }
  if (scan.IsReversed("scan_output_directions", i, count)) {
    std::ranges::reverse(pieces);
  }
  const size_t rank = pieces[0].shape().rank() + 1;
  return iterations.Stacked(i, scan.Axis("scan_output_axes", i, count, rank));
}

}  // namespace

std::vector<HeldTensor> RunScan9(const ControlRun& run, Body& body) {
  const ScanNode scan(run.node, run.inputs.size());
  const size_t states = scan.state_count(), scans = scan.scan_count();
  std::vector<HeldTensor> initial;
  for (size_t i = 0; i < states; ++i)
    initial.emplace_back(run.budget, run.input(i));
  Iterations iterations(run, body, {.more_inputs = scans}, std::move(initial));

  std::vector<Sequence> sequences;
  for (size_t i = 0; i < scans; ++i) {
    const Tensor& input = run.input(states + i);
    const size_t axis =
        scan.Axis("scan_input_axes", i, scans, input.shape().rank());
    sequences.push_back(
        {input, axis, scan.IsReversed("scan_input_directions", i, scans)});
  }
  RunSlices(run, iterations, body, states, sequences,
            CommonLength(run, sequences),
            /*random_offset=*/0);
  std::vector<HeldTensor> results = std::move(iterations.carried());
  for (size_t i = 0; i < iterations.stacked_count(); ++i) {
    results.push_back(StackOutput(scan, iterations, i));
  }
  return results;
}

// --- Opset 8: everything has a batch axis in front, scan inputs their
// sequence axis behind it; outputs behind the end of a sequence are zero.

namespace {

// Behind the input that holds the sequences' lengths.
constexpr size_t kFirstState8 = 1;

void CheckBatch(const ControlRun& run, size_t first_scan) {
  for (size_t i = kFirstState8; i < run.inputs.size(); ++i) {
    const size_t least = i < first_scan ? 1 : 2;
    const Shape& shape = run.input(i).shape();
    if (shape.rank() < least || shape[0] != run.input(1).shape()[0]) {
      run.node.Fail(
          fmt::format("input {} has shape {}: wanted is a batch of {} in front",
                      i, shape.ToString(), run.input(1).shape().ToString()));
    }
  }
}

// The lengths of the sequences of a batch.
std::vector<int64_t> SequenceLengths(const ControlRun& run, int64_t batch,
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

// What the sequences of a batch gave, by output of the node.
using ByOutput = std::vector<std::vector<HeldTensor>>;

// Runs sequence `b` of the batch and adds what it gives to `results`.
void RunSequence(const ControlRun& run, Body& body, const ScanNode& scan,
                 int64_t b, int64_t length, int64_t longest,
                 ByOutput& results) {
  const size_t states = scan.state_count(), scans = scan.scan_count();
  std::vector<HeldTensor> initial, owned;
  for (size_t i = 0; i < states; ++i) {
    initial.push_back(SliceOf(run.budget, run.input(kFirstState8 + i), 0, b));
  }
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < scans; ++i) {
    owned.push_back(
        SliceOf(run.budget, run.input(kFirstState8 + states + i), 0, b));
    sequences.push_back({owned.back().view(), /*axis=*/0,
                         scan.IsReversed("directions", i, scans)});
  }
  Iterations iterations(run, body, {.more_inputs = scans}, std::move(initial));
  RunSlices(run, iterations, body, states, sequences, length,
            /*random_offset=*/b * longest);

  results.resize(states + iterations.stacked_count());
  for (size_t i = 0; i < states; ++i) {
    results[i].push_back(std::move(iterations.carried()[i]));
  }
  for (size_t i = 0; i < iterations.stacked_count(); ++i) {
    auto& pieces = iterations.pieces(i);
    if (pieces.empty()) {
      run.node.Fail("a sequence has no elements", ErrorCode::kNotImplemented);
    }
    while (std::ssize(pieces) < longest) {
      pieces.emplace_back(run.budget, pieces[0].type(),
                          pieces[0].shape());  // zeros
    }
    results[states + i].push_back(iterations.Stacked(i, 0));
  }
}

}  // namespace

std::vector<HeldTensor> RunScan8(const ControlRun& run, Body& body) {
  const size_t before = std::min(kFirstState8, run.inputs.size());
  const ScanNode scan(run.node, run.inputs.size() - before);
  const size_t first_scan = kFirstState8 + scan.state_count();
  CheckBatch(run, first_scan);
  std::vector<Sequence> sequences;
  for (size_t i = first_scan; i < run.inputs.size(); ++i) {
    sequences.push_back({run.input(i), /*axis=*/1, /*reversed=*/false});
  }
  const int64_t longest = CommonLength(run, sequences);
  const int64_t batch = run.input(1).shape()[0];
  const auto lengths = SequenceLengths(run, batch, longest);
  if (batch == 0) {
    run.node.Fail("the batch is empty", ErrorCode::kNotImplemented);
  }

  ByOutput by_output;
  for (int64_t b = 0; b < batch; ++b) {
    RunSequence(run, body, scan, b, lengths[static_cast<size_t>(b)], longest,
                by_output);
  }
  std::vector<HeldTensor> results;
  for (const auto& pieces : by_output) {
    results.push_back(
        Stack(run.budget, pieces, 0, body.output_name(results.size())));
  }
  return results;
}

}  // namespace strop
