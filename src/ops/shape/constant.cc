// SPDX-License-Identifier: Apache-2.0
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// The value of a Constant node in whichever attribute holds it. A number's
// storage is `int_value` or `float_value`.
Tensor ConstantValue(const OpNode& node, int64_t& int_value,
                     float& float_value) {
  if (const auto value = node.TensorAttribute("value")) return *value;
  if (node.Has("value_int")) {
    int_value = node.Int("value_int");
    return Tensor(Shape{}, &int_value);
  }
  if (node.Has("value_float")) {
    float_value = node.Float("value_float", 0);
    return Tensor(Shape{}, &float_value);
  }
  if (node.Has("value_ints")) {
    const auto values = node.Ints("value_ints");
    return Tensor(Shape{static_cast<int64_t>(values.size())}, values.data());
  }
  if (node.Has("value_floats")) {
    const auto values = node.Floats("value_floats");
    return Tensor(Shape{static_cast<int64_t>(values.size())}, values.data());
  }
  Fail(node, ErrorCode::kNotImplemented,
       "holds no dense tensor or number (strings and sparse tensors are not "
       "supported)");
}

void InferConstant(InferContext& c) {
  int64_t int_value;
  float float_value;
  const Tensor value = ConstantValue(c.node(), int_value, float_value);
  c.SetOutput(0, value.type(), value.shape());
}

void Constant(const KernelContext& c) {
  int64_t int_value;
  float float_value;
  CopyBytes(ConstantValue(c.node(), int_value, float_value), c.output(0));
}

// Attribute value: one element, float 0 when absent.
Tensor FillValue(const OpNode& node) {
  static constexpr float kZero = 0;
  const auto value = node.TensorAttribute("value");
  if (!value) return Tensor(Shape{}, &kZero);
  if (value->element_count() != 1) {
    Fail(node, "attribute value must have one element, not the shape {}",
         value->shape().ToString());
  }
  return *value;
}

void InferConstantOfShape(InferContext& c) {
  c.SetOutput(0, FillValue(c.node()).type(), Shape(c.IntValues(0)));
}

}  // namespace

extern constexpr OpDef kConstant = {.name = "Constant",
                                    .inputs = {0, 0},
                                    .infer = InferConstant,
                                    .reference = ByteKernel<Constant, -1>()};

// A tensor of the given shape filled with one value.
extern constexpr OpDef kConstantOfShape = {
    .name = "ConstantOfShape",
    .infer = InferConstantOfShape,
    .reference = Instantiate<AllTypes, -1>([]<class T>(const KernelContext& c) {
      const T value = FillValue(c.node()).values<T>()[0];
      const auto y = c.out<T>(0);
      std::fill(y.begin(), y.end(), value);
    }),
    .value_inputs = {0},
    .stops_gradient = {0}};

}  // namespace strop::ops
