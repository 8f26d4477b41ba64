// SPDX-License-Identifier: Apache-2.0
//
// Operations on the bits of integers.
#include "ops/elementwise.h"

namespace strop::ops {
namespace {

// Bits shifted past the sign bit are lost. A shift by as many bits as there
// are, or by a negative number, leaves nothing but copies of the sign.
template <class T>
T ShiftLeft(T x, T count) {
  if (count < 0 || count >= static_cast<int>(8 * sizeof(T))) return 0;
  return static_cast<T>(Wrapping<T>(x) << count);
}
template <class T>
T ShiftRight(T x, T count) {
  if (count < 0 || count >= static_cast<int>(8 * sizeof(T))) {
    return x < 0 ? static_cast<T>(-1) : T{0};
  }
  return static_cast<T>(x >> count);
}

bool ShiftsLeft(const OpNode& node) {
  const std::string_view direction = node.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    Fail(node, "attribute direction is \"{}\"", direction);
  }
  return direction == "LEFT";
}

void InferBitShift(InferContext& c) {
  ShiftsLeft(c.node());
  BroadcastInputs(c);
}

template <class T>
void BitShift(const KernelContext& c) {
  const auto run = [&](auto f) {
    RunBinary<T, T, T>(c, c.input(0), c.input(1), c.output(0), 1, f);
  };
  if (ShiftsLeft(c.node())) {
    run([](T x, T count) { return ShiftLeft(x, count); });
  } else {
    run([](T x, T count) { return ShiftRight(x, count); });
  }
}

}  // namespace

// z = x << y or x >> y
extern constexpr OpDef kBitShift = {
    .name = "BitShift",
    .inputs = {2, 2},
    .infer = InferBitShift,
    .reference = Instantiate<Integers>(
        []<class T>(const KernelContext& c) { BitShift<T>(c); }),
    .may_overwrite = {0, 1},
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kBitwiseAnd = {
    .name = "BitwiseAnd",
    .inputs = {2, 2},
    .infer = BroadcastInputs,
    .reference = Binary<Integers>([](auto a, auto b) { return a & b; }),
    .may_overwrite = {0, 1},
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kBitwiseOr = {
    .name = "BitwiseOr",
    .inputs = {2, 2},
    .infer = BroadcastInputs,
    .reference = Binary<Integers>([](auto a, auto b) { return a | b; }),
    .may_overwrite = {0, 1},
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kBitwiseXor = {
    .name = "BitwiseXor",
    .inputs = {2, 2},
    .infer = BroadcastInputs,
    .reference = Binary<Integers>([](auto a, auto b) { return a ^ b; }),
    .may_overwrite = {0, 1},
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kBitwiseNot = {
    .name = "BitwiseNot",
    .infer = SameAsInput,
    .reference = Unary<Integers>([](auto x) { return ~x; }),
    .may_overwrite = {0},
    .cheap = true,
    .stops_gradient = {0}};

namespace {

void InferBitCast(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const auto to = static_cast<DataType>(c.node().Int("to"));
  if (DataTypeSize(to) == 0 || DataTypeSize(x.type) == 0) {
    Fail(c.node(), ErrorCode::kNotImplemented,
         "does not see {} as {}: whole bytes only", DataTypeName(x.type),
         DataTypeName(to));
  }
  if (DataTypeSize(to) != DataTypeSize(x.type)) {
    Fail(c.node(), "cannot see {} as {}: they differ in size",
         DataTypeName(x.type), DataTypeName(to));
  }
  c.SetOutput(0, to, x.shape);
}

// A byte that becomes a bool may hold 0 and 1 only.
void BitCast(const KernelContext& c) {
  if (c.output(0).type() == DataType::kBool) {
    for (const std::byte b : c.input(0).bytes()) {
      if (static_cast<int>(b) > 1) {
        Fail(c.node(), "the byte {} is no bool", static_cast<int>(b));
      }
    }
  }
  CopyInput(c);
}

}  // namespace

// The same bytes seen as another type of the same size.
extern constexpr OpDef kBitCast = {.name = "BitCast",
                                   .infer = InferBitCast,
                                   .reference = ByteKernel<BitCast>(),
                                   .cheap = true,
                                   .stops_gradient = {0}};

}  // namespace strop::ops
