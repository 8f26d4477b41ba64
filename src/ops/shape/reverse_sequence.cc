// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// x (times, batch, inner), or (batch, times, inner) with batch_first.
struct SequenceSizes {
  int64_t times, batch, inner;
  bool batch_first;
};

SequenceSizes ReadSequences(const OpNode& node, const Shape& x) {
  const int64_t time = node.Int("time_axis", 0);
  const int64_t batch = node.Int("batch_axis", 1);
  if (x.rank() < 2 || std::min(time, batch) != 0 ||
      std::max(time, batch) != 1) {
    Fail(node, "time_axis {} and batch_axis {} of {} must be 0 and 1", time,
         batch, x.ToString());
  }
  return {x[static_cast<size_t>(time)], x[static_cast<size_t>(batch)],
          x.element_count(2, x.rank()), batch == 0};
}

void InferReverseSequence(InferContext& c) {
  const SequenceSizes s = ReadSequences(c.node(), c.input(0).shape);
  RequireType(c, 1, DataType::kInt64);
  RequireShape(c, 1, {s.batch});
  SameAsInput(c);
}

// The first lengths[b] times of sample b are turned round.
void ReverseSequence(const KernelContext& c) {
  const SequenceSizes s = ReadSequences(c.node(), c.input(0).shape());
  const auto lengths = c.in<int64_t>(1);
  for (const int64_t length : lengths) {
    if (length < 0 || length > s.times) {
      Fail(c.node(), "a sequence of {} does not fit into {} times", length,
           s.times);
    }
  }
  const size_t block =
      static_cast<size_t>(s.inner) * DataTypeSize(c.input(0).type());
  const auto* from = static_cast<const std::byte*>(c.input(0).data());
  auto* to = static_cast<std::byte*>(c.output(0).data());
  if (block == 0) return;
  const auto offset = [&](int64_t time, int64_t batch) {
    return static_cast<size_t>(s.batch_first ? batch * s.times + time
                                             : time * s.batch + batch) *
           block;
  };
  for (int64_t batch = 0; batch < s.batch; ++batch) {
    const int64_t length = lengths[static_cast<size_t>(batch)];
    for (int64_t time = 0; time < s.times; ++time) {
      const int64_t source = time < length ? length - 1 - time : time;
      std::memcpy(to + offset(time, batch), from + offset(source, batch),
                  block);
    }
  }
}

}  // namespace

extern constexpr OpDef kReverseSequence = {
    .name = "ReverseSequence",
    .since = 10,
    .inputs = {2, 2},
    .infer = InferReverseSequence,
    .reference = ByteKernel<ReverseSequence>(),
    .gradient = Rule([](GradientContext& c) {
      c.Set(0,
            c.build().Op("ReverseSequence", {c.dy(), c.x(1)}, c.attributes()));
    }),
    .stops_gradient = {1}};

}  // namespace strop::ops
