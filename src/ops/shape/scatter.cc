// SPDX-License-Identifier: Apache-2.0
//
// ScatterElements and ScatterND: data, indices, updates -> data with updates
// written (or added, multiplied, ...) at the indices. The result may be
// written over the data.
#include "base/half.h"
#include "ops/index_walk.h"

namespace strop::ops {
namespace {

enum class Combine { kReplace, kAdd, kMultiply, kMin, kMax };

Combine ReadReduction(const OpNode& node) {
  const std::string_view name = node.String("reduction", "none");
  if (name == "none") return Combine::kReplace;
  if (name == "add") return Combine::kAdd;
  if (name == "mul") return Combine::kMultiply;
  if (name == "min") return Combine::kMin;
  if (name == "max") return Combine::kMax;
  Fail(node, "attribute reduction is \"{}\"", name);
}

template <class T>
T Apply(Combine combine, T old, T update) {
  switch (combine) {
    case Combine::kAdd:
      return Plus(old, update);
    case Combine::kMultiply:
      return Times(old, update);
    case Combine::kMin:
      return update < old || update != update ? update : old;
    case Combine::kMax:
      return update > old || update != update ? update : old;
    case Combine::kReplace:
      break;
  }
  return update;
}

// The same for elements of any type: halves are combined in float32, of bools
// the sum and the largest are `or`, the product and the smallest `and`.
template <class T>
T ApplyTo(Combine combine, T old, T update) {
  if constexpr (std::is_same_v<T, bool>) {
    if (combine == Combine::kReplace) return update;
    const bool is_or = combine == Combine::kAdd || combine == Combine::kMax;
    return is_or ? old || update : old && update;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(Apply(combine, ToFloat(old), ToFloat(update)));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return ToBfloat16(Apply(combine, ToFloat(old), ToFloat(update)));
  } else {
    return Apply(combine, old, update);
  }
}

// `for_each` calls the function that it is given with every position in the
// data and the position of its update.
template <class T, class ForEach>
void Update(const KernelContext& c, T* y, const T* updates,
            ForEach&& for_each) {
  const Combine combine = ReadReduction(c.node());
  for_each([&](int64_t to, int64_t from) {
    y[to] = ApplyTo(combine, y[to], updates[from]);
  });
}

void InferScatterElements(InferContext& c) {
  RequireIndices(c, 1);
  RequireSameType(c, 0, 2);
  RequireShape(c, 2, c.input(1).shape);
  CheckElements(c.node(), c.input(0).shape, c.input(1).shape);
  ReadReduction(c.node());
  SameAsInput(c);
}

void InferScatterNd(InferContext& c) {
  RequireIndices(c, 1);
  RequireSameType(c, 0, 2);
  RequireShape(c, 2,
               GatherNdShape(c.node(), c.input(0).shape, c.input(1).shape));
  ReadReduction(c.node());
  SameAsInput(c);
}

template <class T>
void ScatterElements(const KernelContext& c) {
  CopyInput(c);
  Update(c, c.out<T>(0).data(), c.in<T>(2).data(), [&](auto&& put) {
    ForEachElement(c, c.input(0).shape(), c.input(1), put);
  });
}

template <class T>
void ScatterNd(const KernelContext& c) {
  const NdSizes s = ReadNd(c.node(), c.input(0).shape(), c.input(1).shape());
  CopyInput(c);
  Update(c, c.out<T>(0).data(), c.in<T>(2).data(), [&](auto&& put) {
    ForEachTuple(c, c.input(0).shape(), c.input(1), s,
                 [&](int64_t block, int64_t row) {
                   for (int64_t j = 0; j < s.block; ++j) {
                     put(block * s.block + j, row * s.block + j);
                   }
                 });
  });
}

}  // namespace

extern constexpr OpDef kScatterElements = {
    .name = "ScatterElements",
    .inputs = {3, 3},
    .infer = InferScatterElements,
    .reference = Instantiate<AllTypes>(
        []<class T>(const KernelContext& c) { ScatterElements<T>(c); }),
    .may_overwrite = {0},
    .stops_gradient = {1}};

extern constexpr OpDef kScatterND = {
    .name = "ScatterND",
    .inputs = {3, 3},
    .infer = InferScatterNd,
    .reference = Instantiate<AllTypes>(
        []<class T>(const KernelContext& c) { ScatterNd<T>(c); }),
    .may_overwrite = {0},
    .stops_gradient = {1}};

}  // namespace strop::ops
