// SPDX-License-Identifier: Apache-2.0
#include "graph/opset_form_rewriter.h"

namespace strop::opset_forms {
namespace {

bool SameTensor(const TensorData& a, const TensorData& b) {
  return a.type == b.type && a.dims == b.dims &&
         a.encoded.data() == b.encoded.data() && a.owner == b.owner &&
         a.bytes.data() == b.bytes.data();
}

bool SameAttribute(const Attribute& a, const Attribute& b) {
  if (a.name != b.name || a.ref_attr_name != b.ref_attr_name ||
      a.encoded != b.encoded || a.value.index() != b.value.index()) {
    return false;
  }
  if (const auto* tensor = std::get_if<TensorData>(&a.value))
    return SameTensor(*tensor, std::get<TensorData>(b.value));
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, TensorData>)
          return false;
        else
          return value == std::get<T>(b.value);
      },
      a.value);
}

}  // namespace

bool SameAttributes(const std::vector<Attribute>& a,
                    const std::vector<Attribute>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameAttribute);
}

std::vector<std::string> InputNames(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  for (const ValueId input : node.inputs)
    names.push_back(graph.value_name(input));
  return names;
}

}  // namespace strop::opset_forms
