// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strop::ops {

// The cubic interpolating filter (Keys 1981) at a distance from the tap.
inline double Cubic(double distance, double a) {
  const double d = distance;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

// Its derivative.
inline double CubicSlope(double distance, double a) {
  const double d = distance;
  if (d <= 1) return (3 * (a + 2) * d - 2 * (a + 3)) * d;
  if (d < 2) return (3 * a * d - 10 * a) * d + 8 * a;
  return 0;
}

}  // namespace strop::ops
