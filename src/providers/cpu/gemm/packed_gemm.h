// SPDX-License-Identifier: Apache-2.0
//
// Matrix multiplication on float32, row-major, by a B that is packed once and
// then multiplied by many A of few rows, as a recurrent network does in every
// step, and attention for every block of rows:
//
//   C (m x n) = alpha * A (m x k) * op(B)      or, accumulating, C += ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace strop {

// Larger than any size: all columns, or steps of k, of B.
inline constexpr int64_t kAllOfB = std::numeric_limits<int64_t>::max();

// What is multiplied by a PackedGemm.
struct PackedGemmOperands {
  int64_t m = 0;
  // Only so many columns, and only so many steps of k, of what B has.
  int64_t n = kAllOfB;
  int64_t k = kAllOfB;
  float alpha = 1;
  // A is small, or was read just now: it is not packed. Elements from one row
  // to the next, and from one step of k to the next.
  const float* a = nullptr;
  int64_t a_row = 0;
  int64_t a_k = 1;
  const std::byte* packed_b = nullptr;
  float* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;  // false: what C held is not read
};

struct PackedGemmPlan {
  bool trans_b = false;  // B is stored as n x k
  int64_t n = 0;
  int64_t k = 0;
  int64_t ldb = 0;     // elements from one stored row of B to the next
  int64_t kc = 1;      // steps of k between visits of C
  int64_t nr = 1;      // columns of a panel
  int64_t panels = 0;  // of all columns
};

class PackedGemm {
 public:
  PackedGemm() = default;
  PackedGemm(bool trans_b, int64_t n, int64_t k, int64_t ldb);

  // Floating-point operations for m rows of A.
  double flops(int64_t m) const;

  size_t packed_bytes() const;
  // B is packed panel by panel: each may be packed by another thread. `k`: only
  // so many steps of k are there, and will be used.
  int64_t panel_count() const { return plan_.panels; }
  void PackPanels(const float* b, int64_t begin, int64_t end, std::byte* packed,
                  int64_t k = kAllOfB) const;

  // On the calling thread. An element of C is summed in the same order,
  // whatever m is.
  void Run(const PackedGemmOperands& operands) const;

 private:
  PackedGemmPlan plan_;
};

}  // namespace strop
