// SPDX-License-Identifier: Apache-2.0
//
// Resizing, sampling and regions of images. Expected values of Resize come
// from ONNX's reference evaluator, those of its gradient from the transpose of
// the same evaluator's Jacobian; AffineGrid's from its formula; all others
// from ONNX Runtime 1.32.
#include "ops/cases/cases.h"

namespace strop {

using IntList = std::vector<int64_t>;

namespace {

const std::string kCoordinates = "coordinate_transformation_mode";

CaseInput Plane() { return Mixed({1, 2, 3, 4}, 7, 11); }
CaseInput Floats(Numbers64 values) {
  const auto size = static_cast<int64_t>(values.size());
  return Typed(DataType::kFloat32, {size}, std::move(values));
}
CaseInput Sizes(Numbers64 values) {
  const auto size = static_cast<int64_t>(values.size());
  return Int64s({size}, std::move(values));
}

// By scales, over all axes.
void AddScaled(Cases& cases) {
  const auto add = [&](std::string name, Numbers64 scales,
                       CaseAttributes attributes, Numbers64 expected) {
    cases.push_back({.name = "Resize/" + name,
                     .op = "Resize",
                     .inputs = {Plane(), Omitted(), Floats(std::move(scales))},
                     .attributes = std::move(attributes),
                     .expected = {std::move(expected)}});
  };
  const std::string nearest = "nearest_mode", mode = "mode";
  add("round_prefer_floor", {1, 1, 1.5, 0.6}, {},
      {-5, -2, -5, -2, 1, 4, -4, -1, 2, 5, 2, 5, -3, 0, 3, -5});
  add("round_prefer_ceil", {1, 1, 1.5, 0.6},
      {{nearest, std::string("round_prefer_ceil")}},
      {-5, -2, 1, 4, 1, 4, -4, -1, 2, 5, -3, 0, -3, 0, 3, -5});
  add("floor", {1, 1, 1.5, 0.6},
      {{nearest, std::string("floor")},
       {kCoordinates, std::string("asymmetric")}},
      {-5, 2, -5, 2, 1, -3, -4, 3, 2, -2, 2, -2, -3, 4, 3, -1});
  add("half_pixel_symmetric", {1, 1, 0.7, 1.3},
      {{mode, std::string("linear")},
       {kCoordinates, std::string("half_pixel_symmetric")}},
      {-3.28571436, -0.467033051,  0.142857137, 0.752747325,  3.57142863,
       -2.57142863, 0.247252675,   0.857142863, -0.648351822, -3.57142863,
       0.571428632, -0.0549450677, 1.64285714,  2.49450544,   -0.428571368,
       1.28571436,  0.659340659,   -1.57142863, -2.53296695,  0.285714359});
  add("cubic, nothing outside", {1, 1, 2, 0.8},
      {{mode, std::string("cubic")},
       {"exclude_outside", int64_t{1}},
       {"cubic_coeff_a", -0.5f}},
      {-4.85814922,  0.956341912,  2.67023453,   -3.36650091, 0.468129847,
       2.50979961,   -0.205438131, -0.567188991, 2.17230801,  0.0846382049,
       -0.136890208, 0.29934943,   -2.53438412,  1.70249059,  -2.86299399,
       -3.76991393,  2.57062845,   -4.35625948,  1.99078998,  0.0377699908,
       3.05598695,   0.75368875,   1.01035014,   1.48688612,  -1.86869233,
       3.07296636,   -1.8375481,   -1.55779971,  2.119737,    -2.70592966,
       1.64551942,   -1.72409615,  -1.00416464,  3.15711858,  -3.53831572,
       -0.201788164});
  add("cubic, antialiased", {1, 1, 0.6, 0.5},
      {{mode, std::string("cubic")}, {"antialias", int64_t{1}}},
      {-1.4700867, 2.02208277, 0.652132025, 0.916881873});
  add("cubic, asymmetric", {1, 1, 1.5, 1.5},
      {{mode, std::string("cubic")}, {kCoordinates, std::string("asymmetric")}},
      {-5,
       0.240742087,
       1.12962854,
       -2,
       2.57407326,
       5.77777666,
       -0.333331883,
       -2.06755849,
       -0.759946061,
       2.66666722,
       2.56310021,
       2.06995704,
       0.0925938487,
       -1.64163289,
       -0.0737312681,
       3.09259295,
       -0.221191964,
       -2.70987515,
       -4,
       1.24074179,
       2.74074227,
       -1,
       -3.96296352,
       -5.44444317,
       2,
       -1.51851928,
       -0.0185188055,
       5,
       2.64814872,
       0.555555046,
       -2.09259325,
       1.22805288,
       3.31653064,
       2.12962866,
       -1.47839621,
       -3.67283916,
       -1.66666752,
       2.17455463,
       2.00720318,
       -2.12962866,
       -2.78772367,
       -2.72633741,
       3,
       0.703703225,
       -3.09259337,
       -5,
       -0.425925851,
       2.77777755});
}

// By sizes, over all axes or over some.
void AddSized(Cases& cases) {
  const auto add = [&](std::string name, CaseInput roi, Numbers64 sizes,
                       CaseAttributes attributes, Numbers64 expected) {
    cases.push_back({.name = "Resize/" + name,
                     .op = "Resize",
                     .inputs = {Plane(), std::move(roi), Omitted(),
                                Sizes(std::move(sizes))},
                     .attributes = std::move(attributes),
                     .expected = {std::move(expected)}});
  };
  const CaseAttributes linear = {{"mode", std::string("linear")}};
  add("ceil, align_corners", Omitted(), {1, 2, 2, 7},
      {{"nearest_mode", std::string("ceil")},
       {kCoordinates, std::string("align_corners")}},
      {-5, 2,  2,  -2, -2, 5, 5, -4, 3,  3,  -1, -1, -5, -5,
       2,  -2, -2, 5,  5,  1, 1, 3,  -1, -1, -5, -5, 2,  2});
  add("linear", Omitted(), {1, 2, 4, 3}, linear,
      {-3.83333333,  0,      3.83333333,  -1.22916667,  0.3125, 1.85416667,
       -0.854166667, 0.6875, -1.20833333, -2.83333333,  1,      -4.33333333,
       1.33333333,   1.5,    1.66666667,  -0.645833333, 1.8125, -1.45833333,
       -0.270833333, 0.125,  -1.77083333, 2.33333333,   -3,     0.833333333});
  add("pytorch_half_pixel", Omitted(), {1, 2, 1, 5},
      {{"mode", std::string("linear")},
       {kCoordinates, std::string("pytorch_half_pixel")}},
      {-5, -0.1, 0, 0.1, 5, 2, -0.8, 1.5, 3.8, 1});
  add("linear, antialiased", Omitted(), {1, 2, 2, 2},
      {{"mode", std::string("linear")}, {"antialias", int64_t{1}}},
      {-1.375, 1.70833333, -0.708333333, -1.29166667, 0.583333333, 0.916666667,
       0.333333333, -1.16666667});
  add("tf_crop_and_resize", Floats({0.2, -0.1, 0.9, 1.2}), {2, 5},
      {{"mode", std::string("linear")},
       {"axes", IntList{2, 3}},
       {kCoordinates, std::string("tf_crop_and_resize")},
       {"extrapolation_value", 10.0f}},
      {10, -0.8449999,  0.260000051, 2.02500038,   10,
       10, 0.240000157, 0.629999849, -2.50000051,  10,
       10, 0.270000031, 2.09000024,  0.499999374,  10,
       10, 0.58499995,  -2.60000029, -0.999999318, 10});
  add("not_larger", Omitted(), {7, 5},
      {{"mode", std::string("linear")},
       {"axes", IntList{3, 2}},
       {"keep_aspect_ratio_policy", std::string("not_larger")}},
      {-5,    -2.2,  2,     -0.4, -0.6, 3.6,  5,    -2.6, -1.56, 0,
       0.24,  0.92,  2.48,  3,    1,    -0.6, -3,   1.2,  3.2,   0.8,
       0,     -2,    -0.96, 0.6,  0.84, 0.2,  -2.2, -3,   -4,    -1.2,
       3,     0.6,   -1.8,  -4.2, -5,   2,    0.4,  -2,   2.2,   4.2,
       1.8,   1,     0,     0.16, 0.4,  1.96, 2.2,  -0.2, -1,    -3,
       -0.2,  4,     1.6,   -0.8, -3.2, -4,   0.6,  0.76, 1,     -1.4,
       -2.48, -0.92, -0.4,  3,    1.4,  -1,   -3.4, -3.6, 0.6,   2});
  add("not_smaller", Omitted(), {7, 5},
      {{"axes", IntList{-1, -2}},
       {"keep_aspect_ratio_policy", std::string("not_smaller")}},
      {-5, -5, 2,  2,  -2, 5,  5,  -5, -5, 2,  2,  -2, 5,  5,  1,  1,  -3, -3,
       4,  0,  0,  1,  1,  -3, -3, 4,  0,  0,  -4, -4, 3,  3,  -1, -5, -5, 2,
       2,  -2, -2, 5,  1,  1,  2,  2,  -2, -2, 5,  1,  1,  -3, -3, 4,  4,  0,
       -4, -4, -3, -3, 4,  4,  0,  -4, -4, 3,  3,  -1, -1, -5, 2,  2});
}

void AddResizeCorners(Cases& cases) {
  const CaseAttributes linear = {{"mode", std::string("linear")}};
  const std::vector<DataType> signed_types = {DataType::kInt8, DataType::kInt32,
                                              DataType::kInt64};
  cases.insert(
      cases.end(),
      {// x = (o + 0.5) / 2 - 0.5: halves go to the even number.
       {.name = "Resize/integers",
        .op = "Resize",
        .inputs = {In({2}, {1, -5}), Omitted(), Floats({2})},
        .attributes = linear,
        .expected = {{1, 0, -4, -5}},  // -0.5 and -3.5 in the middle
        .types = signed_types},
       {.name = "Resize/saturated",
        .op = "Resize",
        .inputs = {In({2}, {0, 255}), Omitted(), Omitted(), Sizes({4})},
        .attributes = {{"mode", std::string("cubic")}},
        // -26.9, 57.8, 197.2, 281.9
        .expected = {{0, 58, 197, 255}},
        .types = {DataType::kUint8}},
       {.name = "Resize/bool",
        .op = "Resize",
        .inputs = {In({2}, {0, 1}), Omitted(), Floats({2})},
        .expected = {{0, 0, 1, 1}},
        .types = {DataType::kBool}},
       {.name = "Resize/tf_half_pixel_for_nn",
        .op = "Resize",
        .inputs = {In({3}, {1, 2, 3}), Omitted(), Floats({2})},
        .attributes = {{kCoordinates, std::string("tf_half_pixel_for_nn")},
                       {"nearest_mode", std::string("floor")}},
        .opset = 11,
        .expected = {{1, 1, 2, 2, 3, 3}}},
       {.name = "Resize/no elements",
        .op = "Resize",
        .inputs = {In({2, 0}), Omitted(), Floats({2, 3})},
        .attributes = linear,
        .expected = {{}}},
       {.name = "Resize/to nothing",
        .op = "Resize",
        .inputs = {In({2, 3}), Omitted(), Omitted(), Sizes({0, 3})},
        .attributes = linear,
        .expected = {{}}},
       {.name = "Resize/a scalar",
        .op = "Resize",
        .inputs = {In({}, {7})},
        .expected = {{7}}}});
}

void AddUpsample(Cases& cases) {
  const CaseAttributes linear = {{"mode", std::string("linear")}};
  const CaseInput scales = Floats({1, 1, 1.5, 0.6});
  const Numbers64 twice = {-5, -5, 2,  2,  -2, -2, 5,  5,  -5, -5, 2,  2,  -2,
                           -2, 5,  5,  1,  1,  -3, -3, 4,  4,  0,  0,  -4, -4,
                           3,  3,  -1, -1, -5, -5, 2,  2,  -2, -2, 5,  5,  1,
                           1,  2,  2,  -2, -2, 5,  5,  1,  1,  -3, -3, 4,  4,
                           0,  0,  -4, -4, 3,  3,  -1, -1, -5, -5, 2,  2};
  cases.insert(
      cases.end(),
      {// Where an axis shrinks, the upper neighbour is the nearest.
       {.name = "Resize/opset 10",
        .op = "Resize",
        .inputs = {Plane(), scales},
        .opset = 10,
        .expected = {{-5, -2, -5, -2, 1, 4, -4, -1, 2, 5, 2, 5, -3, 0, 3, -5}}},
       {.name = "Resize/opset 10, linear",
        .op = "Resize",
        .inputs = {Plane(), scales},
        .attributes = linear,
        .opset = 10,
        .expected = {{-5, -0.666666508, -0.999999821, 0.888888776, -0.666666865,
                      1.22222197, -4, 0.333333492, 2, 2.66666627, -1.33333337,
                      1.77777767, -0.999999762, -0.333333373, 3, -3.66666651}}},
       {.name = "Upsample",
        .op = "Upsample",
        .inputs = {Plane(), Floats({1, 1, 1.5, 2})},
        .opset = 9,
        .expected = {twice}},
       {.name = "Upsample/linear",
        .op = "Upsample",
        .inputs = {Plane(), Floats({1, 1, 1.5, 2})},
        .attributes = linear,
        .opset = 9,
        .expected = {{-5,
                      -1.5,
                      2,
                      0,
                      -2,
                      1.5,
                      5,
                      5,
                      -0.999999821,
                      -1.16666663,
                      -1.33333337,
                      0.333333373,
                      2,
                      1.83333325,
                      1.66666651,
                      1.66666651,
                      -0.666666865,
                      -0.833333313,
                      -0.999999762,
                      0.666666687,
                      2.33333302,
                      0.333333075,
                      -1.66666687,
                      -1.66666687,
                      -4,
                      -0.5,
                      3,
                      1,
                      -1,
                      -3,
                      -5,
                      -5,
                      2,
                      0,
                      -2,
                      1.5,
                      5,
                      3,
                      1,
                      1,
                      -1.33333337,
                      0.333333373,
                      2,
                      1.83333325,
                      1.66666651,
                      -0.333333492,
                      -2.33333349,
                      -2.33333349,
                      -0.999999762,
                      0.666666687,
                      2.33333302,
                      0.333333075,
                      -1.66666687,
                      -1.83333337,
                      -1.99999964,
                      -1.99999964,
                      3,
                      1,
                      -1,
                      -3,
                      -5,
                      -1.5,
                      2,
                      2}}},
       {.name = "Upsample/opset 1",
        .op = "Upsample",
        .inputs = {Plane()},
        .attributes = {{"height_scale", 1.5f}, {"width_scale", 2.0f}},
        .opset = 1,
        .expected = {twice}}});
}

void AddResizeGrad(Cases& cases) {
  const auto add = [&](std::string name, Shape dy,
                       std::vector<CaseInput> settings,
                       CaseAttributes attributes, Numbers64 expected) {
    std::vector<CaseInput> inputs = {Mixed(dy, 3, 5), Plane()};
    inputs.insert(inputs.end(), settings.begin(), settings.end());
    for (const std::string& domain : {kMs, std::string(kStrop)}) {
      cases.push_back({.name = domain + "." + name,
                       .op = "ResizeGrad",
                       .inputs = inputs,
                       .attributes = attributes,
                       .domain = domain,
                       .expected = {expected}});
    }
  };
  add("ResizeGrad/nearest", {1, 2, 4, 2}, {Omitted(), Floats({1, 1, 1.5, 0.6})},
      {}, {-3, 0, 3, 0, 0,  0, -2, 0, 1, 0, -1, 0,
           0,  0, 1, 0, -1, 0, 2,  0, 0, 0, -2, 0});
  add("ResizeGrad/linear", {1, 2, 4, 3}, {}, {{"mode", std::string("linear")}},
      {-1.04166667,
       0.291666667,
       0.208333333,
       -1.45833333,
       1.5625,
       0,
       -0.3125,
       0,
       0.3125,
       -1.125,
       -0.895833333,
       1.45833333,
       -1.45833333,
       0.895833333,
       1.125,
       -0.3125,
       0,
       0.3125,
       0,
       -1.5625,
       1.45833333,
       -0.208333333,
       -0.291666667,
       1.04166667});
  add("ResizeGrad/cubic, antialiased", {1, 2, 1, 2},
      {Omitted(), Floats({1, 1, 0.6, 0.5})},
      {{"mode", std::string("cubic")}, {"antialias", int64_t{1}}},
      {-0.652503836,   -0.456038265,  0.108353739,   0.390549741,  -0.464232045,
       -0.324454148,   0.077089628,   0.277861516,   0.0464233813, 0.0324455384,
       -0.00770899215, -0.0277862574, -0.390549741,  -0.108353739, 0.456038265,
       0.652503836,    -0.277861516,  -0.077089628,  0.324454148,  0.464232045,
       0.0277862574,   0.00770899215, -0.0324455384, -0.0464233813});
  add("ResizeGrad/tf_crop_and_resize", {1, 2, 2, 5},
      {Floats({0.2, -0.1, 0.9, 1.2})},
      {{"mode", std::string("linear")},
       {"axes", IntList{2, 3}},
       {kCoordinates, std::string("tf_crop_and_resize")},
       {"extrapolation_value", 10.0f}},
      {0.194999973,  0.19500008,   0.0599997634, 0.750000171,  0.194999983,
       0.19500009,   0.0599997663, 0.750000209,  0.259999961,  0.260000104,
       0.0799996835, 1.00000022,   0.194999973,  0.19500008,   0.0599997634,
       0.750000171,  0.194999983,  0.19500009,   0.0599997663, 0.750000209,
       0.259999961,  0.260000104,  0.0799996835, 1.00000022});
  add("ResizeGrad/not_larger", {1, 2, 5, 7},
      {Omitted(), Omitted(), Sizes({7, 5})},
      {{"mode", std::string("linear")},
       {"axes", IntList{3, 2}},
       {"keep_aspect_ratio_policy", std::string("not_larger")}},
      {-1.28, 0.2,   0.44,  0.24,  -0.96, 0.44,  0.2,   -1.28,
       2.24,  -0.64, -0.64, 1.04,  -1.28, 0.2,   0.44,  0.24,
       -0.96, 0.44,  0.2,   -1.28, 2.24,  -0.64, -0.64, 1.04});
}

void AddGridSample(Cases& cases) {
  const auto add = [&](const char* mode, const char* padding, int64_t align,
                       Numbers64 expected) {
    cases.push_back({.name = std::string("GridSample/") + mode + " " + padding +
                             (align ? " aligned" : ""),
                     .op = "GridSample",
                     .inputs = {Plane(), Mixed({1, 2, 3, 2}, 7, 11, 0.3)},
                     .attributes = {{"mode", std::string(mode)},
                                    {"padding_mode", std::string(padding)},
                                    {"align_corners", align}},
                     .expected = {std::move(expected)}});
  };
  add("nearest", "zeros", 0, {0, 0, -2, 0, 0, 0, 0, 0, 5, 0, 0, 0});
  add("nearest", "zeros", 1, {0, 3, -2, 0, -4, 2, 0, -1, 5, -4, 3, -2});
  add("nearest", "border", 0, {-4, -4, -2, 0, -4, 2, 3, 3, 5, -4, 3, -2});
  add("nearest", "reflection", 0, {3, -4, -2, 0, -4, 2, -1, 3, 5, -4, 3, -2});
  add("nearest", "reflection", 1, {3, 3, -2, 0, -4, 2, -1, -1, 5, -4, 3, -2});
  add("linear", "zeros", 0,
      {0, 0, -0.845000505, 0, -0.259999782, 0, 0, 0, 2.99000025, -0.399999619,
       0.194999844, 0});
  add("bilinear", "zeros", 1,
      {-0.5, 0.0999999046, -1.25499964, 0, -2.44999981, 0.900000095,
       0.150000036, 0.300000042, 4.20499945, -2.79999924, 1.67999983,
       -0.825000167});
  add("linear", "border", 0,
      {-3.50000048, -1.90000033, -1.30000067, 0, -4, 1.29999983, 2.40000057,
       1.80000019, 4.60000038, -4, 3, -1.5999999});
  add("linear", "reflection", 0,
      {-0.549999952, -1.47500014, -1.30000067, 0, -4, 0.324999928, 0.950000048,
       1.125, 4.60000038, -4, 3, -0.375});
  add("linear", "reflection", 1,
      {-0.0499999523, -0.600000024, -1.25499964, 1.20000076, -1.72999954,
       -0.425000072, 0.899999976, 0.899999976, 4.20499945, -2.79999924,
       1.52999973, 1.07499993});
  add("cubic", "zeros", 0,
      {0.355546862, 0.242472708, -1.72658277, -0.0270004272, -0.304021478,
       -0.172467738, -0.249046892, -0.253520548, 4.03707457, -0.354999542,
       0.244908482, 0.219770491});
  add("bicubic", "border", 0,
      {-3.5495007, -1.85800135, -2.30851221, -0.0270004272, -4.61001587,
       1.66899896, 2.47425103, 2.07300138, 5.72589302, -4.02700043, 3.70067167,
       -2.09724951});
  add("cubic", "reflection", 1,
      {0.154843837, -0.758250713, -1.91068137, 1.00575042, -2.54952669,
       -0.488527536, 1.37090647, 1.44712567, 4.79281187, -3.51399851, 2.4082365,
       1.06548798});
  const double nan = kNan;
  cases.insert(cases.end(),
               {{.name = "GridSample/volume",
                 .op = "GridSample",
                 .inputs = {Mixed({1, 1, 2, 3, 2}, 7, 11),
                            Mixed({1, 1, 2, 2, 3}, 5, 7, 0.35)},
                 .expected = {{0, -0.23800011, 1.15600014, 0.855000138}}},
                // What is no position lies outside.
                {.name = "GridSample/NaN and infinity",
                 .op = "GridSample",
                 .inputs = {In({1, 1, 2}, {3, 4}),
                            In({1, 4, 1}, {nan, kInf, -kInf, 1e30})},
                 .expected = {{0, 0, 0, 0}}},
                {.name = "GridSample/integers",
                 .op = "GridSample",
                 .inputs = {In({1, 1, 2}, {3, 6}),
                            Typed(DataType::kFloat32, {1, 2, 1}, {0, 0.5})},
                 .attributes = {{"align_corners", int64_t{1}}},
                 .expected = {{4, 5}},  // 4.5 and 5.25, cut
                 .types = {DataType::kInt32, DataType::kUint8}},
                {.name = "GridSample/an empty image",
                 .op = "GridSample",
                 .inputs = {In({1, 2, 0, 3}), In({1, 1, 1, 2}, {0, 0})},
                 .expected = {{0, 0}}},
                {.name = "AffineGrid",
                 .op = "AffineGrid",
                 .inputs = {Mixed({1, 2, 3}, 7, 11), Sizes({1, 9, 2, 3})},
                 .expected = {{0.333333333, -6.83333333, -3, -3.5, -6.33333333,
                               -0.166666667, 2.33333333, -5.83333333, -1, -2.5,
                               -4.33333333, 0.833333333}}},
                {.name = "AffineGrid/aligned",
                 .op = "AffineGrid",
                 .inputs = {Mixed({1, 2, 3}, 7, 11), Sizes({1, 9, 1, 2})},
                 .attributes = {{"align_corners", int64_t{1}}},
                 .expected = {{3, -8, -7, 2}}},
                {.name = "AffineGrid/no batch",
                 .op = "AffineGrid",
                 .inputs = {In({0, 2, 3}), Sizes({0, 9, 2, 3})},
                 .expected = {{}}},
                {.name = "AffineGrid/volume",
                 .op = "AffineGrid",
                 .inputs = {Mixed({1, 3, 4}, 7, 11), Sizes({1, 9, 1, 2, 2})},
                 .expected = {{6.5, 1, -4.5, 1.5, 2, -8.5, 8.5, -2, -1.5, 3.5,
                               -1, -5.5}}}});
}

void AddRegions(Cases& cases) {
  const CaseInput x = Mixed({2, 2, 4, 5}, 7, 11);
  const CaseInput rois = In({3, 4}, {1, 1, 5, 6, 0, 2, 9, 20, -4, -4, 2, 1});
  const auto align = [&](std::string name, int opset, const char* mode,
                         Numbers64 expected) {
    cases.push_back(
        {.name = std::move(name),
         .op = "RoiAlign",
         .inputs = {x, rois, Sizes({0, 1, 1})},
         .attributes = {{"mode", std::string(mode)},
                        {"output_height", int64_t{2}},
                        {"output_width", int64_t{2}},
                        {"spatial_scale", 0.5f},
                        {"sampling_ratio", int64_t{*mode == 'a' ? 0 : 2}}},
         .opset = opset,
         .expected = {std::move(expected)}});
  };
  align("RoiAlign/opset 10", 10, "avg",
        {1.84375,
         0.25,
         -4.25,
         2.75,
         1.25,
         -2.75,
         3.75,
         -0.25,
         -0.195416689,
         0.64624995,
         0,
         0,
         -0.569999933,
         -0.296666712,
         0,
         0,
         0,
         0,
         0.09375,
         -1.0625,
         0,
         0,
         -1.40625,
         -0.947265625});
  align("RoiAlign/opset 10, max", 10, "max",
        {2.4375,   0.8125,   0.6875,  2.0625,    1.015625, 0.8125,
         2.578125, 0.859375, 1.53125, 2.1328125, 0,        0,
         2.40625,  0.65625,  0,       0,         0,        0,
         0.375,    0.375,    0,       0,         0,        2.5});
  align("RoiAlign", 16, "avg",
        {-0.25,
         1.25,
         -2.046875,
         -0.546875,
         2.25,
         -1.75,
         0.453125,
         0.75,
         -0.161666647,
         0.930000067,
         0,
         0,
         -0.448749989,
         -0.136249989,
         0,
         0,
         0,
         0,
         0,
         -0.25,
         0,
         0,
         0,
         -2.5625});
  align(
      "RoiAlign/max", 16, "max",
      {2.8125,  2.8125, 1.3125, 1.3125, 3.515625, 0.703125, 1.828125, 1.828125,
       2.34375, 2.8125, 0,      0,      2.8125,   1.71875,  0,        0,
       0,       0,      0,      0,      0,        0,        0,        0.5});
  cases.insert(
      cases.end(),
      {// A region far larger than the image: of 4e18 points 4 x 4 count.
       {.name = "RoiAlign/a huge region",
        .op = "RoiAlign",
        .inputs = {In({1, 1, 2, 2}, {1, 1, 1, 1}),
                   In({1, 4}, {-1e9, -1e9, 1e9, 1e9}), Sizes({0})},
        .expected = {{16 / 4e18}},
        .tolerance = 1e-5},
       {.name = "RoiAlign/no regions",
        .op = "RoiAlign",
        .inputs = {x, In({0, 4}), Sizes({})},
        .expected = {{}}},
       {.name = "MaxRoiPool",
        .op = "MaxRoiPool",
        .inputs = {x, In({4, 5}, {0, 1,  1,  3, 4, 1, 0, 0, 9, 9,
                                  0, -3, -3, 1, 1, 1, 4, 4, 2, 2})},
        .attributes = {{"pooled_shape", IntList{2, 3}},
                       {"spatial_scale", 0.75f}},
        .expected = {{4, 4, 2, -3, 4, 4, 3, 3, -1, 5, 5, 1, 5,  5, 0, 0,
                      0, 0, 4, 5,  0, 0, 0, 0, 0,  0, 0, 0, -3, 4, 0, 0,
                      0, 0, 5, 5,  5, 5, 5, 5, 5,  5, 2, 2, 2,  2, 2, 2}}}});
}

void AddDeformConv(Cases& cases) {
  const CaseInput x = Mixed({1, 2, 3, 3}, 7, 11);
  cases.insert(
      cases.end(),
      {{.name = "DeformConv",
        .op = "DeformConv",
        .inputs = {x, Mixed({2, 1, 2, 2}, 5, 7),
                   Mixed({1, 16, 2, 2}, 3, 5, 0.4), In({2}, {1, -2}),
                   Mixed({1, 8, 2, 2}, 3, 7, 0.25)},
        .attributes = {{"group", int64_t{2}}, {"offset_group", int64_t{2}}},
        .expected = {{-1.52999973, 2.5, 2.1699996, 2.6500001, 1.81999993,
                      -2.65999985, -2.26999998, 1.42000031}}},
       // Without offsets it is a convolution: Conv's case in three axes.
       {.name = "DeformConv/three axes",
        .op = "DeformConv",
        .inputs = {Mixed({1, 1, 3, 3, 3}, 7, 11), Mixed({1, 1, 2, 2, 2}, 5, 7),
                   In({1, 24, 2, 2, 2}, Numbers64(192))},
        .expected = {{29, -25, -1, -11, 5, -27, -25, -13}}},
       {.name = "DeformConv/offsets that are no numbers",
        .op = "DeformConv",
        .inputs = {In({1, 1, 2}, {3, 4}), In({1, 1, 1}, {1}),
                   In({1, 1, 2}, {kNan, kInf})},
        .expected = {{0, 0}}}});
}

}  // namespace

Cases ImageCases() {
  Cases cases;
  AddScaled(cases);
  AddSized(cases);
  AddResizeCorners(cases);
  AddUpsample(cases);
  AddResizeGrad(cases);
  AddGridSample(cases);
  AddRegions(cases);
  AddDeformConv(cases);
  return cases;
}

}  // namespace strop
