// SPDX-License-Identifier: Apache-2.0
//
// What ops on images and normalizations say of inputs that do not fit.
#include <gtest/gtest.h>

#include "ops/cases/cases.h"

namespace strop {
namespace {

using IntList = std::vector<int64_t>;

// Each must give an Error that names the node.
void ExpectRefused(const std::vector<OpCase>& bad) {
  for (size_t i = 0; i < bad.size(); ++i) {
    const std::string text = ErrorOf(bad[i]);
    EXPECT_TRUE(text.starts_with("[" + bad[i].op + " \"n\"] "))
        << "number " << i << ", " << bad[i].op << ": " << text;
  }
}

TEST(BadImageInput, ConvTranspose) {
  const auto conv = [](Shape x, Shape w, CaseAttributes attributes) {
    return OpCase{.op = "ConvTranspose",
                  .inputs = {In(x), In(w)},
                  .attributes = std::move(attributes)};
  };
  const int64_t huge = int64_t{1} << 40;
  ExpectRefused({
      conv({1, 2}, {2, 1}, {}),
      conv({1, 2, 4}, {3, 1, 2}, {}),
      conv({1, 2, 4}, {2, 1, 0}, {}),
      conv({1, 2, 4}, {2, 1, 2, 2}, {}),
      conv({1, 2, 4}, {2, 1, 2}, {{"group", int64_t{3}}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"group", int64_t{0}}}),
      conv({0, 0, 4}, {0, 2, 2}, {{"group", int64_t{1} << 62}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"strides", IntList{0}}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"pads", IntList{3, 3}}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"output_padding", IntList{-1}}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"output_shape", IntList{-1}}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"output_shape", IntList{4, 4}}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"output_shape", IntList{huge}}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"kernel_shape", IntList{3}}}),
      conv({1, 2, 4}, {2, 1, 2}, {{"auto_pad", std::string("SAME")}}),
      conv({0, 2, huge}, {2, 1, 2}, {{"strides", IntList{1 << 30}}}),
      {.op = "ConvTranspose",
       .inputs = {In({1, 2, 4}), In({2, 1, 2}), In({2})}},
      {.op = "ConvTransposeGrad",
       .inputs = {In({1, 1, 4}), In({1, 2, 4}), In({2, 1, 2})},
       .domain = kMs},
  });
}

TEST(BadImageInput, SpreadingAndPooling) {
  const CaseAttributes halves = {{"kernel_shape", IntList{2}},
                                 {"strides", IntList{2}}};
  const CaseAttributes two = {{"blocksize", int64_t{2}}};
  ExpectRefused({
      {.op = "MaxUnpool", .inputs = {In({1, 1, 2}), Int64s({1, 1, 2}, {0, 1})}},
      {.op = "MaxUnpool",
       .inputs = {In({1, 1, 2}), Int64s({1, 1, 2}, {0, 4})},
       .attributes = halves},
      {.op = "MaxUnpool",
       .inputs = {In({1, 1, 2}), Int64s({1, 1, 2}, {-1, 3})},
       .attributes = halves},
      {.op = "MaxUnpool",
       .inputs = {In({1, 1, 2}), Int64s({1, 1, 1}, {0})},
       .attributes = halves},
      {.op = "MaxUnpool",
       .inputs = {In({1, 1, 2}), Int64s({1, 1, 2}, {0, 1}),
                  Int64s({3}, {1, 1, 3})},
       .attributes = halves},
      {.op = "Col2Im",
       .inputs = {In({1, 3, 4}), Int64s({1}, {5}), Int64s({1}, {2})}},
      {.op = "Col2Im",
       .inputs = {In({1, 4, 3}), Int64s({1}, {5}), Int64s({1}, {2})}},
      {.op = "Col2Im",
       .inputs = {In({4, 4}), Int64s({1}, {5}), Int64s({1}, {2})}},
      {.op = "Col2Im",
       .inputs = {In({1, 4, 4}), Int64s({1}, {5}), Int64s({2}, {2, 1})}},
      {.op = "Col2Im",
       .inputs = {In({1, 4, 4}), Int64s({1}, {1}), Int64s({1}, {2})}},
      {.op = "Col2Im",
       .inputs = {In({0, 1, 1}), Int64s({3}, {2147483648, 2147483648, 4}),
                  Int64s({3}, {2147483648, 2147483648, 4})}},
      {.op = "Col2Im",
       .inputs = {In({1, 4, 4}), Int64s({0}, {}), Int64s({0}, {})}},
      {.op = "DepthToSpace", .inputs = {In({1, 3, 1, 1})}, .attributes = two},
      {.op = "DepthToSpace", .inputs = {In({1, 4, 1})}, .attributes = two},
      {.op = "DepthToSpace", .inputs = {In({1, 4, 1, 1})}},
      {.op = "DepthToSpace",
       .inputs = {In({1, 4, 1, 1})},
       .attributes = {{"blocksize", int64_t{0}}}},
      {.op = "DepthToSpace",
       .inputs = {In({1, 4, 1, 1})},
       .attributes = {{"blocksize", int64_t{2}}, {"mode", std::string("RCD")}}},
      {.op = "SpaceToDepth", .inputs = {In({1, 1, 2, 3})}, .attributes = two},
      {.op = "SpaceToDepth",
       .inputs = {In({1, 1, 2, 2})},
       .attributes = {{"blocksize", int64_t{1} << 40}}},
      {.op = "CenterCropPad", .inputs = {In({2, 2}), Int64s({1}, {1})}},
      {.op = "CenterCropPad", .inputs = {In({2}), Int64s({1}, {-1})}},
      {.op = "CenterCropPad",
       .inputs = {In({2, 2}), Int64s({2}, {1, 1})},
       .attributes = {{"axes", IntList{0, -2}}}},
      {.op = "LpPool",
       .inputs = {In({1, 1, 4})},
       .attributes = {{"kernel_shape", IntList{2}}, {"p", int64_t{0}}}},
      {.op = "LpPool", .inputs = {In({1, 1, 4})}},
      {.op = "LpPool",
       .inputs = {In({1, 1, 4, 4})},
       .attributes = {{"kernel_shape", IntList{1 << 30, 1 << 30}},
                      {"pads", IntList{1 << 29, 1 << 29, 1 << 29, 1 << 29}}}},
      {.op = "GlobalLpPool", .inputs = {In({4})}},
  });
}

TEST(BadImageInput, Normalizations) {
  ExpectRefused({
      {.op = "InstanceNormalization", .inputs = {In({2}), In({1}), In({1})}},
      {.op = "InstanceNormalization", .inputs = {In({2, 3}), In({3}), In({2})}},
      {.op = "GroupNormalization", .inputs = {In({2, 4}), In({4}), In({4})}},
      {.op = "GroupNormalization",
       .inputs = {In({2, 4}), In({4}), In({4})},
       .attributes = {{"num_groups", int64_t{3}}}},
      {.op = "GroupNormalization",
       .inputs = {In({2, 4}), In({4}), In({4})},
       .attributes = {{"num_groups", int64_t{0}}}},
      {.op = "GroupNormalization",
       .inputs = {In({2, 4}), In({4}), In({4})},
       .attributes = {{"num_groups", int64_t{2}}},
       .opset = 18},
      {.op = "GroupNorm",
       .inputs = {In({2, 4}), In({4}), In({4})},
       .attributes = {{"groups", int64_t{2}}, {"activation", int64_t{2}}},
       .domain = kMs},
      {.op = "LpNormalization",
       .inputs = {In({2})},
       .attributes = {{"p", int64_t{3}}}},
      {.op = "LpNormalization", .inputs = {In({})}},
      {.op = "LRN", .inputs = {In({1, 2})}},
      {.op = "LRN",
       .inputs = {In({1, 2})},
       .attributes = {{"size", int64_t{0}}}},
      {.op = "MeanVarianceNormalization", .inputs = {In({2, 2})}},
      {.op = "RMSNormalization", .inputs = {In({2, 3}), In({2})}},
      {.op = "RMSNormalization",
       .inputs = {In({2, 3}), In({3})},
       .attributes = {{"axis", int64_t{2}}}},
      {.op = "SkipLayerNormalization",
       .inputs = {In({2, 2, 3}), In({2, 1, 3}), In({3})},
       .domain = kMs},
      {.op = "SkipLayerNormalization",
       .inputs = {In({2, 2, 3}), In({2, 3}), In({2})},
       .domain = kMs},
      {.op = "InvertibleLayerNormalizationGrad",
       .inputs = {In({2, 3}), In({2, 3}), In({3}), In({2, 1}), In({2, 1})},
       .domain = kMs},
      // One number per row is no scale per column.
      {.op = "LayerNormalizationGrad",
       .inputs = {In({3, 3}), In({3, 3}), In({3, 1}), In({3, 1}), In({3, 1})},
       .domain = kMs},
      {.op = "BatchNormalization",
       .inputs = {In({2, 3, 2}), In({3}), In({3}), In({3}), In({3})},
       .attributes = {{"spatial", int64_t{0}}},
       .opset = 7},
  });
}

// X, roi, scales, sizes
OpCase ResizeOf(Shape x, CaseInput roi, CaseInput scales, CaseInput sizes,
                CaseAttributes attributes = {}) {
  return {
      .op = "Resize",
      .inputs = {In(x), std::move(roi), std::move(scales), std::move(sizes)},
      .attributes = std::move(attributes)};
}

TEST(BadImageInput, Resize) {
  const auto scaled = [](Numbers64 scales, CaseAttributes attributes = {}) {
    const auto size = static_cast<int64_t>(scales.size());
    return ResizeOf({2, 3}, Omitted(), In({size}, std::move(scales)), Omitted(),
                    std::move(attributes));
  };
  const auto sized = [](Shape x, Numbers64 sizes, CaseAttributes more = {}) {
    const auto size = static_cast<int64_t>(sizes.size());
    return ResizeOf(x, Omitted(), Omitted(), Int64s({size}, std::move(sizes)),
                    std::move(more));
  };
  const auto text = [](const char* name, const char* value) {
    return CaseAttributes{{name, std::string(value)}};
  };
  const CaseAttributes crop =
      text("coordinate_transformation_mode", "tf_crop_and_resize");
  ExpectRefused({
      scaled({}),
      scaled({1}),
      scaled({1, 0}),
      scaled({1, -1}),
      scaled({1, kNan}),
      scaled({1, kInf}),
      scaled({1e30, 1}),
      scaled({1, 2}, text("mode", "quintic")),
      scaled({1, 2}, text("nearest_mode", "up")),
      scaled({1, 2}, text("coordinate_transformation_mode", "corner")),
      scaled({1, 2}, {{"antialias", int64_t{1}}}),
      scaled({1, 2}, {{"axes", IntList{0, 2}}}),
      scaled({1, 2}, {{"axes", IntList{0, -2}}}),
      scaled({1, 2}, {{"axes", IntList{0}}}),
      scaled({1, 2}, crop),
      sized({0, 1 << 30}, {0, 1},
            {{"antialias", int64_t{1}}, {"mode", std::string("linear")}}),
      sized({2, 3}, {2, -1}),
      sized({2, 3}, {2}),
      sized({2, 0}, {2, 1}),
      sized({2, 3}, {4e9, 4e9}),
      sized({2, 3}, {1e18, 1}),
      sized({2, 3}, {2, 2}, text("keep_aspect_ratio_policy", "none")),
      ResizeOf({2, 3}, Omitted(), In({2}, {1, 2}), Int64s({2}, {2, 2})),
      ResizeOf({2, 3}, Omitted(), Int64s({2}, {1, 2}), Omitted()),
      ResizeOf({2, 3}, In({3}, {0, 0, 1}), In({2}, {1, 2}), Omitted(), crop),
      ResizeOf({2, 3}, In({4}, {0, 0, 1, kInf}), In({2}, {1, 2}), Omitted(),
               crop),
      {.op = "Resize",
       .inputs = {In({2}), In({1}, {2})},
       .attributes = text("mode", "cubic"),
       .opset = 10},
      {.op = "Upsample", .inputs = {In({2}), In({2}, {1, 2})}, .opset = 9},
      {.op = "Upsample", .inputs = {In({2, 2})}, .opset = 1},
      {.op = "ResizeGrad",
       .inputs = {In({3}), In({2}), Omitted(),
                  Typed(DataType::kFloat32, {1}, {2})},
       .domain = kMs},
      {.op = "ResizeGrad",
       .inputs = {In({4}), In({2})},
       .attributes = text("keep_aspect_ratio_policy", "not_larger"),
       .domain = kMs},
  });
  EXPECT_EQ(ErrorOf({.op = "Resize",
                     .inputs = {In({2}), Omitted(),
                                Typed(DataType::kFloat32, {1}, {2})},
                     .attributes = text("mode", "linear")},
                    DataType::kBool),
            "[Resize \"n\"] bool has no values in between: mode must be "
            "nearest");
}

TEST(BadImageInput, SamplingAndRegions) {
  const CaseInput x = In({1, 1, 3, 3});
  const CaseInput roi = In({1, 4}, {0, 0, 2, 2});
  const auto with = [](const char* name, Attribute::Value value) {
    return CaseAttributes{{name, std::move(value)}};
  };
  ExpectRefused({
      {.op = "GridSample", .inputs = {x, In({1, 2, 2, 3})}},
      {.op = "GridSample", .inputs = {x, In({2, 2, 2, 2})}},
      {.op = "GridSample", .inputs = {x, In({1, 2, 2})}},
      {.op = "GridSample", .inputs = {In({1, 1}), In({1, 0})}},
      {.op = "GridSample", .inputs = {x, Int64s({1, 1, 1, 2}, {0, 0})}},
      {.op = "GridSample",
       .inputs = {x, In({1, 1, 1, 2})},
       .attributes = with("mode", std::string("cube"))},
      {.op = "GridSample",
       .inputs = {x, In({1, 1, 1, 2})},
       .attributes = with("padding_mode", std::string("wrap"))},
      {.op = "GridSample",
       .inputs = {In({1, 1, 0, 3}), In({1, 1, 1, 2})},
       .attributes = with("padding_mode", std::string("border"))},
      {.op = "AffineGrid", .inputs = {In({1, 2, 3}), Int64s({3}, {1, 1, 2})}},
      {.op = "AffineGrid",
       .inputs = {In({1, 2, 3}), Int64s({5}, {1, 1, 2, 2, 2})}},
      {.op = "AffineGrid",
       .inputs = {In({1, 2, 3}), Int64s({4}, {1, 1, -2, 2})}},
      {.op = "RoiAlign", .inputs = {x, roi, Int64s({1}, {1})}},
      {.op = "RoiAlign", .inputs = {x, roi, Int64s({1}, {-1})}},
      {.op = "RoiAlign", .inputs = {x, roi, Int64s({2}, {0, 0})}},
      {.op = "RoiAlign", .inputs = {x, In({1, 5}), Int64s({1}, {0})}},
      {.op = "RoiAlign",
       .inputs = {x, In({1, 4}, {0, 0, kNan, 2}), Int64s({1}, {0})}},
      {.op = "RoiAlign",
       .inputs = {x, roi, Int64s({1}, {0})},
       .attributes = with("output_height", int64_t{0})},
      {.op = "RoiAlign",
       .inputs = {x, roi, Int64s({1}, {0})},
       .attributes = with("sampling_ratio", int64_t{1} << 40)},
      {.op = "RoiAlign",
       .inputs = {x, roi, Int64s({1}, {0})},
       .attributes = {{"sampling_ratio", int64_t{1024}},
                      {"output_height", int64_t{4096}},
                      {"output_width", int64_t{4096}}}},
      {.op = "RoiAlign",
       .inputs = {x, roi, Int64s({1}, {0})},
       .attributes = with("mode", std::string("sum"))},
      {.op = "MaxRoiPool", .inputs = {x, In({1, 5}, {0, 0, 0, 2, 2})}},
      {.op = "MaxRoiPool",
       .inputs = {x, In({1, 5}, {1, 0, 0, 2, 2})},
       .attributes = with("pooled_shape", IntList{2, 2})},
      {.op = "MaxRoiPool",
       .inputs = {x, In({1, 5}, {kNan, 0, 0, 2, 2})},
       .attributes = with("pooled_shape", IntList{2, 2})},
      {.op = "MaxRoiPool",
       .inputs = {x, In({1, 5}, {0, 0, 0, 2, 2})},
       .attributes = with("pooled_shape", IntList{2, -2})},
      {.op = "DeformConv", .inputs = {x, In({1, 1, 2, 2}), In({1, 8, 2, 1})}},
      {.op = "DeformConv",
       .inputs = {x, In({1, 1, 2, 2}), In({1, 8, 2, 2})},
       .attributes = with("offset_group", int64_t{2})},
      {.op = "DeformConv",
       .inputs = {x, In({1, 1, 2, 2}), In({1, 8, 2, 2}), In({2})}},
      {.op = "DeformConv",
       .inputs = {x, In({1, 1, 2, 2}), In({1, 8, 2, 2}), Omitted(),
                  In({1, 8, 2, 2})}},
  });
}

}  // namespace
}  // namespace strop
