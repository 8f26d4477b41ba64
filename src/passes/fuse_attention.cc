// SPDX-License-Identifier: Apache-2.0
//
// The products of attention become one node in the forward and one in the
// backward pass (ops/fused/attention.h), so that the matrix P between them
// need not exist:
//
//   P = softmax(alpha Q K' + mask)     Y = P V
//   dV = P' dY     dS = SoftmaxGrad(dY V', P)     dQ = alpha dS K
//   dK = alpha dS' Q
//
// FuseMatMul has made internal MatMuls of them before, which hold the softmax,
// the mask, the factors and the orders of axes. Gradients that nobody wants
// may be missing. The gradients must lie as Q, K and V do.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/passes.h"
#include "strop/op.h"

namespace strop {
namespace {

// In the forward pass alone, fewer rows than this are faster as products that
// pack nothing.
constexpr int64_t kFewRows = 16;

Axes Swapped(Axes axes) {
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return axes;
}

// A tensor as a stack of matrices: its axis axes[i] is axis i of the stack.
struct View {
  ValueId value;
  Axes axes;

  bool operator==(const View&) const = default;
  View Transposed() const { return {value, Swapped(axes)}; }
  bool HasWholeRows() const {
    return axes.back() == static_cast<int64_t>(axes.size()) - 1;
  }
};

// Y = alpha A B, and what follows.
struct Product {
  NodeId node;
  View a, b, y;
  float alpha = 1;
  std::string then;
  ValueId of_rows;

  // Y' = B' A'
  Product Transposed() const {
    Product p = *this;
    p.a = b.Transposed();
    p.b = a.Transposed();
    p.y = y.Transposed();
    return p;
  }
};

bool AreClose(float a, float b) {
  return std::abs(a - b) <= 1e-6f * std::abs(b);
}

struct Attention {
  Product scores, y;
  std::optional<Product> ds, dq, dk, dv;

  View q() const { return scores.a; }
  View k() const { return scores.b.Transposed(); }
  View v() const { return y.b; }
  bool HasGradient() const { return ds || dv; }
  View dy() const { return ds ? ds->a : dv->b; }
};

class AttentionFuser {
 public:
  explicit AttentionFuser(Graph& graph)
      : graph_(graph), consumers_(graph.Consumers()) {}

  void Run() {
    const std::vector<NodeId> order(graph_.order().begin(),
                                    graph_.order().end());
    place_ = PlacesInOrder(graph_);
    written_ = FindWritten(graph_);
    for (const NodeId id : order) {
      if (graph_.node(id).removed) continue;
      const auto scores = ReadProduct(id);
      if (!scores || scores->then != "Softmax") continue;
      const auto attention = Match(*scores);
      if (attention) Fuse(*attention);
    }
  }

 private:
  std::optional<size_t> RankOf(ValueId value, const Axes& perm) const {
    if (!perm.empty()) return perm.size();
    const auto& dims = graph_.value(value).type.dims;
    return dims ? std::optional(dims->size()) : std::nullopt;
  }

  // The attribute's axes, or all in order; empty where the rank is unknown or
  // the value has no matrices.
  Axes AxesOf(const OpNode& node, ValueId value, const char* name) const {
    const auto perm = node.Ints(name);
    Axes axes(perm.begin(), perm.end());
    const auto rank = RankOf(value, axes);
    if (!rank || *rank < 2) return {};
    for (size_t i = axes.size(); i < *rank; ++i) {
      axes.push_back(static_cast<int64_t>(i));
    }
    return axes;
  }

  static bool IsProduct(const Node& node) {
    if (node.op_type == "FusedMatMul" && node.domain == kMicrosoft) {
      return !node.FindAttribute("transBatchA") &&
             !node.FindAttribute("transBatchB");
    }
    return node.op_type == "MatMul" &&
           (node.domain == kOnnx || node.domain == kInternal);
  }

  // Nullopt if the node is no product, or has a bias.
  std::optional<Product> ReadProduct(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!IsProduct(node) || node.input(2)) return std::nullopt;
    const OpNode view(graph_, node);
    Product p;
    p.node = id;
    p.a = {node.inputs[0], AxesOf(view, node.inputs[0], "permA")};
    p.b = {node.inputs[1], AxesOf(view, node.inputs[1], "permB")};
    const size_t rank = p.a.axes.size();
    if (rank == 0 || p.b.axes.size() != rank) return std::nullopt;
    if (view.Int("transA", 0) != 0) p.a = p.a.Transposed();
    if (view.Int("transB", 0) != 0) p.b = p.b.Transposed();
    // permY names the axis of the product for each axis of the tensor.
    const auto perm = view.Ints("permY");
    p.y = {node.outputs[0], Axes(rank)};
    for (size_t i = 0; i < rank; ++i) {
      const size_t axis = perm.empty() ? i : static_cast<size_t>(perm[i]);
      p.y.axes[axis] = static_cast<int64_t>(i);
    }
    p.alpha = view.Float("alpha", 1);
    p.then = view.String("then", "");
    p.of_rows = node.input(3);
    return p;
  }

  // The product with `value`, or its transpose, on the left.
  std::optional<Product> ReadWithLeft(NodeId id, ValueId value) const {
    const auto product = ReadProduct(id);
    if (!product || !product->then.empty()) return std::nullopt;
    if (product->a.value == product->b.value) return std::nullopt;
    if (product->a.value == value) return product;
    return product->Transposed();
  }

  // Sorts the readers of `value` into products with it on the left and
  // products with its transpose there. False if one is neither, or there is
  // more than one of a kind.
  bool ReadReaders(ValueId value, std::optional<Product>& plain,
                   std::optional<Product>& transposed) const {
    for (const NodeId id : consumers_[static_cast<size_t>(value.index)]) {
      if (IsSoftmaxGradOf(id, value)) continue;
      const auto product = ReadWithLeft(id, value);
      if (!product || product->a.value != value) return false;
      const bool is_plain = IsIdentity(product->a.axes);
      if (!is_plain && !IsIdentity(Swapped(product->a.axes))) return false;
      auto& place = is_plain ? plain : transposed;
      if (place) return false;
      place = product;
    }
    return !graph_.value(value).is_output;
  }

  bool IsSoftmaxGradOf(NodeId id, ValueId p) const {
    const auto product = ReadProduct(id);
    return product && product->then == "SoftmaxGrad" && product->of_rows == p &&
           product->a.value != p && product->b.value != p;
  }

  std::optional<Attention> Match(const Product& scores) const {
    const ValueId p = scores.y.value;
    Attention found{
        .scores = scores, .y = {}, .ds = {}, .dq = {}, .dk = {}, .dv = {}};
    std::optional<Product> y;
    if (!ReadReaders(p, y, found.dv) || !y || y->alpha != 1) {
      return std::nullopt;
    }
    found.y = *y;
    for (const NodeId id : consumers_[static_cast<size_t>(p.index)]) {
      if (!IsSoftmaxGradOf(id, p)) continue;
      if (found.ds) return std::nullopt;
      found.ds = ReadProduct(id);
    }
    if (found.ds && !ReadReaders(found.ds->y.value, found.dq, found.dk)) {
      return std::nullopt;
    }
    return FitsForward(found) && FitsBackward(found) ? std::optional(found)
                                                     : std::nullopt;
  }

  // Both nodes read what the products read, but later: it must not change.
  bool IsWritten(const Attention& found) const {
    const ValueId inputs[] = {found.q().value, found.k().value, found.v().value,
                              found.scores.of_rows};
    return std::ranges::any_of(inputs, [&](ValueId input) {
      return input && written_[static_cast<size_t>(input.index)];
    });
  }

  // Its rows are read as they lie.
  bool FitsMask(ValueId mask) const {
    if (!mask) return true;
    const auto& dims = graph_.value(mask).type.dims;
    return dims && !dims->empty() && dims->back().value != 1;
  }

  bool FitsForward(const Attention& found) const {
    const View q = found.q();
    const bool whole = q.HasWholeRows() && found.k().HasWholeRows() &&
                       found.v().HasWholeRows() && found.y.y.HasWholeRows();
    if (!whole || q.axes.size() != found.v().axes.size() || IsWritten(found) ||
        !FitsMask(found.scores.of_rows)) {
      return false;
    }
    if (found.HasGradient()) return true;
    const auto& dims = graph_.value(q.value).type.dims;
    if (!dims) return false;
    const auto row_axis = static_cast<size_t>(q.axes[q.axes.size() - 2]);
    return (*dims)[row_axis].value.value_or(0) >= kFewRows;
  }

  // Whether the product, if it is there, multiplies by `b` and lies as `of`.
  static bool IsGradient(const std::optional<Product>& product, const View& b,
                         const View& of, float alpha) {
    return !product || (product->b == b && product->y.axes == of.axes &&
                        AreClose(product->alpha, alpha));
  }

  bool FitsBackward(const Attention& found) const {
    if (!found.HasGradient()) return true;
    const View q = found.q(), k = found.k(), v = found.v(), dy = found.dy();
    if (dy.axes != found.y.y.axes || !AreThere(found)) return false;
    if (!found.ds) {
      // P' X may be any product: only the shape tells that X is dY.
      return HaveOneShape(graph_, dy.value, found.y.y.value) &&
             IsGradient(found.dv, dy, v, 1);
    }
    const float alpha = found.scores.alpha;
    return found.ds->b == v.Transposed() && found.ds->alpha == 1 &&
           (found.dq || found.dk) && IsGradient(found.dq, k, q, alpha) &&
           IsGradient(found.dk, q, k, alpha) && IsGradient(found.dv, dy, v, 1);
  }

  // The first of the nodes that AttentionGrad stands for, where it will be.
  NodeId FirstOfGradient(const Attention& found) const {
    if (!found.ds) return found.dv->node;
    if (!found.dv) return found.ds->node;
    return std::min(found.ds->node, found.dv->node,
                    [&](NodeId a, NodeId b) { return Place(a) < Place(b); });
  }

  // Whether what it reads is there then.
  bool AreThere(const Attention& found) const {
    const size_t place = Place(FirstOfGradient(found));
    const ValueId inputs[] = {found.dy().value, found.q().value,
                              found.k().value, found.v().value,
                              found.scores.of_rows};
    return std::ranges::all_of(inputs, [&](ValueId input) {
      const NodeId producer = input ? graph_.value(input).producer : NodeId{};
      return !producer || Place(producer) < place;
    });
  }

  void Fuse(const Attention& found) {
    std::vector<ValueId> inputs = {found.q().value, found.k().value,
                                   found.v().value};
    if (found.scores.of_rows) inputs.push_back(found.scores.of_rows);
    if (found.HasGradient()) MakeGradient(found, inputs);
    graph_.RemoveNode(found.scores.node);
    Describe(found, found.y.node, "Attention", inputs);
  }

  void MakeGradient(const Attention& found, std::vector<ValueId> inputs) {
    const NodeId first = FirstOfGradient(found);
    inputs.insert(inputs.begin(), found.dy().value);
    std::vector<ValueId> outputs;
    for (const auto* gradient : {&found.dq, &found.dk, &found.dv}) {
      outputs.push_back(*gradient ? (*gradient)->y.value : ValueId{});
    }
    for (const auto* gradient : {&found.ds, &found.dq, &found.dk, &found.dv}) {
      if (*gradient && (*gradient)->node != first) {
        graph_.RemoveNode((*gradient)->node);
      }
    }
    for (const ValueId output : graph_.node(first).outputs) {
      graph_.value(output).producer = {};
    }
    graph_.node(first).outputs = outputs;
    for (const ValueId output : outputs) {
      if (output) graph_.value(output).producer = first;
    }
    Describe(found, first, "AttentionGrad", inputs);
  }

  size_t Place(NodeId id) const {
    return place_[static_cast<size_t>(id.index)];
  }

  void Describe(const Attention& found, NodeId id, const char* op_type,
                const std::vector<ValueId>& inputs) {
    Node& node = graph_.node(id);
    node.op_type = op_type;
    node.domain = kInternal;
    node.attributes.clear();
    node.inputs = inputs;
    node.SetAttribute("alpha", found.scores.alpha);
    node.SetAttribute("permQ", found.q().axes);
    node.SetAttribute("permK", found.k().axes);
    node.SetAttribute("permV", found.v().axes);
    node.SetAttribute("permY", found.y.y.axes);
  }

  Graph& graph_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<size_t> place_;  // in order(), by node
  std::vector<bool> written_;  // by value
};

}  // namespace

void FuseAttention(Graph& graph) {
  // FuseMatMul leaves nodes that nobody needs any more, but that read.
  RemoveDead(graph);
  AttentionFuser(graph).Run();
}

}  // namespace strop
