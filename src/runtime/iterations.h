// SPDX-License-Identifier: Apache-2.0
//
// What Loop and Scan share: they run a sub-graph again and again, carry some
// of its outputs over and stack the others.
#pragma once

#include <vector>

#include "runtime/control_run.h"

namespace strop {

class Iterations {
 public:
  // Inputs of the sub-graph: `first_input` others, the carried values, then
  // `more_inputs`. Outputs: `first_output` others, the carried values, then
  // what is stacked. Throws where the sub-graph has others.
  struct Layout {
    size_t first_input = 0;
    size_t more_inputs = 0;
    size_t first_output = 0;
  };
  Iterations(const ControlRun& run, Body& body, const Layout& layout,
             std::vector<HeldTensor> carried);

  // Runs the sub-graph on the carried values and on the inputs that the
  // caller has set.
  void Run(int64_t iteration);
  // Keeps what the sub-graph gave. Its outputs are gone then: they may be
  // views of carried values.
  void Keep();

  std::vector<HeldTensor>& carried() { return carried_; }
  size_t stacked_count() const { return pieces_.size(); }
  // What output i of those to be stacked gave, by iteration.
  std::vector<HeldTensor>& pieces(size_t i) { return pieces_[i]; }
  // The pieces along a new axis; there is one at least.
  HeldTensor Stacked(size_t i, size_t axis) const;
  // The same where there was no iteration: the declared type, no elements.
  HeldTensor EmptyStack(size_t i, int64_t axis) const;

 private:
  size_t OutputOf(size_t i) const {
    return layout_.first_output + carried_count_ + i;
  }

  const ControlRun& run_;
  Body& body_;
  Layout layout_;
  size_t carried_count_;
  std::vector<HeldTensor> carried_;
  std::vector<std::vector<HeldTensor>> pieces_;
};

}  // namespace strop
