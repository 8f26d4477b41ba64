// SPDX-License-Identifier: Apache-2.0
//
// LSTM: a step is one product with R.
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

// --- Forward: X, W, R, bias, lengths, first h, first c, peepholes -> h of all
// steps, last h, last c, c of all steps, gates of all steps

class Lstm final : public Kernel {
 public:
  Lstm(const KernelRequest& request, const Settings& s)
      : s_(s),
        gates_(s.gate_count()),
        projection_(s, /*recurrent=*/s.gates, request.num_threads),
        recurrent_(s, /*trans_b=*/true, gates_, s.hidden, /*first_row=*/0),
        // With one direction the sums become the gates where they are.
        in_place_(s.directions == 1 && request.has_output(4)) {
    const double rows = static_cast<double>(s.steps * s.batch * s.directions);
    step_flops_ = rows * 2 * static_cast<double>(gates_ * s.hidden);
    shares_ = Shares(s, step_flops_, request.num_threads);
    const int64_t states = s.StateShape().element_count();
    ScratchLayout layout;
    projection_scratch_ = layout.Add(projection_.scratch_bytes());
    packed_ = layout.Add(recurrent_.scratch_bytes());
    if (!in_place_) {
      sums_ = layout.AddFloats(s.directions * s.steps * s.batch * gates_);
    }
    // Where no output takes them, two h in turn and one c.
    if (!request.has_output(0)) h_ = layout.AddFloats(2 * states);
    if (!request.has_output(3)) c_ = layout.AddFloats(states);
    scratch_bytes_ = layout.total();
  }

  size_t scratch_bytes() const { return scratch_bytes_; }
  double flops() const { return step_flops_ + projection_.flops(); }

  void Run(const KernelContext& context) override {
    const Settings& s = s_;
    float* sums =
        in_place_ ? OptionalOut<float>(context, 4) : FloatsAt(context, sums_);
    projection_.Run(context, projection_scratch_, sums);
    recurrent_.Pack(context, context.in<float>(2).data(),
                    context.scratch() + packed_);
    const States states = {
        .sums = RowsLikeInput(s, gates_, sums),
        .gates = in_place_
                     ? RowsLikeInput(s, gates_, sums)
                     : StepRows(s, gates_, OptionalOut<float>(context, 4)),
        .h = StatesOrScratch(context, 0, h_, 2),
        .c = StatesOrScratch(context, 3, c_, 1),
        .first_h = StateRows(s, OptionalIn<float>(context, 5)),
        .first_c = StateRows(s, OptionalIn<float>(context, 6))};
    shares_.ForEach(context, [&](int64_t, const Share& share) {
      Walk(share, states, context.scratch() + packed_);
      Finish(states.h, share, StateRows(s, OptionalOut<float>(context, 1)));
      Finish(states.c, share, StateRows(s, OptionalOut<float>(context, 2)));
    });
  }

 private:
  // A state of every step, or of every `period`-th at the same place.
  struct StateOfSteps {
    Rows<float> rows;
    int64_t period;

    WriteRows at(int64_t t, const Share& share) const {
      return RowsOf(rows, t % period, share);
    }
  };
  struct States {
    Rows<float> sums, gates;
    StateOfSteps h, c;
    Rows<const float> first_h, first_c;
  };

  StateOfSteps StatesOrScratch(const KernelContext& context, size_t output,
                               size_t scratch, int64_t period) const {
    if (float* all = OptionalOut<float>(context, output)) {
      return {StepRows(s_, s_.hidden, all), s_.steps};
    }
    Rows<float> rows = StateRows(s_, FloatsAt(context, scratch));
    rows.step = s_.StateShape().element_count();
    return {rows, period};
  }

  void Walk(const Share& share, const States& states,
            const std::byte* packed) const {
    ReadRows h = RowsOf(states.first_h, 0, share);
    ReadRows c = RowsOf(states.first_c, 0, share);
    for (int64_t k = 0; k < s_.steps; ++k) {
      const int64_t t = StepAt(s_, share.direction, s_.steps, k);
      const WriteRows sums = RowsOf(states.sums, t, share);
      if (h.data != nullptr) {
        recurrent_.Run(share, h, sums, /*accumulate=*/true, packed);
      }
      LstmStep step = {.size = {share.count(), s_.hidden},
                       .sums = sums,
                       .c_before = c,
                       .gates = RowsOf(states.gates, t, share),
                       .c = states.c.at(t, share),
                       .h = states.h.at(t, share)};
      if (!states.gates) step.gates = sums;
      RunLstmStep(step);
      h = step.h;
      c = step.c;
    }
  }

  // Copies the state of the last step.
  void Finish(const StateOfSteps& states, const Share& share,
              const Rows<float>& last) const {
    if (!last) return;
    const ReadRows rows =
        states.at(StepAt(s_, share.direction, s_.steps, s_.steps - 1), share);
    for (int64_t b = share.begin; b < share.end; ++b) {
      std::copy_n(rows.data + (b - share.begin) * rows.stride, s_.hidden,
                  last.at(share.direction, b));
    }
  }

  Settings s_;
  int64_t gates_;
  Projection projection_;
  StepProduct recurrent_;
  bool in_place_;
  Shares shares_;
  double step_flops_ = 0;
  size_t projection_scratch_ = 0, packed_ = 0;
  size_t sums_ = 0, h_ = 0, c_ = 0, scratch_bytes_ = 0;
};

// --- Backward

using namespace ops::recurrent::lstm_grad;

// -> dX, dW, dR, dbias, gradients of the first h and c
class LstmGrad final : public Kernel {
 public:
  LstmGrad(const KernelRequest& request, const Settings& s)
      : s_(s),
        gates_(s.gate_count()),
        recurrent_(s, /*trans_b=*/false, s.hidden, gates_, /*first_row=*/0),
        dx_(s, gates_, request.num_threads),
        dw_(GemmProblem::Dense(/*trans_a=*/true, /*trans_b=*/false, gates_,
                               s.input, s.steps * s.batch),
            request.num_threads),
        before_(s, request.has_input(kFirstH)),
        dr_(s, before_, gates_, gates_, request.num_threads) {
    const double rows = static_cast<double>(s.steps * s.batch * s.directions);
    step_flops_ = rows * 2 * static_cast<double>(gates_ * s.hidden);
    shares_ = Shares(s, step_flops_, request.num_threads);
    flops_ = step_flops_;
    if (request.has_output(0)) flops_ += dx_.flops();
    const double directions = static_cast<double>(s.directions);
    if (request.has_output(1)) flops_ += directions * dw_.flops();
    if (request.has_output(2)) flops_ += directions * dr_.flops();

    const int64_t states = s.StateShape().element_count();
    ScratchLayout layout;
    packed_ = layout.Add(recurrent_.scratch_bytes());
    gemm_scratch_ = layout.Add(std::max(
        {dx_.scratch_bytes(), dw_.scratch_bytes(), dr_.scratch_bytes()}));
    before_scratch_ = layout.Add(before_.scratch_bytes());
    a_ = layout.AddFloats(s.directions * s.steps * s.batch * gates_);
    dh_ = layout.AddFloats(states);
    dc_ = layout.AddFloats(states);
    bias_sums_ = layout.AddFloats(shares_.count() * 2 * gates_);
    scratch_bytes_ = layout.total();
  }

  size_t scratch_bytes() const { return scratch_bytes_; }
  double flops() const { return flops_; }

  void Run(const KernelContext& context) override {
    recurrent_.Pack(context, context.in<float>(kR).data(),
                    context.scratch() + packed_);
    shares_.ForEach(context, [&](int64_t i, const Share& share) {
      Walk(context, i, share);
    });
    const float* a = FloatsAt(context, a_);
    if (float* dx = OptionalOut<float>(context, 0)) {
      dx_.Run(context, a, context.in<float>(kW).data(), dx,
              context.scratch() + gemm_scratch_);
    }
    for (int64_t d = 0; d < s_.directions; ++d) {
      WeightGradients(context, d, a + d * s_.steps * s_.batch * gates_);
    }
  }

 private:
  float* BiasSums(const KernelContext& context, int64_t i) const {
    return FloatsAt(context, bias_sums_) + i * 2 * gates_;
  }

  // Fills `a` and the gradients of the first states.
  void Walk(const KernelContext& context, int64_t i, const Share& share) const {
    const Settings& s = s_;
    const auto all_c = StepRows(s, s.hidden, OptionalIn<float>(context, kAllC));
    const auto gates = StepRows(s, gates_, OptionalIn<float>(context, kGates));
    const auto d_all_h =
        StepRows(s, s.hidden, OptionalIn<float>(context, kDAllH));
    const auto a = RowsLikeInput(s, gates_, FloatsAt(context, a_));
    const WriteRows dh = StartGradient(context, s, kDLastH, 4, dh_, share);
    const WriteRows dc = StartGradient(context, s, kDLastC, 5, dc_, share);
    float* sums = BiasSums(context, i);
    std::fill_n(sums, 2 * gates_, 0.0f);
    for (int64_t k = s.steps; k-- > 0;) {
      const int64_t t = StepAt(s, share.direction, s.steps, k);
      const WriteRows a_step = RowsOf(a, t, share);
      RunLstmStepBack({.size = {share.count(), s.hidden},
                       .gates = RowsOf(gates, t, share),
                       .c_before = Before(context, all_c, share, k),
                       .c = RowsOf(all_c, t, share),
                       .dh = dh,
                       .dh_step = RowsOf(d_all_h, t, share),
                       .dc = dc,
                       .a = a_step,
                       .bias = {.step = sums, .total = sums + gates_}});
      if (k == 0 && !context.has_output(4)) return;
      recurrent_.Run(share, a_step, dh, /*accumulate=*/false,
                     context.scratch() + packed_);
    }
  }

  ReadRows Before(const KernelContext& context, const Rows<const float>& all_c,
                  const Share& share, int64_t k) const {
    if (k > 0) {
      return RowsOf(all_c, StepAt(s_, share.direction, s_.steps, k - 1), share);
    }
    return RowsOf(StateRows(s_, OptionalIn<float>(context, kFirstC)), 0, share);
  }

  void WeightGradients(const KernelContext& context, int64_t d,
                       const float* a) {
    std::byte* scratch = context.scratch() + gemm_scratch_;
    if (float* dw = OptionalOut<float>(context, 1)) {
      dw_.Run(context,
              {.a = a,
               .b = context.in<float>(kX).data(),
               .c = dw + d * gates_ * s_.input},
              scratch);
    }
    if (float* dr = OptionalOut<float>(context, 2)) {
      before_.Prepare(context, d, context.in<float>(kAllH).data(),
                      OptionalIn<float>(context, kFirstH),
                      context.scratch() + before_scratch_);
      dr_.Run(context, before_, a, /*accumulate=*/false,
              dr + d * gates_ * s_.hidden, scratch);
    }
    if (float* dbias = OptionalOut<float>(context, 3)) {
      BiasGradient(context, d, dbias + d * 2 * gates_);
    }
  }

  // The biases of W and of R are added to the same sums.
  void BiasGradient(const KernelContext& context, int64_t d,
                    float* dbias) const {
    std::fill_n(dbias, gates_, 0.0f);
    for (int64_t i = 0; i < shares_.count(); ++i) {
      if (shares_.share(i).direction != d) continue;
      const float* total = BiasSums(context, i) + gates_;
      for (int64_t j = 0; j < gates_; ++j) dbias[j] += total[j];
    }
    std::copy_n(dbias, gates_, dbias + gates_);
  }

  Settings s_;
  int64_t gates_;
  StepProduct recurrent_;
  InputProduct dx_;
  Gemm dw_;
  StatesBefore before_;
  StateProduct dr_;
  Shares shares_;
  double step_flops_ = 0, flops_ = 0;
  size_t packed_ = 0, gemm_scratch_ = 0, before_scratch_ = 0, a_ = 0;
  size_t dh_ = 0, dc_ = 0, bias_sums_ = 0, scratch_bytes_ = 0;
};

template <class KernelType>
KernelChoice Choose(const KernelRequest& request, size_t lengths,
                    size_t peepholes) {
  const Settings s =
      ops::recurrent::ReadSettings(request, ops::recurrent::kLstm);
  std::string reason =
      RecurrentDeclines(request, s, ops::recurrent::kLstm, lengths);
  if (reason.empty() && request.has_input(peepholes)) reason = "peepholes";
  if (reason.empty() && request.node.Int("input_forget", 0) != 0) {
    reason = "input_forget";
  }
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  return RecurrentChoice<KernelType>(request, s);
}

}  // namespace

KernelChoice ChooseLstm(const KernelRequest& request) {
  return Choose<Lstm>(request, 4, 7);
}

KernelChoice ChooseLstmGrad(const KernelRequest& request) {
  KernelChoice choice = Choose<LstmGrad>(request, kLengths, kPeepholes);
  if (choice.kernel != nullptr && request.has_output(6)) {
    return KernelChoice::Decline("peepholes");
  }
  return choice;
}

}  // namespace strop
