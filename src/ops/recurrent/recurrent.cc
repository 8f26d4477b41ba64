// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrent/recurrent.h"

#include "ops/activations.h"

namespace strop::ops::recurrent {
namespace {

// How many of alpha and beta a function takes from the attributes, and what
// they are when the lists end before.
struct NamedActivation {
  std::string_view name;
  ActivationKind kind;
  int numbers;
  float alpha, beta;
};

constexpr NamedActivation kActivations[] = {
    {"Affine", ActivationKind::kAffine, 2, 1, 0},
    {"Elu", ActivationKind::kElu, 1, 1, 0},
    {"HardSigmoid", ActivationKind::kHardSigmoid, 2, 0.2f, 0.5f},
    {"LeakyRelu", ActivationKind::kLeakyRelu, 1, 0.01f, 0},
    {"Relu", ActivationKind::kRelu, 0, 0, 0},
    {"ScaledTanh", ActivationKind::kScaledTanh, 2, 1, 1},
    {"Sigmoid", ActivationKind::kSigmoid, 0, 0, 0},
    {"Softplus", ActivationKind::kSoftplus, 0, 0, 0},
    {"Softsign", ActivationKind::kSoftsign, 0, 0, 0},
    {"Tanh", ActivationKind::kTanh, 0, 0, 0},
    {"ThresholdedRelu", ActivationKind::kThresholdedRelu, 1, 1, 0},
};

bool SameLetters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// Case does not count: ONNX Runtime's training ops want lower case.
const NamedActivation& FindActivation(const OpNode& node,
                                      std::string_view name) {
  for (const NamedActivation& activation : kActivations) {
    if (SameLetters(activation.name, name)) return activation;
  }
  Fail(node, "there is no activation \"{}\"", name);
}

// Each function that takes numbers takes the next ones of the lists.
void ReadActivations(const OpNode& node, const Family& family, Settings& s) {
  const size_t wanted = family.functions * static_cast<size_t>(s.directions);
  const std::vector<std::string>* names = nullptr;
  if (const Attribute* attribute = node.node().FindAttribute("activations")) {
    names = std::get_if<std::vector<std::string>>(&attribute->value);
    if (names == nullptr) Fail(node, "activations must be a list of strings");
    if (names->size() != wanted) {
      Fail(node, "has {} activations instead of {}", names->size(), wanted);
    }
  }
  const auto alphas = node.Floats("activation_alpha");
  const auto betas = node.Floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  for (size_t i = 0; i < wanted; ++i) {
    Activation& f = s.functions[i / family.functions][i % family.functions];
    if (names == nullptr) {
      f.kind = family.defaults[i % family.functions];
      continue;
    }
    const NamedActivation& named = FindActivation(node, (*names)[i]);
    f = {named.kind, named.alpha, named.beta};
    if (named.numbers > 0 && next_alpha < alphas.size()) {
      f.alpha = alphas[next_alpha++];
    }
    if (named.numbers > 1 && next_beta < betas.size()) {
      f.beta = betas[next_beta++];
    }
  }
}

void ReadDirection(const OpNode& node, Settings& s) {
  const std::string_view direction = node.String("direction", "forward");
  const bool both = direction == "bidirectional";
  if (!both && direction != "forward" && direction != "reverse") {
    Fail(node, "attribute direction is \"{}\"", direction);
  }
  s.directions = both ? 2 : 1;
  s.reverse[0] = direction == "reverse";
  s.reverse[1] = true;
}

void ReadShapes(const OpNode& node, const Shape& x, const Shape& r,
                Settings& s) {
  if (x.rank() != 3) {
    Fail(node, "X must have three axes, not the shape {}", x.ToString());
  }
  s.steps = x[s.batch_first ? 1 : 0];
  s.batch = x[s.batch_first ? 0 : 1];
  s.input = x[2];
  // A step must cost memory: a count of steps may not come for free.
  if (s.input == 0) Fail(node, "X {} holds no number per step", x.ToString());
  const bool fits = r.rank() == 3 && r[0] == s.directions &&
                    r[1] % s.gates == 0 && r[1] / s.gates == r[2];
  if (!fits) {
    Fail(node, "R must have the shape ({}, {} H, H), not {}", s.directions,
         s.gates, r.ToString());
  }
  s.hidden = r[2];
  if (node.Int("hidden_size", s.hidden) != s.hidden) {
    Fail(node, "hidden_size is {}, R is {}", node.Int("hidden_size"),
         r.ToString());
  }
}

}  // namespace

template <class T>
T Activation::operator()(T x) const {
  const T a = static_cast<T>(alpha), b = static_cast<T>(beta);
  switch (kind) {
    case ActivationKind::kAffine:
      return a * x + b;
    case ActivationKind::kElu:
      return x < 0 ? a * std::expm1(x) : x;
    case ActivationKind::kHardSigmoid:
      return std::clamp(a * x + b, T{0}, T{1});
    case ActivationKind::kLeakyRelu:
      return x < 0 ? a * x : x;
    case ActivationKind::kRelu:
      return x < 0 ? T{0} : x;
    case ActivationKind::kScaledTanh:
      return a * std::tanh(b * x);
    case ActivationKind::kSigmoid:
      return Logistic(x);
    case ActivationKind::kSoftplus:
      return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
    case ActivationKind::kSoftsign:
      return x / (1 + std::abs(x));
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kThresholdedRelu:
      return x > a ? x : T{0};
  }
  STROP_CHECK(false);
}

template <class T>
T Activation::Slope(T y) const {
  const T a = static_cast<T>(alpha), b = static_cast<T>(beta);
  switch (kind) {
    case ActivationKind::kAffine:
      return a;
    case ActivationKind::kElu:
      return y > 0 ? T{1} : y + a;
    case ActivationKind::kHardSigmoid:
      return y > 0 && y < 1 ? a : T{0};
    case ActivationKind::kLeakyRelu:
      return y > 0 ? T{1} : a;
    case ActivationKind::kRelu:
      return y > 0 ? T{1} : T{0};
    case ActivationKind::kScaledTanh:
      return a == 0 ? T{0} : b * (a - y * y / a);
    case ActivationKind::kSigmoid:
      return y * (1 - y);
    case ActivationKind::kSoftplus:
      return -std::expm1(-y);
    case ActivationKind::kSoftsign:
      return (1 - std::abs(y)) * (1 - std::abs(y));
    case ActivationKind::kTanh:
      return 1 - y * y;
    case ActivationKind::kThresholdedRelu:
      return y != 0 ? T{1} : T{0};
  }
  STROP_CHECK(false);
}

template float Activation::operator()(float) const;
template double Activation::operator()(double) const;
template float Activation::Slope(float) const;
template double Activation::Slope(double) const;

bool Activation::has_slope() const {
  const bool folds =
      kind == ActivationKind::kLeakyRelu || kind == ActivationKind::kElu;
  return !folds || alpha >= 0;
}

Shape Settings::StateShape() const {
  return batch_first ? Shape{batch, directions, hidden}
                     : Shape{directions, batch, hidden};
}

Shape Settings::StepsShape(int64_t numbers) const {
  return batch_first ? Shape{batch, steps, directions, numbers}
                     : Shape{steps, directions, batch, numbers};
}

Settings ReadSettings(const OpNode& node, const Family& family, const Shape& x,
                      const Shape& r) {
  Settings s = {};
  s.gates = family.gates;
  const int64_t layout = node.Int("layout", 0);
  if (layout != 0 && layout != 1) Fail(node, "attribute layout is {}", layout);
  s.batch_first = layout == 1;
  s.clip = node.Float("clip", std::numeric_limits<float>::infinity());
  if (!(s.clip >= 0)) Fail(node, "attribute clip is {}", s.clip);
  ReadDirection(node, s);
  ReadShapes(node, x, r, s);
  ReadActivations(node, family, s);
  return s;
}

Settings ReadSettings(const KernelContext& c, const Family& family) {
  return ReadSettings(c.node(), family, c.input(0).shape(), c.input(2).shape());
}

Settings ReadSettings(const KernelRequest& request, const Family& family) {
  return ReadSettings(request.node, family, request.inputs[0].info.shape,
                      request.inputs[2].info.shape);
}

Settings InferSettings(const InferContext& c, const Family& family) {
  const Settings s =
      ReadSettings(c.node(), family, c.input(0).shape, c.input(2).shape);
  RequireSameType(c, 0, 1);
  RequireSameType(c, 0, 2);
  RequireShape(c, 1, {s.directions, s.gate_count(), s.input});
  return s;
}

void CheckOptional(const InferContext& c, size_t i, const Shape& shape) {
  if (!c.has_input(i)) return;
  RequireSameType(c, 0, i);
  RequireShape(c, i, shape);
}

void CheckLengthsInput(const InferContext& c, size_t i, const Settings& s) {
  if (!c.has_input(i)) return;
  RequireType(c, i, DataType::kInt32);
  RequireShape(c, i, {s.batch});
}

void RequireSlopes(const OpNode& node, const Family& family,
                   const Settings& s) {
  for (int64_t d = 0; d < s.directions; ++d) {
    for (size_t i = 0; i < family.functions; ++i) {
      const Activation& f = s.functions[d][i];
      if (f.has_slope()) continue;
      Fail(node, ErrorCode::kNotImplemented,
           "an activation with alpha {} has no gradient: its value does not "
           "tell the sign of its argument",
           f.alpha);
    }
  }
}

size_t BackwardScratch(const KernelRequest& request, const Family& family,
                       int64_t states) {
  const Settings s = ReadSettings(request, family);
  return ScratchBytes(request, s.StepsShape(s.gate_count()).element_count() +
                                   states * s.StateShape().element_count());
}

void RequireSteps(const InferContext& c, size_t i, const Settings& s,
                  int64_t numbers) {
  RequireSameType(c, 0, i);
  RequireShape(c, i, s.StepsShape(numbers));
}

void SetGradients(InferContext& c, const Settings& s) {
  const DataType type = c.input(0).type;
  for (size_t i = 0; i < 3; ++i) c.SetOutput(i, type, c.input(i).shape);
  c.SetOutput(3, type, {s.directions, 2 * s.gate_count()});
  c.SetOutput(4, type, s.StateShape());
}

size_t ScratchBytes(const KernelRequest& request, int64_t numbers) {
  return static_cast<size_t>(numbers) *
         DataTypeSize(request.inputs[0].info.type);
}

Lengths::Lengths(const KernelContext& c, size_t input, const Settings& s)
    : steps_(s.steps) {
  if (!c.has_input(input)) return;
  lengths_ = c.in<int32_t>(input);
  for (size_t b = 0; b < lengths_.size(); ++b) {
    if (lengths_[b] < 0 || lengths_[b] > s.steps) {
      Fail(c.node(), "the length {} of sequence {} is not in [0, {}]",
           lengths_[b], b, s.steps);
    }
  }
}

}  // namespace strop::ops::recurrent
