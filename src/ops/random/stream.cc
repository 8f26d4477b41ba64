// SPDX-License-Identifier: Apache-2.0
#include "ops/random/stream.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace strop::ops {
namespace {

double ToUnit(uint32_t high, uint32_t low) {
  const uint64_t bits = static_cast<uint64_t>(high) << 32 | low;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

RandomKey StreamOf(const KernelContext& c) {
  RandomKey key = c.random();
  if (!c.node().Has("seed")) return key;
  const Attribute* seed = c.node().node().FindAttribute("seed");
  if (std::holds_alternative<float>(seed->value)) {
    key.seed = std::bit_cast<uint32_t>(std::get<float>(seed->value));
  } else {
    key.seed = static_cast<uint64_t>(c.node().Int("seed"));
  }
  return key;
}

// A block of random bits serves two elements.
double UniformAt(const RandomKey& key, int64_t element) {
  const auto i = static_cast<uint64_t>(element);
  const std::array<uint32_t, 4> words = RandomBlock(key, i / 2);
  return ToUnit(words[i % 2 * 2 + 1], words[i % 2 * 2]);
}

// Box and Muller: two uniform numbers give the radius and the angle of a
// point whose coordinates, one for each of two elements, are normal.
double NormalAt(const RandomKey& key, int64_t element) {
  const auto i = static_cast<uint64_t>(element);
  const std::array<uint32_t, 4> words = RandomBlock(key, i / 2);
  const double radius = std::sqrt(-2 * std::log1p(-ToUnit(words[1], words[0])));
  const double angle = 2 * std::numbers::pi * ToUnit(words[3], words[2]);
  return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace strop::ops
