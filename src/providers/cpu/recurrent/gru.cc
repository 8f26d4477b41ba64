// SPDX-License-Identifier: Apache-2.0
//
// With linear_before_reset a step is one product with R: g sees r (Rh h +
// bias). Otherwise it is two: that of z and r, then Rh (r h).
#include <algorithm>
#include <memory>
#include <string>

#include "providers/cpu/recurrent/kernels.h"
#include "providers/cpu/recurrent/sequences.h"

namespace strop {
namespace {

using ops::recurrent::OptionalIn;
using ops::recurrent::OptionalOut;
using ops::recurrent::Rows;
using ops::recurrent::Settings;
using ops::recurrent::StateRows;
using ops::recurrent::StepAt;
using ops::recurrent::StepRows;

void Clear(const CellSize& size, const WriteRows& rows) {
  for (int64_t i = 0; i < size.rows; ++i) {
    std::fill_n(rows.data + i * rows.stride, size.hidden, 0.0f);
  }
}

WriteRows Columns(const WriteRows& rows, int64_t first) {
  return {rows.data + first, rows.stride};
}

// --- Forward: X, W, R, bias, lengths, first h -> h of all steps, last h,
// gates of all steps

class Gru final : public Kernel {
 public:
  Gru(const KernelRequest& request, const Settings& s)
      : s_(s),
        linear_(request.node.Int("linear_before_reset", 0) != 0),
        gates_(s.gate_count()),
        // Linear, the bias of Rh is added elsewhere.
        projection_(s, /*recurrent=*/linear_ ? 2 : 3, request.num_threads),
        zr_(s, /*trans_b=*/true, 2 * s.hidden, s.hidden, /*first_row=*/0),
        g_(s, /*trans_b=*/true, s.hidden, s.hidden, /*first_row=*/2 * s.hidden),
        // With one direction the sums become the gates where they are.
        in_place_(s.directions == 1 && request.has_output(2)) {
    const double rows = static_cast<double>(s.steps * s.batch * s.directions);
    step_flops_ = rows * 2 * static_cast<double>(gates_ * s.hidden);
    shares_ = Shares(s, step_flops_, request.num_threads);
    const int64_t states = s.StateShape().element_count();
    ScratchLayout layout;
    projection_scratch_ = layout.Add(projection_.scratch_bytes());
    packed_zr_ = layout.Add(zr_.scratch_bytes());
    packed_g_ = layout.Add(g_.scratch_bytes());
    if (!in_place_) {
      sums_ = layout.AddFloats(s.directions * s.steps * s.batch * gates_);
    }
    // Where no output takes them, two h in turn.
    if (!request.has_output(0)) h_ = layout.AddFloats(2 * states);
    // Rh h, or r h.
    reset_ = layout.AddFloats(states);
    scratch_bytes_ = layout.total();
  }

  size_t scratch_bytes() const { return scratch_bytes_; }
  double flops() const { return step_flops_ + projection_.flops(); }

  void Run(const KernelContext& context) override {
    const Settings& s = s_;
    float* sums =
        in_place_ ? OptionalOut<float>(context, 2) : FloatsAt(context, sums_);
    projection_.Run(context, projection_scratch_, sums);
    const float* r = context.in<float>(2).data();
    zr_.Pack(context, r, context.scratch() + packed_zr_);
    g_.Pack(context, r, context.scratch() + packed_g_);
    shares_.ForEach(context, [&](int64_t, const Share& share) {
      Walk(context, share, RowsLikeInput(s, gates_, sums));
    });
  }

 private:
  const float* Bias(const KernelContext& context, int64_t d) const {
    return ops::recurrent::OfDirection<float>(context, 3, d, 2 * gates_);
  }

  void Walk(const KernelContext& context, const Share& share,
            const Rows<float>& all_sums) const {
    const Settings& s = s_;
    auto all_h = StepRows(s, s.hidden, OptionalOut<float>(context, 0));
    const bool keeps_all = static_cast<bool>(all_h);
    if (!keeps_all) {
      all_h = StateRows(s, FloatsAt(context, h_));
      all_h.step = s.StateShape().element_count();
    }
    const auto all_gates = StepRows(s, gates_, OptionalOut<float>(context, 2));
    const WriteRows reset =
        RowsOf(StateRows(s, FloatsAt(context, reset_)), 0, share);
    ReadRows h = RowsOf(StateRows(s, OptionalIn<float>(context, 5)), 0, share);
    for (int64_t k = 0; k < s.steps; ++k) {
      const int64_t t = StepAt(s, share.direction, s.steps, k);
      const WriteRows sums = RowsOf(all_sums, t, share);
      WriteRows gates = in_place_ ? sums : RowsOf(all_gates, t, share);
      if (gates.data == nullptr) gates = sums;
      const WriteRows next = RowsOf(all_h, keeps_all ? t : t % 2, share);
      Step(context, share, h, sums, reset, gates, next);
      h = next;
    }
    Finish(share, h, StateRows(s, OptionalOut<float>(context, 1)));
  }

  void Step(const KernelContext& context, const Share& share, const ReadRows& h,
            const WriteRows& sums, const WriteRows& reset,
            const WriteRows& gates, const WriteRows& next) const {
    const CellSize size = {share.count(), s_.hidden};
    const WriteRows sums_of_g = Columns(sums, 2 * s_.hidden);
    const std::byte* packed_g = context.scratch() + packed_g_;
    if (h.data != nullptr) {
      zr_.Run(share, h, sums, /*accumulate=*/true,
              context.scratch() + packed_zr_);
    }
    GruStep step = {.size = size,
                    .sums = sums_of_g,
                    .h_before = h,
                    .gates = gates,
                    .h = next};
    if (linear_) {
      if (h.data != nullptr) {
        g_.Run(share, h, reset, /*accumulate=*/false, packed_g);
      } else {
        Clear(size, reset);
      }
      RunGruGates({.size = size, .sums = sums, .gates = gates});
      step.recurrent = reset;
      if (const float* bias = Bias(context, share.direction)) {
        step.recurrent_bias = bias + gates_ + 2 * s_.hidden;
      }
    } else {
      RunGruGates({.size = size,
                   .sums = sums,
                   .gates = gates,
                   .h_before = h,
                   .reset_h = reset});
      if (h.data != nullptr) {
        g_.Run(share, reset, sums_of_g, /*accumulate=*/true, packed_g);
      }
    }
    RunGruStep(step);
  }

  void Finish(const Share& share, const ReadRows& h,
              const Rows<float>& last) const {
    if (!last) return;
    for (int64_t b = share.begin; b < share.end; ++b) {
      std::copy_n(h.data + (b - share.begin) * h.stride, s_.hidden,
                  last.at(share.direction, b));
    }
  }

  Settings s_;
  bool linear_;
  int64_t gates_;
  Projection projection_;
  StepProduct zr_, g_;
  bool in_place_;
  Shares shares_;
  double step_flops_ = 0;
  size_t projection_scratch_ = 0, packed_zr_ = 0, packed_g_ = 0;
  size_t sums_ = 0, h_ = 0, reset_ = 0, scratch_bytes_ = 0;
};

// --- Backward

using namespace ops::recurrent::gru_grad;

// -> dX, dW, dR, dbias, gradient of the first h.
//
// A row of `a` holds the gradients of what enters z, r and g, and in a fourth
// part what the rows of g in dR are made of: with linear_before_reset the
// gradient of Rh h, otherwise r h.
class GruGrad final : public Kernel {
 public:
  GruGrad(const KernelRequest& request, const Settings& s)
      : s_(s),
        linear_(request.node.Int("linear_before_reset", 0) != 0),
        gates_(s.gate_count()),
        columns_(4 * s.hidden),
        rows_(s.steps * s.batch),
        recompute_(s, /*trans_b=*/true, s.hidden, s.hidden, 2 * s.hidden),
        zr_(s, /*trans_b=*/false, s.hidden, 2 * s.hidden, /*first_row=*/0),
        g_(s, /*trans_b=*/false, s.hidden, s.hidden, 2 * s.hidden),
        dx_(s, columns_, request.num_threads),
        dw_(WeightProduct(s.gate_count(), s.input, s.input,
                          request.num_threads)),
        before_(s, request.has_input(kFirst)),
        dr_zr_(s, before_, 2 * s.hidden, columns_, request.num_threads),
        dr_g_linear_(s, before_, s.hidden, columns_, request.num_threads),
        dr_g_(
            WeightProduct(s.hidden, s.hidden, columns_, request.num_threads)) {
    const double all_rows = static_cast<double>(rows_ * s.directions);
    step_flops_ = all_rows * 2 * static_cast<double>(gates_ * s.hidden);
    if (linear_) step_flops_ = step_flops_ * 4 / 3;
    shares_ = Shares(s, step_flops_, request.num_threads);
    const double directions = static_cast<double>(s.directions);
    flops_ = step_flops_;
    if (request.has_output(0)) flops_ += dx_.flops();
    if (request.has_output(1)) flops_ += directions * dw_.flops();
    if (request.has_output(2)) {
      flops_ += directions * (dr_zr_.flops() + dr_g_.flops());
    }

    const int64_t states = s.StateShape().element_count();
    ScratchLayout layout;
    if (linear_) packed_recompute_ = layout.Add(recompute_.scratch_bytes());
    packed_zr_ = layout.Add(zr_.scratch_bytes());
    packed_g_ = layout.Add(g_.scratch_bytes());
    gemm_scratch_ = layout.Add(std::max(
        {dx_.scratch_bytes(), dw_.scratch_bytes(), dr_zr_.scratch_bytes(),
         dr_g_linear_.scratch_bytes(), dr_g_.scratch_bytes()}));
    before_scratch_ = layout.Add(before_.scratch_bytes());
    a_ = layout.AddFloats(s.directions * rows_ * columns_);
    dh_ = layout.AddFloats(states);
    reset_ = layout.AddFloats(states);
    bias_sums_ = layout.AddFloats(shares_.count() * 2 * columns_);
    scratch_bytes_ = layout.total();
  }

  size_t scratch_bytes() const { return scratch_bytes_; }
  double flops() const { return flops_; }

  void Run(const KernelContext& context) override {
    const float* r = context.in<float>(kR).data();
    if (linear_) {
      recompute_.Pack(context, r, context.scratch() + packed_recompute_);
    }
    zr_.Pack(context, r, context.scratch() + packed_zr_);
    g_.Pack(context, r, context.scratch() + packed_g_);
    shares_.ForEach(context, [&](int64_t i, const Share& share) {
      Walk(context, i, share);
    });
    const float* a = FloatsAt(context, a_);
    if (float* dx = OptionalOut<float>(context, 0)) {
      dx_.Run(context, a, context.in<float>(kW).data(), dx,
              context.scratch() + gemm_scratch_);
    }
    for (int64_t d = 0; d < s_.directions; ++d) {
      WeightGradients(context, d, a + d * rows_ * columns_);
    }
  }

 private:
  // (rows x n) = a' B over all rows of X.
  Gemm WeightProduct(int64_t rows, int64_t n, int64_t ldb,
                     int num_threads) const {
    GemmProblem problem = GemmProblem::Dense(
        /*trans_a=*/true, /*trans_b=*/false, rows, n, rows_);
    problem.lda = columns_;
    problem.ldb = ldb;
    return Gemm(problem, num_threads);
  }

  float* BiasSums(const KernelContext& context, int64_t i) const {
    return FloatsAt(context, bias_sums_) + i * 2 * columns_;
  }

  // Fills `a` and the gradient of the first state.
  void Walk(const KernelContext& context, int64_t i, const Share& share) const {
    const Settings& s = s_;
    const auto all = StepRows(s, s.hidden, OptionalIn<float>(context, kAll));
    const auto first = StateRows(s, OptionalIn<float>(context, kFirst));
    const auto gates = StepRows(s, gates_, OptionalIn<float>(context, kGates));
    const auto d_all = StepRows(s, s.hidden, OptionalIn<float>(context, kDAll));
    const auto a = RowsLikeInput(s, columns_, FloatsAt(context, a_));
    const WriteRows dh = StartGradient(context, s, kDLast, 4, dh_, share);
    float* sums = BiasSums(context, i);
    std::fill_n(sums, 2 * columns_, 0.0f);
    for (int64_t k = s.steps; k-- > 0;) {
      const int64_t t = StepAt(s, share.direction, s.steps, k);
      const ReadRows before =
          k > 0 ? RowsOf(all, StepAt(s, share.direction, s.steps, k - 1), share)
                : RowsOf(first, 0, share);
      GruStepBack step = {.size = {share.count(), s.hidden},
                          .gates = RowsOf(gates, t, share),
                          .h_before = before,
                          .dh_step = RowsOf(d_all, t, share),
                          .dh = dh,
                          .a = RowsOf(a, t, share),
                          .bias = {.step = sums, .total = sums + columns_}};
      const bool wants_dh = k > 0 || context.has_output(4);
      if (linear_) {
        StepLinear(context, share, step, wants_dh);
      } else {
        StepThroughReset(context, share, step, wants_dh);
      }
    }
  }

  void StepLinear(const KernelContext& context, const Share& share,
                  GruStepBack& step, bool wants_dh) const {
    const WriteRows recurrent =
        RowsOf(StateRows(s_, FloatsAt(context, reset_)), 0, share);
    if (step.h_before.data != nullptr) {
      recompute_.Run(share, step.h_before, recurrent, /*accumulate=*/false,
                     context.scratch() + packed_recompute_);
    } else {
      Clear(step.size, recurrent);
    }
    step.recurrent = recurrent;
    if (const float* bias = ops::recurrent::OfDirection<float>(
            context, kBias, share.direction, 2 * gates_)) {
      step.recurrent_bias = bias + gates_ + 2 * s_.hidden;
    }
    RunGruStepBack(step);
    if (!wants_dh) return;
    zr_.Run(share, step.a, step.dh, /*accumulate=*/true,
            context.scratch() + packed_zr_);
    g_.Run(share, Columns(step.a, gates_), step.dh, /*accumulate=*/true,
           context.scratch() + packed_g_);
  }

  void StepThroughReset(const KernelContext& context, const Share& share,
                        const GruStepBack& step, bool wants_dh) const {
    RunGruStepBack(step);
    const WriteRows through =
        RowsOf(StateRows(s_, FloatsAt(context, reset_)), 0, share);
    g_.Run(share, Columns(step.a, 2 * s_.hidden), through, /*accumulate=*/false,
           context.scratch() + packed_g_);
    RunGruResetBack({.size = step.size,
                     .gates = step.gates,
                     .h_before = step.h_before,
                     .through = through,
                     .dh = step.dh,
                     .a = step.a,
                     .bias = step.bias});
    if (!wants_dh) return;
    zr_.Run(share, step.a, step.dh, /*accumulate=*/true,
            context.scratch() + packed_zr_);
  }

  void WeightGradients(const KernelContext& context, int64_t d,
                       const float* a) {
    const int64_t n = s_.hidden;
    std::byte* scratch = context.scratch() + gemm_scratch_;
    if (float* dw = OptionalOut<float>(context, 1)) {
      dw_.Run(context,
              {.a = a,
               .b = context.in<float>(kX).data(),
               .c = dw + d * gates_ * s_.input},
              scratch);
    }
    if (float* dr = OptionalOut<float>(context, 2)) {
      dr += d * gates_ * n;
      before_.Prepare(context, d, context.in<float>(kAll).data(),
                      OptionalIn<float>(context, kFirst),
                      context.scratch() + before_scratch_);
      dr_zr_.Run(context, before_, a, /*accumulate=*/false, dr, scratch);
      float* dr_of_g = dr + 2 * n * n;
      if (linear_) {
        dr_g_linear_.Run(context, before_, a + gates_, /*accumulate=*/false,
                         dr_of_g, scratch);
      } else {
        dr_g_.Run(context, {.a = a + 2 * n, .b = a + gates_, .c = dr_of_g},
                  scratch);
      }
    }
    if (float* dbias = OptionalOut<float>(context, 3)) {
      BiasGradient(context, d, dbias + d * 2 * gates_);
    }
  }

  void BiasGradient(const KernelContext& context, int64_t d,
                    float* dbias) const {
    const int64_t n = s_.hidden;
    std::fill_n(dbias, 2 * gates_, 0.0f);
    float* of_r = dbias + gates_;
    for (int64_t i = 0; i < shares_.count(); ++i) {
      if (shares_.share(i).direction != d) continue;
      const float* total = BiasSums(context, i) + columns_;
      for (int64_t j = 0; j < gates_; ++j) dbias[j] += total[j];
      const float* of_g = total + (linear_ ? gates_ : 2 * n);
      for (int64_t j = 0; j < n; ++j) of_r[2 * n + j] += of_g[j];
    }
    std::copy_n(dbias, 2 * n, of_r);
  }

  Settings s_;
  bool linear_;
  int64_t gates_, columns_, rows_;
  StepProduct recompute_, zr_, g_;
  InputProduct dx_;
  Gemm dw_;
  StatesBefore before_;
  StateProduct dr_zr_, dr_g_linear_;
  Gemm dr_g_;
  Shares shares_;
  double step_flops_ = 0, flops_ = 0;
  size_t packed_recompute_ = 0, packed_zr_ = 0, packed_g_ = 0;
  size_t gemm_scratch_ = 0, before_scratch_ = 0, a_ = 0, dh_ = 0, reset_ = 0;
  size_t bias_sums_ = 0, scratch_bytes_ = 0;
};

template <class KernelType>
KernelChoice Choose(const KernelRequest& request) {
  const Settings s =
      ops::recurrent::ReadSettings(request, ops::recurrent::kGru);
  std::string reason =
      RecurrentDeclines(request, s, ops::recurrent::kGru, kLengths);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  return RecurrentChoice<KernelType>(request, s);
}

}  // namespace

KernelChoice ChooseGru(const KernelRequest& request) {
  return Choose<Gru>(request);
}

KernelChoice ChooseGruGrad(const KernelRequest& request) {
  return Choose<GruGrad>(request);
}

}  // namespace strop
