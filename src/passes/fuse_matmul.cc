// SPDX-License-Identifier: Apache-2.0
//
// What stands around a matrix product becomes part of it: a MatMul or
// FusedMatMul turns into the internal MatMul
//
//   Y = permY(alpha A' B' + bias)
//
// which reads its operands through the Transposes that make them (permA,
// permB), takes in factors (alpha), a bias that is added behind it, and a
// Transpose of the result, or a Softmax along the last axis, with the mask
// that is added before, or the gradient of one. A Gemm whose operand or result
// is transposed becomes one that reads the other way.
//
// A kernel reads rows or columns as they lie; a Transpose is therefore taken
// in only if its innermost axis ends up as a row or a column.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/graph_builder.h"
#include "passes/passes.h"
#include "strop/op.h"

namespace strop {
namespace {

// Of `first`, then `second`: axis i of the result.
Axes Compose(const Axes& first, const Axes& second) {
  if (first.empty()) return second;
  Axes axes;
  for (const int64_t axis : second) {
    axes.push_back(first[static_cast<size_t>(axis)]);
  }
  return axes;
}

struct Operand {
  ValueId value;
  Axes perm;
  bool trans = false;
};

struct Product {
  Operand a, b;
  ValueId bias;
  std::string then;  // attribute then of the internal MatMul
  ValueId of_rows;   // the mask, or the result of the softmax
  Axes perm;         // of the result
  float alpha = 1;
  bool changed = false;
};

class ProductFuser {
 public:
  explicit ProductFuser(Graph& graph)
      : graph_(graph), builder_(graph, ""), consumers_(graph.Consumers()) {}

  void Run() {
    const std::vector<NodeId> order(graph_.order().begin(),
                                    graph_.order().end());
    positions_ = PlacesInOrder(graph_);
    for (const NodeId id : order) {
      if (graph_.node(id).removed) continue;
      if (IsGemm(graph_.node(id))) {
        FuseAroundGemm(id);
      } else if (IsMatMul(graph_.node(id))) {
        FuseAroundMatMul(id);
      }
    }
  }

 private:
  OpNode View(const Node& node) const { return OpNode(graph_, node); }

  bool IsMatMul(const Node& node) const {
    if (node.op_type == "MatMul" && node.domain == kOnnx) return true;
    return node.op_type == "FusedMatMul" && node.domain == kMicrosoft &&
           View(node).Int("transBatchA", 0) == 0 &&
           View(node).Int("transBatchB", 0) == 0;
  }

  // Without a third input.
  bool IsGemm(const Node& node) const {
    return node.op_type == "Gemm" && node.domain == kOnnx && !node.input(2);
  }

  // The axes of the Transpose, if they are written out.
  std::optional<Axes> Permutation(const Node* node) const {
    if (node == nullptr || node->op_type != "Transpose" ||
        node->domain != kOnnx) {
      return std::nullopt;
    }
    const auto perm = View(*node).Ints("perm");
    const auto rank = static_cast<int64_t>(perm.size());
    Axes axes(perm.begin(), perm.end());
    std::vector<bool> seen(perm.size());
    for (int64_t& axis : axes) {
      if (axis < 0) axis += rank;
      if (axis < 0 || axis >= rank || seen[static_cast<size_t>(axis)]) {
        return std::nullopt;
      }
      seen[static_cast<size_t>(axis)] = true;
    }
    if (rank < 2) return std::nullopt;
    return axes;
  }

  const Node* ProducerOf(ValueId value) const {
    const NodeId id = value ? graph_.value(value).producer : NodeId{};
    return id ? &graph_.node(id) : nullptr;
  }

  // The node that alone reads the value, or none.
  NodeId OnlyReader(ValueId value) const {
    if (!HasOneUse(graph_, consumers_, value)) return {};
    const NodeId id = consumers_[static_cast<size_t>(value.index)][0];
    // A node with a sub-graph may read by name.
    for (const ValueId input : graph_.node(id).inputs) {
      if (input == value) return id;
    }
    return {};
  }

  // The factor, if `node` multiplies with a float32 constant of rank 0.
  std::optional<std::pair<ValueId, float>> Scaling(const Node* node) {
    if (node == nullptr || node->op_type != "Mul" || node->domain != kOnnx ||
        node->inputs.size() != 2) {
      return std::nullopt;
    }
    for (const size_t i : {0, 1}) {
      const ValueType& type = graph_.value(node->inputs[i]).type;
      if (type.element != DataType::kFloat32 || !type.dims ||
          !type.dims->empty()) {
        continue;
      }
      const auto factor = builder_.ConstantScalar(builder_.Of(node->inputs[i]));
      if (factor) {
        return std::pair(node->inputs[1 - i], static_cast<float>(*factor));
      }
    }
    return std::nullopt;
  }

  // Whether nobody but products reads the value, so that what makes it is
  // not needed any more when all have taken it in.
  bool OnlyProductsRead(ValueId value) const {
    if (graph_.value(value).is_output) return false;
    for (const NodeId id : consumers_[static_cast<size_t>(value.index)]) {
      const Node& node = graph_.node(id);
      const bool is_product = IsMatMul(node) || (node.op_type == "MatMul" &&
                                                 node.domain == kInternal);
      if (!is_product || node.input(2) == value) return false;
    }
    return true;
  }

  void TakeOperand(Operand& operand, Product& product) {
    for (;;) {
      const Node* producer = ProducerOf(operand.value);
      if (const auto axes = Permutation(producer)) {
        const Axes perm =
            operand.perm.empty() ? *axes : Compose(*axes, operand.perm);
        const auto last = static_cast<int64_t>(perm.size()) - 1;
        const size_t row = perm.size() - 2;
        if (perm[row] != last && perm[row + 1] != last) return;
        operand.perm = perm;
        operand.value = producer->inputs[0];
      } else if (const auto scaling = Scaling(producer);
                 scaling && OnlyProductsRead(operand.value)) {
        operand.value = scaling->first;
        product.alpha *= scaling->second;
      } else {
        return;
      }
      product.changed = true;
    }
  }

  // Exchanging the last two axes is what trans says.
  static void Simplify(Operand& operand) {
    Axes swapped = operand.perm;
    if (swapped.size() < 2) return;
    std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
    if (IsIdentity(operand.perm)) {
      operand.perm.clear();
    } else if (IsIdentity(swapped)) {
      operand.perm.clear();
      operand.trans = !operand.trans;
    }
  }

  // The columns of the product, or -1.
  int64_t ColumnsOf(const Operand& b) const {
    const auto& dims = graph_.value(b.value).type.dims;
    if (!dims || dims->size() < 2) return -1;
    size_t axis = dims->size() - (b.trans ? 2 : 1);
    if (!b.perm.empty()) axis = static_cast<size_t>(b.perm[axis]);
    return (*dims)[axis].value.value_or(-1);
  }

  // Whether the value is there when node `id` runs.
  bool IsThere(ValueId value, NodeId id) const {
    if (!value) return false;
    const NodeId producer = graph_.value(value).producer;
    return !producer || positions_[static_cast<size_t>(producer.index)] <
                            positions_[static_cast<size_t>(id.index)];
  }

  // Along the last axis; before opset 13 an axis stands for all behind it
  // too, which is the same for the last one, but its number must be known.
  bool IsAlongRows(const Node& node, ValueId x) const {
    const int64_t axis = View(node).Int("axis", -1);
    if (axis == -1) return node.FindAttribute("axis") || graph_.opset("") >= 13;
    const auto& dims = graph_.value(x).type.dims;
    return dims && axis == static_cast<int64_t>(dims->size()) - 1;
  }

  bool IsSoftmax(const Node& node, ValueId x) const {
    return node.op_type == "Softmax" && node.domain == kOnnx &&
           IsAlongRows(node, x);
  }

  // Whether the result, `y`, is known to be no vector.
  bool HasRows(ValueId y, const Product& product) const {
    const auto& dims = graph_.value(y).type.dims;
    return (dims && dims->size() >= 2) || product.a.perm.size() > 2 ||
           product.b.perm.size() > 2;
  }

  // Takes in a Softmax of the product, or of its sum with a mask.
  bool TakeSoftmax(NodeId id, NodeId reader, Product& product) {
    const ValueId y = graph_.node(id).outputs[0];
    const Node& node = graph_.node(reader);
    if (IsSoftmax(node, y)) {
      product.then = "Softmax";
      TakeOver(id, reader);
      return true;
    }
    if (node.op_type != "Add" || node.domain != kOnnx ||
        node.inputs.size() != 2 || !HaveOneShape(graph_, y, node.outputs[0])) {
      return false;
    }
    const ValueId mask = node.inputs[node.inputs[0] == y ? 1 : 0];
    const ValueId sum = node.outputs[0];
    const NodeId softmax = OnlyReader(sum);
    if (!softmax || !IsSoftmax(graph_.node(softmax), sum) ||
        !IsThere(mask, id)) {
      return false;
    }
    TakeOver(id, reader);
    TakeOver(id, softmax);
    product.then = "Softmax";
    product.of_rows = mask;
    return true;
  }

  // SoftmaxGrad_13(dY, Y), dY being the product.
  bool TakeSoftmaxGrad(NodeId id, NodeId reader, Product& product) {
    const ValueId dy = graph_.node(id).outputs[0];
    const Node& node = graph_.node(reader);
    if (node.op_type != "SoftmaxGrad_13" || node.domain != kMicrosoft ||
        node.inputs[0] != dy || node.inputs[1] == dy ||
        !IsAlongRows(node, node.inputs[1]) || !IsThere(node.inputs[1], id)) {
      return false;
    }
    product.then = "SoftmaxGrad";
    product.of_rows = node.inputs[1];
    TakeOver(id, reader);
    return true;
  }

  // The bias, if `node` adds one to what the product `id` computes.
  ValueId BiasOf(NodeId id, const Node& node, const Product& product) const {
    const ValueId sum = graph_.node(id).outputs[0];
    if (node.op_type != "Add" || node.domain != kOnnx ||
        node.inputs.size() != 2) {
      return {};
    }
    const ValueId bias = node.inputs[node.inputs[0] == sum ? 1 : 0];
    // It must be there when the product runs.
    if (!IsThere(bias, id)) return {};
    const auto& dims = graph_.value(bias).type.dims;
    if (!dims || dims->size() != 1 || !dims->front().value) return {};
    return *dims->front().value == ColumnsOf(product.b) ? bias : ValueId{};
  }

  // `node` becomes what `reader`, the only reader of its output, computes.
  void TakeOver(NodeId id, NodeId reader) {
    const ValueId old = graph_.node(id).outputs[0];
    const ValueId y = graph_.node(reader).outputs[0];
    graph_.RemoveNode(reader);
    graph_.value(old).producer = {};
    graph_.node(id).outputs[0] = y;
    graph_.value(y).producer = id;
  }

  bool TakeReader(NodeId id, Product& product) {
    const ValueId y = graph_.node(id).outputs[0];
    const NodeId reader = OnlyReader(y);
    if (!reader || !product.then.empty()) return false;
    if (product.perm.empty() && HasRows(y, product) &&
        (TakeSoftmax(id, reader, product) ||
         TakeSoftmaxGrad(id, reader, product))) {
      return product.changed = true;
    }
    const Node& node = graph_.node(reader);
    if (const auto scaling = Scaling(&node);
        scaling && !product.bias && scaling->first == y) {
      product.alpha *= scaling->second;
    } else if (const ValueId bias = BiasOf(id, node, product);
               bias && !product.bias && product.perm.empty()) {
      product.bias = bias;
    } else if (const auto axes = Permutation(&node)) {
      const Axes perm = Compose(product.perm, *axes);
      const auto row = static_cast<int64_t>(perm.size()) - 2;
      if (perm.back() < row) return false;
      // A bias runs along the columns, which must stay innermost.
      if (product.bias && perm.back() == row) return false;
      product.perm = perm;
    } else {
      return false;
    }
    TakeOver(id, reader);
    return product.changed = true;
  }

  void FuseAroundMatMul(NodeId id) {
    Product product;
    {
      const Node& node = graph_.node(id);
      const OpNode view = View(node);
      product.a = {.value = node.inputs[0],
                   .perm = {},
                   .trans = view.Int("transA", 0) != 0};
      product.b = {.value = node.inputs[1],
                   .perm = {},
                   .trans = view.Int("transB", 0) != 0};
      product.alpha = view.Float("alpha", 1.0f);
    }
    for (Operand* operand : {&product.a, &product.b}) {
      TakeOperand(*operand, product);
      Simplify(*operand);
    }
    while (TakeReader(id, product)) {
    }
    if (!product.changed) return;
    Node& node = graph_.node(id);
    node.op_type = "MatMul";
    node.domain = kInternal;
    node.attributes.clear();
    node.inputs = {product.a.value, product.b.value};
    if (product.bias || product.of_rows) node.inputs.push_back(product.bias);
    if (product.of_rows) node.inputs.push_back(product.of_rows);
    if (product.a.trans) node.SetAttribute("transA", int64_t{1});
    if (product.b.trans) node.SetAttribute("transB", int64_t{1});
    if (product.alpha != 1) node.SetAttribute("alpha", product.alpha);
    if (!product.a.perm.empty()) node.SetAttribute("permA", product.a.perm);
    if (!product.b.perm.empty()) node.SetAttribute("permB", product.b.perm);
    if (!product.then.empty()) node.SetAttribute("then", product.then);
    if (!IsIdentity(product.perm)) node.SetAttribute("permY", product.perm);
  }

  static bool IsSwap(const std::optional<Axes>& axes) {
    return axes && *axes == Axes{1, 0};
  }

  void FuseAroundGemm(NodeId id) {
    for (const size_t i : {0, 1}) {
      const char* trans = i == 0 ? "transA" : "transB";
      Node& node = graph_.node(id);
      const Node* producer = ProducerOf(node.inputs[i]);
      if (!IsSwap(Permutation(producer))) continue;
      node.inputs[i] = producer->inputs[0];
      node.SetAttribute(trans, int64_t{View(node).Int(trans, 0) == 0});
    }
    const NodeId reader = OnlyReader(graph_.node(id).outputs[0]);
    if (!reader || !IsSwap(Permutation(&graph_.node(reader)))) return;
    // (A B)' = B' A'
    TakeOver(id, reader);
    Node& node = graph_.node(id);
    const bool trans_a = View(node).Int("transA", 0) != 0;
    const bool trans_b = View(node).Int("transB", 0) != 0;
    std::swap(node.inputs[0], node.inputs[1]);
    node.SetAttribute("transA", int64_t{!trans_b});
    node.SetAttribute("transB", int64_t{!trans_a});
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<size_t> positions_;  // in order(), by node
};

}  // namespace

void FuseMatMul(Graph& graph) { ProductFuser(graph).Run(); }

}  // namespace strop
