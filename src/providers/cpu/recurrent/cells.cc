// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/recurrent/cells.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/recurrent/cells.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/math-inl.h"
#include "providers/cpu/simd/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

HWY_INLINE const float* Row(const ReadRows& rows, int64_t i) {
  return rows.data == nullptr ? nullptr : rows.data + i * rows.stride;
}
HWY_INLINE float* Row(const WriteRows& rows, int64_t i) {
  return rows.data == nullptr ? nullptr : rows.data + i * rows.stride;
}

template <class Place>
HWY_INLINE FloatVec LoadOrZero(const Place& at, const float* row) {
  return row == nullptr ? hn::Zero(FloatTag()) : at.Load(row);
}

// sum = (first ? 0 : sum) + v
template <class Place>
HWY_INLINE void AddTo(const Place& at, FloatVec v, bool first, float* sum) {
  at.Store(first ? v : hn::Add(v, at.Load(sum)), sum);
}

void AddStep(const RowSums& sums, int64_t begin, int64_t end) {
  ForEachVector(end - begin, [&](auto at) HWY_ATTR {
    const auto sum = at.Load(sums.step + begin);
    at.Store(hn::Add(at.Load(sums.total + begin), sum), sums.total + begin);
  });
}

// From a function's value: y (1 - y), the slope of the sigmoid, and 1 - y^2,
// that of tanh.
HWY_INLINE FloatVec SigmoidSlope(FloatVec y) { return hn::NegMulAdd(y, y, y); }
HWY_INLINE FloatVec TanhSlope(FloatVec y) {
  return hn::NegMulAdd(y, y, hn::Set(FloatTag(), 1.0f));
}

void LstmForward(const LstmStep& step) {
  const FloatTag d;
  const int64_t n = step.size.hidden;
  for (int64_t row = 0; row < step.size.rows; ++row) {
    const float* sums = Row(step.sums, row);
    const float* c_before = Row(step.c_before, row);
    float* gates = Row(step.gates, row);
    float *c_row = Row(step.c, row), *h_row = Row(step.h, row);
    ForEachVector(n, [&](auto at) HWY_ATTR {
      const auto i = Sigmoid(d, at.Load(sums));
      const auto o = Sigmoid(d, at.Load(sums + n));
      const auto f = Sigmoid(d, at.Load(sums + 2 * n));
      const auto g = hn::Tanh(d, at.Load(sums + 3 * n));
      const auto c = hn::MulAdd(f, LoadOrZero(at, c_before), hn::Mul(i, g));
      at.Store(i, gates);
      at.Store(o, gates + n);
      at.Store(f, gates + 2 * n);
      at.Store(g, gates + 3 * n);
      at.Store(c, c_row);
      at.Store(hn::Mul(o, hn::Tanh(d, c)), h_row);
    });
  }
}

void LstmBackward(const LstmStepBack& step) {
  const FloatTag d;
  const int64_t n = step.size.hidden;
  for (int64_t row = 0; row < step.size.rows; ++row) {
    const float* gates = Row(step.gates, row);
    const float* c_before = Row(step.c_before, row);
    const float *c_row = Row(step.c, row), *dh_row = Row(step.dh, row);
    const float* dh_step = Row(step.dh_step, row);
    float *dc_row = Row(step.dc, row), *a = Row(step.a, row);
    ForEachVector(n, [&](auto at) HWY_ATTR {
      const auto i = at.Load(gates), o = at.Load(gates + n);
      const auto f = at.Load(gates + 2 * n), g = at.Load(gates + 3 * n);
      const auto dh = hn::Add(at.Load(dh_row), LoadOrZero(at, dh_step));
      const auto squashed = hn::Tanh(d, at.Load(c_row));
      const auto dc =
          hn::MulAdd(hn::Mul(dh, o), TanhSlope(squashed), at.Load(dc_row));
      at.Store(hn::Mul(dc, f), dc_row);
      const auto store = [&](FloatVec v, int64_t gate) HWY_ATTR {
        at.Store(v, a + gate * n);
        AddTo(at, v, row == 0, step.bias.step + gate * n);
      };
      store(hn::Mul(hn::Mul(dc, g), SigmoidSlope(i)), 0);
      store(hn::Mul(hn::Mul(dh, squashed), SigmoidSlope(o)), 1);
      store(hn::Mul(hn::Mul(dc, LoadOrZero(at, c_before)), SigmoidSlope(f)), 2);
      store(hn::Mul(hn::Mul(dc, i), TanhSlope(g)), 3);
    });
  }
  if (step.size.rows > 0) AddStep(step.bias, 0, 4 * n);
}

void GruForwardGates(const GruGates& step) {
  const FloatTag d;
  const int64_t n = step.size.hidden;
  for (int64_t row = 0; row < step.size.rows; ++row) {
    const float* sums = Row(step.sums, row);
    const float* h_before = Row(step.h_before, row);
    float *gates = Row(step.gates, row), *reset_h = Row(step.reset_h, row);
    ForEachVector(n, [&](auto at) HWY_ATTR {
      const auto r = Sigmoid(d, at.Load(sums + n));
      at.Store(Sigmoid(d, at.Load(sums)), gates);
      at.Store(r, gates + n);
      if (reset_h != nullptr) {
        at.Store(hn::Mul(r, LoadOrZero(at, h_before)), reset_h);
      }
    });
  }
}

void GruForward(const GruStep& step) {
  const FloatTag d;
  const int64_t n = step.size.hidden;
  for (int64_t row = 0; row < step.size.rows; ++row) {
    const float *sums = Row(step.sums, row),
                *h_before = Row(step.h_before, row);
    const float* recurrent = Row(step.recurrent, row);
    float *gates = Row(step.gates, row), *h_row = Row(step.h, row);
    ForEachVector(n, [&](auto at) HWY_ATTR {
      auto sum = at.Load(sums);
      if (recurrent != nullptr) {
        const auto through =
            hn::Add(at.Load(recurrent), LoadOrZero(at, step.recurrent_bias));
        sum = hn::MulAdd(at.Load(gates + n), through, sum);
      }
      const auto g = hn::Tanh(d, sum);
      at.Store(g, gates + 2 * n);
      // (1 - z) g + z h
      const auto difference = hn::Sub(LoadOrZero(at, h_before), g);
      at.Store(hn::MulAdd(at.Load(gates), difference, g), h_row);
    });
  }
}

void GruBackward(const GruStepBack& step) {
  const FloatTag d;
  const int64_t n = step.size.hidden;
  const bool linear = step.recurrent.data != nullptr;
  for (int64_t row = 0; row < step.size.rows; ++row) {
    const float* gates = Row(step.gates, row);
    const float* h_before = Row(step.h_before, row);
    const float* dh_step = Row(step.dh_step, row);
    const float* recurrent = Row(step.recurrent, row);
    float *dh_row = Row(step.dh, row), *a = Row(step.a, row);
    ForEachVector(n, [&](auto at) HWY_ATTR {
      const auto z = at.Load(gates), g = at.Load(gates + 2 * n);
      const auto dh = hn::Add(at.Load(dh_row), LoadOrZero(at, dh_step));
      const auto difference = hn::Sub(LoadOrZero(at, h_before), g);
      at.Store(hn::Mul(dh, z), dh_row);
      const auto store = [&](FloatVec v, int64_t gate) HWY_ATTR {
        at.Store(v, a + gate * n);
        AddTo(at, v, row == 0, step.bias.step + gate * n);
      };
      const auto rest = hn::Sub(hn::Set(d, 1.0f), z);
      const auto ag = hn::Mul(hn::Mul(dh, rest), TanhSlope(g));
      store(hn::Mul(hn::Mul(dh, difference), SigmoidSlope(z)), 0);
      store(ag, 2);
      if (!linear) return;
      const auto r = at.Load(gates + n);
      const auto through =
          hn::Add(at.Load(recurrent), LoadOrZero(at, step.recurrent_bias));
      store(hn::Mul(hn::Mul(ag, through), SigmoidSlope(r)), 1);
      store(hn::Mul(ag, r), 3);
    });
  }
  if (step.size.rows == 0) return;
  AddStep(step.bias, 0, n);
  AddStep(step.bias, linear ? n : 2 * n, linear ? 4 * n : 3 * n);
}

void GruBackwardReset(const GruResetBack& step) {
  const int64_t n = step.size.hidden;
  for (int64_t row = 0; row < step.size.rows; ++row) {
    const float* gates = Row(step.gates, row);
    const float* h_before = Row(step.h_before, row);
    const float* through_row = Row(step.through, row);
    float *dh_row = Row(step.dh, row), *a = Row(step.a, row);
    ForEachVector(n, [&](auto at) HWY_ATTR {
      const auto r = at.Load(gates + n), h = LoadOrZero(at, h_before);
      const auto through = at.Load(through_row);
      at.Store(hn::MulAdd(through, r, at.Load(dh_row)), dh_row);
      at.Store(hn::Mul(r, h), a + 3 * n);
      const auto ar = hn::Mul(hn::Mul(through, h), SigmoidSlope(r));
      at.Store(ar, a + n);
      AddTo(at, ar, row == 0, step.bias.step + n);
    });
  }
  if (step.size.rows > 0) AddStep(step.bias, n, 2 * n);
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(LstmForward);
HWY_EXPORT(LstmBackward);
HWY_EXPORT(GruForwardGates);
HWY_EXPORT(GruForward);
HWY_EXPORT(GruBackward);
HWY_EXPORT(GruBackwardReset);

}  // namespace

void RunLstmStep(const LstmStep& step) {
  HWY_DYNAMIC_DISPATCH(LstmForward)(step);
}
void RunLstmStepBack(const LstmStepBack& step) {
  HWY_DYNAMIC_DISPATCH(LstmBackward)(step);
}
void RunGruGates(const GruGates& step) {
  HWY_DYNAMIC_DISPATCH(GruForwardGates)(step);
}
void RunGruStep(const GruStep& step) { HWY_DYNAMIC_DISPATCH(GruForward)(step); }
void RunGruStepBack(const GruStepBack& step) {
  HWY_DYNAMIC_DISPATCH(GruBackward)(step);
}
void RunGruResetBack(const GruResetBack& step) {
  HWY_DYNAMIC_DISPATCH(GruBackwardReset)(step);
}

}  // namespace strop
#endif  // HWY_ONCE
