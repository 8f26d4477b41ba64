// SPDX-License-Identifier: Apache-2.0
//
// What training in mixed precision asks of gradients: are they finite, and how
// large are they together?
#include <cmath>

#include "ops/elementwise.h"

namespace strop::ops {
namespace {

void InferIsFinite(InferContext& c) {
  c.SetOutput(0, DataType::kBool, c.input(0).shape);
}

void InferIsAllFinite(InferContext& c) {
  if (c.node().Int("isinf_only", 0) != 0 &&
      c.node().Int("isnan_only", 0) != 0) {
    Fail(c.node(), "isinf_only and isnan_only are both set");
  }
  for (size_t i = 1; i < c.input_count(); ++i) RequireSameType(c, 0, i);
  c.SetOutput(0, DataType::kBool, {});
}

template <class T>
void IsAllFinite(const KernelContext& c) {
  const bool inf = c.node().Int("isnan_only", 0) == 0;
  const bool nan = c.node().Int("isinf_only", 0) == 0;
  bool all = true;
  for (size_t i = 0; i < c.input_count(); ++i) {
    for (const T x : c.in<T>(i)) {
      all = all && !(inf && std::isinf(x)) && !(nan && std::isnan(x));
    }
  }
  c.out<bool>(0)[0] = all;
}

void InferAll(InferContext& c) {
  RequireType(c, 0, DataType::kBool);
  c.SetOutput(0, DataType::kBool, {1});
}

void InferReduceAllL2(InferContext& c) {
  for (size_t i = 1; i < c.input_count(); ++i) RequireSameType(c, 0, i);
  c.SetOutput(0, c.input(0).type, {});
}

template <class T>
void ReduceAllL2(const KernelContext& c) {
  double sum = 0;
  for (size_t k = 0; k < c.input_count(); ++k) {
    const T* x = c.in<T>(k).data();
    sum += OrderedSum(c, c.input(k).element_count(), 0.5,
                      [&](int64_t begin, int64_t end) {
                        double part = 0;
                        for (int64_t i = begin; i < end; ++i) {
                          const double value = static_cast<double>(x[i]);
                          part += value * value;
                        }
                        return part;
                      });
  }
  c.out<T>(0)[0] = static_cast<T>(std::sqrt(sum));
}

}  // namespace

extern constexpr OpDef kIsFinite = {
    .name = "IsFinite",
    .domain = kMicrosoft,
    .infer = InferIsFinite,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      const auto x = c.in<T>(0);
      const auto y = c.out<bool>(0);
      for (size_t i = 0; i < x.size(); ++i) y[i] = std::isfinite(x[i]);
    })};

// Of all tensors: false if one holds an infinity (but with isnan_only) or a
// NaN (but with isinf_only).
extern constexpr OpDef kIsAllFinite = {
    .name = "IsAllFinite",
    .domain = kMicrosoft,
    .inputs = {1, Arity::kVariadic},
    .infer = InferIsAllFinite,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { IsAllFinite<T>(c); })};

extern constexpr OpDef kAll = {
    .name = "All",
    .domain = kMicrosoft,
    .infer = InferAll,
    .reference = Instantiate<Bools>([]<class T>(const KernelContext& c) {
      const auto x = c.in<T>(0);
      c.out<bool>(0)[0] =
          std::all_of(x.begin(), x.end(), [](T v) { return v; });
    })};

// sqrt of the sum of all squares of all tensors
extern constexpr OpDef kReduceAllL2 = {
    .name = "ReduceAllL2",
    .domain = kMicrosoft,
    .inputs = {1, Arity::kVariadic},
    .infer = InferReduceAllL2,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { ReduceAllL2<T>(c); })};

}  // namespace strop::ops
