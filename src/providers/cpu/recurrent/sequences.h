// SPDX-License-Identifier: Apache-2.0
//
// What the kernels for LSTM and GRU share. The products with the inputs of
// all steps are one matrix product before the steps, those for the gradients
// of the weights one after them. Between these each thread takes some
// sequences of a direction through all steps, so that threads need not meet:
// in a step it multiplies its states by R, which is packed once.
//
// Names and shapes are those of ops/recurrent/recurrent.h.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ops/recurrent/recurrent.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/gemm/packed_gemm.h"
#include "providers/cpu/recurrent/cells.h"
#include "providers/cpu/scratch_layout.h"

namespace strop {

// Why only the reference kernel can serve; empty if nothing speaks against
// the kernels here.
std::string RecurrentDeclines(const KernelRequest& request,
                              const ops::recurrent::Settings& s,
                              const ops::recurrent::Family& family,
                              size_t lengths_input);

// The choice of a KernelType(request, s).
template <class KernelType>
KernelChoice RecurrentChoice(const KernelRequest& request,
                             const ops::recurrent::Settings& s) {
  auto kernel = std::make_unique<KernelType>(request, s);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.flops = kernel->flops();
  choice.kernel = std::move(kernel);
  return choice;
}

// --- Rows

// Numbers for each step and sequence in the order of X, one direction after
// the other: rows of a matrix that has one for each row of X.
template <class T>
ops::recurrent::Rows<T> RowsLikeInput(const ops::recurrent::Settings& s,
                                      int64_t numbers, T* data) {
  return {data, s.batch_first ? numbers : s.batch * numbers,
          s.steps * s.batch * numbers,
          s.batch_first ? s.steps * numbers : numbers};
}

// Sequences [begin, end) of a direction, which one thread takes through time.
struct Share {
  int64_t direction = 0;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
};

// The rows of a step for the sequences of a share.
inline ReadRows RowsOf(const ops::recurrent::Rows<const float>& rows, int64_t t,
                       const Share& share) {
  if (!rows) return {};
  return {rows.at(t, share.direction, share.begin), rows.sequence};
}
inline WriteRows RowsOf(const ops::recurrent::Rows<float>& rows, int64_t t,
                        const Share& share) {
  if (!rows) return {};
  return {rows.at(t, share.direction, share.begin), rows.sequence};
}

// All sequences, cut into shares. The cut depends on sizes and the number of
// threads alone.
class Shares {
 public:
  Shares() = default;
  Shares(const ops::recurrent::Settings& s, double flops, int num_threads);

  int64_t count() const { return directions_ * slices_; }
  Share share(int64_t i) const {
    return {i / slices_, PartStart(batch_, slices_, i % slices_),
            PartStart(batch_, slices_, i % slices_ + 1)};
  }

  // Calls fn(i, share(i)) for each of them.
  template <class F>
  void ForEach(const KernelContext& context, F&& fn) const {
    context.ParallelFor(count(), cost_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) fn(i, share(i));
    });
  }

 private:
  int64_t directions_ = 0, batch_ = 0, slices_ = 0;
  double cost_ = 0;  // nanoseconds for one
};

// --- What enters the gates from X

// W x + biases for each row of X: the bias of W and, as far as `recurrent`
// gates, that of R.
class Projection {
 public:
  Projection(const ops::recurrent::Settings& s, int64_t recurrent,
             int num_threads);

  size_t scratch_bytes() const { return layout_.total(); }
  double flops() const {
    return static_cast<double>(s_.directions) * gemm_.flops();
  }
  // Inputs 0, 1 and 3 of the op are X, W and the biases.
  void Run(const KernelContext& context, size_t scratch, float* sums) const;

 private:
  ops::recurrent::Settings s_;
  int64_t recurrent_;
  Gemm gemm_;
  ScratchLayout layout_;
  size_t product_, bias_;
};

// --- R in the steps

// Rows of a state, or of its gradient, times a part of R or its transpose.
class StepProduct {
 public:
  StepProduct() = default;
  // B is `n` columns and `k` rows; it begins with row `first_row` of R.
  StepProduct(const ops::recurrent::Settings& s, bool trans_b, int64_t n,
              int64_t k, int64_t first_row);

  size_t scratch_bytes() const;
  void Pack(const KernelContext& context, const float* r,
            std::byte* scratch) const;
  // c = a B, or c += a B.
  void Run(const Share& share, const ReadRows& a, const WriteRows& c,
           bool accumulate, const std::byte* scratch) const;

 private:
  PackedGemm gemm_;
  int64_t directions_ = 0;
  int64_t direction_ = 0;  // numbers of R
  int64_t first_ = 0;      // numbers of R before B
};

// --- Gradients in the steps

// Where the gradient of a state lives: in output `output`, which is for the
// first state, or in scratch. Begins with that of the last state, input
// `last`, or zeros.
WriteRows StartGradient(const KernelContext& context,
                        const ops::recurrent::Settings& s, size_t last,
                        size_t output, size_t scratch, const Share& share);

// --- Gradients after the steps. `a` holds `lda` numbers for each row of X:
// gradients of what enters the gates, and what else a kernel wants there.

// dX = sum of a W over the directions.
class InputProduct {
 public:
  InputProduct() = default;
  InputProduct(const ops::recurrent::Settings& s, int64_t lda, int num_threads);

  size_t scratch_bytes() const { return gemm_.scratch_bytes(); }
  double flops() const;
  void Run(const KernelContext& context, const float* a, const float* w,
           float* dx, std::byte* scratch) const;

 private:
  Gemm gemm_;
  int64_t directions_ = 0;
  int64_t a_ = 0, w_ = 0;  // numbers of a direction
};

// The states before all steps of a direction, as a matrix with the rows of X.
// Where they lie so, one step off, they are not copied.
class StatesBefore {
 public:
  StatesBefore() = default;
  StatesBefore(const ops::recurrent::Settings& s, bool has_first);

  size_t scratch_bytes() const;
  // Looks at a direction. `all_h` and `first_h`, which may be null, are the
  // inputs of the op.
  void Prepare(const KernelContext& context, int64_t d, const float* all_h,
               const float* first_h, std::byte* scratch);

  // Rows that lie in one piece, and which row of `a` belongs to the first of
  // them; then those of the first state, which may be none.
  struct Piece {
    int64_t rows = 0;
    int64_t a_row = 0;
    const float* data = nullptr;
  };
  const Piece& steps() const { return steps_; }
  const Piece& first() const { return first_; }

 private:
  ops::recurrent::Settings s_ = {};
  bool copies_ = false;
  Piece steps_, first_;
};

// dR, or rows of it: = sum over rows of a' h with h the state before.
class StateProduct {
 public:
  StateProduct() = default;
  // As many columns of `a` give `rows` rows of dR.
  StateProduct(const ops::recurrent::Settings& s, const StatesBefore& before,
               int64_t rows, int64_t lda, int num_threads);

  size_t scratch_bytes() const {
    return std::max(steps_.scratch_bytes(), first_.scratch_bytes());
  }
  double flops() const { return steps_.flops() + first_.flops(); }
  // `a` is that of the direction and begins with the wanted columns.
  void Run(const KernelContext& context, const StatesBefore& before,
           const float* a, bool accumulate, float* dr,
           std::byte* scratch) const;

 private:
  Gemm steps_, first_;
  int64_t lda_ = 0;
};

}  // namespace strop
