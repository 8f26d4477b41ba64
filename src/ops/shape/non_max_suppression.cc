// SPDX-License-Identifier: Apache-2.0
#include "ops/op_util.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

// boxes (batches, boxes, 4), scores (batches, classes, boxes), most boxes of
// a class, IoU threshold, score threshold
struct Suppression {
  const float* boxes;
  const float* scores;
  int64_t batches, classes, count;
  int64_t most;       // boxes of a class
  float iou;          // overlaps above suppress
  float least_score;  // scores up to here do not count
  bool has_centers;
};

// `tensor(i)` is input i, or null.
template <class F>
Suppression Read(const OpNode& node, F&& tensor) {
  const Tensor& boxes = *tensor(0);
  const Tensor& scores = *tensor(1);
  Suppression s = {};
  s.boxes = boxes.template values<float>().data();
  s.scores = scores.template values<float>().data();
  s.batches = boxes.shape()[0];
  s.count = boxes.shape()[1];
  s.classes = scores.shape()[1];
  s.least_score = -std::numeric_limits<float>::infinity();
  s.has_centers = node.Int("center_point_box", 0) != 0;
  if (tensor(2)) {
    s.most = std::clamp<int64_t>(tensor(2)->template values<int64_t>()[0], 0,
                                 s.count);
  }
  if (tensor(3)) s.iou = tensor(3)->template values<float>()[0];
  if (tensor(4)) s.least_score = tensor(4)->template values<float>()[0];
  if (!(s.iou >= 0 && s.iou <= 1)) {
    Fail(node, "the threshold of overlaps is {}", s.iou);
  }
  return s;
}

struct Rectangle {
  float x1, y1, x2, y2;

  float area() const { return (x2 - x1) * (y2 - y1); }
};

// Two opposite corners (y, x), or center, width and height.
Rectangle ReadBox(const Suppression& s, int64_t index) {
  const float* b = s.boxes + 4 * index;
  if (s.has_centers) {
    return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
  }
  return {std::min(b[1], b[3]), std::min(b[0], b[2]), std::max(b[1], b[3]),
          std::max(b[0], b[2])};
}

// Intersection over union is more than the threshold.
bool Overlap(const Rectangle& a, const Rectangle& b, float threshold) {
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(width > 0 && height > 0)) return false;
  const float both = width * height;
  const float either = a.area() + b.area() - both;
  return a.area() > 0 && b.area() > 0 && either > 0 &&
         both / either > threshold;
}

// Calls select(batch, class, box) for each box that stays. `order` has room
// for all boxes of a batch.
template <class F>
void Suppress(const Suppression& s, int64_t* order, F&& select) {
  for (int64_t i = 0; i < s.batches * s.classes; ++i) {
    const int64_t batch = i / s.classes;
    const float* scores = s.scores + i * s.count;
    int64_t candidates = 0;
    for (int64_t box = 0; box < s.count; ++box) {
      if (scores[box] > s.least_score) order[candidates++] = box;
    }
    std::sort(order, order + candidates, [&](int64_t a, int64_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
    // Those that stay move to the front.
    int64_t kept = 0;
    for (int64_t k = 0; k < candidates && kept < s.most; ++k) {
      const int64_t box = order[k];
      const Rectangle candidate = ReadBox(s, batch * s.count + box);
      bool stays = true;
      for (int64_t j = 0; stays && j < kept; ++j) {
        stays =
            !Overlap(candidate, ReadBox(s, batch * s.count + order[j]), s.iou);
      }
      if (!stays) continue;
      order[kept++] = box;
      select(batch, i % s.classes, box);
    }
  }
}

void InferSuppression(InferContext& c) {
  const OpNode& node = c.node();
  const Shape& boxes = c.input(0).shape;
  const Shape& scores = c.input(1).shape;
  for (const size_t i : {0, 1, 3, 4}) {
    if (c.has_input(i)) RequireType(c, i, DataType::kFloat32);
  }
  if (c.has_input(2)) RequireType(c, 2, DataType::kInt64);
  for (size_t i = 2; i < 5; ++i) {
    if (c.has_input(i)) RequireOneElement(c, i);
  }
  if (boxes.rank() != 3 || boxes[2] != 4 || scores.rank() != 3 ||
      scores[0] != boxes[0] || scores[2] != boxes[1]) {
    Fail(node, "boxes {} and scores {} do not fit", boxes.ToString(),
         scores.ToString());
  }
  const Suppression s = Read(
      node, [&](size_t i) { return c.has_input(i) ? &c.value(i) : nullptr; });
  std::vector<int64_t> order(static_cast<size_t>(s.count));
  int64_t selected = 0;
  Suppress(s, order.data(), [&](int64_t, int64_t, int64_t) { ++selected; });
  c.SetOutput(0, DataType::kInt64, {selected, 3});
}

size_t SuppressionScratch(const KernelRequest& request) {
  return static_cast<size_t>(request.inputs[0].info.shape[1]) * sizeof(int64_t);
}

void RunSuppression(const KernelContext& c) {
  const Suppression s = Read(c.node(), [&](size_t i) {
    return c.has_input(i) ? &c.input(i) : nullptr;
  });
  int64_t* y = c.out<int64_t>(0).data();
  Suppress(s, reinterpret_cast<int64_t*>(c.scratch()),
           [&](int64_t batch, int64_t class_index, int64_t box) {
             *y++ = batch;
             *y++ = class_index;
             *y++ = box;
           });
}

}  // namespace

// Boxes of each class from the best score down, without those that overlap
// one taken before: rows of (batch, class, box).
extern constexpr OpDef kNonMaxSuppression = {
    .name = "NonMaxSuppression",
    .since = 10,
    .inputs = {2, 5},
    .infer = InferSuppression,
    .reference = Instantiate<TypeList<float>>(
        []<class T>(const KernelContext& c) { RunSuppression(c); },
        SuppressionScratch),
    .value_inputs = {0, 1, 2, 3, 4},
    .stops_gradient = {0, 1, 2, 3, 4}};

}  // namespace strop::ops
