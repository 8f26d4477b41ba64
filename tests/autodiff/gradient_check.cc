// SPDX-License-Identifier: Apache-2.0
#include "autodiff/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/throw.h"

namespace strop {
namespace {

constexpr double kTolerance = 1e-6;
// Of the terms of a sum.
constexpr double kRounding = 64 * std::numeric_limits<double>::epsilon();
// Left and right derivatives further apart than this: a kink or a jump.
constexpr double kKink = 1e-4;
// Elements of an input that are compared; more are left out evenly.
constexpr size_t kMostElements = 48;

// The derivative of f by one element, from both sides, and by a formula of
// fourth order; and how far rounding may have moved them.
struct Slopes {
  double left, right, middle, noise;
};

Slopes Differences(SeededFunction& f, std::vector<OwnedTensor>& values,
                   size_t input, size_t element, double relative_step) {
  double& x = values[input].view().values<double>()[element];
  const double at = x;
  const double h = relative_step * std::max(0.01, std::abs(at));
  const auto value = [&](double steps) {
    x = at + steps * h;
    const double y = f(values);
    x = at;
    return y;
  };
  const double up = value(1), down = value(-1), here = value(0);
  const double up2 = value(2), down2 = value(-2);
  return {.left = (3 * here - 4 * down + down2) / (2 * h),
          .right = (-3 * here + 4 * up - up2) / (2 * h),
          .middle = (8 * (up - down) - (up2 - down2)) / (12 * h),
          .noise = kRounding * f.magnitude() / h};
}

enum class Verdict { kAgrees, kAtKink, kDiffers };

// Where the function itself is not finite there is nothing to compare with.
Verdict Compare(double gradient, double largest, const Slopes& d) {
  if (!std::isfinite(d.left) || !std::isfinite(d.right))
    return Verdict::kAgrees;
  const double slack = kTolerance * std::abs(d.middle) + d.noise;
  if (std::abs(gradient - d.middle) <= slack) return Verdict::kAgrees;
  const double room = kKink * std::max(1.0, largest);
  const bool smooth = std::abs(d.left - d.right) <= room;
  const bool between = gradient >= std::min(d.left, d.right) - room &&
                       gradient <= std::max(d.left, d.right) + room;
  return !smooth && between ? Verdict::kAtKink : Verdict::kDiffers;
}

}  // namespace

std::vector<Numbers64> GradientsOf(const OpCase& op_case, DataType type,
                                   KnownShapes shapes) {
  return GradientsOf(BuildOneNode(op_case, type, shapes), type);
}

GradientCheck CheckGradient(const OpCase& op_case, KnownShapes shapes,
                            bool may_jump, std::optional<size_t> only_output) {
  GradientCheck check;
  OneNode built =
      BuildOneNode(op_case, DataType::kFloat64, shapes, only_output);
  std::vector<Numbers64> gradients;
  try {
    gradients = GradientsOf(built);
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (only_output ||
        text.find("for its first output") == std::string_view::npos)
      throw;
    built =
        BuildOneNode(op_case, DataType::kFloat64, shapes, /*only_output=*/0);
    gradients = GradientsOf(built);
  }
  SeededFunction f(built);
  const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].empty()) check.has_gradient = true;
    if (built.values[i].view().type() != DataType::kFloat64) continue;
    if (op->stops_gradient.contains(built.slots[i])) continue;
    // No gradient is one of zeros.
    gradients[i].resize(built.values[i].view().values<double>().size());
    double largest = 1;
    for (const double g : gradients[i])
      if (std::isfinite(g)) largest = std::max(largest, std::abs(g));
    const size_t count = gradients[i].size();
    const size_t step = std::max<size_t>(1, count / kMostElements);
    for (size_t k = 0; k < count; k += step) {
      const double g = gradients[i][k];
      // 0 times what is not finite.
      if (built.leaves_out && !std::isfinite(g)) continue;
      const auto compare = [&](double relative_step) {
        return Compare(g, largest,
                       Differences(f, built.values, i, k, relative_step));
      };
      // At a jump differences grow as steps shrink.
      const auto jumps = [&] {
        const auto middle = [&](double relative_step) {
          return std::abs(
              Differences(f, built.values, i, k, relative_step).middle);
        };
        return middle(1e-6) > 50 * std::max(1.0, middle(1e-4));
      };
      Verdict verdict = compare(1e-4);
      // Closer, where something changes nearby.
      if (verdict == Verdict::kDiffers) verdict = compare(1e-6);
      if (may_jump && verdict == Verdict::kDiffers && jumps())
        verdict = Verdict::kAtKink;
      ++check.compared;
      if (verdict == Verdict::kAtKink) ++check.at_kinks;
      if (verdict == Verdict::kDiffers && check.failure.empty()) {
        const Slopes d = Differences(f, built.values, i, k, 1e-4);
        check.failure = fmt::format(
            "input {}, element {}: {} where differences give {} (left {}, "
            "right {})",
            built.slots[i], k, g, d.middle, d.left, d.right);
      }
    }
  }
  return check;
}

}  // namespace strop
