// SPDX-License-Identifier: Apache-2.0
//
// DepthToSpace and SpaceToDepth: blocks of the plane become channels and
// back. The order of the block's cells among the channels: DCR (row, column,
// channel) or CRD (channel, row, column).
#include "base/overflow.h"
#include "ops/gradient.h"
#include "ops/strided_copy.h"

namespace strop::ops {
namespace {

bool ChannelsInside(const OpNode& node) {
  const std::string_view mode = node.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    Fail(node, "attribute mode is \"{}\", neither DCR nor CRD", mode);
  }
  return mode == "DCR";
}

// Throws unless x has rank 4 and the block is sound.
int64_t ReadBlock(const OpNode& node, const Shape& x) {
  const int64_t block = node.Int("blocksize");
  if (x.rank() != 4) {
    Fail(node, "wants (batch, channels, height, width), not the shape {}",
         x.ToString());
  }
  if (block < 1 || block > (int64_t{1} << 20)) {
    Fail(node, "attribute blocksize is {}", block);
  }
  return block;
}

void InferDepthToSpace(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const int64_t block = ReadBlock(c.node(), x);
  ChannelsInside(c.node());
  if (x[1] % (block * block) != 0) {
    Fail(c.node(), "{} channels are no blocks of {} x {}", x[1], block, block);
  }
  Dims dims = {x[0], x[1] / (block * block), 0, 0};
  if (MultiplyOverflows(x[2], block, &dims[2]) ||
      MultiplyOverflows(x[3], block, &dims[3])) {
    Fail(c.node(), "blocks of {} make {} too large", block, x.ToString());
  }
  c.SetOutput(0, c.input(0).type, Shape({dims.data(), 4}));
}

void InferSpaceToDepth(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const int64_t block = ReadBlock(c.node(), x);
  ChannelsInside(c.node());
  if (x[2] % block != 0 || x[3] % block != 0) {
    Fail(c.node(), "{} is not cut into blocks of {} x {}", x.ToString(), block,
         block);
  }
  Dims dims = {x[0], 0, x[2] / block, x[3] / block};
  if (MultiplyOverflows(x[1], block * block, &dims[1])) {
    Fail(c.node(), "blocks of {} make {} too large", block, x.ToString());
  }
  c.SetOutput(0, c.input(0).type, Shape({dims.data(), 4}));
}

// Both walk (batch, channel, row of block, row in block, column of block,
// column in block) over the plane (`space`) and the channels (`depth`).
void Rearrange(const KernelContext& c, const Shape& depth, bool to_space) {
  const int64_t block = c.node().Int("blocksize");
  const int64_t channels = depth[1] / (block * block);
  const int64_t plane = depth[2] * depth[3];
  const bool inside = ChannelsInside(c.node());
  const int64_t channel_step = plane * (inside ? 1 : block * block);
  const int64_t column_step = plane * (inside ? channels : 1);
  const int64_t row = depth[3] * block;  // of the plane
  StridedCopy copy;
  const auto add = [&](int64_t dim, int64_t in_depth, int64_t in_space) {
    copy.AddAxis(dim, to_space ? in_depth : in_space,
                 to_space ? in_space : in_depth);
  };
  add(depth[0], depth[1] * plane, depth[1] * plane);
  add(channels, channel_step, plane * block * block);
  add(depth[2], depth[3], row * block);
  add(block, column_step * block, row);
  add(depth[3], 1, block);
  add(block, column_step, 1);
  copy.Run(c, c.input(0), c.output(0));
}

// --- Gradients

// Each undoes the other. ONNX's SpaceToDepth knows no order of the cells but
// DCR.
void DepthToSpaceGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Attributes block = {{"blocksize", c.node().Int("blocksize")}};
  c.Set(0, ChannelsInside(c.node())
               ? b.Op("SpaceToDepth", {c.dy()}, block)
               : b.Op("SpaceToDepth", {c.dy()}, c.attributes(), kStrop));
}

void SpaceToDepthGradient(GradientContext& c) {
  c.Set(0, c.build().Op("DepthToSpace", {c.dy()}, c.attributes()));
}

}  // namespace

extern constexpr OpDef kDepthToSpace = {
    .name = "DepthToSpace",
    .infer = InferDepthToSpace,
    .reference = ByteKernel<[](const KernelContext& c) {
      Rearrange(c, c.input(0).shape(), /*to_space=*/true);
    }>(),
    .gradient = Rule(DepthToSpaceGradient)};

namespace {

constexpr OpDef SpaceToDepthIn(std::string_view domain) {
  return {.name = "SpaceToDepth",
          .domain = domain,
          .infer = InferSpaceToDepth,
          .reference = ByteKernel<[](const KernelContext& c) {
            Rearrange(c, c.output(0).shape(), /*to_space=*/false);
          }>(),
          .gradient = Rule(SpaceToDepthGradient)};
}

}  // namespace

extern constexpr OpDef kSpaceToDepth = SpaceToDepthIn(kOnnx);

// The same with an attribute mode, DCR or CRD, as DepthToSpace has it.
extern constexpr OpDef kStropSpaceToDepth = SpaceToDepthIn(kStrop);

}  // namespace strop::ops
