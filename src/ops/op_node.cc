// SPDX-License-Identifier: Apache-2.0
#include "base/throw.h"
#include "graph/graph.h"
#include "strop/op.h"

namespace strop {
namespace {

// The attribute's value as a T; null when it is absent.
template <class T>
const T* Find(const OpNode& op, std::string_view name,
              std::string_view wanted) {
  const Attribute* attribute = op.node().FindAttribute(name);
  if (attribute == nullptr) return nullptr;
  const T* value = std::get_if<T>(&attribute->value);
  if (value == nullptr) {
    op.Fail(fmt::format("attribute {} must be {}", name, wanted),
            ErrorCode::kInvalidGraph);
  }
  return value;
}

}  // namespace

std::string_view OpNode::op_type() const { return node_->op_type; }
std::string_view OpNode::domain() const { return node_->domain; }
std::string OpNode::Describe() const {
  return strop::Describe(*graph_, *node_);
}

bool OpNode::Has(std::string_view attribute) const {
  return node_->FindAttribute(attribute) != nullptr;
}

int64_t OpNode::Int(std::string_view attribute, int64_t fallback) const {
  const auto* value = Find<int64_t>(*this, attribute, "an integer");
  return value ? *value : fallback;
}

int64_t OpNode::Int(std::string_view attribute) const {
  const auto* value = Find<int64_t>(*this, attribute, "an integer");
  if (value == nullptr) {
    Fail(fmt::format("attribute {} is missing", attribute),
         ErrorCode::kInvalidGraph);
  }
  return *value;
}

float OpNode::Float(std::string_view attribute, float fallback) const {
  const auto* value = Find<float>(*this, attribute, "a float");
  return value ? *value : fallback;
}

std::string_view OpNode::String(std::string_view attribute,
                                std::string_view fallback) const {
  const auto* value = Find<std::string>(*this, attribute, "a string");
  return value ? std::string_view(*value) : fallback;
}

std::span<const int64_t> OpNode::Ints(std::string_view attribute) const {
  const auto* value =
      Find<std::vector<int64_t>>(*this, attribute, "a list of integers");
  if (value == nullptr) return {};
  return *value;
}

std::span<const float> OpNode::Floats(std::string_view attribute) const {
  const auto* value =
      Find<std::vector<float>>(*this, attribute, "a list of floats");
  if (value == nullptr) return {};
  return *value;
}

std::optional<Tensor> OpNode::TensorAttribute(
    std::string_view attribute) const {
  const auto* value = Find<TensorData>(*this, attribute, "a tensor");
  if (value == nullptr) return std::nullopt;
  return value->view();
}

void OpNode::Fail(std::string_view text, ErrorCode code) const {
  throw Error(code, Describe() + " " + std::string(text));
}

}  // namespace strop
