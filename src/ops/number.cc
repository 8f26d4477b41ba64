// SPDX-License-Identifier: Apache-2.0
#include "ops/number.h"

namespace strop::ops {

DataType TypeAttribute(const OpNode& node, std::string_view attribute,
                       DataType fallback) {
  if (!node.Has(attribute)) return fallback;
  const auto type = static_cast<DataType>(node.Int(attribute));
  if (!DispatchType(AllTypes{}, type, []<class T>() {})) {
    Fail(node, ErrorCode::kNotImplemented,
         "attribute {} names {}, which is not supported", attribute,
         DataTypeName(type));
  }
  return type;
}

}  // namespace strop::ops
