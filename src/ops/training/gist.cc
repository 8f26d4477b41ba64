// SPDX-License-Identifier: Apache-2.0
//
// Activations stored in fewer bits until the backward pass: as a flag (all
// that ReluGrad needs) or as float16. Decoders restore the type `to`.
#include "base/half.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

bool IsWide(DataType type) {
  return DispatchType(Floats{}, type, []<class T>() {});
}

DataType DecodedType(const OpNode& node) {
  const auto type = static_cast<DataType>(
      node.Int("to", static_cast<int64_t>(DataType::kFloat32)));
  if (!IsWide(type)) {
    Fail(node, ErrorCode::kNotImplemented, "cannot decode to {}",
         DataTypeName(type));
  }
  return type;
}

template <DataType encoded>
void InferEncoder(InferContext& c) {
  if (encoded == DataType::kFloat16 && !IsWide(c.input(0).type)) {
    Fail(c.node(), ErrorCode::kNotImplemented, "cannot narrow {}",
         DataTypeName(c.input(0).type));
  }
  c.SetOutput(0, encoded, c.input(0).shape);
}

template <DataType encoded>
void InferDecoder(InferContext& c) {
  RequireType(c, 0, encoded);
  c.SetOutput(0, DecodedType(c.node()), c.input(0).shape);
}

// y[i] = f(x[i])
template <class To, class F>
constexpr ReferenceKernel Encoder(F) {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const auto x = c.in<T>(0);
    const auto y = c.out<To>(0);
    for (size_t i = 0; i < x.size(); ++i) y[i] = F{}(x[i]);
  });
}
template <class From, class F>
constexpr ReferenceKernel Decoder(F) {
  return Instantiate<Floats, -1>([]<class T>(const KernelContext& c) {
    const auto x = c.in<From>(0);
    const auto y = c.out<T>(0);
    for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(F{}(x[i]));
  });
}

}  // namespace

extern constexpr OpDef kGistBinarizeEncoder = {
    .name = "GistBinarizeEncoder",
    .domain = kMicrosoft,
    .infer = InferEncoder<DataType::kBool>,
    .reference = Encoder<bool>([](auto x) { return x > 0; })};

extern constexpr OpDef kGistBinarizeDecoder = {
    .name = "GistBinarizeDecoder",
    .domain = kMicrosoft,
    .infer = InferDecoder<DataType::kBool>,
    .reference = Decoder<bool>([](bool x) { return x ? 1 : 0; })};

extern constexpr OpDef kGistPack16Encoder = {
    .name = "GistPack16Encoder",
    .domain = kMicrosoft,
    .infer = InferEncoder<DataType::kFloat16>,
    .reference = Encoder<Float16>(
        [](auto x) { return ToFloat16(static_cast<float>(x)); })};

extern constexpr OpDef kGistPack16Decoder = {
    .name = "GistPack16Decoder",
    .domain = kMicrosoft,
    .infer = InferDecoder<DataType::kFloat16>,
    .reference = Decoder<Float16>([](Float16 x) { return ToFloat(x); })};

}  // namespace strop::ops
