// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "runtime/json.h"
#include "runtime/plan.h"

namespace strop {
namespace {

std::string SlotName(const Plan& plan, const PlanSlot& slot) {
  return plan.graph->value_name(slot.value);
}

std::string StorageText(const PlanSlot& slot) {
  switch (slot.storage) {
    case PlanSlot::Storage::kNone:
      return "shape only";
    case PlanSlot::Storage::kInput:
      return "input";
    case PlanSlot::Storage::kConstant:
      return "constant";
    case PlanSlot::Storage::kArena:
      return fmt::format("@{}", slot.offset);
  }
  return "";
}

// "logits (32, 10) plain @1024"
std::string SlotText(const Plan& plan, int index) {
  if (index < 0) return "-";
  const PlanSlot& slot = plan.slots[static_cast<size_t>(index)];
  if (slot.is_list) return SlotName(plan, slot) + " list";
  std::string text =
      fmt::format("{} {}", SlotName(plan, slot), slot.info.shape.ToString());
  if (slot.layout != Layout::kPlain) {
    text += fmt::format(" {}", LayoutName(slot.layout));
  }
  return text + " " + StorageText(slot);
}

std::string SlotsText(const Plan& plan, const std::vector<int>& slots) {
  std::string text;
  for (int slot : slots) {
    text += (text.empty() ? "" : ", ") + SlotText(plan, slot);
  }
  return text;
}

std::string SlotJson(const Plan& plan, int index) {
  if (index < 0) return "null";
  const PlanSlot& slot = plan.slots[static_cast<size_t>(index)];
  std::string dims;
  for (int64_t dim : slot.info.shape) {
    dims += (dims.empty() ? "" : ",") + std::to_string(dim);
  }
  return fmt::format(
      R"({{"name":{},"type":{},"dims":[{}],"layout":{},"memory":{}}})",
      JsonString(SlotName(plan, slot)),
      JsonString(slot.is_list ? "list" : DataTypeName(slot.info.type)), dims,
      JsonString(LayoutName(slot.layout)), JsonString(StorageText(slot)));
}

std::string SlotsJson(const Plan& plan, const std::vector<int>& slots) {
  std::string json;
  for (int slot : slots) {
    json += (json.empty() ? "" : ",") + SlotJson(plan, slot);
  }
  return json;
}

}  // namespace

std::string DescribePlan(const Plan& plan) {
  std::string text = fmt::format(
      "{} steps, arena {} bytes, constants {} bytes, peak {} bytes\n",
      plan.steps.size(), plan.arena_bytes, plan.constant_bytes,
      plan.peak_bytes());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (i == plan.first_write) text += "--- writes state from here on\n";
    text += fmt::format("{:4} {} \"{}\" [{}]\n", i, step.node->op_type,
                        step.node->name, step.kernel_name);
    text += fmt::format("       in:  {}\n", SlotsText(plan, step.inputs));
    text += fmt::format("       out: {}\n", SlotsText(plan, step.outputs));
    if (step.scratch_bytes > 0) {
      text += fmt::format("       scratch: {} bytes @{}\n", step.scratch_bytes,
                          step.scratch_offset);
    }
    if (!step.declined.empty()) {
      text += fmt::format("       declined: {}\n", step.declined);
    }
  }
  return text;
}

std::string DescribePlanAsJson(const Plan& plan) {
  std::string json =
      fmt::format(R"({{"arena_bytes":{},"constant_bytes":{},"peak_bytes":{},)"
                  R"("first_write":{},"steps":[)",
                  plan.arena_bytes, plan.constant_bytes, plan.peak_bytes(),
                  plan.first_write);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    json += fmt::format(
        R"({}{{"op":{},"node":{},"kernel":{},"declined":{},)"
        R"("inputs":[{}],"outputs":[{}],"scratch_bytes":{},"flops":{}}})",
        i == 0 ? "" : ",", JsonString(step.node->op_type),
        JsonString(step.node->name), JsonString(step.kernel_name),
        JsonString(step.declined), SlotsJson(plan, step.inputs),
        SlotsJson(plan, step.outputs), step.scratch_bytes, step.flops);
  }
  return json + "]}";
}

}  // namespace strop
