// SPDX-License-Identifier: Apache-2.0
//
// Between gemm.cc, which plans, and gemm_kernels.cc and gemm_vectors.cc, which
// are compiled once per instruction set.
#pragma once

#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/gemm/packed_gemm.h"

namespace strop {

// What suits the registers and caches of an instruction set.
struct GemmBlocking {
  int64_t mr;  // most rows of C that a micro kernel holds in registers
  int64_t nr;  // its columns
  int64_t kc;
  int64_t mc;
  int64_t nc;
  // Of a product that sweeps; 0 where none does.
  int64_t sweep_mc;
  int64_t sweep_nc;
  bool has_dots;  // GemmPath::kDots is there
};

GemmBlocking GetGemmBlocking();

using GemmTileFunction = void (*)(const GemmPlan& plan, int64_t tile,
                                  const GemmOperands& operands,
                                  std::byte* scratch);
GemmTileFunction GetGemmTileFunction(GemmPath path);
// Those of gemm_vectors.cc, once an instruction set is chosen.
GemmTileFunction GetDotsFunction();
GemmTileFunction GetRowFunction();

// Packs panels [begin, end) of B, of which `k` steps are there.
using PackFunction = void (*)(const PackedGemmPlan& plan, const float* b,
                              int64_t begin, int64_t end, int64_t k,
                              float* packed);
PackFunction GetPackFunction();
using PackedGemmFunction = void (*)(const PackedGemmPlan& plan,
                                    const PackedGemmOperands& operands);
PackedGemmFunction GetPackedGemmFunction();

}  // namespace strop
