// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <atomic>

namespace strop {
namespace {

std::atomic<int64_t> g_seed{0};

// A node number that no graph reaches.
constexpr uint32_t kShuffleNode = 0xffffffff;

struct Product {
  uint32_t high, low;
};

Product Multiply(uint32_t a, uint32_t b) {
  const uint64_t product = static_cast<uint64_t>(a) * b;
  return {static_cast<uint32_t>(product >> 32), static_cast<uint32_t>(product)};
}

}  // namespace

void SetSeed(int64_t seed) { g_seed.store(seed, std::memory_order_relaxed); }

int64_t GetSeed() { return g_seed.load(std::memory_order_relaxed); }

std::array<uint32_t, 4> RandomBlock(const RandomKey& key, uint64_t index) {
  // Philox has 64 bits of key and 128 of counter for our 224. The high half
  // of the step, never reached in practice, goes into the key.
  std::array<uint32_t, 4> x = {static_cast<uint32_t>(index),
                               static_cast<uint32_t>(index >> 32),
                               static_cast<uint32_t>(key.step), key.node};
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32) ^
                static_cast<uint32_t>(key.step >> 32);
  for (int round = 0; round < 10; ++round) {
    const Product p = Multiply(0xd2511f53, x[0]);
    const Product q = Multiply(0xcd9e8d57, x[2]);
    x = {q.high ^ x[1] ^ k0, q.low, p.high ^ x[3] ^ k1, p.low};
    k0 += 0x9e3779b9;  // the golden ratio
    k1 += 0xbb67ae85;  // the square root of 3, less one
  }
  return x;
}

float RandomUniform(const RandomKey& key, uint64_t index) {
  const uint32_t word = RandomBlock(key, index / 4)[index % 4];
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

Shuffler::Shuffler(uint64_t seed, uint64_t epoch)
    : key_{.seed = seed, .node = kShuffleNode, .step = epoch} {}

uint64_t Shuffler::Next(uint64_t bound) {
  // Values below 2^64 mod bound would be too frequent by one: drawn again.
  const uint64_t excess = -bound % bound;
  uint64_t value;
  do {
    const std::array<uint32_t, 4> block = RandomBlock(key_, position_++);
    value = static_cast<uint64_t>(block[1]) << 32 | block[0];
  } while (value < excess);
  return value % bound;
}

}  // namespace strop
