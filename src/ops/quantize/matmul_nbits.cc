// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft MatMulNBits: A times a weight of 2, 4 or 8 bits.
#include "ops/gradient.h"
#include "ops/quantize/quantized.h"

namespace strop::ops {
namespace {

// B holds N columns of K numbers, packed in blocks of block_size numbers, the
// lowest bits of a byte first: (N, blocks, bytes of a block).
struct PackedWeight {
  int64_t n, k, bits, block, blocks;

  int64_t bytes_of(int64_t numbers) const { return (numbers * bits + 7) / 8; }
  // Number i of a line of packed numbers.
  double Unpack(const uint8_t* line, int64_t i) const {
    const int64_t bit = i * bits;
    return (line[bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
  }
};

PackedWeight ReadWeight(const OpNode& node) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  PackedWeight w = {.n = node.Int("N"),
                    .k = node.Int("K"),
                    .bits = node.Int("bits", 4),
                    .block = node.Int("block_size"),
                    .blocks = 0};
  if (w.bits != 2 && w.bits != 4 && w.bits != 8) {
    Fail(node, ErrorCode::kNotImplemented,
         "weights of {} bits are not supported, only of 2, 4 and 8", w.bits);
  }
  if (w.n < 1 || w.n > kLimit || w.k < 1 || w.k > kLimit) {
    Fail(node, "K is {} and N {}", w.k, w.n);
  }
  if (w.block < 8 || w.block > kLimit || w.block % 8 != 0) {
    Fail(node, "block_size is {}, not a multiple of 8", w.block);
  }
  w.blocks = (w.k - 1) / w.block + 1;
  return w;
}

// A, B, scales, zero points (optional; packed like B, or of A's type), group
// of each k (optional), bias (optional)
// With `backward`, dY stands in the place of A, and the output is dA.
template <bool backward>
void InferMatMulNBits(InferContext& c) {
  const OpNode& node = c.node();
  const PackedWeight w = ReadWeight(node);
  const TensorInfo& a = c.input(0);
  RequireFloat(c, 0);
  const int64_t last = backward ? w.n : w.k;
  if (a.shape.rank() == 0 || a.shape[a.shape.rank() - 1] != last) {
    Fail(node, "{} is {}, its last axis should be {} = {}",
         backward ? "dY" : "A", a.shape.ToString(), backward ? "N" : "K", last);
  }
  RequireType(c, 1, DataType::kUint8);
  RequireFloat(c, 2);
  const auto require_count = [&](size_t i, std::string_view what,
                                 int64_t count) {
    if (c.input(i).shape.element_count() != count) {
      Fail(node, "{} of shape {} should have {} elements", what,
           c.input(i).shape.ToString(), count);
    }
  };
  require_count(1, "B", w.n * w.blocks * w.bytes_of(w.block));
  require_count(2, "scales", w.n * w.blocks);
  if (c.has_input(3)) {
    const bool packed = c.input(3).type == DataType::kUint8;
    if (!packed) RequireFloat(c, 3);
    require_count(3, "zero points",
                  w.n * (packed ? w.bytes_of(w.blocks) : w.blocks));
  }
  if (c.has_input(4)) {
    RequireType(c, 4, DataType::kInt32);
    const int64_t count = c.input(4).shape.element_count();
    if (count < w.k) require_count(4, "the groups", w.k);
  }
  if (c.has_input(5)) {
    RequireFloat(c, 5);
    RequireShape(c, 5, {w.n});
  }
  std::vector<int64_t> dims(a.shape.begin(), a.shape.end());
  dims.back() = backward ? w.k : w.n;
  c.SetOutput(0, a.type, Shape(dims));
}

// The numbers of B from `first` on in column n.
class Column {
 public:
  Column(const KernelContext& c, const PackedWeight& w, int64_t n)
      : c_(c), w_(w), n_(n) {
    packed_ = c.in<uint8_t>(1).data() + n * w.blocks * w.bytes_of(w.block);
    groups_ = c.has_input(4) ? c.in<int32_t>(4).data() : nullptr;
  }

  void Load(int64_t first, int64_t count, double* to) const {
    double scale = 0, zero = 0;
    int64_t known = -1;  // the block whose scale that is
    for (int64_t j = 0; j < count; ++j) {
      const int64_t k = first + j;
      const int64_t block = groups_ ? groups_[k] : k / w_.block;
      if (block != known) {
        scale = DoubleAt(c_.node(), c_.input(2), n_ * w_.blocks + block);
        zero = ZeroPoint(block);
        known = block;
      }
      to[j] = (w_.Unpack(packed_, k) - zero) * scale;
    }
  }

 private:
  double ZeroPoint(int64_t block) const {
    if (!c_.has_input(3)) return 1 << (w_.bits - 1);
    const Tensor& zero = c_.input(3);
    if (zero.type() != DataType::kUint8) {
      return DoubleAt(c_.node(), zero, n_ * w_.blocks + block);
    }
    const uint8_t* line =
        zero.values<uint8_t>().data() + n_ * w_.bytes_of(w_.blocks);
    return w_.Unpack(line, block);
  }

  const KernelContext& c_;
  const PackedWeight& w_;
  const int64_t n_;
  const uint8_t* packed_;
  const int32_t* groups_;
};

void CheckGroups(const KernelContext& c, const PackedWeight& w) {
  if (!c.has_input(4)) return;
  const auto groups = c.in<int32_t>(4).first(static_cast<size_t>(w.k));
  for (const int32_t group : groups) {
    if (group < 0 || group >= w.blocks) {
      Fail(c.node(), "group {} is out of range for {} blocks", group, w.blocks);
    }
  }
}

void MatMulNBits(const KernelContext& c) {
  const OpNode& node = c.node();
  const PackedWeight w = ReadWeight(node);
  CheckGroups(c, w);
  const int64_t rows = c.input(0).element_count() / w.k;
  constexpr int64_t kRows = 64;
  const auto multiply_column = [&](int64_t n) {
    const Column column(c, w, n);
    const double bias = c.has_input(5) ? DoubleAt(node, c.input(5), n) : 0;
    double a[kQuantBlock], b[kQuantBlock];
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t last = std::min(rows, row + kRows);
      double sums[kRows] = {};
      for (int64_t k = 0; k < w.k; k += kQuantBlock) {
        const int64_t count = std::min(kQuantBlock, w.k - k);
        column.Load(k, count, b);
        for (int64_t i = row; i < last; ++i) {
          LoadDoubles(node, c.input(0), i * w.k + k, 1, count, a);
          for (int64_t j = 0; j < count; ++j) sums[i - row] += a[j] * b[j];
        }
      }
      for (int64_t i = row; i < last; ++i) {
        const double y = sums[i - row] + bias;
        StoreDoubles(node, c.output(0), i * w.n + n, 1, &y);
      }
    }
  };
  c.ParallelFor(w.n, static_cast<double>((rows + 2) * w.k),
                [&](int64_t begin, int64_t end) {
                  for (int64_t n = begin; n < end; ++n) multiply_column(n);
                });
}

// --- Gradients

// dA = dY B', some numbers of K for some rows at a time.
void MatMulNBitsGrad(const KernelContext& c) {
  const OpNode& node = c.node();
  const PackedWeight w = ReadWeight(node);
  CheckGroups(c, w);
  const int64_t rows = c.input(0).element_count() / w.n;
  constexpr int64_t kRows = 8;
  const auto multiply_block = [&](int64_t k, int64_t row) {
    const int64_t count = std::min(kQuantBlock, w.k - k);
    const int64_t last = std::min(rows, row + kRows);
    double sums[kRows][kQuantBlock] = {};
    double b[kQuantBlock];
    for (int64_t n = 0; n < w.n; ++n) {
      Column(c, w, n).Load(k, count, b);
      for (int64_t i = row; i < last; ++i) {
        const double dy = DoubleAt(node, c.input(0), i * w.n + n);
        for (int64_t j = 0; j < count; ++j) sums[i - row][j] += dy * b[j];
      }
    }
    for (int64_t i = row; i < last; ++i)
      StoreDoubles(node, c.output(0), i * w.k + k, count, sums[i - row]);
  };
  c.ParallelFor(CeilDiv(w.k, kQuantBlock),
                static_cast<double>((rows + 2) * w.n * kQuantBlock),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    for (int64_t row = 0; row < rows; row += kRows)
                      multiply_block(i * kQuantBlock, row);
                  }
                });
}

// The weight is frozen.
void MatMulNBitsGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  if (c.needs(0)) {
    std::vector<Var> inputs = {c.dy()};
    for (size_t i = 1; i < c.input_count() && i < 5; ++i)
      inputs.push_back(c.x(i));
    c.Set(0, b.Op("MatMulNBitsGrad", inputs, c.attributes(), kStrop));
  }
  if (!c.needs(5)) return;
  const Var sum = b.ReduceToShapeOf(c.dy(), c.y(), c.x(5));
  c.Set(5, b.Cast(sum, b.type(c.x(5))));
}

}  // namespace

extern constexpr OpDef kMatMulNBits = {
    .name = "MatMulNBits",
    .domain = kMicrosoft,
    .inputs = {3, 6},
    .infer = InferMatMulNBits</*backward=*/false>,
    .reference = Untyped<AllFloats>(MatMulNBits),
    .gradient = Rule(MatMulNBitsGradient),
    .stops_gradient = {1, 2, 3, 4}};

// dY, and B, scales, zero points and groups as for MatMulNBits -> dA
extern constexpr OpDef kMatMulNBitsGrad = {
    .name = "MatMulNBitsGrad",
    .domain = kStrop,
    .inputs = {3, 5},
    .infer = InferMatMulNBits</*backward=*/true>,
    .reference = Untyped<AllFloats>(MatMulNBitsGrad)};

}  // namespace strop::ops
