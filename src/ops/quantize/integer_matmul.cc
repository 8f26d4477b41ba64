// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of 8-bit numbers: MatMulInteger, QLinearMatMul, and
// com.microsoft's MatMulIntegerToFloat, DynamicQuantizeMatMul and QGemm.
// Sums are exact in int32 (they wrap around where even that is too small).
#include "ops/matrix.h"
#include "ops/quantize/quantized.h"

namespace strop::ops {
namespace {

constexpr int64_t kColumns = 64;

// `lines` is the number of rows of A or columns of B.
bool FitsLines(const Shape& shape, const Shape& operand, int64_t lines) {
  if (IsOneOrPerLine(shape, lines)) return true;
  if (shape.rank() != operand.rank() || operand.rank() < 2) return false;
  const size_t batch_axes = operand.rank() - 2;
  return shape.element_count() ==
             operand.element_count(0, batch_axes) * lines &&
         shape.element_count(0, batch_axes) ==
             operand.element_count(0, batch_axes);
}

void RequireLines(const InferContext& c, size_t i, size_t operand,
                  int64_t lines) {
  if (!c.has_input(i)) return;
  const Shape& shape = c.input(i).shape;
  if (!FitsLines(shape, c.input(operand).shape, lines)) {
    Fail(c.node(), "input {} of shape {} fits neither {} nor one of its lines",
         i, shape.ToString(), c.input(operand).shape.ToString());
  }
}

// A sum of products of up to kColumns neighbours in a row of Y.
struct Piece {
  int64_t matrix;            // of the stack
  int64_t a_batch, b_batch;  // which matrix of A and of B that is
  int64_t row, column, count;
  const int32_t* sums;
};

// Zero points of a node's product.
struct Zeros {
  PerLine a, b;
};

// Calls finish(piece) for all of Y. `load(i)` is element i of A as int32.
template <class B, class Load, class Finish>
void MultiplyIntegers(const KernelContext& c, const MatrixProduct& p, Load load,
                      const B* b, const Zeros& zeros, Finish finish) {
  const int64_t m = p.a.rows, n = p.b.columns, k = p.a.columns;
  if (m == 0 || n == 0) return;
  const auto multiply_row = [&](int64_t index) {
    Piece piece = {};
    piece.matrix = index / m;
    piece.row = index % m;
    const int64_t a_start = BatchOffset(p.a, p.batch, piece.matrix);
    const int64_t b_start = BatchOffset(p.b, p.batch, piece.matrix);
    piece.a_batch = a_start / std::max<int64_t>(1, m * k);
    piece.b_batch = b_start / std::max<int64_t>(1, k * n);
    double zero_a, zeros_b[kColumns];
    zeros.a.Load(c.node(), piece.a_batch, piece.row, 1, &zero_a);
    const int32_t za = static_cast<int32_t>(zero_a);
    for (piece.column = 0; piece.column < n; piece.column += kColumns) {
      piece.count = std::min(kColumns, n - piece.column);
      int32_t zb[kColumns];
      zeros.b.Load(c.node(), piece.b_batch, piece.column, piece.count, zeros_b);
      for (int64_t j = 0; j < piece.count; ++j) {
        zb[j] = static_cast<int32_t>(zeros_b[j]);
      }
      int32_t sums[kColumns] = {};
      for (int64_t q = 0; q < k; ++q) {
        const int32_t factor =
            load(a_start + piece.row * p.a.row_stride + q * p.a.column_stride) -
            za;
        const B* row =
            b + b_start + q * p.b.row_stride + piece.column * p.b.column_stride;
        for (int64_t j = 0; j < piece.count; ++j) {
          sums[j] =
              Plus(sums[j], factor * (row[j * p.b.column_stride] - zb[j]));
        }
      }
      piece.sums = sums;
      finish(piece);
    }
  };
  const double cost = 0.5 * static_cast<double>(n) * static_cast<double>(k);
  c.ParallelFor(p.batch.element_count() * m, cost,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) multiply_row(i);
                });
}

// The same for A and B of 8 bits, in inputs a and b.
template <class Finish>
void MultiplyInputs(const KernelContext& c, const MatrixProduct& p, size_t a,
                    size_t b, const Zeros& zeros, Finish finish) {
  DispatchType(EightBits{}, c.input(a).type(), [&]<class A>() {
    const A* left = c.in<A>(a).data();
    DispatchType(EightBits{}, c.input(b).type(), [&]<class B>() {
      MultiplyIntegers(
          c, p, [left](int64_t i) { return int32_t{left[i]}; },
          c.in<B>(b).data(), zeros, finish);
    });
  });
}

int64_t OutputOffset(const MatrixProduct& p, const Piece& piece) {
  return (piece.matrix * p.a.rows + piece.row) * p.b.columns + piece.column;
}

// The product of inputs a and b.
MatrixProduct InferProduct(const InferContext& c, size_t a, size_t b) {
  return ReadProduct(c.node(), c.input(a).shape, c.input(b).shape);
}
MatrixProduct ProductOf(const KernelContext& c, size_t a, size_t b) {
  return ReadProduct(c.node(), c.input(a).shape(), c.input(b).shape());
}

// --- MatMulInteger: A, B, zero point of A, zero point of B -> int32

void InferMatMulInteger(InferContext& c) {
  RequireQuantized(c, 0);
  RequireQuantized(c, 1);
  const MatrixProduct p = InferProduct(c, 0, 1);
  if (c.has_input(2)) RequireSameType(c, 0, 2);
  if (c.has_input(3)) RequireSameType(c, 1, 3);
  RequireLines(c, 2, 0, p.a.rows);
  RequireLines(c, 3, 1, p.b.columns);
  c.SetOutput(0, DataType::kInt32, ProductShape(p));
}

void MatMulInteger(const KernelContext& c) {
  const MatrixProduct p = ProductOf(c, 0, 1);
  int32_t* y = c.out<int32_t>(0).data();
  const Zeros zeros = {ReadLines(c, 2, p.a.rows, 0),
                       ReadLines(c, 3, p.b.columns, 0)};
  MultiplyInputs(c, p, 0, 1, zeros, [&](const Piece& piece) {
    std::copy_n(piece.sums, piece.count, y + OutputOffset(p, piece));
  });
}

// --- QLinearMatMul: A and B with their scales and zero points, scale and
// zero point of Y -> Y of that zero point's type

void InferQLinearMatMul(InferContext& c) {
  RequireQuantized(c, 0);
  RequireQuantized(c, 3);
  RequireSameType(c, 0, 2);
  RequireSameType(c, 3, 5);
  for (const size_t scale : {1, 4}) RequireFloat(c, scale);
  const MatrixProduct p = InferProduct(c, 0, 3);
  for (const size_t i : {1, 2}) RequireLines(c, i, 0, p.a.rows);
  for (const size_t i : {4, 5}) RequireLines(c, i, 3, p.b.columns);
  c.SetOutput(0, QuantizedOutputType(c, 6), ProductShape(p));
}

// values[j] = sums[j] * scale of the row * scale of the column
void ScaleSums(const OpNode& node, const Piece& piece, const PerLine& scale_a,
               const PerLine& scale_b, double* values) {
  double row_scale, scales[kColumns];
  scale_a.Load(node, piece.a_batch, piece.row, 1, &row_scale);
  scale_b.Load(node, piece.b_batch, piece.column, piece.count, scales);
  for (int64_t j = 0; j < piece.count; ++j) {
    values[j] = piece.sums[j] * (row_scale * scales[j]);
  }
}

void QLinearMatMul(const KernelContext& c) {
  const MatrixProduct p = ProductOf(c, 0, 3);
  const Zeros zeros = {ReadLines(c, 2, p.a.rows, 0),
                       ReadLines(c, 5, p.b.columns, 0)};
  const PerLine scale_a = ReadLines(c, 1, p.a.rows, 1);
  const PerLine scale_b = ReadLines(c, 4, p.b.columns, 1);
  const Quantization q = ReadQuantization(c, 6, 7);
  MultiplyInputs(c, p, 0, 3, zeros, [&](const Piece& piece) {
    double values[kColumns];
    ScaleSums(c.node(), piece, scale_a, scale_b, values);
    Quantize(c.node(), c.output(0), q, OutputOffset(p, piece), piece.count,
             values);
  });
}

// --- MatMulIntegerToFloat: A, B, scale of A, scale of B, zero point of A,
// zero point of B, bias -> float32

void RequireBias(const InferContext& c, size_t i, int64_t columns) {
  if (!c.has_input(i)) return;
  RequireFloat(c, i);
  RequireShape(c, i, {columns});
}

void AddBias(const KernelContext& c, size_t i, const Piece& piece,
             double* values) {
  if (!c.has_input(i)) return;
  double bias[kColumns];
  LoadDoubles(c.node(), c.input(i), piece.column, 1, piece.count, bias);
  for (int64_t j = 0; j < piece.count; ++j) values[j] += bias[j];
}

void InferMatMulIntegerToFloat(InferContext& c) {
  RequireQuantized(c, 0);
  RequireQuantized(c, 1);
  const MatrixProduct p = InferProduct(c, 0, 1);
  RequireFloat(c, 2);
  RequireSameType(c, 2, 3);
  if (c.has_input(4)) RequireSameType(c, 0, 4);
  if (c.has_input(5)) RequireSameType(c, 1, 5);
  for (const size_t i : {2, 4}) RequireLines(c, i, 0, p.a.rows);
  for (const size_t i : {3, 5}) RequireLines(c, i, 1, p.b.columns);
  RequireBias(c, 6, p.b.columns);
  c.SetOutput(0, c.input(2).type, ProductShape(p));
}

void MatMulIntegerToFloat(const KernelContext& c) {
  const MatrixProduct p = ProductOf(c, 0, 1);
  const Zeros zeros = {ReadLines(c, 4, p.a.rows, 0),
                       ReadLines(c, 5, p.b.columns, 0)};
  const PerLine scale_a = ReadLines(c, 2, p.a.rows, 1);
  const PerLine scale_b = ReadLines(c, 3, p.b.columns, 1);
  MultiplyInputs(c, p, 0, 1, zeros, [&](const Piece& piece) {
    double values[kColumns];
    ScaleSums(c.node(), piece, scale_a, scale_b, values);
    AddBias(c, 6, piece, values);
    StoreDoubles(c.node(), c.output(0), OutputOffset(p, piece), piece.count,
                 values);
  });
}

// --- DynamicQuantizeMatMul: A, B, scale of B, zero point of B, bias ->
// float32. A is quantized as DynamicQuantizeLinear does.

void InferDynamicQuantizeMatMul(InferContext& c) {
  RequireType(c, 0, DataType::kFloat32);
  RequireQuantized(c, 1);
  RequireType(c, 2, DataType::kFloat32);
  const MatrixProduct p = InferProduct(c, 0, 1);
  if (c.has_input(3)) RequireSameType(c, 1, 3);
  for (const size_t i : {2, 3}) RequireLines(c, i, 1, p.b.columns);
  RequireBias(c, 4, p.b.columns);
  c.SetOutput(0, DataType::kFloat32, ProductShape(p));
}

void DynamicQuantizeMatMul(const KernelContext& c) {
  const MatrixProduct p = ProductOf(c, 0, 1);
  const DynamicScale q = FindDynamicScale(c.in<float>(0));
  const float* a = c.in<float>(0).data();
  const Zeros zeros = {{.fallback = static_cast<double>(q.zero)},
                       ReadLines(c, 3, p.b.columns, 0)};
  const PerLine scale_a = {.fallback = q.scale};
  const PerLine scale_b = ReadLines(c, 2, p.b.columns, 1);
  const auto finish = [&](const Piece& piece) {
    double values[kColumns];
    ScaleSums(c.node(), piece, scale_a, scale_b, values);
    AddBias(c, 4, piece, values);
    StoreDoubles(c.node(), c.output(0), OutputOffset(p, piece), piece.count,
                 values);
  };
  DispatchType(EightBits{}, c.input(1).type(), [&]<class B>() {
    MultiplyIntegers(
        c, p, [&](int64_t i) { return int32_t{q.Quantize(a[i])}; },
        c.in<B>(1).data(), zeros, finish);
  });
}

// --- QGemm: A, scale, zero point, B, scale, zero point, C (int32, in the
// scale of A times that of B), scale and zero point of Y -> alpha A' B' + C,
// float32 where Y has no scale

MatrixProduct ReadQGemm(const OpNode& node, const Shape& a, const Shape& b) {
  const GemmSizes s = ReadGemmSizes(node, a, b);
  MatrixProduct p;
  p.a.rows = s.m;
  p.b.columns = s.n;
  p.a.columns = p.b.rows = s.k;
  p.a.row_stride = s.trans_a ? 1 : s.k;
  p.a.column_stride = s.trans_a ? s.m : 1;
  p.b.row_stride = s.trans_b ? 1 : s.n;
  p.b.column_stride = s.trans_b ? s.k : 1;
  return p;
}

void InferQGemm(InferContext& c) {
  RequireQuantizedTriple(c, 0);
  RequireQuantized(c, 3);
  RequireSameType(c, 0, 2);
  RequireSameType(c, 3, 5);
  RequireFloat(c, 4);
  const MatrixProduct p =
      ReadQGemm(c.node(), c.input(0).shape, c.input(3).shape);
  for (const size_t i : {4, 5}) RequireLines(c, i, 3, p.b.columns);
  const Shape y = {p.a.rows, p.b.columns};
  if (c.has_input(6)) {
    RequireType(c, 6, DataType::kInt32);
    RequireBroadcastTo(c.node(), "C", c.input(6).shape, y);
  }
  if (!c.has_input(7)) {
    c.SetOutput(0, c.input(1).type, y);
    return;
  }
  if (c.has_input(8)) {
    c.SetOutput(0, QuantizedOutputType(c, 7), y);
  } else {
    RequireQuantization(c, 7, 8, c.input(0).type);
    c.SetOutput(0, c.input(0).type, y);
  }
}

void QGemm(const KernelContext& c) {
  const OpNode& node = c.node();
  const MatrixProduct p =
      ReadQGemm(node, c.input(0).shape(), c.input(3).shape());
  const Zeros zeros = {ReadLines(c, 2, p.a.rows, 0),
                       ReadLines(c, 5, p.b.columns, 0)};
  const PerLine scale_a = ReadLines(c, 1, p.a.rows, 1);
  const PerLine scale_b = ReadLines(c, 4, p.b.columns, 1);
  const double alpha = node.Float("alpha", 1);
  const int32_t* bias = c.has_input(6) ? c.in<int32_t>(6).data() : nullptr;
  const Dims bias_steps =
      bias ? BroadcastStrides(c.input(6).shape(), c.output(0).shape()) : Dims{};
  const bool quantizes = c.has_input(7);
  const Quantization q = quantizes ? ReadQuantization(c, 7, 8) : Quantization{};
  MultiplyInputs(c, p, 0, 3, zeros, [&](const Piece& piece) {
    int32_t sums[kColumns];
    for (int64_t j = 0; j < piece.count; ++j) {
      const int64_t at =
          piece.row * bias_steps[0] + (piece.column + j) * bias_steps[1];
      sums[j] = Plus(piece.sums[j], bias ? bias[at] : 0);
    }
    Piece biased = piece;
    biased.sums = sums;
    double values[kColumns];
    ScaleSums(node, biased, scale_a, scale_b, values);
    for (int64_t j = 0; j < piece.count; ++j) values[j] *= alpha;
    const int64_t first = OutputOffset(p, piece);
    if (quantizes) {
      Quantize(node, c.output(0), q, first, piece.count, values);
    } else {
      StoreDoubles(node, c.output(0), first, piece.count, values);
    }
  });
}

}  // namespace

extern constexpr OpDef kMatMulInteger = {
    .name = "MatMulInteger",
    .since = 10,
    .inputs = {2, 4},
    .infer = InferMatMulInteger,
    .reference = Untyped<EightBits>(MatMulInteger),
    .stops_gradient = {0, 1, 2, 3}};

extern constexpr OpDef kQLinearMatMul = {
    .name = "QLinearMatMul",
    .since = 10,
    .inputs = {8, 8},
    .infer = InferQLinearMatMul,
    .reference = Untyped<EightBits>(QLinearMatMul),
    .stops_gradient = {0, 1, 2, 3, 4, 5, 6, 7}};

extern constexpr OpDef kMatMulIntegerToFloat = {
    .name = "MatMulIntegerToFloat",
    .domain = kMicrosoft,
    .inputs = {4, 7},
    .infer = InferMatMulIntegerToFloat,
    .reference = Untyped<EightBits>(MatMulIntegerToFloat),
    .stops_gradient = {0, 1, 2, 3, 4, 5},
    // It stands behind a DynamicQuantizeLinear: training works in floats.
    .not_differentiable = true};

extern constexpr OpDef kDynamicQuantizeMatMul = {
    .name = "DynamicQuantizeMatMul",
    .domain = kMicrosoft,
    .inputs = {3, 5},
    .infer = InferDynamicQuantizeMatMul,
    .reference = Untyped<TypeList<float>>(DynamicQuantizeMatMul),
    .stops_gradient = {1, 2, 3},
    // It rounds to a scale of its own; training works on A B in floats.
    .not_differentiable = true};

extern constexpr OpDef kQGemm = {.name = "QGemm",
                                 .domain = kMicrosoft,
                                 .inputs = {6, 9},
                                 .infer = InferQGemm,
                                 .reference = Untyped<EightBits>(QGemm),
                                 .stops_gradient = {0, 1, 2, 3, 4, 5, 6, 7, 8}};

}  // namespace strop::ops
