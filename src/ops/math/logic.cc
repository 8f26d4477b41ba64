// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {

namespace {

// --- Gradients

void WhereGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var zero = b.Scalar(0, b.type(c.y()));
  if (c.needs(1)) c.SetReduced(1, b.Where(c.x(0), c.dy(), zero));
  if (c.needs(2)) c.SetReduced(2, b.Where(c.x(0), zero, c.dy()));
}

}  // namespace

extern constexpr OpDef kAnd = {
    .name = "And",
    .inputs = {2, 2},
    .infer = BroadcastInputsToBool,
    .reference = Comparison<Bools>([](bool a, bool b) { return a && b; }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kOr = {
    .name = "Or",
    .inputs = {2, 2},
    .infer = BroadcastInputsToBool,
    .reference = Comparison<Bools>([](bool a, bool b) { return a || b; }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kXor = {
    .name = "Xor",
    .inputs = {2, 2},
    .infer = BroadcastInputsToBool,
    .reference = Comparison<Bools>([](bool a, bool b) { return a != b; }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kNot = {
    .name = "Not",
    .infer = SameAsInput,
    .reference = Unary<Bools>([](bool x) { return !x; }),
    .may_overwrite = {0},
    .cheap = true,
    .stops_gradient = {0}};

namespace {

void InferWhere(InferContext& c) {
  RequireType(c, 0, DataType::kBool);
  RequireSameType(c, 1, 2);
  const Shape values =
      BroadcastShapes(c.node(), c.input(1).shape, c.input(2).shape);
  c.SetOutput(0, c.input(1).type,
              BroadcastShapes(c.node(), c.input(0).shape, values));
}

}  // namespace

// y = condition ? a : b
extern constexpr OpDef kWhere = {
    .name = "Where",
    .inputs = {3, 3},
    .infer = InferWhere,
    .reference = Instantiate<AllTypes, 1>([]<class T>(const KernelContext& c) {
      const bool* condition = c.in<bool>(0).data();
      const T* a = c.in<T>(1).data();
      const T* b = c.in<T>(2).data();
      T* y = c.out<T>(0).data();
      const BroadcastLoop<3> loop(
          c.output(0).shape(),
          {&c.input(0).shape(), &c.input(1).shape(), &c.input(2).shape()});
      c.ParallelFor(
          c.output(0).element_count(), 1.5, [&](int64_t begin, int64_t end) {
            loop.Run(begin, end,
                     [&](int64_t o, const std::array<int64_t, 3>& in,
                         int64_t count) {
                       for (int64_t j = 0; j < count; ++j) {
                         y[o + j] = condition[in[0] + j * loop.step(0)]
                                        ? a[in[1] + j * loop.step(1)]
                                        : b[in[2] + j * loop.step(2)];
                       }
                     });
          });
    }),
    .may_overwrite = {1, 2},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(WhereGradient),
    .stops_gradient = {0}};

}  // namespace strop::ops
