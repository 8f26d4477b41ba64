// SPDX-License-Identifier: Apache-2.0
#include "runtime/choose_recompute.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/memory_plan.h"

namespace strop {
namespace {

constexpr int kNever = -1;

// Rough speeds of one core, for comparing steps with each other.
constexpr double kFlopsPerNanosecond = 50;
constexpr double kBytesPerNanosecond = 10;
// What is given up without a limit: at most this many nanoseconds for a byte
// that is saved, and this part of the time of the step in all: 1 in 16.
constexpr double kMostPerByte = 1.0;
constexpr double kMostOfStep = 0.0625;

size_t At(int index) { return static_cast<size_t>(index); }

bool IsReorder(const PlanStep& step) { return step.op->name == "Reorder"; }

// What giving up a value takes.
struct Offer {
  std::vector<int> choices;  // with those that it leans on
  double cost = 0;           // nanoseconds
  double added = 0;          // bytes that have to be kept longer for it
};

// Time is counted in places of `sequence_`, the order in which steps run.
class Chooser {
 public:
  Chooser(Plan& plan, std::span<const RecomputeChoice> choices,
          std::span<const int> pinned)
      : plan_(plan),
        choices_(choices),
        pinned_(pinned),
        producer_(plan.slots.size(), kNever),
        choice_of_(plan.slots.size(), kNever),
        lazy_(plan.steps.size(), false),
        open_(choices.size(), false),
        chosen_(choices.size(), false),
        rejected_(choices.size(), false) {
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      for (int slot : plan.steps[s].outputs) {
        if (slot >= 0) producer_[At(slot)] = static_cast<int>(s);
      }
      lazy_[s] = IsReorder(plan.steps[s]);
    }
    for (size_t c = 0; c < choices.size(); ++c) {
      choice_of_[At(choices[c].result)] = static_cast<int>(c);
      const int step = producer_[At(choices[c].again)];
      open_[c] = choices[c].open && step != kNever;
      if (step != kNever) lazy_[At(step)] = true;
      // A view costs nothing, and follows what it looks at.
      if (step == kNever) {
        chosen_[c] = choices[c].open && !IsReordered(choices[c].again);
      }
    }
    Analyze();
    for (size_t s : sequence_) step_cost_ += CostOf(s);
  }

  void Run(size_t most_bytes) {
    if (most_bytes == 0) {
      GiveUp(0, kMostOfStep * step_cost_, kMostPerByte);
      return;
    }
    constexpr double kAny = std::numeric_limits<double>::infinity();
    size_t target = most_bytes;
    while (GiveUp(target, kAny, kAny)) {
      const size_t placed = PlanMemory(lives_).total_bytes;
      if (placed <= most_bytes) return;
      // Gaps between buffers: aim lower by as much.
      const size_t excess = placed - most_bytes;
      if (peak_bytes_ <= excess) return;
      target = peak_bytes_ - excess;
    }
  }

  void Apply() {
    for (size_t c = 0; c < choices_.size(); ++c) {
      plan_.slots[At(choices_[c].result)].shares = Chosen(static_cast<int>(c));
    }
    std::vector<PlanStep> steps;
    steps.reserve(sequence_.size());
    for (size_t s : sequence_) steps.push_back(std::move(plan_.steps[s]));
    plan_.steps = std::move(steps);
  }

 private:
  // --- Slots

  int Chosen(int c) const {
    return chosen_[At(c)] ? choices_[At(c)].again : choices_[At(c)].kept;
  }

  // The slot whose memory this one is; -1 at the end.
  int NextOf(int slot) const {
    const int c = choice_of_[At(slot)];
    return c == kNever ? plan_.slots[At(slot)].shares : Chosen(c);
  }

  int RootOf(int slot) const {
    for (int next = slot; next >= 0; next = NextOf(slot)) slot = next;
    return slot;
  }

  // Whether a view looks at a copy in another layout.
  bool IsReordered(int slot) const {
    while (plan_.slots[At(slot)].shares >= 0) {
      slot = plan_.slots[At(slot)].shares;
    }
    const int step = producer_[At(slot)];
    return step != kNever && IsReorder(plan_.steps[At(step)]);
  }

  // Whether the slot is a root's memory by way of the choice.
  bool LeadsTo(int slot, int c) const {
    while (slot >= 0 && slot != choices_[At(c)].result) slot = NextOf(slot);
    return slot >= 0;
  }

  size_t BytesOf(int root) const {
    const PlanSlot& slot = plan_.slots[At(root)];
    return slot.storage == PlanSlot::Storage::kArena ? slot.bytes : 0;
  }

  // Calls fn(slot) for what the step reads.
  template <class F>
  void ForReads(size_t s, F fn) const {
    const PlanStep& step = plan_.steps[s];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] >= 0 && !step.op->shape_inputs.contains(i)) {
        fn(step.inputs[i]);
      }
    }
  }

  // --- The plan as things are chosen now

  void Analyze() {
    Sequence();
    lives_.assign(plan_.slots.size(), {0, kNever, kNever});
    first_read_.assign(choices_.size(), kNever);
    other_read_.assign(choices_.size(), kNever);
    std::vector<std::vector<int>> choices_of_root(plan_.slots.size());
    for (size_t c = 0; c < choices_.size(); ++c) {
      if (chosen_[c] || !open_[c]) continue;
      choices_of_root[At(RootOf(choices_[c].kept))].push_back(
          static_cast<int>(c));
    }
    const auto read = [&](int slot, int place) {
      Touch(slot, place);
      for (int c : choices_of_root[At(RootOf(slot))]) {
        if (!LeadsTo(slot, c)) {
          other_read_[At(c)] = place;
        } else if (first_read_[At(c)] == kNever) {
          first_read_[At(c)] = place;
        }
      }
    };
    const int end = static_cast<int>(sequence_.size());
    for (int place = 0; place < end; ++place) {
      const size_t s = sequence_[At(place)];
      ForReads(s, [&](int slot) { read(slot, place); });
      for (int slot : plan_.steps[s].outputs) {
        if (slot >= 0) Touch(slot, place);
      }
    }
    for (int slot : pinned_) {
      if (slot >= 0) read(slot, end);
    }
    for (int place = 0; place < end; ++place) {
      // Written over an input, an output takes no memory in this step yet.
      if (OverwritesInput(place)) ++OutputLife(place).first;
    }
    FindPeak();
  }

  BufferLife& OutputLife(int place) {
    const PlanStep& step = plan_.steps[sequence_[At(place)]];
    return lives_[At(RootOf(step.outputs[0]))];
  }

  // As PlaceBuffers will have it, but for rare exceptions.
  bool OverwritesInput(int place) {
    const PlanStep& step = plan_.steps[sequence_[At(place)]];
    if (step.op->may_overwrite.empty() || step.outputs.empty() ||
        step.outputs[0] < 0) {
      return false;
    }
    const BufferLife& output = OutputLife(place);
    if (output.first != place || output.last == place) return false;
    const PlanSlot& to = plan_.slots[At(step.outputs[0])];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int slot = step.inputs[i];
      if (slot < 0 || !step.op->may_overwrite.contains(i)) continue;
      const PlanSlot& from = plan_.slots[At(slot)];
      const BufferLife& input = lives_[At(RootOf(slot))];
      if (input.last == place && input.first < place &&
          input.bytes == output.bytes && from.layout == to.layout &&
          from.info.type == to.info.type && from.info.shape == to.info.shape) {
        return true;
      }
    }
    return false;
  }

  // Lazy steps run right before the first step that reads from them.
  void Sequence() {
    sequence_.clear();
    std::vector<bool> placed(plan_.steps.size(), false);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (!lazy_[s]) PlaceStep(s, placed);
    }
    for (int slot : pinned_) {
      if (slot >= 0) PlaceProducer(slot, placed);
    }
  }

  // Nests as deep as values are computed again from one another: a chain of
  // thousands is beyond any net.
  void PlaceStep(size_t s, std::vector<bool>& placed) {
    ForReads(s, [&](int slot) { PlaceProducer(slot, placed); });
    placed[s] = true;
    sequence_.push_back(s);
  }

  void PlaceProducer(int slot, std::vector<bool>& placed) {
    const int producer = producer_[At(RootOf(slot))];
    if (producer == kNever || !lazy_[At(producer)]) return;
    if (!placed[At(producer)]) PlaceStep(At(producer), placed);
  }

  void Touch(int slot, int place) {
    const int root = RootOf(slot);
    BufferLife& life = lives_[At(root)];
    if (life.first == kNever) life.first = place;
    life.bytes = BytesOf(root);
    life.last = place;
  }

  void FindPeak() {
    std::vector<int64_t> change(sequence_.size() + 2, 0);
    for (const BufferLife& life : lives_) {
      if (life.first == kNever) continue;
      change[At(life.first)] += static_cast<int64_t>(life.bytes);
      change[At(life.last) + 1] -= static_cast<int64_t>(life.bytes);
    }
    int64_t live = 0;
    peak_bytes_ = 0;
    for (size_t place = 0; place < sequence_.size(); ++place) {
      live += change[place];
      const size_t bytes = static_cast<size_t>(live) +
                           plan_.steps[sequence_[place]].scratch_bytes;
      if (bytes <= peak_bytes_) continue;
      peak_bytes_ = bytes;
      peak_ = static_cast<int>(place);
    }
  }

  // --- Choosing

  double CostOf(size_t s) const {
    const PlanStep& step = plan_.steps[s];
    size_t bytes = 0;
    for (const auto* slots : {&step.inputs, &step.outputs}) {
      for (int slot : *slots) {
        if (slot >= 0) bytes += plan_.slots[At(slot)].bytes;
      }
    }
    return step.flops / kFlopsPerNanosecond +
           static_cast<double>(bytes) / kBytesPerNanosecond;
  }

  // Until the peak is at most `target`; false if it stays above. `budget` is
  // for all values in nanoseconds, `per_byte` for each.
  bool GiveUp(size_t target, double budget, double per_byte) {
    std::vector<bool> lowest = chosen_;
    size_t lowest_bytes = peak_bytes_;
    while (peak_bytes_ > target) {
      const Offer best = FindBest(per_byte, budget - spent_);
      if (best.choices.empty()) break;
      const size_t before = peak_bytes_;
      for (int c : best.choices) chosen_[At(c)] = true;
      Analyze();
      if (peak_bytes_ <= before) {
        spent_ += best.cost;
        if (peak_bytes_ < lowest_bytes) {
          lowest_bytes = peak_bytes_;
          lowest = chosen_;
        }
        continue;
      }
      // Where it is computed again more is held than at the peak.
      for (int c : best.choices) chosen_[At(c)] = false;
      rejected_[At(best.choices[0])] = true;
      Analyze();
    }
    if (chosen_ != lowest) {  // the last were in vain
      chosen_ = lowest;
      Analyze();
    }
    return peak_bytes_ <= target;
  }

  Offer FindBest(double per_byte, double budget) const {
    Offer best;
    double best_rate = per_byte;
    for (int c = 0; c < static_cast<int>(choices_.size()); ++c) {
      if (!IsIdleAtPeak(c)) continue;
      Offer offer;
      AddChoice(c, first_read_[At(c)], offer);
      const double saved =
          static_cast<double>(BytesOf(RootOf(choices_[At(c)].kept))) -
          offer.added;
      if (saved <= 0 || offer.cost > budget || offer.cost > best_rate * saved) {
        continue;
      }
      best_rate = offer.cost / saved;
      best = std::move(offer);
    }
    return best;
  }

  // Whether the value lives over the peak only for readers of the choice.
  bool IsIdleAtPeak(int c) const {
    if (chosen_[At(c)] || rejected_[At(c)] || !open_[At(c)]) return false;
    const BufferLife& life = lives_[At(RootOf(choices_[At(c)].kept))];
    return life.first != kNever && life.first < peak_ &&
           other_read_[At(c)] < peak_ && first_read_[At(c)] > peak_;
  }

  void AddChoice(int c, int place, Offer& offer) const {
    if (std::ranges::find(offer.choices, c) != offer.choices.end()) return;
    offer.choices.push_back(c);
    const auto step = At(producer_[At(choices_[At(c)].again)]);
    offer.cost += CostOf(step);
    AddInputs(step, place, offer);
  }

  // What the step, run again at `place`, reads is there then, or there at the
  // peak anyway, or computed again itself, or has to be kept.
  void AddInputs(size_t s, int place, Offer& offer) const {
    ForReads(s, [&](int slot) {
      const int root = RootOf(slot);
      const BufferLife& life = lives_[At(root)];
      const int producer = producer_[At(root)];
      if (BytesOf(root) == 0 || producer == kNever) return;
      if (life.first == kNever) return AddInputs(At(producer), place, offer);
      if (life.last >= std::min(place, peak_)) return;
      const int other = OpenChoiceOf(slot);
      if (other != kNever) return AddChoice(other, place, offer);
      offer.added += static_cast<double>(BytesOf(root));
    });
  }

  // The choice by which the slot is its root's memory, if it can still be made.
  int OpenChoiceOf(int slot) const {
    for (; slot >= 0; slot = NextOf(slot)) {
      const int c = choice_of_[At(slot)];
      if (c != kNever && !chosen_[At(c)] && open_[At(c)]) return c;
    }
    return kNever;
  }

  Plan& plan_;
  std::span<const RecomputeChoice> choices_;
  std::span<const int> pinned_;
  std::vector<int> producer_;   // by slot: a step
  std::vector<int> choice_of_;  // by slot: whose result it is
  std::vector<bool> lazy_;      // by step: runs where and if it is needed
  std::vector<bool> open_;      // by choice: to be made here
  std::vector<bool> chosen_;    // by choice: computed again
  std::vector<bool> rejected_;  // by choice: would raise the peak
  double step_cost_ = 0, spent_ = 0;

  // As things are chosen now:
  std::vector<size_t> sequence_;   // steps
  std::vector<BufferLife> lives_;  // by slot; of roots
  std::vector<int> first_read_;    // by open choice: of its result
  std::vector<int> other_read_;    // by open choice: last of the value, else
  int peak_ = 0;                   // where most is held
  size_t peak_bytes_ = 0;
};

}  // namespace

void ChooseRecompute(Plan& plan, std::span<const RecomputeChoice> choices,
                     std::span<const int> pinned, size_t most_bytes) {
  if (choices.empty()) return;
  Chooser chooser(plan, choices, pinned);
  chooser.Run(most_bytes);
  chooser.Apply();
}

}  // namespace strop
