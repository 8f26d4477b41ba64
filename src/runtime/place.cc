// SPDX-License-Identifier: Apache-2.0
#include "runtime/place.h"

#include <algorithm>

#include "runtime/memory_plan.h"

namespace strop {
namespace {

constexpr int kNever = -1;

class Placer {
 public:
  explicit Placer(Plan& plan) : plan_(plan) {}

  void Run(std::span<const int> pinned) {
    FindBuffers();
    FindLives(pinned);
    OverwriteInputs();
    Place();
  }

 private:
  int& BufferOf(int slot) { return buffer_of_[static_cast<size_t>(slot)]; }
  BufferLife& LifeOf(int slot) {
    return lives_[static_cast<size_t>(BufferOf(slot))];
  }
  PlanSlot& Slot(int slot) { return plan_.slots[static_cast<size_t>(slot)]; }

  // One buffer for each slot that does not share another's memory. A slot
  // always stands behind the one that it shares.
  void FindBuffers() {
    for (size_t i = 0; i < plan_.slots.size(); ++i) {
      const PlanSlot& slot = plan_.slots[i];
      if (slot.shares >= 0) {
        buffer_of_.push_back(BufferOf(slot.shares));
        continue;
      }
      buffer_of_.push_back(static_cast<int>(lives_.size()));
      const bool placed = slot.storage == PlanSlot::Storage::kArena;
      lives_.push_back({placed ? slot.bytes : 0, kNever, kNever});
      in_arena_.push_back(placed);
    }
  }

  void Touch(int slot, int step) {
    if (slot < 0) return;
    BufferLife& life = LifeOf(slot);
    if (life.first == kNever) life.first = step;
    life.last = std::max(life.last, step);
  }

  void FindLives(std::span<const int> pinned) {
    const int end = static_cast<int>(plan_.steps.size());
    for (int s = 0; s < end; ++s) {
      const PlanStep& step = plan_.steps[static_cast<size_t>(s)];
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (!step.op->shape_inputs.contains(i)) Touch(step.inputs[i], s);
      }
      for (int slot : step.outputs) Touch(slot, s);
    }
    for (int slot : pinned) Touch(slot, end);
  }

  void OverwriteInputs() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      if (step.op->may_overwrite.empty() || step.outputs.empty() ||
          step.outputs[0] < 0) {
        continue;
      }
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.op->may_overwrite.contains(i) &&
            MayOverwrite(step, i, static_cast<int>(s))) {
          Merge(step.outputs[0], step.inputs[i]);
          break;
        }
      }
    }
  }

  bool MayOverwrite(const PlanStep& step, size_t i, int s) {
    const int from = step.inputs[i], to = step.outputs[0];
    if (from < 0 || Slot(to).shares >= 0) return false;
    const PlanSlot& a = Slot(from);
    const PlanSlot& b = Slot(to);
    if (b.storage != PlanSlot::Storage::kArena ||
        !in_arena_[static_cast<size_t>(BufferOf(from))] ||
        a.info.type != b.info.type || !(a.info.shape == b.info.shape) ||
        a.layout != b.layout || LifeOf(from).last != s ||
        LifeOf(from).first == s) {
      return false;
    }
    // Another input that looks at the same memory otherwise is in the way, and
    // so is the same one where it must not be overwritten.
    for (size_t j = 0; j < step.inputs.size(); ++j) {
      const int other = step.inputs[j];
      if (j == i || other < 0 || BufferOf(other) != BufferOf(from)) continue;
      if (other != from || !step.op->may_overwrite.contains(j)) return false;
    }
    // So is an output that already took it.
    for (int output : step.outputs) {
      if (output >= 0 && BufferOf(output) == BufferOf(from)) return false;
    }
    return true;
  }

  void Merge(int slot, int into) {
    const int old = BufferOf(slot), kept = BufferOf(into);
    BufferLife& life = lives_[static_cast<size_t>(kept)];
    life.last = std::max(life.last, lives_[static_cast<size_t>(old)].last);
    lives_[static_cast<size_t>(old)] = {0, 0, 0};
    for (int& buffer : buffer_of_) {
      if (buffer == old) buffer = kept;
    }
  }

  void Place() {
    std::vector<BufferLife> lives = lives_;
    for (BufferLife& life : lives) {
      if (life.first == kNever) life.bytes = 0;  // no step uses it
    }
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const int step = static_cast<int>(s);
      lives.push_back({plan_.steps[s].scratch_bytes, step, step});
    }
    const MemoryPlan memory = PlanMemory(lives);
    for (size_t i = 0; i < plan_.slots.size(); ++i) {
      plan_.slots[i].offset =
          memory.offsets[static_cast<size_t>(buffer_of_[i])];
    }
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      plan_.steps[s].scratch_offset = memory.offsets[lives_.size() + s];
    }
    plan_.arena_bytes = memory.total_bytes;
  }

  Plan& plan_;
  std::vector<int> buffer_of_;  // by slot
  std::vector<BufferLife> lives_;
  std::vector<bool> in_arena_;
};

}  // namespace

void PlaceBuffers(Plan& plan, std::span<const int> pinned) {
  Placer(plan).Run(pinned);
}

}  // namespace strop
