// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/axis.h"
#include "ops/number.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

// -1, 0 or 1. NaN is one number, above all others.
template <class T>
int Compare(const void* data, int64_t i, int64_t j) {
  const T* x = static_cast<const T*>(data);
  if constexpr (std::is_integral_v<T>) {
    return x[i] < x[j] ? -1 : x[i] > x[j];
  } else {
    const double a = ToDouble(x[i]), b = ToDouble(x[j]);
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) - std::isnan(b);
    return a < b ? -1 : a > b;
  }
}

class ItemOrder {
 public:
  ItemOrder(const OpNode& node, const Tensor& x)
      : data_(x.data()), items_(ReadAxisOrAll(node, x.shape())) {
    DispatchType(AllTypes{}, x.type(),
                 [&]<class T>() { compare_ = Compare<T>; });
    if (compare_ == nullptr) {
      Fail(node, ErrorCode::kNotImplemented, "element type {} is not supported",
           DataTypeName(x.type()));
    }
  }

  int operator()(int64_t i, int64_t j) const {
    for (int64_t outer = 0; outer < items_.outer; ++outer) {
      for (int64_t inner = 0; inner < items_.inner; ++inner) {
        const int64_t line = outer * items_.size;
        const int result = compare_(data_, (line + i) * items_.inner + inner,
                                    (line + j) * items_.inner + inner);
        if (result != 0) return result;
      }
    }
    return 0;
  }

  const AxisSizes& items() const { return items_; }

 private:
  const void* data_;
  AxisSizes items_;  // all elements, or the slices along an axis
  int (*compare_)(const void*, int64_t, int64_t) = nullptr;
};

// Sorts the items, equal ones by their positions.
void SortItems(const ItemOrder& compare, int64_t* order) {
  const int64_t count = compare.items().size;
  for (int64_t i = 0; i < count; ++i) order[i] = i;
  std::sort(order, order + count, [&](int64_t i, int64_t j) {
    const int result = compare(i, j);
    return result != 0 ? result < 0 : i < j;
  });
}

// Items without elements cost no file a byte, but an index each.
constexpr int64_t kMostEmptyItems = int64_t{1} << 24;

// x -> distinct items; where each is found first; which of them each item
// is; how often each occurs.
void InferUnique(InferContext& c) {
  const OpNode& node = c.node();
  const Tensor& x = c.value(0);
  const ItemOrder compare(node, x);
  const int64_t count = compare.items().size;
  if (x.element_count() == 0 && count > kMostEmptyItems) {
    Fail(node, "{} items without elements are too many", count);
  }
  std::vector<int64_t> order(static_cast<size_t>(count));
  SortItems(compare, order.data());
  int64_t distinct = count > 0;
  for (size_t i = 1; i < order.size(); ++i) {
    distinct += compare(order[i - 1], order[i]) != 0;
  }
  std::vector<int64_t> dims = {distinct};
  if (node.Has("axis")) {
    dims.assign(x.shape().begin(), x.shape().end());
    dims[NormalizeAxis(node, node.Int("axis"), x.shape().rank())] = distinct;
  }
  c.SetOutput(0, x.type(), Shape(dims));
  c.SetOutput(1, DataType::kInt64, {distinct});
  c.SetOutput(2, DataType::kInt64, {count});
  c.SetOutput(3, DataType::kInt64, {distinct});
}

// Four numbers for each item.
size_t UniqueScratch(const KernelRequest& request) {
  const AxisSizes items =
      ReadAxisOrAll(request.node, request.inputs[0].info.shape);
  return static_cast<size_t>(items.size) * 4 * sizeof(int64_t);
}

// Groups of equal items, in the order in which the op gives them.
struct Groups {
  int64_t count = 0;
  int64_t* firsts;   // by group: its first item
  int64_t* counts;   // by group
  int64_t* inverse;  // by item: its group
};

Groups FindGroups(const ItemOrder& compare, bool sorted, int64_t* scratch) {
  const int64_t count = compare.items().size;
  int64_t* order = scratch;
  Groups g = {.firsts = scratch + count,
              .counts = scratch + 2 * count,
              .inverse = scratch + 3 * count};
  SortItems(compare, order);
  for (int64_t i = 0; i < count; ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) {
      g.firsts[g.count] = order[i];
      g.counts[g.count++] = 0;
    }
    g.inverse[order[i]] = g.count - 1;
    ++g.counts[g.count - 1];
  }
  if (sorted) return g;
  // By where they are found first; `order` is free again.
  std::sort(g.firsts, g.firsts + g.count);
  int64_t* counts = order;
  for (int64_t k = 0; k < g.count; ++k) {
    counts[k] = g.counts[g.inverse[g.firsts[k]]];
  }
  int64_t* place = g.counts;  // by old group: the new one
  for (int64_t k = 0; k < g.count; ++k) place[g.inverse[g.firsts[k]]] = k;
  for (int64_t i = 0; i < count; ++i) g.inverse[i] = place[g.inverse[i]];
  g.counts = counts;
  return g;
}

void Unique(const KernelContext& c) {
  const ItemOrder compare(c.node(), c.input(0));
  const AxisSizes& items = compare.items();
  const Groups g = FindGroups(compare, c.node().Int("sorted", 1) != 0,
                              reinterpret_cast<int64_t*>(c.scratch()));
  const size_t block =
      static_cast<size_t>(items.inner) * DataTypeSize(c.input(0).type());
  const auto* from = static_cast<const std::byte*>(c.input(0).data());
  auto* to = static_cast<std::byte*>(c.output(0).data());
  for (int64_t outer = 0; block > 0 && outer < items.outer; ++outer) {
    for (int64_t k = 0; k < g.count; ++k, to += block) {
      std::memcpy(to, from + (outer * items.size + g.firsts[k]) * block, block);
    }
  }
  const auto give = [&](size_t output, const int64_t* values) {
    if (!c.has_output(output)) return;
    const auto y = c.out<int64_t>(output);
    std::copy_n(values, y.size(), y.begin());
  };
  give(1, g.firsts);
  give(2, g.inverse);
  give(3, g.counts);
}

}  // namespace

extern constexpr OpDef kUnique = {
    .name = "Unique",
    .since = 11,
    .outputs = {1, 4},
    .infer = InferUnique,
    .reference = {.run = Unique,
                  .supports =
                      [](DataType type) {
                        return DispatchType(AllTypes{}, type, []<class T>() {});
                      },
                  .scratch_bytes = UniqueScratch},
    .value_inputs = {0},
    .stops_gradient = {0}};

}  // namespace strop::ops
