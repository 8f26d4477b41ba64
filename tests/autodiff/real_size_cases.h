// SPDX-License-Identifier: Apache-2.0
//
// Ops at the sizes of models, for gradients: one case at least for each
// family of rules. No expected values; `tolerance` is that of gradients in
// float32, over their norm. Inputs keep away from kinks: no two numbers that
// an op compares lie within 1e-3.
#pragma once

#include "ops/cases/cases.h"

namespace strop {

Cases RealSizeElementwise();
Cases RealSizeMatrices();
Cases RealSizeWindows();
Cases RealSizeNormalization();
Cases RealSizeSequences();
Cases RealSizeMoves();
Cases RealSizeLosses();

Cases RealSizeCases();

}  // namespace strop
