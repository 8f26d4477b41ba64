// SPDX-License-Identifier: Apache-2.0
#include "training/finite.h"

#include <cmath>
#include <type_traits>

#include "base/half.h"
#include "strop/op.h"

namespace strop {

bool IsFinite(const Tensor& tensor) {
  bool finite = true;
  auto check = [&]<class T>() {
    for (T x : tensor.values<T>()) {
      if constexpr (std::is_floating_point_v<T>) {
        finite = finite && std::isfinite(x);
      } else {
        finite = finite && std::isfinite(ToFloat(x));
      }
    }
  };
  DispatchType(TypeList<float, double, Float16, Bfloat16>{}, tensor.type(),
               check);
  return finite;
}

}  // namespace strop
