// SPDX-License-Identifier: Apache-2.0
//
// A product with a weight in four bits: B holds the codes of an N x K matrix,
// two in a byte, the first one in the upper half. A code stands for a number
// of a fixed table, times the largest magnitude of its block of block_size
// codes.
#include "ops/gradient.h"
#include "ops/matrix.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

// One sign, two bits of exponent, one of mantissa.
constexpr float kFp4[16] = {
    0.0f, 0.0625f / 12,  2.0f / 3,  1.0f,  1.0f / 3,  0.5f,  1.0f / 6,  0.25f,
    0.0f, -0.0625f / 12, -2.0f / 3, -1.0f, -1.0f / 3, -0.5f, -1.0f / 6, -0.25f};

// The quantiles of a normal distribution, and zero: QLoRA,
// https://arxiv.org/abs/2305.14314, appendix E.
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

// y = A W' for A (..., K), or with transB 0 A W for A (..., N).
struct Sizes {
  int64_t n, k, block;
  bool transposed;
  int64_t inner() const { return transposed ? k : n; }
  int64_t columns() const { return transposed ? n : k; }
};

Sizes ReadSizes(const OpNode& node) {
  const Sizes s = {node.Int("N"), node.Int("K"), node.Int("block_size"),
                   node.Int("transB", 1) != 0};
  if (s.n < 0 || s.k < 0 || s.block <= 0) {
    Fail(node, "N is {}, K is {}, block_size is {}", s.n, s.k, s.block);
  }
  const int64_t type = node.Int("quant_type");
  if (type != 0 && type != 1) Fail(node, "attribute quant_type is {}", type);
  return s;
}

// A, codes, largest magnitudes -> y
void Infer(InferContext& c) {
  const Sizes s = ReadSizes(c.node());
  const Shape& a = c.input(0).shape;
  const int64_t codes = Shape{s.n, s.k}.element_count();
  RequireType(c, 1, DataType::kUint8);
  RequireShape(c, 1, {CeilDiv<int64_t>(codes, 2)});
  RequireSameType(c, 0, 2);
  RequireShape(c, 2, {CeilDiv(codes, s.block)});
  if (a.rank() == 0 || a[a.rank() - 1] != s.inner()) {
    Fail(c.node(), "the last axis of A must be {}, A is {}", s.inner(),
         a.ToString());
  }
  std::vector<int64_t> dims(a.begin(), a.end());
  dims.back() = s.columns();
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

// The weight.
size_t ScratchBytes(const KernelRequest& request) {
  const Sizes s = ReadSizes(request.node);
  return static_cast<size_t>(Shape{s.n, s.k}.element_count()) *
         DataTypeSize(request.inputs[0].info.type);
}

template <class T>
void Run(const KernelContext& c) {
  const Sizes s = ReadSizes(c.node());
  const float* table = c.node().Int("quant_type") == 0 ? kFp4 : kNf4;
  const uint8_t* codes = c.in<uint8_t>(1).data();
  const T* largest = c.in<T>(2).data();
  T* weight = reinterpret_cast<T*>(c.scratch());
  c.ParallelFor(s.n * s.k, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
      weight[i] = static_cast<T>(table[code]) * largest[i / s.block];
    }
  });
  if (c.output(0).element_count() == 0) return;
  const int64_t rows = c.output(0).element_count() / s.columns();
  Multiply<T>(c, rows, s.columns(), s.inner(), 1,
              {c.in<T>(0).data(), s.inner(), 1},
              View(weight, s.k, s.transposed), c.out<T>(0).data(),
              /*accumulate=*/false);
}

}  // namespace

extern constexpr OpDef kMatMulBnb4 = {
    .name = "MatMulBnb4",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = Infer,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Run<T>(c); }, ScratchBytes),
    .gradient = Rule([](GradientContext& c) {
      Attributes attributes = c.attributes();
      std::erase_if(attributes, [](const auto& attribute) {
        return attribute.first == "transB";
      });
      const bool transposed = c.node().Int("transB", 1) != 0;
      attributes.emplace_back("transB", int64_t{!transposed});
      c.Set(0, c.build().MicrosoftOp("MatMulBnb4", {c.dy(), c.x(1), c.x(2)},
                                     attributes));
    }),
    .stops_gradient = {1, 2}};

}  // namespace strop::ops
