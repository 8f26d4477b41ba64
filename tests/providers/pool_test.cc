// SPDX-License-Identifier: Apache-2.0
//
// The pooling kernels against plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/window.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/layout_runner.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;

struct PoolCase {
  Ints x;  // (batch, channels, spatial...)
  Ints kernel;
  Ints stride = {};
  Ints pads = {};
  Ints dilation = {};
  int64_t ceil_mode = 0;
  std::string auto_pad = "NOTSET";

  void SetAttributes(LayoutRunner& runner) const {
    runner.Set("kernel_shape", kernel).Set("ceil_mode", ceil_mode);
    runner.Set("auto_pad", auto_pad);
    if (!stride.empty()) runner.Set("strides", stride);
    if (!pads.empty()) runner.Set("pads", pads);
    if (!dilation.empty()) runner.Set("dilations", dilation);
  }
};

const std::vector<PoolCase>& Cases() {
  static const std::vector<PoolCase> cases = {
      {{2, 6, 8, 8}, {2, 2}, {2, 2}},
      {{1, 1, 7, 9}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{5, 16, 5, 5}, {3, 2}},
      // rows of vectors, with and without windows that padding cuts
      {{2, 3, 9, 33}, {2, 2}, {2, 2}},
      {{2, 3, 9, 36}, {2, 3}, {1, 2}, {1, 1, 1, 1}},
      {{2, 3, 5, 21}, {3, 3}, {1, 1}, {1, 2, 2, 1}},
      {{1, 2, 4, 11}, {2, 2}, {2, 2}, {0, 0, 0, 1}, {1, 2}},
      {{1, 2, 4, 20}, {2, 1}, {2, 2}},
      {{2, 17, 7, 6}, {3, 3}, {2, 3}, {0, 1, 2, 1}},
      {{2, 3, 7, 7}, {2, 2}, {2, 2}, {}, {}, 1},
      {{2, 9, 8, 8}, {2, 2}, {1, 1}, {}, {3, 2}},
      {{2, 8, 7, 7}, {3, 3}, {2, 2}, {}, {}, 0, "SAME_UPPER"},
      {{2, 8, 6, 6}, {3, 3}, {2, 2}, {}, {}, 0, "SAME_LOWER"},
      {{3, 5, 11}, {3}, {2}, {1, 0}},
      {{2, 10, 4, 5, 6}, {2, 2, 3}, {2, 1, 2}, {0, 0, 1, 0, 1, 1}},
      // dilated and padded: some windows hold no cell
      {{1, 6, 3, 3}, {2, 2}, {1, 1}, {4, 4, 4, 4}, {5, 5}},
      {{0, 6, 8, 8}, {2, 2}, {2, 2}},
  };
  return cases;
}

ops::Window WindowOf(const PoolCase& c) {
  Graph graph;
  Node node;
  node.op_type = "MaxPool";
  node.SetAttribute("kernel_shape", c.kernel);
  node.SetAttribute("ceil_mode", c.ceil_mode);
  node.SetAttribute("auto_pad", c.auto_pad);
  if (!c.stride.empty()) node.SetAttribute("strides", c.stride);
  if (!c.pads.empty()) node.SetAttribute("pads", c.pads);
  if (!c.dilation.empty()) node.SetAttribute("dilations", c.dilation);
  return ops::PoolWindow(OpNode(graph, node), Shape(c.x));
}

struct Cell {
  int64_t position;         // in the plane
  bool inside, in_padding;  // neither: beyond the padded input (ceil_mode)
};

// The cells of output o's window in order.
std::vector<Cell> CellsOf(const ops::Window& w, int64_t o) {
  std::vector<Cell> cells;
  for (int64_t k = 0; k < w.kernel_size(); ++k) {
    Cell cell = {0, true, true};
    int64_t ro = o, rk = k, pitch = 1;
    for (size_t axis = w.rank; axis-- > 0;) {
      const int64_t at = ro % w.output[axis] * w.stride[axis] -
                         w.pad_begin[axis] +
                         rk % w.kernel[axis] * w.dilation[axis];
      ro /= w.output[axis];
      rk /= w.kernel[axis];
      cell.inside &= at >= 0 && at < w.input[axis];
      cell.in_padding &= at < w.input[axis] + w.pad_end[axis];
      cell.position += at * pitch;
      pitch *= w.input[axis];
    }
    cells.push_back(cell);
  }
  return cells;
}

constexpr Layout kLayouts[] = {Layout::kPlain, Layout::kBlocked8,
                               Layout::kBlocked16};

template <class F>
void ForAll(F&& check) {
  for (const PoolCase& c : Cases()) {
    for (const Layout layout : kLayouts) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE("x " + Shape(c.x).ToString() + " kernel " +
                     Shape(c.kernel).ToString() + " " +
                     std::string(LayoutName(layout)) + " threads " +
                     std::to_string(threads));
        check(c, layout, threads);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

struct MaxPoolResult {
  std::vector<float> y;
  std::vector<int64_t> indices;
};

MaxPoolResult ReferenceMaxPool(const PoolCase& c, const std::vector<float>& x) {
  const ops::Window w = WindowOf(c);
  MaxPoolResult result;
  for (int64_t plane = 0; plane < c.x[0] * c.x[1]; ++plane) {
    for (int64_t o = 0; o < w.output_size(); ++o) {
      float best = -std::numeric_limits<float>::infinity();
      int64_t index = -1;
      for (const Cell& cell : CellsOf(w, o)) {
        if (!cell.inside) continue;
        const int64_t at = plane * w.input_size() + cell.position;
        if (index < 0 || x[at] > best || std::isnan(x[at])) {
          best = x[at];
          index = at;
        }
      }
      result.y.push_back(best);
      result.indices.push_back(index);
    }
  }
  return result;
}

// Small whole numbers: many ties.
std::vector<float> Ties(int64_t count) {
  std::vector<float> values = RandomFloats(count, 1);
  for (float& value : values) value = std::round(value);
  return values;
}

TEST(MaxPool, ValuesAndIndices) {
  ForAll([](const PoolCase& c, Layout layout, int threads) {
    const Shape shape(c.x);
    const std::vector<float> x = Ties(shape.element_count());
    const MaxPoolResult want = ReferenceMaxPool(c, x);
    const Shape y_shape = ops::WindowOutputShape(WindowOf(c), c.x[0], c.x[1]);
    LayoutRunner runner("", "MaxPool");
    c.SetAttributes(runner);
    runner.Floats(shape, x, layout)
        .Output(y_shape)
        .Output(y_shape, DataType::kInt64);
    const LayoutRun run = runner.Run(ChooseMaxPool, threads);
    ASSERT_TRUE(run.accepted) << run.reason;
    for (size_t i = 0; i < want.y.size(); ++i) {
      ASSERT_EQ(run.out(0)[i], want.y[i]) << i;
      ASSERT_EQ(run.out<int64_t>(1)[i], want.indices[i]) << i;
    }
  });
}

TEST(MaxPool, WithoutIndices) {
  ForAll([](const PoolCase& c, Layout layout, int threads) {
    const Shape shape(c.x);
    const std::vector<float> x = Ties(shape.element_count());
    const MaxPoolResult want = ReferenceMaxPool(c, x);
    LayoutRunner runner("", "MaxPool");
    c.SetAttributes(runner);
    runner.Floats(shape, x, layout)
        .Output(ops::WindowOutputShape(WindowOf(c), c.x[0], c.x[1]));
    const LayoutRun run = runner.Run(ChooseMaxPool, threads);
    ASSERT_TRUE(run.accepted) << run.reason;
    for (size_t i = 0; i < want.y.size(); ++i) {
      ASSERT_EQ(run.out(0)[i], want.y[i]) << i;
    }
  });
}

TEST(MaxPool, StaysBlocked) {
  LayoutRunner runner("", "MaxPool");
  Cases()[0].SetAttributes(runner);
  runner.Floats({2, 6, 8, 8}, RandomFloats(768, 1), Layout::kBlocked8)
      .Output({2, 6, 4, 4})
      .Output({2, 6, 4, 4}, DataType::kInt64);
  const LayoutRun run = runner.Run(ChooseMaxPool, 1);
  EXPECT_EQ(run.layouts[0], Layout::kBlocked8);
  EXPECT_EQ(run.layouts[1], Layout::kBlocked8);
}

TEST(MaxPool, ShowsNan) {
  for (const Layout layout : kLayouts) {
    std::vector<float> x = {1, 2, std::nanf(""), 3};
    LayoutRunner runner("", "MaxPool");
    runner.Set("kernel_shape", Ints{2, 2});
    runner.Floats({1, 1, 2, 2}, x, layout)
        .Output({1, 1, 1, 1})
        .Output({1, 1, 1, 1}, DataType::kInt64);
    const LayoutRun run = runner.Run(ChooseMaxPool, 1);
    EXPECT_TRUE(std::isnan(run.out(0)[0]));
    EXPECT_EQ(run.out<int64_t>(1)[0], 2);
  }
}

TEST(MaxPoolGrad, AddsToWhereTheMaximumWas) {
  ForAll([](const PoolCase& c, Layout layout, int threads) {
    const Shape shape(c.x);
    const std::vector<float> x = Ties(shape.element_count());
    MaxPoolResult forward = ReferenceMaxPool(c, x);
    const Shape y_shape = ops::WindowOutputShape(WindowOf(c), c.x[0], c.x[1]);
    const std::vector<float> dy = RandomFloats(y_shape.element_count(), 2);
    std::vector<double> want(x.size());
    for (size_t i = 0; i < dy.size(); ++i) {
      if (forward.indices[i] >= 0) want[forward.indices[i]] += dy[i];
    }
    LayoutRunner runner("strop.internal", "MaxPoolGrad");
    c.SetAttributes(runner);
    runner.Floats(y_shape, dy)
        .Input(Tensor(y_shape, forward.indices.data()), layout)
        .Floats(shape, x, layout)
        .Output(shape);
    const LayoutRun run = runner.Run(ChooseMaxPoolGrad, threads);
    ASSERT_TRUE(run.accepted) << run.reason;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(run.out(0)[i], want[i], 1e-5) << i;
    }
  });
}

TEST(MaxPoolGrad, RefusesAnIndexOutsideOfItsPlane) {
  std::vector<int64_t> indices = {3, 9};
  LayoutRunner runner("strop.internal", "MaxPoolGrad");
  runner.Set("kernel_shape", Ints{2, 2});
  runner.Floats({1, 2, 1, 1}, {1, 1})
      .Input(Tensor(Shape{1, 2, 1, 1}, indices.data()))
      .Floats({1, 2, 2, 2}, std::vector<float>(8))
      .Output({1, 2, 2, 2});
  EXPECT_THROW(runner.Run(ChooseMaxPoolGrad, 1), Error);
}

TEST(AveragePool, ForwardAndBackward) {
  ForAll([](const PoolCase& c, Layout layout, int threads) {
    for (const bool include_pad : {false, true}) {
      const ops::Window w = WindowOf(c);
      const Shape shape(c.x);
      const Shape y_shape = ops::WindowOutputShape(w, c.x[0], c.x[1]);
      const std::vector<float> x = RandomFloats(shape.element_count(), 1);
      const std::vector<float> dy = RandomFloats(y_shape.element_count(), 2);
      std::vector<double> y(dy.size()), dx(x.size());
      for (size_t i = 0; i < y.size(); ++i) {
        const int64_t base =
            static_cast<int64_t>(i) / w.output_size() * w.input_size();
        const std::vector<Cell> cells =
            CellsOf(w, static_cast<int64_t>(i) % w.output_size());
        int64_t count = 0;
        for (const Cell& cell : cells) {
          count += include_pad ? cell.in_padding : cell.inside;
        }
        for (const Cell& cell : cells) {
          if (!cell.inside) continue;
          y[i] += double{x[base + cell.position]} / count;
          dx[base + cell.position] += double{dy[i]} / count;
        }
      }
      LayoutRunner forward("", "AveragePool");
      c.SetAttributes(forward);
      forward.Set("count_include_pad", int64_t{include_pad});
      forward.Floats(shape, x, layout).Output(y_shape);
      const LayoutRun up = forward.Run(ChooseAveragePool, threads);
      ASSERT_TRUE(up.accepted) << up.reason;
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(up.out(0)[i], y[i], 1e-5) << i;
      }
      LayoutRunner backward("strop.internal", "AveragePoolGrad");
      c.SetAttributes(backward);
      backward.Set("count_include_pad", int64_t{include_pad});
      backward.Floats(y_shape, dy, layout).Floats(shape, x).Output(shape);
      const LayoutRun down = backward.Run(ChooseAveragePoolGrad, threads);
      ASSERT_TRUE(down.accepted) << down.reason;
      for (size_t i = 0; i < dx.size(); ++i) {
        ASSERT_NEAR(down.out(0)[i], dx[i], 1e-5) << i;
      }
    }
  });
}

TEST(GlobalAveragePool, AllLayouts) {
  for (const Shape& shape : {Shape{2, 6, 5, 7}, Shape{1, 17, 40, 40},
                             Shape{3, 8, 9}, Shape{2, 3, 2, 2, 2}}) {
    const std::vector<float> x = RandomFloats(shape.element_count(), 1);
    const int64_t positions = shape.element_count(2, shape.rank());
    std::vector<int64_t> dims(shape.rank(), 1);
    dims[0] = shape[0];
    dims[1] = shape[1];
    for (const Layout layout : kLayouts) {
      for (const int threads : {1, 2}) {
        LayoutRunner runner("", "GlobalAveragePool");
        runner.Floats(shape, x, layout).Output(Shape(dims));
        const LayoutRun run = runner.Run(ChooseGlobalAveragePool, threads);
        ASSERT_TRUE(run.accepted) << run.reason;
        for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
          double sum = 0;
          for (int64_t s = 0; s < positions; ++s) {
            sum += x[i * positions + s];
          }
          ASSERT_NEAR(run.out(0)[i], sum / positions, 1e-6) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strop
