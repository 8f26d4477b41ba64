// SPDX-License-Identifier: Apache-2.0
//
// Einsum: "ij,jk->ik" sums the products of the operands' elements over every
// letter that the output does not name.
//
// Operands are taken in from the left, two at a time. Letters of one operand
// alone are summed first, and a letter is summed as soon as nothing to the
// right has it: a chain of matrices costs no more than its products.
#include <bit>
#include <limits>
#include <map>
#include <string>

#include "base/overflow.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/reduce.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

// Labels are numbered in the order of the implicit output: first the axes
// that "..." stands for, the last of them as 11, then A-Z and a-z.
constexpr size_t kLetters = 52;
constexpr size_t kLabels = Shape::kMaxRank + kLetters;
static_assert(kLabels == 64, "a mask of labels is one word");
using Label = uint8_t;
using Mask = uint64_t;

constexpr Mask MaskOf(size_t label) { return Mask{1} << label; }

// The labels of a tensor's axes.
struct Labels {
  size_t count = 0;
  Mask mask = 0;
  std::array<Label, kLabels> at = {};

  void Add(size_t label) {
    at[count++] = static_cast<Label>(label);
    mask |= MaskOf(label);
  }
};

Labels LabelsOf(Mask mask) {
  Labels labels;
  for (; mask != 0; mask &= mask - 1) {
    labels.Add(static_cast<size_t>(std::countr_zero(mask)));
  }
  return labels;
}

// The text of one term, spaces and dots included.
struct Term {
  std::string_view text;

  size_t CountLetters() const {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), IsLetter));
  }
  static bool IsLetter(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  }
  static size_t LabelOf(char c) {
    return Shape::kMaxRank +
           static_cast<size_t>(c <= 'Z' ? c - 'A' : c - 'a' + 26);
  }
};

// The labels of a term whose "..." stands for `dots` axes.
Labels ReadTerm(const OpNode& node, const Term& term, size_t dots) {
  Labels labels;
  bool has_dots = false;
  const auto add = [&](size_t label) {
    if (labels.count == Shape::kMaxRank) {
      Fail(node, "term \"{}\" has more than {} axes", term.text,
           Shape::kMaxRank);
    }
    labels.Add(label);
  };
  for (size_t i = 0; i < term.text.size(); ++i) {
    const char c = term.text[i];
    if (Term::IsLetter(c)) {
      add(Term::LabelOf(c));
    } else if (!has_dots && term.text.substr(i, 3) == "...") {
      has_dots = true;
      for (size_t k = dots; k > 0; --k) add(Shape::kMaxRank - k);
      i += 2;
    } else if (c != ' ') {
      Fail(node, "cannot read term \"{}\" of the equation", term.text);
    }
  }
  return labels;
}

// The labels of an operand of the given rank.
Labels ReadOperand(const OpNode& node, const Term& term, size_t rank) {
  const size_t letters = term.CountLetters();
  const bool has_dots = term.text.find('.') != std::string_view::npos;
  if (letters > rank || (letters < rank && !has_dots)) {
    Fail(node, "term \"{}\" does not fit an operand of rank {}", term.text,
         rank);
  }
  return ReadTerm(node, term, rank - letters);
}

// Takes the terms of the left side one by one.
class Terms {
 public:
  explicit Terms(const OpNode& node) {
    if (!node.Has("equation")) Fail(node, "has no attribute equation");
    const std::string_view equation = node.String("equation", "");
    const size_t arrow = equation.find("->");
    left_ = equation.substr(0, arrow);
    has_output_ = arrow != std::string_view::npos;
    if (has_output_) output_.text = equation.substr(arrow + 2);
    count_ =
        1 + static_cast<size_t>(std::count(left_.begin(), left_.end(), ','));
  }
  size_t count() const { return count_; }
  bool has_output() const { return has_output_; }
  const Term& output() const { return output_; }
  Term Next() {
    const size_t comma = left_.find(',');
    const Term term = {left_.substr(0, comma)};
    left_ = comma == std::string_view::npos ? "" : left_.substr(comma + 1);
    return term;
  }

 private:
  std::string_view left_;
  Term output_;
  bool has_output_ = false;
  size_t count_ = 0;
};

// An operand seen by labels: size 1 and step 0 along those it has not. A
// label that stands twice walks the diagonal.
struct View {
  const void* data = nullptr;
  Mask mask = 0;
  int64_t count = 0;  // elements, of a result
  std::array<int64_t, kLabels> size = Filled();
  std::array<int64_t, kLabels> step = {};

  static std::array<int64_t, kLabels> Filled() {
    std::array<int64_t, kLabels> ones;
    ones.fill(1);
    return ones;
  }
};

// An axis of size 1 is broadcast.
int64_t JoinSizes(const OpNode& node, int64_t a, int64_t b) {
  if (a != b && a != 1 && b != 1) {
    Fail(node, "a label stands for axes of sizes {} and {}", a, b);
  }
  return a == 1 ? b : a;
}

View ViewOf(const OpNode& node, const Labels& labels, const Shape& shape,
            const void* data) {
  View view;
  view.data = data;
  view.mask = labels.mask;
  const Dims strides = Strides(shape);
  for (size_t i = 0; i < labels.count; ++i) {
    const size_t label = labels.at[i];
    view.size[label] = JoinSizes(node, view.size[label], shape[i]);
    if (shape[i] != 1) view.step[label] += strides[i];
  }
  return view;
}

// What the whole equation says.
struct Equation {
  Labels output;
  Mask alone = 0;                          // in one operand, not in output
  std::array<int64_t, kLabels> size = {};  // of the labels that occur
  std::array<size_t, kLabels> last = {};   // the last operand that has it

  // The labels among `mask` that are needed after operand i.
  Mask NeededAfter(Mask mask, size_t i) const {
    Mask needed = 0;
    for (Mask rest = mask; rest != 0; rest &= rest - 1) {
      const auto label = static_cast<size_t>(std::countr_zero(rest));
      if (last[label] > i) needed |= MaskOf(label);
    }
    return needed | (mask & output.mask);
  }
};

// shape_of(i): the shape of operand i.
template <class ShapeOf>
Equation ReadEquation(const OpNode& node, size_t operands, ShapeOf shape_of) {
  Terms terms(node);
  if (terms.count() != operands) {
    Fail(node, "the equation \"{}\" has {} terms for {} operands",
         node.String("equation", ""), terms.count(), operands);
  }
  Equation e;
  e.size.fill(1);
  Mask seen = 0, shared = 0, repeated = 0;
  size_t dots = 0;
  for (size_t i = 0; i < operands; ++i) {
    const Shape& shape = shape_of(i);
    const Labels labels = ReadOperand(node, terms.Next(), shape.rank());
    Mask own = 0;
    for (size_t k = 0; k < labels.count; ++k) {
      const size_t label = labels.at[k];
      repeated |= (own | seen) & MaskOf(label);
      own |= MaskOf(label);
      e.size[label] = JoinSizes(node, e.size[label], shape[k]);
      e.last[label] = i;
      if (label < Shape::kMaxRank) {
        dots = std::max(dots, Shape::kMaxRank - label);
      }
    }
    shared |= seen & own;
    seen |= own;
  }
  constexpr Mask kDots = MaskOf(Shape::kMaxRank) - 1;
  if (terms.has_output()) {
    e.output = ReadTerm(node, terms.output(), dots);
    if (static_cast<size_t>(std::popcount(e.output.mask)) != e.output.count) {
      Fail(node, "the output \"{}\" names an axis twice", terms.output().text);
    }
    if ((e.output.mask & ~seen) != 0) {
      Fail(node, "the output \"{}\" names what no operand has",
           terms.output().text);
    }
  } else {
    e.output = LabelsOf((seen & kDots) | (seen & ~repeated));
  }
  e.alone = seen & ~shared & ~e.output.mask;
  return e;
}

// Which memory a step writes. A result stays until the next but one.
enum Place { kFirst, kSecond, kOperand, kOutput };

// Calls sum(a, b or null, labels of the result, place) for each step; it
// returns the view of the result. view_of(i): the view of operand i.
template <class ViewOfOperand, class Sum>
void TakeSteps(const Equation& e, size_t operands, ViewOfOperand view_of,
               Sum&& sum) {
  const View nothing;
  const auto take = [&](size_t i, Place place) {
    const View view = view_of(i);
    if ((view.mask & e.alone) == 0) return view;
    return sum(view, nothing, LabelsOf(view.mask & ~e.alone), place);
  };
  if (operands == 1) {
    sum(view_of(0), nothing, e.output, kOutput);
    return;
  }
  View result = take(0, kSecond);
  for (size_t i = 1; i < operands; ++i) {
    const View operand = take(i, kOperand);
    if (i + 1 == operands) {
      sum(result, operand, e.output, kOutput);
    } else {
      const Mask mask = e.NeededAfter(result.mask | operand.mask, i);
      result = sum(result, operand, LabelsOf(mask), i % 2 ? kFirst : kSecond);
    }
  }
}

// The dense result of a step with these labels.
View ResultView(const OpNode& node, const View& a, const View& b,
                const Labels& labels, const void* data) {
  View view;
  view.data = data;
  view.mask = labels.mask;
  int64_t stride = 1;
  for (size_t i = labels.count; i-- > 0;) {
    const size_t label = labels.at[i];
    view.size[label] = JoinSizes(node, a.size[label], b.size[label]);
    view.step[label] = view.size[label] == 1 ? 0 : stride;
    constexpr int64_t kMost = int64_t{1} << 56;
    if (MultiplyOverflows(stride, view.size[label], &stride) ||
        stride > kMost) {
      Fail(node, "an intermediate result is too large");
    }
  }
  view.count = stride;
  return view;
}

// The elements that the steps write to each place.
struct ScratchCounts {
  std::array<size_t, 3> of = {};
};

template <class ShapeOf>
ScratchCounts CountScratch(const OpNode& node, size_t operands,
                           ShapeOf shape_of) {
  const Equation e = ReadEquation(node, operands, shape_of);
  ScratchCounts counts;
  Terms terms(node);
  TakeSteps(
      e, operands,
      [&](size_t i) {
        const Shape& shape = shape_of(i);
        return ViewOf(node, ReadOperand(node, terms.Next(), shape.rank()),
                      shape, nullptr);
      },
      [&](const View& a, const View& b, const Labels& labels, Place place) {
        const View view = ResultView(node, a, b, labels, nullptr);
        if (place != kOutput) {
          counts.of[place] =
              std::max(counts.of[place], static_cast<size_t>(view.count));
        }
        return view;
      });
  return counts;
}

// Axes that a step walks, outermost first.
struct Walk {
  size_t rank = 0;
  std::array<int64_t, kLabels> size, a, b;

  void Add(const View& x, const View& y, size_t label) {
    const int64_t joined = x.size[label] == 1 ? y.size[label] : x.size[label];
    if (joined == 1) return;
    size[rank] = joined;
    a[rank] = x.step[label];
    b[rank] = y.step[label];
    ++rank;
  }
  // Where an axis is empty, the others may be of any size.
  int64_t count() const {
    int64_t n = 1;
    for (size_t i = 0; i < rank; ++i) {
      if (size[i] == 0) return 0;
      if (MultiplyOverflows(n, size[i], &n)) {
        n = std::numeric_limits<int64_t>::max();
      }
    }
    return n;
  }
};

// y[labels] = sum of a[...] b[...] over all other labels. Up to kTogether
// results along the last axis are summed side by side.
template <class T>
void SumProducts(const KernelContext& c, const View& a, const View& b,
                 const Labels& labels, T* y) {
  constexpr int64_t kTogether = 64;
  Walk kept, summed;
  for (size_t i = 0; i < labels.count; ++i) kept.Add(a, b, labels.at[i]);
  const Labels others = LabelsOf((a.mask | b.mask) & ~labels.mask);
  for (size_t i = 0; i < others.count; ++i) summed.Add(a, b, others.at[i]);
  const int64_t results = kept.count(), terms = summed.count();
  if (results == 0) return;
  const size_t outer = kept.rank == 0 ? 0 : kept.rank - 1;
  const int64_t width = kept.rank == 0 ? 1 : kept.size[outer];
  const int64_t step_a = kept.rank == 0 ? 0 : kept.a[outer];
  const int64_t step_b = kept.rank == 0 ? 0 : kept.b[outer];
  const int64_t blocks_in_row = CeilDiv(width, kTogether);

  const auto sum_block = [&](int64_t block) {
    const int64_t first = block % blocks_in_row * kTogether;
    const int64_t count = std::min(kTogether, width - first);
    int64_t rest = block / blocks_in_row;
    T* out = y + rest * width + first;
    const T* p = static_cast<const T*>(a.data) + first * step_a;
    const T* q = static_cast<const T*>(b.data) + first * step_b;
    for (size_t axis = outer; axis-- > 0;) {
      p += rest % kept.size[axis] * kept.a[axis];
      q += rest % kept.size[axis] * kept.b[axis];
      rest /= kept.size[axis];
    }
    Wide<T> sums[kTogether] = {};
    std::array<int64_t, kLabels> at = {};
    const size_t inner = summed.rank == 0 ? 0 : summed.rank - 1;
    const int64_t run = summed.rank == 0 ? 1 : summed.size[inner];
    const int64_t run_a = summed.rank == 0 ? 0 : summed.a[inner];
    const int64_t run_b = summed.rank == 0 ? 0 : summed.b[inner];
    for (int64_t done = 0; done < terms; done += run) {
      for (int64_t i = 0; i < run; ++i) {
        const T* x = p + i * run_a;
        const T* z = q + i * run_b;
        for (int64_t j = 0; j < count; ++j) {
          sums[j] += static_cast<Wide<T>>(x[j * step_a]) *
                     static_cast<Wide<T>>(z[j * step_b]);
        }
      }
      for (size_t axis = inner; axis-- > 0;) {
        p += summed.a[axis];
        q += summed.b[axis];
        if (++at[axis] < summed.size[axis]) break;
        p -= at[axis] * summed.a[axis];
        q -= at[axis] * summed.b[axis];
        at[axis] = 0;
      }
    }
    for (int64_t j = 0; j < count; ++j) out[j] = static_cast<T>(sums[j]);
  };
  const double cost = static_cast<double>(terms) *
                      static_cast<double>(std::min(width, kTogether));
  c.ParallelFor(results / width * blocks_in_row, cost,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) sum_block(i);
                });
}

constexpr size_t kAlignment = 64;

void InferEinsum(InferContext& c) {
  const auto shape_of = [&](size_t i) -> const Shape& {
    return c.input(i).shape;
  };
  for (size_t i = 1; i < c.input_count(); ++i) RequireSameType(c, 0, i);
  const Equation e = ReadEquation(c.node(), c.input_count(), shape_of);
  CountScratch(c.node(), c.input_count(), shape_of);  // is there room?
  Dims dims = {};
  for (size_t i = 0; i < e.output.count; ++i) {
    if (i == Shape::kMaxRank) {
      Fail(c.node(), "the output has more than {} axes", Shape::kMaxRank);
    }
    dims[i] = e.size[e.output.at[i]];
  }
  c.SetOutput(0, c.input(0).type,
              Shape(std::span(dims.data(), e.output.count)));
}

size_t EinsumScratch(const KernelRequest& r) {
  const ScratchCounts counts = CountScratch(
      r.node, r.inputs.size(),
      [&](size_t i) -> const Shape& { return r.inputs[i].info.shape; });
  size_t bytes = 0;
  for (const size_t count : counts.of) {
    bytes += RoundUp(count * DataTypeSize(r.inputs[0].info.type), kAlignment);
  }
  return bytes;
}

template <class T>
void Einsum(const KernelContext& c) {
  static constexpr T kOne = 1;
  const OpNode& node = c.node();
  const size_t operands = c.input_count();
  const auto shape_of = [&](size_t i) -> const Shape& {
    return c.input(i).shape();
  };
  const Equation e = ReadEquation(node, operands, shape_of);
  const ScratchCounts counts = CountScratch(node, operands, shape_of);
  std::array<T*, 4> places;
  std::byte* next = c.scratch();
  for (size_t i = 0; i < counts.of.size(); ++i) {
    places[i] = reinterpret_cast<T*>(next);
    next += RoundUp(counts.of[i] * sizeof(T), kAlignment);
  }
  places[kOutput] = c.out<T>(0).data();
  Terms terms(node);
  TakeSteps(
      e, operands,
      [&](size_t i) {
        const Labels labels =
            ReadOperand(node, terms.Next(), shape_of(i).rank());
        return ViewOf(node, labels, shape_of(i), c.in<T>(i).data());
      },
      [&](const View& a, View b, const Labels& labels, Place place) {
        if (b.data == nullptr) b.data = &kOne;
        SumProducts<T>(c, a, b, labels, places[place]);
        return ResultView(node, a, b, labels, places[place]);
      });
}

// --- Gradients

// The equation with its output spelled out.
struct Spelling {
  std::vector<std::string> terms;  // without spaces
  std::string output;
};

Spelling ReadSpelling(const OpNode& node) {
  const auto without_spaces = [](std::string_view text) {
    std::string result(text);
    std::erase(result, ' ');
    return result;
  };
  Terms terms(node);
  Spelling s;
  std::map<char, int> times;  // in the order of the implicit output
  bool dots = false;
  for (size_t i = 0; i < terms.count(); ++i) {
    s.terms.push_back(without_spaces(terms.Next().text));
    for (const char c : s.terms.back()) {
      if (Term::IsLetter(c)) ++times[c];
      dots = dots || c == '.';
    }
  }
  if (terms.has_output()) {
    s.output = without_spaces(terms.output().text);
    return s;
  }
  if (dots) s.output = "...";
  for (const auto& [letter, count] : times)
    if (count == 1) s.output += letter;
  return s;
}

// An axis that a term names, or for '.' all those that "..." stands for.
struct TermAxis {
  char label;
  int64_t axis = 0;  // of '.': the first
};

// The gradient of one operand: the product of dY with the others, summed over
// all that the operand does not name. Then there are
//   labels that nothing else has: the operand in ones stands for them;
//   labels that stand twice: the gradient lies on the diagonal;
//   axes of size 1 that were broadcast: the gradient is summed over them.
class OperandGradient {
 public:
  OperandGradient(GradientContext& c, const Spelling& spelling, size_t operand)
      : c_(c), b_(c.build()), s_(spelling), operand_(operand) {
    const auto rank = b_.rank(c.x(operand));
    const std::string& term = s_.terms[operand];
    const auto letters = std::ranges::count_if(term, Term::IsLetter);
    has_dots_ = term.find('.') != std::string::npos;
    if (has_dots_ && !rank) c.Fail("the ranks of its inputs must be known");
    dots_ = has_dots_ ? static_cast<int64_t>(*rank) - letters : 0;
    int64_t axis = 0;
    for (size_t i = 0; i < term.size(); ++i) {
      axes_.push_back({term[i], axis});
      axis += term[i] == '.' ? dots_ : 1;
      if (term[i] == '.') i += 2;
    }
  }

  Var Write() {
    AddTerm(s_.output, c_.dy());
    for (size_t i = 0; i < s_.terms.size(); ++i)
      if (i != operand_) AddTerm(s_.terms[i], c_.x(i));
    // "..." comes first, so that axes which the operand lacks lead.
    std::string result = has_dots_ ? "..." : "";
    for (const TermAxis& axis : axes_) {
      if (axis.label != '.') result += PlaceOf(axis);
    }
    AddOnes();
    std::string equation = terms_[0];
    for (size_t i = 1; i < terms_.size(); ++i) equation += "," + terms_[i];
    Var gradient =
        b_.Op("Einsum", inputs_, {{"equation", equation + "->" + result}});
    if (MayBroadcast()) gradient = ToOperandShape(gradient);
    if (dots_ == 0 || axes_[0].label == '.') return gradient;
    return b_.Transpose(gradient, OperandOrder());
  }

 private:
  void AddTerm(const std::string& term, Var input) {
    terms_.push_back(term);
    inputs_.push_back(input);
  }

  bool IsNamed(char label) const {
    return std::ranges::any_of(terms_, [&](const std::string& term) {
      return term.find(label) != std::string::npos;
    });
  }

  char FreshLetter() const {
    for (char c = 'z'; c >= 'A'; --c) {
      const bool is_free = Term::IsLetter(c) && !IsNamed(c) &&
                           s_.terms[operand_].find(c) == std::string::npos;
      if (is_free) return c;
    }
    c_.Fail("has no letter left for its gradient");
  }

  // int64[n]: sizes of the operand's axes from `first` on.
  Var Sizes(int64_t first, int64_t count) {
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < count; ++i) axes.push_back(first + i);
    return b_.Op("Gather", {b_.Shape(c_.x(operand_)), b_.Ints(axes)});
  }

  // The letter of an axis in the gradient. One that has occurred before gets
  // another, which a unit matrix ties to it.
  char PlaceOf(const TermAxis& axis) {
    const auto [place, is_new] = first_.emplace(axis.label, axis.axis);
    if (is_new) return axis.label;
    const char fresh = FreshLetter();
    const Var sizes[] = {Sizes(place->second, 1), Sizes(axis.axis, 1)};
    const Var shape = b_.Op("Concat", sizes, {{"axis", int64_t{0}}});
    const DataType type = b_.type(c_.x(operand_));
    AddTerm({axis.label, fresh}, b_.Op("EyeLike", {b_.Zeros(shape, type)}));
    return fresh;
  }

  // Names what no other term does, in the sizes of the operand.
  void AddOnes() {
    std::string term;
    std::vector<Var> sizes;
    for (const TermAxis& axis : axes_) {
      const bool is_dots = axis.label == '.';
      const bool is_known =
          is_dots ? dots_ == 0 || s_.output.find('.') != std::string::npos
                  : IsNamed(axis.label) ||
                        term.find(axis.label) != std::string::npos;
      if (is_known) continue;
      term += is_dots ? std::string("...") : std::string(1, axis.label);
      sizes.push_back(Sizes(axis.axis, is_dots ? dots_ : 1));
    }
    if (term.empty()) return;
    const DataType type = b_.type(c_.x(operand_));
    const Var shape = b_.Op("Concat", sizes, {{"axis", int64_t{0}}});
    AddTerm(term, b_.Op("Expand", {b_.Scalar(1, type), shape}));
  }

  // False where all that share a label are surely of one size.
  bool MayBroadcast() const {
    for (const TermAxis& axis : axes_) {
      for (size_t i = 0; i < s_.terms.size(); ++i)
        if (i != operand_ && !AllAreLike(axis, s_.terms[i], c_.x(i)))
          return true;
    }
    return false;
  }

  // Whether each axis of that label in `term` has the size of `axis`.
  bool AllAreLike(const TermAxis& axis, const std::string& term, Var x) const {
    if (term.find(axis.label) == std::string::npos) return true;
    const auto &own = b_.dims(c_.x(operand_)), &other = b_.dims(x);
    if (!own || !other || term.find('.') != std::string::npos) return false;
    for (size_t i = 0; i < term.size(); ++i) {
      if (term[i] == axis.label &&
          !SameDimension((*own)[static_cast<size_t>(axis.axis)], (*other)[i]))
        return false;
    }
    return true;
  }

  // The order in which the gradient has the operand's axes: those of "..."
  // first.
  std::vector<int64_t> GradientOrder() const {
    std::vector<int64_t> order;
    for (const bool of_dots : {true, false}) {
      for (const TermAxis& axis : axes_) {
        if ((axis.label == '.') != of_dots) continue;
        for (int64_t i = 0; i < (of_dots ? dots_ : 1); ++i)
          order.push_back(axis.axis + i);
      }
    }
    return order;
  }

  std::vector<int64_t> OperandOrder() const {
    const std::vector<int64_t> order = GradientOrder();
    std::vector<int64_t> inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return inverse;
  }

  // Repeated where another operand was broadcast, summed where this one was.
  Var ToOperandShape(Var gradient) {
    Var target = c_.x(operand_);
    if (dots_ > 0 && axes_[0].label != '.') {
      target = b_.Transpose(target, GradientOrder());
      b_.SetDims(target, std::nullopt);
    }
    const Var full = b_.Op("Expand", {gradient, b_.Shape(target)});
    return b_.ReduceToShapeOf(full, full, target);
  }

  GradientContext& c_;
  GraphBuilder& b_;
  const Spelling& s_;
  const size_t operand_;
  bool has_dots_ = false;
  int64_t dots_ = 0;  // axes that "..." stands for
  std::vector<TermAxis> axes_;
  std::map<char, int64_t> first_;
  std::vector<std::string> terms_;
  std::vector<Var> inputs_;
};

void EinsumGradient(GradientContext& c) {
  const Spelling spelling = ReadSpelling(c.node());
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.needs(i)) c.Set(i, OperandGradient(c, spelling, i).Write());
}

}  // namespace

extern constexpr OpDef kEinsum = {
    .name = "Einsum",
    .inputs = {1, Arity::kVariadic},
    .infer = InferEinsum,
    .reference = Instantiate<Numbers>(
        []<class T>(const KernelContext& c) { Einsum<T>(c); }, EinsumScratch),
    .gradient = Rule(EinsumGradient)};

}  // namespace strop::ops
