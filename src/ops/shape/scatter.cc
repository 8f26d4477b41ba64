// SPDX-License-Identifier: Apache-2.0
//
// ScatterElements and ScatterND: data, indices, updates -> data with updates
// written (or added, multiplied, ...) at the indices. The result may be
// written over the data.
#include "base/half.h"
#include "ops/gradient.h"
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

// --- Gradients

// Scatter and gather at the node's indices.
class Places {
 public:
  Places(GradientContext& c, bool elements) : c_(c), elements_(elements) {}

  Var Scatter(Var data, Var updates, std::string_view reduction) {
    Attributes attributes = Axis();
    if (reduction != "none")
      attributes.emplace_back("reduction", std::string(reduction));
    return c_.build().Op(elements_ ? "ScatterElements" : "ScatterND",
                         {data, c_.x(1), updates}, attributes);
  }
  Var Gather(Var data) {
    return c_.build().Op(elements_ ? "GatherElements" : "GatherND",
                         {data, c_.x(1)}, Axis());
  }

 private:
  Attributes Axis() const {
    if (!elements_) return {};
    return {{"axis", c_.node().Int("axis", 0)}};
  }

  GradientContext& c_;
  const bool elements_;
};

// Whatever is equal to the result shares the gradient evenly.
void ExtremeGradient(GradientContext& c, Places places) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var from_data = b.Cast(b.Compare("Equal", c.x(), c.y()), type);
  const Var from_update =
      b.Cast(b.Compare("Equal", c.x(2), places.Gather(c.y())), type);
  const Var part = c.dy() / places.Scatter(from_data, from_update, "add");
  c.Set(0, from_data * part);
  c.Set(2, from_update * places.Gather(part));
}

// The product of all other factors; where one is 0, it alone has a gradient.
void ProductGradient(GradientContext& c, Places places) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var zero = b.Scalar(0, type), one = b.Scalar(1, type);
  const Var ones = b.Op("Expand", {one, b.Shape(c.x())});
  if (c.needs(0)) c.Set(0, c.dy() * places.Scatter(ones, c.x(2), "mul"));
  if (!c.needs(2)) return;
  const Var is_zero = b.Compare("Equal", c.x(2), zero);
  const Var factor = b.Where(is_zero, one, c.x(2));
  const Var product = places.Gather(places.Scatter(c.x(), factor, "mul"));
  const Var zeros = places.Gather(
      places.Scatter(b.ZerosLike(c.x()), b.Cast(is_zero, type), "add"));
  const Var alone = b.Compare("And", is_zero, b.Compare("Equal", zeros, one));
  const Var others = b.Where(b.Compare("Equal", zeros, zero), product / factor,
                             b.Where(alone, product, zero));
  c.Set(2, places.Gather(c.dy()) * others);
}

// Replaced elements pass nothing on; updates get what arrives at their place.
// With reduction "add" both pass all on.
void ScatterGradient(GradientContext& c, Places places) {
  const std::string_view reduction = c.node().String("reduction", "none");
  if (reduction == "mul") return ProductGradient(c, places);
  if (reduction == "max" || reduction == "min")
    return ExtremeGradient(c, places);
  if (c.needs(2)) c.Set(2, places.Gather(c.dy()));
  if (reduction == "add") return c.Set(0, c.dy());
  if (c.needs(0))
    c.Set(0, places.Scatter(c.dy(), c.build().ZerosLike(c.x(2)), "none"));
}

}  // namespace

extern constexpr OpDef kScatterElements = {
    .name = "ScatterElements",
    .inputs = {3, 3},
    .infer = InferScatterElements,
    .reference = Instantiate<AllTypes>(
        []<class T>(const KernelContext& c) { ScatterElements<T>(c); }),
    .may_overwrite = {0},
    .gradient = Rule([](GradientContext& c) {
      ScatterGradient(c, {c, /*elements=*/true});
    }),
    .stops_gradient = {1}};

extern constexpr OpDef kScatterND = {
    .name = "ScatterND",
    .inputs = {3, 3},
    .infer = InferScatterNd,
    .reference = Instantiate<AllTypes>(
        []<class T>(const KernelContext& c) { ScatterNd<T>(c); }),
    .may_overwrite = {0},
    .gradient = Rule([](GradientContext& c) {
      ScatterGradient(c, {c, /*elements=*/false});
    }),
    .stops_gradient = {1}};

}  // namespace strop::ops
