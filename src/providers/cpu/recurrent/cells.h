// SPDX-License-Identifier: Apache-2.0
//
// What happens to the gates in one step of an LSTM or GRU with the default
// activations, for some sequences: one row of numbers for each. The formulas
// stand in ops/recurrent; the order of the gates in a row is that of the ops.
#pragma once

#include <cstdint>

namespace strop {

// One row for each sequence, `stride` numbers apart.
struct ReadRows {
  const float* data = nullptr;  // null: left out
  int64_t stride = 0;
};
struct WriteRows {
  float* data = nullptr;
  int64_t stride = 0;

  operator ReadRows() const { return {data, stride}; }  // NOLINT: no surprise
};

struct CellSize {
  int64_t rows = 0;
  int64_t hidden = 0;
};

// Sums over rows, for a bias. Those of one step are added up on their own and
// then to the total, so that numbers of like size meet.
struct RowSums {
  float* step = nullptr;
  float* total = nullptr;
};

// i, o, f, g, c and h from sums = W x + R h + biases. Results may lie where
// their arguments lie.
struct LstmStep {
  CellSize size = {};
  ReadRows sums = {}, c_before = {};
  WriteRows gates = {}, c = {}, h = {};
};
void RunLstmStep(const LstmStep& step);

// `a`: the gradients of `sums`; in place of dc that of c before the step. The
// gradient of h is dh + dh_step.
struct LstmStepBack {
  CellSize size = {};
  ReadRows gates = {}, c_before = {}, c = {}, dh = {}, dh_step = {};
  WriteRows dc = {}, a = {};
  RowSums bias = {};
};
void RunLstmStepBack(const LstmStepBack& step);

// GRU. The gates z and r:
struct GruGates {
  CellSize size = {};
  ReadRows sums = {};  // W x + R h + biases, of z and r
  WriteRows gates = {};
  // r h, where g is to see h through it; may be left out.
  ReadRows h_before = {};
  WriteRows reset_h = {};
};
void RunGruGates(const GruGates& step);

// g and h. With `recurrent`, which holds Rh h, and its bias:
// g = tanh(sums + r (recurrent + bias)).
struct GruStep {
  CellSize size = {};
  ReadRows sums = {};       // of g
  ReadRows recurrent = {};  // may be left out
  const float* recurrent_bias = nullptr;
  ReadRows h_before = {};
  WriteRows gates = {}, h = {};
};
void RunGruStep(const GruStep& step);

// `a`: the gradients of `sums` for z and g, and with `recurrent` for r, and
// behind these three that of what the reset gate let through. dh becomes the
// part of the gradient of h before the step that does not pass a matrix.
struct GruStepBack {
  CellSize size = {};
  ReadRows gates = {}, h_before = {}, dh_step = {};
  ReadRows recurrent = {};
  const float* recurrent_bias = nullptr;
  WriteRows dh = {}, a = {};
  RowSums bias = {};  // for the four
};
void RunGruStepBack(const GruStepBack& step);

// Without `recurrent`: from the gradient of r h, that of `sums` for r, and
// behind the three gates r h itself.
struct GruResetBack {
  CellSize size = {};
  ReadRows gates = {}, h_before = {}, through = {};
  WriteRows dh = {}, a = {};
  RowSums bias = {};
};
void RunGruResetBack(const GruResetBack& step);

}  // namespace strop
