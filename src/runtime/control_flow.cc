// SPDX-License-Identifier: Apache-2.0
#include "runtime/control_flow.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/throw.h"
#include "runtime/body.h"
#include "runtime/control_run.h"
#include "runtime/segment.h"

namespace strop {
namespace {

// Work before the step, in bytes of memory that are used by it: a thousand
// small iterations, or a few passes over large constants. What is more would
// delay `inspect` and the first step, or never end.
constexpr size_t kFoldWork = size_t{1} << 20;
constexpr size_t kFoldPasses = 8;

// Whatever happens, the sub-graphs hold nothing when their node is done.
struct ReleaseAtEnd {
  std::span<const std::unique_ptr<Body>> bodies;
  ~ReleaseAtEnd() {
    for (const auto& body : bodies) body->Release();
  }
};

}  // namespace

struct ControlFlow::Entry {
  std::vector<ValueId> reads;
  bool is_random = false;
  bool too_large_to_fold = false;  // it was tried
  std::vector<std::unique_ptr<Body>> bodies;
};

ControlFlow::ControlFlow(LoweredGraph& lowered, const ExecutorOptions& options)
    : graph_(lowered.graph), budget_(options.budget) {
  STROP_CHECK(budget_ != nullptr);
  const auto arena = std::make_shared<Arena>();
  for (auto& [node, bodies] : lowered.bodies) {
    auto entry = std::make_unique<Entry>();
    entry->reads = graph_.Reads(graph_.node(NodeId{node}));
    std::ranges::sort(entry->reads);
    const auto twice = std::ranges::unique(entry->reads);
    entry->reads.erase(twice.begin(), twice.end());
    for (LoweredBody& body : bodies) {
      entry->is_random = entry->is_random || DrawsRandom(body.lowered);
      entry->bodies.push_back(
          std::make_unique<Body>(std::move(body), arena, options));
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

std::optional<ControlFlow::Tensors> ControlFlow::Fold(NodeId id,
                                                      const ValueOf& value_of) {
  Entry& entry = *entries_.at(id.index);
  if (entry.is_random || entry.too_large_to_fold) return std::nullopt;
  size_t bytes_in = 0;
  for (ValueId read : entry.reads) {
    bytes_in += value_of(read).info.known->byte_count();
  }
  try {
    const FoldScope scope(*budget_,
                          std::max(kFoldWork, kFoldPasses * bytes_in));
    Tensors results = Run(id, value_of, {});
    size_t bytes_out = 0;
    for (const auto& result : results) bytes_out += result->view().byte_count();
    // The rule of all nodes: results stay with the plan.
    if (bytes_out <= std::max(kFoldBytes, bytes_in)) return results;
  } catch (const FoldTooLarge&) {
  }
  entry.too_large_to_fold = true;
  return std::nullopt;
}

ControlFlow::Tensors ControlFlow::Run(NodeId id, const ValueOf& value_of,
                                      const RandomKey& random) {
  Tensors tensors;
  for (HeldTensor& result : RunNode(id, value_of, random)) {
    tensors.push_back(std::make_unique<OwnedTensor>(std::move(result).Take()));
  }
  return tensors;
}

std::vector<HeldTensor> ControlFlow::RunNode(NodeId id, const ValueOf& value_of,
                                             const RandomKey& random) {
  Entry& entry = *entries_.at(id.index);
  const Node& node = graph_.node(id);
  ControlRun run = {.node = OpNode(graph_, node),
                    .inputs = {},
                    .random = random,
                    .budget = *budget_};
  run.random.node = static_cast<uint32_t>(id.index);
  for (ValueId input : node.inputs) {
    run.inputs.push_back(input ? std::optional(*value_of(input).info.known)
                               : std::nullopt);
  }
  for (auto& body : entry.bodies) body->Capture(value_of);
  const ReleaseAtEnd release{entry.bodies};
  if (node.op_type == "If")
    return RunIf(run, *entry.bodies[0], *entry.bodies[1]);
  if (node.op_type == "Loop") return RunLoop(run, *entry.bodies[0]);
  return graph_.opset("") < 9 ? RunScan8(run, *entry.bodies[0])
                              : RunScan9(run, *entry.bodies[0]);
}

}  // namespace strop
