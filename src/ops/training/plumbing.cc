// SPDX-License-Identifier: Apache-2.0
//
// Ops that hand tensors on: what ONNX Runtime's retired trainer put between
// the parts of a graph.
#include <cstring>

#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

bool AnyType(DataType) { return true; }

void InferPassThrough(InferContext& c) {
  if (c.output_count() > c.input_count()) {
    Fail(c.node(), "has {} outputs for {} inputs", c.output_count(),
         c.input_count());
  }
  for (size_t i = 0; i < c.output_count(); ++i) {
    if (!c.has_output(i)) continue;
    c.SetOutput(i, c.input(i).type, c.input(i).shape);
  }
}

void PassThrough(const KernelContext& c) {
  for (size_t i = 0; i < c.output_count(); ++i) {
    if (c.has_output(i)) CopyBytes(c.input(i), c.output(i));
  }
}

void InferGroup(InferContext& c) { c.SetOutput(0, DataType::kBool, {1}); }

void Group(const KernelContext& c) { c.out<bool>(0)[0] = true; }

// input, shapes... -> views
void InferView(InferContext& c) {
  if (c.output_count() + 1 != c.input_count()) {
    Fail(c.node(), "has {} shapes for {} outputs", c.input_count() - 1,
         c.output_count());
  }
  const int64_t count = c.input(0).shape.element_count();
  int64_t rest = count;
  const auto fail = [&] {
    Fail(c.node(), "the shapes do not cover the {} elements of the input",
         count);
  };
  for (size_t i = 0; i < c.output_count(); ++i) {
    RequireType(c, i + 1, DataType::kInt64);
    const Shape shape(c.IntValues(i + 1));
    if (shape.element_count() > rest) fail();
    rest -= shape.element_count();
    c.SetOutput(i, c.input(0).type, shape);
  }
  if (rest != 0) fail();
}

int64_t ProductOf(const Tensor& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims.values<int64_t>()) product *= dim;
  return product;
}

void View(const KernelContext& c) {
  const auto* from = static_cast<const std::byte*>(c.input(0).data());
  for (size_t i = 0; i < c.output_count(); ++i) {
    const size_t bytes = static_cast<size_t>(ProductOf(c.input(i + 1))) *
                         DataTypeSize(c.input(0).type());
    if (c.has_output(i) && bytes > 0) {
      std::memcpy(c.output(i).data(), from, bytes);
    }
    from += bytes;
  }
}

// --- Gradients

void PassThroughGradient(GradientContext& c) {
  for (size_t i = 0; i < c.output_count(); ++i)
    if (c.has_dy(i)) c.Set(i, c.dy(i));
}

// The gradients of the views, one after another.
void ViewGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  std::vector<Var> parts;
  for (size_t i = 0; i < c.output_count(); ++i) {
    const Var shape = c.x(i + 1);
    const Var dy = c.has_dy(i) ? c.dy(i) : b.Zeros(shape, b.type(c.x()));
    parts.push_back(b.Reshape(dy, b.Ints({-1})));
  }
  const Var all = b.Op("Concat", parts, {{"axis", int64_t{0}}});
  c.Set(0, b.Reshape(all, b.Shape(c.x())));
}

}  // namespace

// Output i is input i, after all inputs are there.
extern constexpr OpDef kPassThrough = {
    .name = "PassThrough",
    .domain = kMicrosoft,
    .inputs = {1, Arity::kVariadic},
    .outputs = {0, Arity::kVariadic},
    .infer = InferPassThrough,
    .reference = {.run = PassThrough, .supports = AnyType},
    .gradient = Rule(PassThroughGradient)};

// True, after all inputs are there.
extern constexpr OpDef kGroup = {
    .name = "Group",
    .domain = kMicrosoft,
    .inputs = {1, Arity::kVariadic},
    .infer = InferGroup,
    .reference = {.run = Group, .supports = AnyType}};

// Consecutive parts of the input under the shapes given.
extern constexpr OpDef kView = {
    .name = "View",
    .domain = kMicrosoft,
    .inputs = {2, Arity::kVariadic},
    .outputs = {0, Arity::kVariadic},
    .infer = InferView,
    .reference = ByteKernel<View>(),
    .value_inputs = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                     12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                     23, 24, 25, 26, 27, 28, 29, 30, 31},
    .gradient = Rule(ViewGradient)};

}  // namespace strop::ops
