// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/gemm/packed_gemm.h"

#include <algorithm>

#include "base/round.h"
#include "providers/cpu/gemm/gemm_kernels.h"

namespace strop {

PackedGemm::PackedGemm(bool trans_b, int64_t n, int64_t k, int64_t ldb) {
  const GemmBlocking blocking = GetGemmBlocking();
  const int64_t blocks = std::max<int64_t>(1, CeilDiv(k, blocking.kc));
  plan_ = {.trans_b = trans_b,
           .n = n,
           .k = k,
           .ldb = ldb,
           .kc = std::max<int64_t>(1, CeilDiv(k, blocks)),
           .nr = blocking.nr,
           .panels = CeilDiv(n, blocking.nr)};
}

double PackedGemm::flops(int64_t m) const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(plan_.n) *
         static_cast<double>(plan_.k);
}

size_t PackedGemm::packed_bytes() const {
  return sizeof(float) * static_cast<size_t>(plan_.panels * plan_.nr * plan_.k);
}

void PackedGemm::PackPanels(const float* b, int64_t begin, int64_t end,
                            std::byte* packed, int64_t k) const {
  GetPackFunction()(plan_, b, begin, end, k, reinterpret_cast<float*>(packed));
}

void PackedGemm::Run(const PackedGemmOperands& operands) const {
  GetPackedGemmFunction()(plan_, operands);
}

}  // namespace strop
