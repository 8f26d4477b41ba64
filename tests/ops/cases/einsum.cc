// SPDX-License-Identifier: Apache-2.0
//
// Einsum, against a sum over all letters without any plan.
#include <map>

#include "ops/cases/cases.h"

namespace strop {
namespace {

// What the equation gives for small whole numbers. Letters only; `sizes` of
// each letter. Walks every assignment of numbers to letters.
Numbers64 Oracle(const std::vector<std::string>& terms,
                 const std::string& output, const std::map<char, int>& sizes,
                 const std::vector<CaseInput>& inputs) {
  const auto position = [&](const std::string& term, std::map<char, int> at) {
    size_t i = 0;
    for (const char c : term) {
      i = i * static_cast<size_t>(sizes.at(c)) + static_cast<size_t>(at[c]);
    }
    return i;
  };
  size_t results = 1, all = 1;
  for (const char c : output) results *= static_cast<size_t>(sizes.at(c));
  for (const auto& [c, size] : sizes) all *= static_cast<size_t>(size);
  Numbers64 y(results, 0);
  for (size_t n = 0; n < all; ++n) {
    std::map<char, int> at;
    size_t rest = n;
    for (const auto& [c, size] : sizes) {
      at[c] = static_cast<int>(rest % static_cast<size_t>(size));
      rest /= static_cast<size_t>(size);
    }
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i) {
      product *= inputs[i].values[position(terms[i], at)];
    }
    y[position(output, at)] += product;
  }
  return y;
}

OpCase EinsumCase(const std::string& equation,
                  const std::vector<std::string>& terms,
                  const std::string& output, const std::map<char, int>& sizes,
                  const std::string& remark = "") {
  OpCase op_case = {.name = "Einsum/" + equation + remark,
                    .op = "Einsum",
                    .inputs = {},
                    .attributes = {{"equation", equation}}};
  int step = 5;
  for (const std::string& term : terms) {
    std::vector<int64_t> dims;
    for (const char c : term) dims.push_back(sizes.at(c));
    op_case.inputs.push_back(Mixed(Shape(dims), step, 7));
    step += 4;
  }
  op_case.expected = {Oracle(terms, output, sizes, op_case.inputs)};
  op_case.types = {DataType::kFloat32, DataType::kFloat64, DataType::kInt32};
  return op_case;
}

OpCase Given(const std::string& name, const std::string& equation,
             std::vector<CaseInput> inputs, Numbers64 expected) {
  return {.name = "Einsum/" + name,
          .op = "Einsum",
          .inputs = std::move(inputs),
          .attributes = {{"equation", equation}},
          .expected = {std::move(expected)}};
}

}  // namespace

Cases EinsumCases() {
  const std::map<char, int> ijk = {{'i', 2}, {'j', 3}, {'k', 4}};
  const CaseInput square = In({2, 2}, {1, 2, 3, 4});
  return {
      EinsumCase("ij->ji", {"ij"}, "ji", {{'i', 2}, {'j', 3}}),
      EinsumCase("ij->i", {"ij"}, "i", {{'i', 2}, {'j', 3}}),
      EinsumCase("ij->", {"ij"}, "", {{'i', 2}, {'j', 3}}),
      EinsumCase("ij", {"ij"}, "ij", {{'i', 2}, {'j', 3}}),
      EinsumCase("ba", {"ba"}, "ab", {{'a', 2}, {'b', 3}}),
      EinsumCase("ij,jk->ik", {"ij", "jk"}, "ik", ijk),
      EinsumCase(" ij , kj -> k i ", {"ij", "kj"}, "ki", ijk),
      EinsumCase("ij,jk", {"ij", "jk"}, "ik", ijk),
      EinsumCase("i,j->ij", {"i", "j"}, "ij", {{'i', 2}, {'j', 3}}),
      EinsumCase("i,i", {"i", "i"}, "", {{'i', 3}}),
      EinsumCase("bij,bjk->bik", {"bij", "bjk"}, "bik",
                 {{'b', 2}, {'i', 2}, {'j', 3}, {'k', 4}}),
      EinsumCase("bhid,bhjd->bhij", {"bhid", "bhjd"}, "bhij",
                 {{'b', 2}, {'h', 3}, {'i', 2}, {'j', 3}, {'d', 4}}),
      EinsumCase("ii->i", {"ii"}, "i", {{'i', 3}}),
      EinsumCase("ii", {"ii"}, "", {{'i', 3}}),
      EinsumCase("bii->bi", {"bii"}, "bi", {{'b', 2}, {'i', 3}}),
      EinsumCase("iij,jk->k", {"iij", "jk"}, "k", ijk),
      // Letters of one operand alone.
      EinsumCase("ab,cd->ac", {"ab", "cd"}, "ac",
                 {{'a', 2}, {'b', 3}, {'c', 2}, {'d', 4}}),
      EinsumCase("ij,jk,kl->il", {"ij", "jk", "kl"}, "il",
                 {{'i', 2}, {'j', 3}, {'k', 4}, {'l', 2}}),
      EinsumCase("a,ab,abc,dc,d->b", {"a", "ab", "abc", "dc", "d"}, "b",
                 {{'a', 2}, {'b', 3}, {'c', 2}, {'d', 2}}),
      EinsumCase("ik,jk,lk->ijl", {"ik", "jk", "lk"}, "ijl",
                 {{'i', 2}, {'j', 3}, {'k', 4}, {'l', 2}}),
      // Upper case comes before lower case.
      EinsumCase("aB", {"aB"}, "Ba", {{'a', 2}, {'B', 3}}),
      // More results side by side than one block.
      EinsumCase("ij,jk->ik", {"ij", "jk"}, "ik",
                 {{'i', 2}, {'j', 3}, {'k', 150}}, ", long rows"),
      Given("scalars", ",->", {In({}, {3}), In({}, {4})}, {12}),
      Given("dots", "...ij->...ji", {In({2, 1, 2}, {1, 2, 3, 4})},
            {1, 2, 3, 4}),
      Given("dots, batches", "...ij,...jk->...ik",
            {In({2, 1, 2}, {1, 2, 3, 4}), In({2, 2, 1}, {1, 1, 2, 10})},
            {3, 46}),
      Given("dots, broadcast", "...i,...i->...",
            {In({2, 1, 2}, {1, 2, 3, 4}), In({2, 2}, {1, 0, 0, 1})},
            {1, 2, 3, 4}),
      Given("dots, implicit", "b...a", {In({2, 2, 1}, {1, 2, 3, 4})},
            {1, 3, 2, 4}),
      Given("dots, of no axis", "...ij->...ji", {square}, {1, 3, 2, 4}),
      Given("dots, summed", "...i->i", {square}, {4, 6}),
      Given("dots, moved", "...i->i...", {square}, {1, 3, 2, 4}),
      Given("dots in one operand", "...i,i->...i", {square, In({2}, {10, 100})},
            {10, 200, 30, 400}),
      // An axis of size 1 is broadcast.
      Given("size one", "ij,ij->i", {square, In({1, 2}, {10, 100})},
            {210, 430}),
      Given("size one, three operands", "i,j,i->i",
            {In({1}, {2}), In({2}, {1, 2}), In({3}, {1, 10, 100})},
            {6, 60, 600}),
      // A label that stands twice, and letters of one operand alone.
      EinsumCase("iij,kjl->k", {"iij", "kjl"}, "k",
                 {{'i', 2}, {'j', 3}, {'k', 2}, {'l', 2}}),
      EinsumCase("iii,j->ij", {"iii", "j"}, "ij", {{'i', 2}, {'j', 3}}),
      EinsumCase("i->", {"i"}, "", {{'i', 3}}),
      Given("dots between letters", "i...j,j->...i",
            {In({2, 3, 1}, {1, 2, 3, 4, 5, 6}), In({1}, {10})},
            {10, 40, 20, 50, 30, 60}),
      Given("dots between letters, broadcast", "i...j,...j->...i",
            {In({1, 1, 2}, {1, 2}), In({3, 2}, {1, 0, 0, 1, 1, 1})}, {1, 2, 3}),
      Given("dots, one of them summed", "...i,j...->",
            {In({2, 2}, {1, 2, 3, 4}), In({1, 1}, {5})}, {50}),
      Given("size one, summed", "ij,jk->i",
            {In({2, 1}, {1, 2}), In({3, 2}, {1, 2, 3, 4, 5, 6})}, {21, 42}),
      Given("size one on a diagonal", "ii,i->i",
            {In({1, 1}, {2}), In({3}, {1, 2, 3})}, {2, 4, 6}),
      Given("sum over nothing", "ij,jk->ik", {In({2, 0}), In({0, 2})},
            {0, 0, 0, 0}),
      Given("no result", "ij,jk->ik", {In({0, 2}), In({2, 3})}, {}),
      Given("three operands, nothing", "ij,jk,kl->il",
            {In({1, 2}), In({2, 0}), In({0, 2})}, {0, 0}),
  };
}

}  // namespace strop
