// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/recurrent/sequences.h"

#include <algorithm>
#include <cmath>

namespace strop {

using ops::recurrent::ActivationKind;
using ops::recurrent::Family;
using ops::recurrent::Rows;
using ops::recurrent::Settings;

namespace {

// Below this a share is not worth waking a thread for, nor the time that its
// smaller products lose.
constexpr double kMinShareFlops = 1e5;

// Roughly what a core does in a nanosecond.
constexpr double kFlopsPerNanosecond = 50;

bool HasDefaultActivations(const Settings& s, const Family& family) {
  for (int64_t d = 0; d < s.directions; ++d) {
    for (size_t i = 0; i < family.functions; ++i) {
      if (s.functions[d][i].kind != family.defaults[i]) return false;
    }
  }
  return true;
}

}  // namespace

std::string RecurrentDeclines(const KernelRequest& request, const Settings& s,
                              const Family& family, size_t lengths_input) {
  const DataType type = request.inputs[0].info.type;
  if (type != DataType::kFloat32) return DataTypeName(type);
  if (request.has_input(lengths_input)) return "lengths of the sequences";
  if (std::isfinite(s.clip)) return "a clip";
  if (!HasDefaultActivations(s, family)) return "other activations";
  if (s.steps == 0 || s.batch == 0 || s.hidden == 0) return "no elements";
  return {};
}

Shares::Shares(const Settings& s, double flops, int num_threads)
    : directions_(s.directions), batch_(s.batch) {
  const double worth = flops / kMinShareFlops;
  const int64_t most = std::min<int64_t>(
      num_threads, static_cast<int64_t>(std::min(worth, 1e6)));
  slices_ = std::clamp<int64_t>(CeilDiv(most, directions_), 1, batch_);
  cost_ = flops / static_cast<double>(count()) / kFlopsPerNanosecond;
}

// --- What enters the gates from X

Projection::Projection(const Settings& s, int64_t recurrent, int num_threads)
    : s_(s),
      recurrent_(recurrent),
      gemm_(GemmProblem::Dense(/*trans_a=*/false, /*trans_b=*/true,
                               s.steps * s.batch, s.gate_count(), s.input),
            num_threads),
      product_(layout_.Add(gemm_.scratch_bytes())),
      bias_(layout_.AddFloats(s.gate_count())) {}

void Projection::Run(const KernelContext& context, size_t scratch,
                     float* sums) const {
  const int64_t gates = s_.gate_count();
  for (int64_t d = 0; d < s_.directions; ++d) {
    const float* bias =
        ops::recurrent::OfDirection<float>(context, 3, d, 2 * gates);
    if (bias != nullptr) {
      float* both = FloatsAt(context, scratch + bias_);
      std::copy_n(bias, gates, both);
      for (int64_t i = 0; i < recurrent_ * s_.hidden; ++i) {
        both[i] += bias[gates + i];
      }
      bias = both;
    }
    gemm_.Run(context,
              {.a = context.in<float>(0).data(),
               .b = context.in<float>(1).data() + d * gates * s_.input,
               .c = sums + d * s_.steps * s_.batch * gates,
               .bias = bias},
              context.scratch() + scratch + product_);
  }
}

// --- R in the steps

StepProduct::StepProduct(const Settings& s, bool trans_b, int64_t n, int64_t k,
                         int64_t first_row)
    : gemm_(trans_b, n, k, s.hidden),
      directions_(s.directions),
      direction_(s.gate_count() * s.hidden),
      first_(first_row * s.hidden) {}

size_t StepProduct::scratch_bytes() const {
  return static_cast<size_t>(directions_) *
         RoundUp<size_t>(gemm_.packed_bytes(), 64);
}

void StepProduct::Pack(const KernelContext& context, const float* r,
                       std::byte* scratch) const {
  const int64_t panels = gemm_.panel_count();
  const size_t bytes = RoundUp<size_t>(gemm_.packed_bytes(), 64);
  // A number takes about as long as one from memory.
  const double cost = static_cast<double>(gemm_.packed_bytes()) / 8 /
                      static_cast<double>(panels);
  context.ParallelFor(
      directions_ * panels, cost, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t d = i / panels, panel = i % panels;
          gemm_.PackPanels(r + d * direction_ + first_, panel, panel + 1,
                           scratch + static_cast<size_t>(d) * bytes);
        }
      });
}

void StepProduct::Run(const Share& share, const ReadRows& a, const WriteRows& c,
                      bool accumulate, const std::byte* scratch) const {
  gemm_.Run(
      {.m = share.count(),
       .a = a.data,
       .a_row = a.stride,
       .packed_b = scratch + static_cast<size_t>(share.direction) *
                                 RoundUp<size_t>(gemm_.packed_bytes(), 64),
       .c = c.data,
       .ldc = c.stride,
       .accumulate = accumulate});
}

// --- Gradients in the steps

WriteRows StartGradient(const KernelContext& context, const Settings& s,
                        size_t last, size_t output, size_t scratch,
                        const Share& share) {
  float* data = ops::recurrent::OptionalOut<float>(context, output);
  if (data == nullptr) data = FloatsAt(context, scratch);
  const auto rows = ops::recurrent::StateRows(s, data);
  const auto from = ops::recurrent::StateRows(
      s, ops::recurrent::OptionalIn<float>(context, last));
  const int64_t d = share.direction;
  for (int64_t b = share.begin; b < share.end; ++b) {
    ops::recurrent::CopyOrClear(from ? from.at(d, b) : nullptr, s.hidden,
                                rows.at(d, b));
  }
  return RowsOf(rows, 0, share);
}

// --- Gradients after the steps

InputProduct::InputProduct(const Settings& s, int64_t lda, int num_threads)
    : directions_(s.directions),
      a_(s.steps * s.batch * lda),
      w_(s.gate_count() * s.input) {
  GemmProblem problem =
      GemmProblem::Dense(/*trans_a=*/false, /*trans_b=*/false,
                         s.steps * s.batch, s.input, s.gate_count());
  problem.lda = lda;
  gemm_ = Gemm(problem, num_threads);
}

double InputProduct::flops() const {
  return static_cast<double>(directions_) * gemm_.flops();
}

void InputProduct::Run(const KernelContext& context, const float* a,
                       const float* w, float* dx, std::byte* scratch) const {
  for (int64_t d = 0; d < directions_; ++d) {
    gemm_.Run(context,
              {.a = a + d * a_, .b = w + d * w_, .c = dx, .accumulate = d > 0},
              scratch);
  }
}

StatesBefore::StatesBefore(const Settings& s, bool has_first)
    : s_(s), copies_(s.directions > 1 || s.batch_first) {
  if (copies_) {
    steps_.rows = s.steps * s.batch;
    return;
  }
  const int64_t others = (s.steps - 1) * s.batch;
  steps_ = {.rows = others, .a_row = s.reverse[0] ? 0 : s.batch};
  first_ = {.rows = has_first ? s.batch : 0,
            .a_row = s.reverse[0] ? others : 0};
}

size_t StatesBefore::scratch_bytes() const {
  return copies_ ? static_cast<size_t>(steps_.rows * s_.hidden) * sizeof(float)
                 : 0;
}

void StatesBefore::Prepare(const KernelContext& context, int64_t d,
                           const float* all_h, const float* first_h,
                           std::byte* scratch) {
  const Settings& s = s_;
  if (!copies_) {
    steps_.data = all_h + (s.reverse[0] ? s.batch * s.hidden : 0);
    first_.data = first_h;
    return;
  }
  float* copied = reinterpret_cast<float*>(scratch);
  steps_.data = copied;
  const auto all = StepRows(s, s.hidden, all_h);
  const auto first = StateRows(s, first_h);
  const auto rows = RowsLikeInput(s, s.hidden, copied);
  const double cost = 0.2 * static_cast<double>(s.batch * s.hidden);
  context.ParallelFor(s.steps, cost, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t t = StepAt(s, d, s.steps, k);
      for (int64_t b = 0; b < s.batch; ++b) {
        ops::recurrent::CopyOrClear(
            ops::recurrent::Before(s, all, first, d, b, s.steps, k), s.hidden,
            rows.at(t, 0, b));
      }
    }
  });
}

StateProduct::StateProduct(const Settings& s, const StatesBefore& before,
                           int64_t rows, int64_t lda, int num_threads)
    : lda_(lda) {
  const auto product = [&](int64_t k) {
    GemmProblem problem = GemmProblem::Dense(
        /*trans_a=*/true, /*trans_b=*/false, rows, s.hidden, k);
    problem.lda = lda;
    return Gemm(problem, num_threads);
  };
  steps_ = product(before.steps().rows);
  first_ = product(before.first().rows);
}

void StateProduct::Run(const KernelContext& context, const StatesBefore& before,
                       const float* a, bool accumulate, float* dr,
                       std::byte* scratch) const {
  const StatesBefore::Piece &steps = before.steps(), &first = before.first();
  steps_.Run(context,
             {.a = a + steps.a_row * lda_,
              .b = steps.data,
              .c = dr,
              .accumulate = accumulate},
             scratch);
  if (first.rows == 0) return;
  first_.Run(context,
             {.a = a + first.a_row * lda_,
              .b = first.data,
              .c = dr,
              .accumulate = true},
             scratch);
}

}  // namespace strop
