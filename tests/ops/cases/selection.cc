// SPDX-License-Identifier: Apache-2.0
//
// Ops that pick, order and rearrange elements: Compress, Unique, TopK,
// NonMaxSuppression and their like.
#include "ops/cases/cases.h"

namespace strop {
namespace {

const int64_t kZero = 0, kOne = 1;

Cases CompressCases() {
  const CaseInput x = In({2, 3}, {1, 2, 3, 4, 5, 6});
  return {
      {.name = "Compress",
       .op = "Compress",
       .inputs = {x, BoolsOf({6}, {0, 1, 0, 0, 1, 1})},
       .expected = {{2, 5, 6}}},
      {.name = "Compress/axis, short condition",
       .op = "Compress",
       .inputs = {x, BoolsOf({2}, {0, 1})},
       .attributes = {{"axis", int64_t{-1}}},
       .expected = {{2, 5}},
       .types = {DataType::kFloat16, DataType::kFloat64, DataType::kInt64,
                 DataType::kUint8}},
      {.name = "Compress/nothing",
       .op = "Compress",
       .inputs = {x, BoolsOf({2}, {0, 0})},
       .attributes = {{"axis", kZero}},
       .expected = {{}}},
      {.name = "ReverseSequence",
       .op = "ReverseSequence",
       .inputs = {In({3, 2}, {1, 2, 3, 4, 5, 6}), Int64s({2}, {2, 3})},
       .expected = {{3, 6, 1, 4, 5, 2}}},
      {.name = "ReverseSequence/batch first, slices",
       .op = "ReverseSequence",
       .inputs = {In({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), Int64s({2}, {2, 0})},
       .attributes = {{"batch_axis", kZero}, {"time_axis", kOne}},
       .expected = {{3, 4, 1, 2, 5, 6, 7, 8}},
       .types = {DataType::kInt16, DataType::kFloat16, DataType::kFloat64}},
  };
}

OpCase UniqueCase(std::string name, CaseInput x, CaseAttributes attributes,
                  std::vector<Numbers64> expected) {
  return {.name = "Unique/" + name,
          .op = "Unique",
          .inputs = {std::move(x)},
          .attributes = std::move(attributes),
          .outputs = "1111",
          .expected = std::move(expected)};
}

Cases UniqueCases() {
  const CaseInput x = In({2, 3}, {2, 1, 1, 3, 4, 3});
  Cases cases = {
      UniqueCase(
          "sorted", x, {},
          {{1, 2, 3, 4}, {1, 0, 3, 4}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1}}),
      UniqueCase(
          "in order", x, {{"sorted", kZero}},
          {{2, 1, 3, 4}, {0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}}),
      UniqueCase("slices", In({2, 3, 1}, {5, 1, 5, 0, 2, 0}), {{"axis", kOne}},
                 {{1, 5, 2, 0}, {1, 0}, {1, 0, 1}, {1, 2}}),
      UniqueCase("slices in order", In({3, 2}, {5, 1, 0, 2, 5, 1}),
                 {{"axis", int64_t{-2}}, {"sorted", kZero}},
                 {{5, 1, 0, 2}, {0, 1}, {0, 1, 0}, {2, 1}}),
      UniqueCase("NaN", In({4}, {kNan, 1, kNan, -kInf}), {},
                 {{-kInf, 1, kNan}, {3, 1, 0}, {2, 1, 2, 0}, {1, 1, 2}}),
      UniqueCase("nothing", In({0}), {}, {{}, {}, {}, {}}),
      UniqueCase("scalar", In({}, {7}), {}, {{7}, {0}, {0}, {1}}),
  };
  OpCase halves = UniqueCase("halves", x, {}, {{1, 2, 3, 4}});
  halves.outputs = "1";
  halves.types = {DataType::kFloat16, DataType::kBfloat16, DataType::kUint64};
  cases.push_back(halves);
  OpCase bools = UniqueCase("bools", In({3}, {1, 0, 1}), {},
                            {{0, 1}, {1, 0}, {1, 0, 1}, {1, 2}});
  bools.types = kOnlyBool;
  cases.push_back(bools);
  return cases;
}

Cases TopKCases() {
  Numbers64 many, best, where;
  for (int64_t i = 0; i < 1000; ++i) {
    many.push_back(static_cast<double>(i * 377 % 1000));
  }
  // 377 * 313 = 118001: 1 stands at 313, 999 at 1000 - 313 = 687.
  for (int64_t i = 1; i <= 5; ++i) {
    best.push_back(static_cast<double>(1000 - i));
    where.push_back(static_cast<double>(687 * i % 1000));
  }
  return {
      {.name = "TopK/of many",
       .op = "TopK",
       .inputs = {In({1000}, many), Int64s({1}, {5})},
       .outputs = "11",
       .expected = {best, where}},
      {.name = "TopK/all, equal ones in order",
       .op = "TopK",
       .inputs = {In({5}, {2, 7, 2, 7, 2}), Int64s({1}, {5})},
       .outputs = "11",
       .expected = {{7, 7, 2, 2, 2}, {1, 3, 0, 2, 4}},
       .types = {DataType::kFloat32, DataType::kUint8, DataType::kInt64}},
      {.name = "TopK/NaN is largest",
       .op = "TopK",
       .inputs = {In({4}, {1, kNan, kInf, 2}), Int64s({1}, {2})},
       .outputs = "11",
       .expected = {{kNan, kInf}, {1, 2}}},
      {.name = "TopK/NaN is last",
       .op = "TopK",
       .inputs = {In({4}, {1, kNan, kInf, 2}), Int64s({1}, {4})},
       .attributes = {{"largest", kZero}},
       .outputs = "11",
       .expected = {{1, 2, kInf, kNan}, {0, 3, 2, 1}}},
      {.name = "ArgMax/NaN",
       .op = "ArgMax",
       .inputs = {In({4}, {1, kNan, kInf, kNan})},
       .expected = {{1}}},
      {.name = "ArgMin/NaN",
       .op = "ArgMin",
       .inputs = {In({2}, {1, kNan})},
       .expected = {{1}}},
  };
}

OpCase Suppression(std::string name, std::vector<CaseInput> inputs,
                   Numbers64 expected, int64_t centers = 0) {
  return {.name = "NonMaxSuppression/" + name,
          .op = "NonMaxSuppression",
          .inputs = std::move(inputs),
          .attributes = {{"center_point_box", centers}},
          .expected = {std::move(expected)},
          .types = {DataType::kFloat32}};
}

Cases SuppressionCases() {
  const auto threshold = [](double value) {
    return Typed(DataType::kFloat32, {}, {value});
  };
  const CaseInput none = Omitted();
  // Boxes 0 and 1 share a half of each: 1 / 3. Box 2 stands apart.
  const CaseInput boxes = In({1, 3, 4}, {0, 0, 2, 2,  //
                                         3, 0, 1, 2,  // corners swapped
                                         5, 5, 6, 6});
  const CaseInput centers = In({1, 3, 4}, {1, 1, 2, 2,  //
                                           2, 1, 2, 2,  //
                                           5.5, 5.5, 1, 1});
  const CaseInput scores = In({1, 2, 3}, {1, 2, 3, 5, 5, 4});
  const CaseInput ten = Int64s({}, {10});
  return {
      Suppression("strict", {boxes, scores, ten, threshold(0.3)},
                  {0, 0, 2, 0, 0, 1, 0, 1, 0, 0, 1, 2}),
      Suppression("mild", {boxes, scores, ten, threshold(0.5)},
                  {0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 2}),
      Suppression("centers", {centers, scores, ten, threshold(0.3)},
                  {0, 0, 2, 0, 0, 1, 0, 1, 0, 0, 1, 2}, 1),
      Suppression("few", {boxes, scores, Int64s({1}, {1}), threshold(0.3)},
                  {0, 0, 2, 0, 1, 0}),
      Suppression("scores", {boxes, scores, ten, threshold(0.3), threshold(2)},
                  {0, 0, 2, 0, 1, 0, 0, 1, 2}),
      Suppression("none wanted", {boxes, scores}, {}),
      Suppression("no number", {boxes, scores, none, threshold(0.3)}, {}),
      Suppression("no boxes", {In({1, 0, 4}), In({1, 2, 0}), ten}, {}),
  };
}

Cases ReducedScatterCases() {
  const auto scatter = [](std::string reduction, Numbers64 expected,
                          std::vector<DataType> types) {
    return OpCase{.name = "ScatterElements/" + reduction + " of " +
                          DataTypeName(types[0]),
                  .op = "ScatterElements",
                  .inputs = {In({3}, {1, 0, 1}), Int64s({4}, {0, 1, 1, 2}),
                             In({4}, {0, 0, 1, 1})},
                  .attributes = {{"reduction", reduction}},
                  .expected = {std::move(expected)},
                  .types = std::move(types)};
  };
  const std::vector<DataType> halves = {DataType::kFloat16,
                                        DataType::kBfloat16};
  return {
      scatter("add", {1, 1, 2}, halves),
      scatter("mul", {0, 0, 1}, halves),
      scatter("min", {0, 0, 1}, halves),
      scatter("max", {1, 1, 1}, halves),
      scatter("add", {1, 1, 1}, kOnlyBool),
      scatter("mul", {0, 0, 1}, kOnlyBool),
      scatter("min", {0, 0, 1}, kOnlyBool),
      scatter("max", {1, 1, 1}, kOnlyBool),
  };
}

// Two rows; the 1-grams 1 and 3, the 2-grams (1, 2) and (2, 2).
OpCase TfIdfCase(const std::string& mode, int64_t skip, Numbers64 expected) {
  using Ints = std::vector<int64_t>;
  return {.name = "TfIdfVectorizer/" + mode + std::to_string(skip),
          .op = "TfIdfVectorizer",
          .inputs = {In({2, 5}, {1, 2, 1, 2, 3, 3, 1, 2, 2, 2})},
          .attributes = {{"mode", mode},
                         {"min_gram_length", int64_t{1}},
                         {"max_gram_length", int64_t{2}},
                         {"max_skip_count", skip},
                         {"pool_int64s", Ints{1, 3, 1, 2, 2, 2}},
                         {"ngram_counts", Ints{0, 2}},
                         {"ngram_indexes", Ints{0, 1, 3, 2}},
                         {"weights", std::vector<float>{0.5f, 2, 3, 4}}},
          .expected = {std::move(expected)},
          .types = {DataType::kInt32, DataType::kInt64}};
}

Cases TfIdfCases() {
  return {TfIdfCase("TF", 0, {2, 1, 0, 2, 1, 1, 2, 1}),
          TfIdfCase("TF", 1, {2, 1, 1, 2, 1, 1, 3, 2}),
          TfIdfCase("IDF", 0, {0.5, 2, 0, 3, 0.5, 2, 4, 3}),
          TfIdfCase("TFIDF", 0, {1, 2, 0, 6, 0.5, 2, 8, 3})};
}

}  // namespace

Cases SelectionCases() {
  Cases all;
  for (Cases (*list)() : {CompressCases, UniqueCases, TopKCases,
                          SuppressionCases, ReducedScatterCases, TfIdfCases}) {
    for (OpCase& op_case : list()) all.push_back(std::move(op_case));
  }
  return all;
}

}  // namespace strop
