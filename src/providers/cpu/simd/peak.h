// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strop {

// Floating-point operations a second of one thread that does nothing but
// multiply and add float32 vectors in registers, as measured now in about 20
// milliseconds: what no kernel can pass.
double MeasurePeakFlops();

}  // namespace strop
