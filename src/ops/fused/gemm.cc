// SPDX-License-Identifier: Apache-2.0
//
// The matrix products that Specialize makes.
#include "ops/matrix.h"

namespace strop::ops {
namespace {

bool HasRelu(const OpNode& node) {
  const std::string_view activation = node.String("activation", "");
  if (!activation.empty() && activation != "Relu") {
    Fail(node, "attribute activation is \"{}\"", activation);
  }
  return activation == "Relu";
}

// A, B, bias (optional, one number per column)
void InferGemm(InferContext& c) {
  RequireSameType(c, 0, 1);
  HasRelu(c.node());
  const GemmSizes s =
      ReadGemmSizes(c.node(), c.input(0).shape, c.input(1).shape);
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    RequireShape(c, 2, {s.n});
  }
  c.SetOutput(0, c.input(0).type, {s.m, s.n});
}

template <class T>
void Product(const KernelContext& c, T* y, bool accumulate) {
  const Shape& a = c.input(0).shape();
  const Shape& b = c.input(1).shape();
  const GemmSizes s = ReadGemmSizes(c.node(), a, b);
  Multiply<T>(c, s.m, s.n, s.k, static_cast<T>(c.node().Float("alpha", 1)),
              View(c.in<T>(0).data(), a[1], s.trans_a),
              View(c.in<T>(1).data(), b[1], s.trans_b), y, accumulate);
}

template <class T>
void Gemm(const KernelContext& c) {
  const auto y = c.out<T>(0);
  const bool has_bias = c.has_input(2);
  if (has_bias) {
    const auto bias = c.in<T>(2);
    for (size_t i = 0; i < y.size(); ++i) y[i] = bias[i % bias.size()];
  }
  Product<T>(c, y.data(), has_bias);
  if (HasRelu(c.node())) {
    for (T& value : y) value = value < 0 ? T{0} : value;
  }
}

// A, B, buffer, overwrite
void InferGemmAccumulate(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireSameType(c, 0, 2);
  const GemmSizes s =
      ReadGemmSizes(c.node(), c.input(0).shape, c.input(1).shape);
  // The buffer may have another shape, as a weight behind a Reshape has.
  if (c.input(2).shape.element_count() != s.m * s.n) {
    Fail(c.node(), "the buffer {} does not hold a {} x {} product",
         c.input(2).shape.ToString(), s.m, s.n);
  }
  RequireType(c, 3, DataType::kBool);
  RequireOneElement(c, 3);
  c.SetOutput(0, c.input(2).type, c.input(2).shape);
}

}  // namespace

// Y = activation(alpha A' B' + bias)
extern constexpr OpDef kInternalGemm = {
    .name = "Gemm",
    .domain = kInternal,
    .inputs = {2, 3},
    .infer = InferGemm,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Gemm<T>(c); })};

// buffer (+)= alpha A' B'
extern constexpr OpDef kInternalGemmAccumulate = {
    .name = "GemmAccumulate",
    .domain = kInternal,
    .inputs = {4, 4},
    .outputs = {0, 1},
    .infer = InferGemmAccumulate,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      Product<T>(c, c.input(2).values<T>().data(), !c.scalar<bool>(3));
    }),
    .aliases = {{0, 2}},
    .mutates = {2}};

}  // namespace strop::ops
