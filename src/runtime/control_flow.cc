// SPDX-License-Identifier: Apache-2.0
#include "runtime/control_flow.h"

#include <span>
#include <utility>

#include "base/throw.h"
#include "runtime/body.h"
#include "runtime/control_run.h"
#include "runtime/segment.h"

namespace strop {
namespace {

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
  std::vector<std::unique_ptr<Body>> bodies;
};

ControlFlow::ControlFlow(LoweredGraph& lowered, const ExecutorOptions& options)
    : graph_(lowered.graph), budget_(options.budget) {
  STROP_CHECK(budget_ != nullptr);
  const auto arena = std::make_shared<Arena>();
  for (auto& [node, bodies] : lowered.bodies) {
    auto entry = std::make_unique<Entry>();
    entry->reads = graph_.Reads(graph_.node(NodeId{node}));
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
