// SPDX-License-Identifier: Apache-2.0
#include "autodiff/real_size_cases.h"

#include <cmath>

namespace strop {
namespace {

using IntList = std::vector<int64_t>;
using FloatList = std::vector<float>;
using std::string;

// Numbers in steps of 0.004, away from whole steps by half of one.
CaseInput OffKinks(Shape shape, double low = -2, double high = 2) {
  Numbers64 values;
  const auto steps = static_cast<int64_t>((high - low) * 250);
  for (int64_t i = 0; i < shape.element_count(); ++i)
    values.push_back(low + static_cast<double>(i * 7919 % steps) / 250 + 0.002);
  return In(shape, std::move(values));
}

// Integers from 0 to below `count`, many of them more than once.
Numbers64 Picks(int64_t n, int64_t count) {
  Numbers64 values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<double>((i * i + 7 * i) % count));
  return values;
}

CaseInput IndicesBelow(Shape shape, int64_t count) {
  return Int64s(shape, Picks(shape.element_count(), count));
}

// Each integer below n once, in a mixed order; `step` and n share no factor.
Numbers64 Shuffled(int64_t n, int64_t step) {
  Numbers64 values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<double>(i * step % n));
  return values;
}

// Bytes of packed weights.
CaseInput BytesOf(Shape shape) {
  return Typed(DataType::kUint8, shape, Picks(shape.element_count(), 256));
}

OpCase Case(string op, std::vector<CaseInput> inputs,
            CaseAttributes attributes = {}, string about = "") {
  return {.name = about.empty() ? op : op + "/" + about,
          .op = op,
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .tolerance = 1e-5};
}

OpCase Microsoft(OpCase op_case) {
  op_case.domain = kMs;
  op_case.opset = 1;
  return op_case;
}

OpCase WithOutputs(OpCase op_case, string outputs) {
  op_case.outputs = std::move(outputs);
  return op_case;
}

OpCase Opset(OpCase op_case, int64_t opset) {
  op_case.opset = opset;
  return op_case;
}

constexpr int64_t kOne = 1;

}  // namespace

Cases RealSizeElementwise() {
  Cases cases;
  const Shape shape = {16, 32, 49};
  struct Range {
    const char* op;
    double low, high;
  };
  for (const auto& [op, low, high] :
       {Range{"Acos", -0.9, 0.9}, {"Acosh", 1.5, 4},   {"Asin", -0.9, 0.9},
        {"Asinh", -2, 2},         {"Atan", -2, 2},     {"Atanh", -0.9, 0.9},
        {"Cos", -2, 2},           {"Cosh", -2, 2},     {"Erf", -2, 2},
        {"Exp", -2, 2},           {"Gelu", -2, 2},     {"Identity", -2, 2},
        {"Log", 0.1, 4},          {"Mish", -2, 2},     {"Neg", -2, 2},
        {"Reciprocal", 0.5, 4},   {"Sigmoid", -4, 4},  {"Sin", -2, 2},
        {"Sinh", -2, 2},          {"Softplus", -4, 4}, {"Sqrt", 0.1, 4},
        {"Tan", -1, 1},           {"Tanh", -2, 2}})
    cases.push_back(Case(op, {InRange(shape, low, high)}));
  for (const char* op :
       {"Abs", "Celu", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu",
        "Selu", "Shrink", "Softsign", "ThresholdedRelu"})
    cases.push_back(Case(op, {OffKinks(shape, -4, 4)}));
  for (const char* op : {"FastGelu", "QuickGelu", "Gelu"})
    cases.push_back(Microsoft(Case(op, {InRange(shape, -2, 2)})));
  const CaseInput x = In({8, 32, 20, 20});
  const CaseInput row = InRange({32, 1, 1}, 0.5, 2);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Sum", "Mean"})
    cases.push_back(Case(op, {x, row}));
  for (OpCase& more : Cases{
           Case("Gelu", {InRange(shape, -2, 2)},
                {{"approximate", string("tanh")}}, "tanh"),
           Case("Swish", {InRange(shape, -2, 2)}, {{"alpha", 1.5f}}),
           Case("Clip", {OffKinks(shape), In({}, {-1}), In({}, {1.5})}),
           Case("Pow", {InRange({8, 32, 20, 20}, 0.5, 2), row}),
           Case("PRelu", {OffKinks({8, 32, 20, 20}), row}),
           // Whole steps of 0.1, between which those of OffKinks lie.
           Case("Max",
                {OffKinks({8, 32, 20, 20}), Mixed({32, 1, 1}, 7, 31, 0.1)}),
           Case("Min",
                {OffKinks({8, 32, 20, 20}), Mixed({32, 1, 1}, 7, 31, 0.1)}),
           Case("Mod", {OffKinks({8, 32, 10, 10}, -4, 4), In({}, {1.5})},
                {{"fmod", kOne}}),
           Case("Where", {BoolsOf({8, 1, 20, 20}, Picks(3200, 3)), x, row}),
           Microsoft(Case("BiasGelu", {In({16, 64, 256}), In({256})})),
           Microsoft(
               Case("FastGelu", {In({16, 64, 256}), In({256})}, {}, "bias")),
           Microsoft(
               Case("BiasAdd", {In({2, 256, 64}), In({64}), In({2, 256, 64})})),
           Opset(Case("SwiGLU", {In({64, 256}), In({64, 256})}), 28),
       })
    cases.push_back(std::move(more));
  return cases;
}

Cases RealSizeMatrices() {
  // Matrices that have an inverse.
  Numbers64 remainders;
  for (int64_t i = 0; i < 64 * 6 * 6; ++i)
    remainders.push_back(static_cast<double>((i * i * i + 7 * i) % 29 - 14) /
                         8);
  const CaseInput a = In({256, 300});
  return {
      Case("MatMul", {In({128, 256}), In({256, 192})}),
      Case("MatMul", {In({4, 3, 40, 64}), In({3, 64, 48})}, {}, "stacks"),
      Case("MatMul", {In({8, 32, 64}), In({64})}, {}, "a vector"),
      Case("Gemm", {In({256, 128}), In({192, 256}), In({192})},
           {{"transA", kOne},
            {"transB", kOne},
            {"alpha", 0.5f},
            {"beta", 2.0f}}),
      Microsoft(Case("FusedMatMul", {In({4, 64, 32}), In({4, 48, 64})},
                     {{"transA", kOne}, {"transB", kOne}, {"alpha", 0.3f}})),
      Microsoft(Case("FusedGemm",
                     {OffKinks({64, 128}), In({128, 64}), In({64})},
                     {{"activation", string("Tanh")}})),
      Case("Einsum", {In({4, 24, 8, 16}), In({4, 40, 8, 16})},
           {{"equation", string("bqhd,bkhd->bhqk")}}),
      Case("Einsum", {In({16, 32}), In({32, 24}), In({24, 16})},
           {{"equation", string("ij,jk,kl->il")}}, "three"),
      Case("Det", {In({64, 6, 6}, remainders)}),
      Microsoft(
          Case("MatMulNBits",
               {In({32, 128}), BytesOf({96, 4, 16}), InRange({96, 4}, 0, 1)},
               {{"K", int64_t{128}},
                {"N", int64_t{96}},
                {"bits", int64_t{4}},
                {"block_size", int64_t{32}}})),
      Microsoft(Case("MatMulBnb4",
                     {In({32, 128}), BytesOf({96 * 128 / 2}),
                      InRange({96 * 128 / 32}, 0, 1)},
                     {{"K", int64_t{128}},
                      {"N", int64_t{96}},
                      {"block_size", int64_t{32}},
                      {"quant_type", kOne}})),
      Case("DequantizeLinear",
           {Typed(DataType::kUint8, {64, 288}, Picks(64 * 288, 256)),
            InRange({64}, 0.01, 0.1),
            Typed(DataType::kUint8, {64}, Picks(64, 200))},
           {{"axis", int64_t{0}}}),
  };
}

Cases RealSizeWindows() {
  const IntList two = {2, 2}, three = {3, 3};
  const CaseInput image = In({4, 32, 28, 28});
  const auto resize = [](string about, CaseAttributes attributes) {
    return Case("Resize",
                {In({2, 8, 24, 20}), Omitted(),
                 Typed(DataType::kFloat32, {4}, {1, 1, 1.7, 0.6})},
                std::move(attributes), std::move(about));
  };
  // Between the cells of a 20 x 24 image, and beyond.
  Numbers64 grid;
  for (int64_t i = 0; i < 2 * 18 * 22; ++i) {
    for (const int64_t size : {20, 24}) {
      const double cell = static_cast<double>(i * 37 % (size + 2)) - 1;
      const double at = cell + 0.2 + 0.6 * std::fmod(0.618 * i, 1);
      grid.push_back((2 * at + 1) / static_cast<double>(size) - 1);
    }
  }
  const auto sample = [&](string mode, string padding) {
    return Case("GridSample", {In({2, 8, 24, 20}), In({2, 18, 22, 2}, grid)},
                {{"mode", mode}, {"padding_mode", padding}},
                mode + " " + padding);
  };
  // Sample and whole edges of regions.
  Numbers64 regions;
  for (int i = 0; i < 12; ++i)
    for (const int edge : {i % 2, i, i / 2, i + 9, i / 2 + 12})
      regions.push_back(edge);
  Numbers64 rois;
  for (int i = 0; i < 12; ++i) {
    const double left = 0.3 + 0.9 * i, top = 0.4 + 0.7 * i;
    for (const double edge : {left, top, left + 9.77, top + 7.39})
      rois.push_back(edge);
  }
  return {
      Case("Conv", {image, In({32, 32, 3, 3}), In({32})},
           {{"pads", IntList{1, 1, 1, 1}}}),
      Case("Conv", {In({8, 32, 28, 28}), In({64, 8, 3, 3}), In({64})},
           {{"group", int64_t{4}},
            {"dilations", two},
            {"strides", two},
            {"pads", IntList{2, 1, 0, 3}}},
           "groups, dilations, strides"),
      Case("Conv", {image, In({32, 1, 5, 5})},
           {{"group", int64_t{32}}, {"auto_pad", string("SAME_UPPER")}},
           "depthwise"),
      Case("Conv", {In({8, 16, 100}), In({32, 16, 7}), In({32})},
           {{"dilations", IntList{3}}, {"pads", IntList{18, 0}}}, "1D"),
      Case("Conv", {In({2, 4, 8, 10, 12}), In({8, 4, 3, 3, 3})}, {}, "3D"),
      Case("ConvTranspose", {In({4, 32, 14, 14}), In({32, 16, 4, 4}), In({16})},
           {{"strides", two}, {"pads", IntList{1, 1, 1, 1}}}),
      Case("ConvTranspose", {In({4, 16, 9, 9}), In({16, 4, 3, 3}), In({8})},
           {{"group", int64_t{2}},
            {"strides", two},
            {"dilations", two},
            {"output_padding", IntList{1, 1}}},
           "groups, dilations"),
      // Small filters: near the bounds of Tanh its gradient is the difference
      // of two numbers that are nearly equal.
      Microsoft(Case("FusedConv",
                     {image, InRange({8, 32, 3, 3}, -0.1, 0.1), In({8})},
                     {{"activation", string("Tanh")}})),
      Case("DeformConv",
           {In({2, 8, 16, 16}), In({8, 8, 3, 3}),
            InRange({2, 36, 14, 14}, 0.2, 0.8), In({8}),
            InRange({2, 18, 14, 14}, 0.1, 0.9)},
           {{"offset_group", int64_t{2}}}),
      Case("MaxPool", {image},
           {{"kernel_shape", three},
            {"strides", two},
            {"pads", IntList{1, 1, 1, 1}}}),
      Case("MaxPool", {image},
           {{"kernel_shape", three},
            {"dilations", two},
            {"ceil_mode", kOne},
            {"strides", two}},
           "dilations, ceil"),
      Case("AveragePool", {image},
           {{"kernel_shape", three},
            {"strides", two},
            {"pads", IntList{1, 1, 1, 1}}}),
      Case("AveragePool", {image},
           {{"kernel_shape", three},
            {"strides", two},
            {"pads", IntList{1, 1, 1, 1}},
            {"ceil_mode", kOne},
            {"count_include_pad", kOne}},
           "padding counts"),
      Case("LpPool", {OffKinks({4, 16, 20, 20})},
           {{"kernel_shape", three}, {"strides", two}, {"p", int64_t{3}}}),
      Case("GlobalAveragePool", {image}),
      Case("GlobalMaxPool", {image}),
      Case("GlobalLpPool", {image}),
      Case("MaxUnpool",
           {In({2, 8, 10, 10}), Int64s({2, 8, 10, 10},
                                       [] {
                                         Numbers64 at;
                                         for (int i = 0; i < 1600; ++i)
                                           at.push_back(4 * i + i % 2);
                                         return at;
                                       }())},
           {{"kernel_shape", two}, {"strides", two}}),
      resize("linear", {{"mode", string("linear")}}),
      resize("cubic, corners",
             {{"mode", string("cubic")},
              {"coordinate_transformation_mode", string("align_corners")}}),
      resize("cubic without outside, antialias", {{"mode", string("cubic")},
                                                  {"exclude_outside", kOne},
                                                  {"antialias", kOne}}),
      resize("nearest", {{"mode", string("nearest")}}),
      Opset(Case("Upsample",
                 {In({2, 8, 12, 14}),
                  Typed(DataType::kFloat32, {4}, {1, 1, 2, 2})},
                 {{"mode", string("linear")}}),
            9),
      sample("linear", "zeros"),
      sample("linear", "border"),
      sample("cubic", "reflection"),
      Case("AffineGrid", {In({8, 2, 3}), Int64s({4}, {8, 3, 32, 24})},
           {{"align_corners", kOne}}),
      Case("RoiAlign",
           {In({2, 8, 24, 24}), In({12, 4}, rois), IndicesBelow({12}, 2)},
           {{"output_height", int64_t{5}},
            {"output_width", int64_t{4}},
            {"sampling_ratio", int64_t{2}}}),
      Case("Col2Im", {In({2, 8 * 9, 18 * 18}), Int64s({2}, {20, 20}),
                      Int64s({2}, {3, 3})}),
      Case("LRN", {image}, {{"size", int64_t{5}}, {"alpha", 0.1f}}),
      Case("DepthToSpace", {In({4, 32, 14, 14})},
           {{"blocksize", int64_t{2}}, {"mode", string("CRD")}}),
      Case("SpaceToDepth", {image}, {{"blocksize", int64_t{2}}}),
  };
}

Cases RealSizeNormalization() {
  const CaseInput image = In({8, 32, 14, 14});
  const CaseInput scale = InRange({32}, 0.5, 2), bias = In({32});
  const CaseInput tokens = In({32, 64, 256}), wide = InRange({256}, 0.5, 2);
  const CaseInput rows = In({64, 1000});
  return {
      WithOutputs(Case("BatchNormalization",
                       {image, scale, bias, In({32}), InRange({32}, 0.5, 2)},
                       {{"training_mode", kOne}}, "training"),
                  "1"),
      Case("BatchNormalization",
           {image, scale, bias, In({32}), InRange({32}, 0.5, 2)}),
      Case("LayerNormalization", {tokens, wide, In({256})}),
      Case("RMSNormalization", {tokens, wide}),
      Opset(Case("SimplifiedLayerNormalization", {tokens, wide}), 1),
      Microsoft(Case(
          "SkipLayerNormalization",
          {In({8, 64, 256}), In({8, 64, 256}), wide, In({256}), In({256})})),
      Microsoft(Case("SkipSimplifiedLayerNormalization",
                     {In({8, 64, 256}), In({8, 64, 256}), wide})),
      Case("GroupNormalization", {image, scale, bias},
           {{"num_groups", int64_t{8}}}),
      Microsoft(Case("GroupNorm", {In({4, 14, 14, 32}), scale, bias},
                     {{"groups", int64_t{8}}, {"activation", kOne}})),
      Case("InstanceNormalization", {image, scale, bias}),
      Case("MeanVarianceNormalization", {image}),
      Case("LpNormalization", {rows}),
      Case("LpNormalization", {OffKinks({64, 1000})}, {{"p", kOne}}, "p is 1"),
      Case("Softmax", {rows}),
      Case("Softmax", {In({8, 100, 12})}, {{"axis", kOne}}, "middle axis"),
      Case("LogSoftmax", {rows}),
      Opset(Case("Softmax", {In({16, 10, 100})}, {{"axis", kOne}}, "opset 12"),
            12),
      Opset(
          Case("LogSoftmax", {In({16, 10, 100})}, {{"axis", kOne}}, "opset 12"),
          12),
      Microsoft(Case("BiasSoftmax", {In({4, 8, 32, 64}), In({4, 1, 1, 64})},
                     {{"axis", int64_t{3}}, {"is_inner_broadcast", kOne}})),
  };
}

namespace {

Cases AttentionAtSize() {
  const int64_t eight = 8, two = 2;
  return {
      Case("Attention",
           {In({2, 64, 256}), In({2, 48, 64}), In({2, 48, 64}),
            In({2, 1, 64, 64}), In({2, 2, 16, 32}), In({2, 2, 16, 32})},
           {{"q_num_heads", eight},
            {"kv_num_heads", two},
            {"is_causal", kOne},
            {"softcap", 3.0f}}),
      Case("Attention",
           {In({4, 8, 64, 32}), In({4, 8, 64, 32}), In({4, 8, 64, 24})}, {},
           "rank 4"),
      Microsoft(
          Case("Attention",
               {In({2, 32, 128}), InRange({128, 384}, -0.2, 0.2), In({384})},
               {{"num_heads", eight}, {"unidirectional", kOne}}, "microsoft")),
      Microsoft(Case(
          "MultiHeadAttention",
          {In({2, 32, 128}), In({2, 40, 128}), In({2, 40, 128}), In({384})},
          {{"num_heads", eight}})),
      WithOutputs(
          Microsoft(Case("GroupQueryAttention",
                         {In({2, 16, 256}), In({2, 16, 64}), In({2, 16, 64}),
                          In({2, 2, 48, 32}), In({2, 2, 48, 32}),
                          Int32s({2}, {55, 40}), Int32s({1}, {56}),
                          InRange({100, 16}, -1, 1), InRange({100, 16}, -1, 1)},
                         {{"num_heads", eight},
                          {"kv_num_heads", two},
                          {"do_rotary", kOne}})),
          "111"),
      Microsoft(Case("RotaryEmbedding",
                     {In({4, 64, 256}), Int64s({1}, {20}),
                      InRange({100, 16}, -1, 1), InRange({100, 16}, -1, 1)},
                     {{"interleaved", kOne}}, "microsoft")),
      Case("RotaryEmbedding",
           {In({4, 8, 64, 32}), InRange({100, 16}, -1, 1),
            InRange({100, 16}, -1, 1), IndicesBelow({4, 64}, 100)}),
      WithOutputs(Opset(Case("LinearAttention",
                             {InRange({2, 32, 64}, -0.3, 0.3),
                              InRange({2, 32, 64}, -0.3, 0.3), In({2, 32, 64}),
                              In({2, 4, 16, 16}), InRange({2, 32, 64}, -0.5, 0),
                              InRange({2, 32, 4}, 0, 1)},
                             {{"q_num_heads", int64_t{4}},
                              {"kv_num_heads", int64_t{4}}}),
                        27),
                  "11"),
      WithOutputs(Opset(Case("CausalConvWithState",
                             {In({4, 64, 100}), In({64, 1, 4}), In({64}),
                              In({4, 64, 3})},
                             {{"activation", string("silu")}}),
                        27),
                  "11"),
      Microsoft(
          Case("EmbedLayerNormalization",
               {Int32s({4, 32}, Picks(128, 500)),
                Int32s({4, 32}, Picks(128, 3)), In({500, 64}), In({40, 64}),
                In({3, 64}), InRange({64}, 0.5, 2), In({64})})),
      Opset(Case("TensorScatter", {In({4, 8, 64, 16}), In({4, 8, 10, 16}),
                                   Int64s({4}, {0, 5, 33, 54})}),
            24),
  };
}

}  // namespace

Cases RealSizeSequences() {
  const string both = "bidirectional";
  const auto recurrent = [&](const char* op, int64_t gates, int64_t biases,
                             CaseAttributes attributes) {
    const int64_t h = 64;
    std::vector<CaseInput> inputs = {In({32, 4, 48}),
                                     InRange({2, gates * h, 48}, -0.2, 0.2),
                                     InRange({2, gates * h, h}, -0.2, 0.2),
                                     InRange({2, biases * h}, -0.5, 0.5),
                                     Int32s({4}, {32, 20, 32, 7}),
                                     InRange({2, 4, h}, -1, 1)};
    attributes.insert(attributes.end(),
                      {{"hidden_size", h}, {"direction", both}});
    return Case(op, std::move(inputs), std::move(attributes));
  };
  OpCase lstm = recurrent("LSTM", 4, 8, {});
  lstm.inputs.push_back(InRange({2, 4, 64}, -1, 1));
  lstm.inputs.push_back(InRange({2, 3 * 64}, -0.3, 0.3));
  OpCase reset = recurrent("GRU", 3, 6, {{"linear_before_reset", kOne}});
  reset.name = "GRU/linear before reset";
  Cases cases = {
      WithOutputs(std::move(lstm), "111"),
      WithOutputs(recurrent("GRU", 3, 6, {}), "11"),
      WithOutputs(std::move(reset), "11"),
      WithOutputs(recurrent("RNN", 1, 2, {}), "11"),
      Opset(Case("DFT", {In({4, 100, 1}), Omitted(), Int64s({}, {1})},
                 {{"onesided", kOne}}),
            20),
      Opset(Case("STFT", {In({2, 400, 1}), Int64s({}, {20}),
                          InRange({64}, 0.1, 1), Int64s({}, {64})}),
            17),
  };
  for (OpCase& op_case : AttentionAtSize()) cases.push_back(std::move(op_case));
  return cases;
}

Cases RealSizeMoves() {
  const CaseInput x = In({32, 40, 50}), table = In({2000, 64});
  const auto along = [](int64_t axis) {
    return CaseAttributes{{"axis", axis}};
  };
  // 30 of 50 places in each line.
  Numbers64 far;
  for (int64_t i = 0; i < 32 * 40 * 30; ++i)
    far.push_back(static_cast<double>(i % 30 * 7 % 50));
  Cases cases = {
      Case("Gather", {table, IndicesBelow({16, 32}, 2000)}),
      Case("Gather", {x, IndicesBelow({7, 5}, 40)}, along(1), "middle axis"),
      Case("GatherElements", {x, IndicesBelow({32, 40, 30}, 50)}, along(2)),
      Case("GatherND", {x, IndicesBelow({32, 20, 1}, 40)},
           {{"batch_dims", kOne}}),
      Case("ScatterElements", {x, Int64s({32, 40, 30}, far), In({32, 40, 30})},
           along(2)),
      Case("ScatterElements",
           {x, IndicesBelow({32, 40, 30}, 50), In({32, 40, 30})},
           {{"axis", int64_t{2}}, {"reduction", string("add")}}, "add"),
      Case("ScatterElements",
           {InRange({32, 40, 50}, 0.5, 2), IndicesBelow({32, 40, 30}, 50),
            InRange({32, 40, 30}, 0.5, 1)},
           {{"axis", int64_t{2}}, {"reduction", string("mul")}}, "mul"),
      Case("ScatterND",
           {table, Int64s({500, 1}, Shuffled(500, 3)), In({500, 64})}, {}),
      Case("ScatterND", {table, IndicesBelow({500, 1}, 2000), In({500, 64})},
           {{"reduction", string("add")}}, "add"),
      Case("CumSum", {x, Int64s({}, {1})}, {{"reverse", kOne}}),
      Opset(Case("CumProd", {InRange({32, 40, 50}, 0.8, 1.2), Int64s({}, {1})},
                 {{"exclusive", kOne}}),
            26),
      WithOutputs(Case("TopK", {In({64, 1000}), Int64s({1}, {10})}), "11"),
      Case("Transpose", {x}, {{"perm", IntList{2, 0, 1}}}),
      Case("Reshape", {x, Int64s({2}, {-1, 100})}),
      Case("Slice", {x, Int64s({2}, {30, 1}), Int64s({2}, {2, 45}),
                     Int64s({2}, {1, 2}), Int64s({2}, {-3, 2})}),
      Case("Concat", {x, In({32, 7, 50}), In({32, 1, 50})}, along(1)),
      WithOutputs(Case("Split", {x, Int64s({3}, {10, 5, 25})}, along(1)),
                  "101"),
      Case("Pad", {x, Int64s({6}, {1, 2, 3, 0, -4, 5}), In({}, {1.5})}),
      Case("Pad", {x, Int64s({6}, {0, 2, 3, 0, 4, 5})},
           {{"mode", string("reflect")}}, "reflect"),
      Case("Tile", {In({16, 20, 10}), Int64s({3}, {2, 1, 3})}),
      Case("Expand", {In({32, 1, 50}), Int64s({3}, {1, 40, 1})}),
      Case("CenterCropPad", {x, Int64s({2}, {50, 31})},
           {{"axes", IntList{1, 2}}}),
      Case("Trilu", {In({16, 50, 40}), Int64s({}, {-2})}, {{"upper", kOne}}),
      Case("Compress", {x, BoolsOf({40}, Picks(40, 3))}, along(1)),
      Case("ReverseSequence", {x, Int64s({40}, Picks(40, 32))},
           {{"batch_axis", kOne}, {"time_axis", int64_t{0}}}),
      Case("OneHot",
           {IndicesBelow({64, 20}, 30), Int64s({}, {30}), In({2}, {-1, 3})}),
  };
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1",
        "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"})
    cases.push_back(Case(op, {OffKinks({16, 40, 25}), Int64s({2}, {0, 2})}));
  // Numbers that OffKinks repeats would tie.
  for (OpCase& op_case : cases)
    if (op_case.op == "ReduceMax" || op_case.op == "ReduceMin")
      op_case.inputs[0] = In({16, 40, 25});
  cases.push_back(Case("ReduceLogSum",
                       {InRange({16, 40, 25}, 0.5, 2), Int64s({2}, {0, 2})}));
  cases.push_back(Case("ReduceProd",
                       {InRange({16, 40, 25}, 0.9, 1.1), Int64s({1}, {1})},
                       {{"keepdims", int64_t{0}}}));
  return cases;
}

Cases RealSizeLosses() {
  const CaseInput scores = In({64, 1000}), labels = IndicesBelow({64}, 1000);
  const CaseInput weights = InRange({1000}, 0.5, 2);
  return {
      WithOutputs(Case("SoftmaxCrossEntropyLoss", {scores, labels, weights},
                       {{"ignore_index", int64_t{8}}}),
                  "11"),
      Case("SoftmaxCrossEntropyLoss",
           {In({4, 20, 16, 16}), IndicesBelow({4, 16, 16}, 20)},
           {{"reduction", string("sum")}}, "images"),
      Case("NegativeLogLikelihoodLoss", {scores, labels, weights},
           {{"reduction", string("none")}}),
      Microsoft(
          Case("SoftmaxCrossEntropyLossInternal", {scores, labels, weights})),
      Microsoft(
          Case("SoftmaxCrossEntropy", {scores, InRange({64, 1000}, 0, 1)})),
  };
}

Cases RealSizeCases() {
  Cases cases;
  for (const auto make : {RealSizeElementwise, RealSizeMatrices,
                          RealSizeWindows, RealSizeNormalization,
                          RealSizeSequences, RealSizeMoves, RealSizeLosses})
    for (OpCase& op_case : make()) cases.push_back(std::move(op_case));
  return cases;
}

}  // namespace strop
