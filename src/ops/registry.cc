// SPDX-License-Identifier: Apache-2.0
#include "ops/registry.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "ops/op_util.h"

namespace strop {
namespace ops {

#define STROP_OP(op) extern const OpDef op;
#include "ops/op_list.inc"
#undef STROP_OP

constexpr const OpDef* kList[] = {
#define STROP_OP(op) &op,
#include "ops/op_list.inc"
#undef STROP_OP
};

}  // namespace ops

namespace {

auto Key(const OpDef& op) { return std::tie(op.domain, op.name, op.since); }

const std::vector<const OpDef*>& SortedOps() {
  static const std::vector<const OpDef*> sorted = [] {
    std::vector<const OpDef*> ops(std::begin(ops::kList), std::end(ops::kList));
    std::sort(ops.begin(), ops.end(),
              [](const OpDef* a, const OpDef* b) { return Key(*a) < Key(*b); });
    return ops;
  }();
  return sorted;
}

std::string Range(const Arity& arity) {
  if (arity.min == arity.max) return fmt::format("{}", arity.min);
  if (arity.max == Arity::kVariadic) {
    return fmt::format("at least {}", arity.min);
  }
  return fmt::format("{} to {}", arity.min, arity.max);
}

// The first `min` slots must be present; trailing ones may be left out.
template <class Present>
void CheckSlots(const OpNode& node, std::string_view what, const Arity& arity,
                size_t count, Present present) {
  if (count < static_cast<size_t>(arity.min) ||
      count > static_cast<size_t>(arity.max)) {
    node.Fail(fmt::format("takes {} {}s, not {}", Range(arity), what, count),
              ErrorCode::kInvalidGraph);
  }
  for (size_t i = 0; i < static_cast<size_t>(arity.min); ++i) {
    if (!present(i)) {
      node.Fail(fmt::format("{} {} may not be left out", what, i),
                ErrorCode::kInvalidGraph);
    }
  }
}

}  // namespace

const OpDef* FindOp(std::string_view domain, std::string_view name,
                    int64_t opset,
                    std::span<const CustomOpDomain* const> custom) {
  const OpDef* best = nullptr;
  for (const CustomOpDomain* list : custom) {
    if (list->name != domain) continue;
    for (const OpDef* op : list->ops) {
      if (op->name == name && op->since <= opset &&
          (best == nullptr || op->since > best->since)) {
        best = op;
      }
    }
  }
  if (best != nullptr) return best;
  const auto& ops = SortedOps();
  // The first op behind (domain, name, opset).
  const auto next = std::upper_bound(
      ops.begin(), ops.end(), opset, [&](int64_t version, const OpDef* op) {
        const int64_t since = op->since;
        return std::tie(domain, name, version) <
               std::tie(op->domain, op->name, since);
      });
  if (next == ops.begin()) return nullptr;
  best = *std::prev(next);
  return best->domain == domain && best->name == name ? best : nullptr;
}

std::span<const OpDef* const> AllOps() { return SortedOps(); }

void CheckArity(const OpDef& op, const OpNode& node) {
  const std::vector<ValueId>& inputs = node.node().inputs;
  const std::vector<ValueId>& outputs = node.node().outputs;
  CheckSlots(node, "input", op.inputs, inputs.size(),
             [&](size_t i) { return static_cast<bool>(inputs[i]); });
  CheckSlots(node, "output", op.outputs, outputs.size(),
             [&](size_t i) { return static_cast<bool>(outputs[i]); });
}

void Infer(const OpDef& op, InferContext& context) {
  const OpNode& node = context.node();
  CheckSlots(node, "input", op.inputs, context.input_count(),
             [&](size_t i) { return context.has_input(i); });
  CheckSlots(node, "output", op.outputs, context.output_count(),
             [&](size_t i) { return context.has_output(i); });
  if (op.infer == nullptr) {
    node.Fail("has no shape inference", ErrorCode::kNotImplemented);
  }
  try {
    op.infer(context);
  } catch (const Error& error) {
    // Shape and Tensor know nothing of nodes.
    const std::string_view text = error.what();
    if (text.starts_with('[')) throw;
    node.Fail(text, error.code());
  }
}

}  // namespace strop
