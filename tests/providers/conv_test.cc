// SPDX-License-Identifier: Apache-2.0
//
// The convolution kernels against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/window.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/layout_runner.h"
#ifdef STROP_WITH_ONEDNN
#include "providers/cpu/onednn/kernels.h"
#endif

namespace strop {
namespace {

using Ints = std::vector<int64_t>;

struct ConvCase {
  Ints x;  // (batch, channels, spatial...)
  int64_t filters;
  Ints kernel;
  Ints stride = {};
  Ints pads = {};
  Ints dilation = {};
  int64_t groups = 1;
  std::string auto_pad = "NOTSET";
  bool onednn = true;  // expected to be served by oneDNN

  std::string Describe() const {
    std::string text =
        "x " + Shape(x).ToString() + " kernel " + Shape(kernel).ToString() +
        " filters " + std::to_string(filters) + " stride " +
        Shape(stride).ToString() + " pads " + Shape(pads).ToString() +
        " dilation " + Shape(dilation).ToString() + " groups " +
        std::to_string(groups) + " " + auto_pad;
    return text;
  }

  void SetAttributes(LayoutRunner& runner) const {
    runner.Set("kernel_shape", kernel).Set("group", groups);
    if (!stride.empty()) runner.Set("strides", stride);
    if (!pads.empty()) runner.Set("pads", pads);
    if (!dilation.empty()) runner.Set("dilations", dilation);
    runner.Set("auto_pad", auto_pad);
  }
  Shape weight_shape() const {
    Ints dims = {filters, x[1] / groups};
    dims.insert(dims.end(), kernel.begin(), kernel.end());
    return Shape(dims);
  }
};

std::vector<ConvCase> Cases() {
  return {
      // LeNet-5
      {{5, 1, 12, 12}, 6, {5, 5}, {}, {2, 2, 2, 2}},
      {{5, 6, 14, 14}, 16, {5, 5}},
      // few channels and filters: rows of a vector and a rest, of several
      // parts, shorter than a vector, without a gap between them
      {{2, 3, 6, 37}, 7, {3, 3}, {}, {1, 1, 1, 1}},
      {{2, 2, 5, 33}, 4, {3, 3}, {2, 1}, {1, 0, 1, 2}, {1, 2}},
      {{2, 5, 7, 40}, 3, {3, 3}, {1, 2}, {1, 1, 1, 1}},
      {{2, 1, 2, 2000}, 6, {1, 5}, {}, {0, 2, 0, 2}},
      {{3, 4, 9, 3}, 1, {2, 2}},
      {{3, 2, 9, 15}, 2, {3, 2}, {1, 3}, {2, 1, 0, 1}},
      {{2, 8, 6, 9}, 6, {1, 1}},
      {{2, 3, 3, 3}, 2, {1, 1}},
      // rows of the kernel that read padding only
      {{2, 6, 4, 20}, 5, {5, 5}, {}, {4, 4, 4, 4}},
      {{2, 1, 4, 18}, 2, {3, 1}, {}, {3, 0, 3, 0}},
      // channels around the block sizes
      {{2, 3, 9, 7}, 8, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{1, 16, 8, 8}, 16, {3, 3}, {}, {1, 1, 1, 1}},
      {{3, 17, 6, 5}, 9, {3, 2}, {}, {1, 0, 0, 1}},
      {{2, 8, 5, 5}, 33, {1, 1}},
      {{2, 24, 6, 6}, 16, {1, 1}, {2, 2}},
      // dilation, asymmetric padding, stride that leaves a rest
      {{2, 16, 11, 10}, 16, {3, 3}, {1, 1}, {2, 1, 0, 3}, {2, 2}},
      {{2, 8, 10, 10}, 8, {3, 3}, {3, 2}, {0, 1, 1, 0}},
      {{2, 8, 7, 7}, 8, {3, 3}, {2, 2}, {}, {}, 1, "SAME_UPPER"},
      {{2, 8, 6, 6}, 8, {3, 3}, {2, 2}, {}, {}, 1, "SAME_LOWER"},
      {{2, 8, 6, 6}, 8, {4, 4}, {}, {}, {}, 1, "VALID"},
      // strides that pass over elements, also with dilation; a wide kernel
      {{2, 16, 9, 8}, 16, {2, 1}, {3, 3}, {1, 0, 1, 0}},
      {{2, 17, 9, 10}, 40, {1, 1}, {2, 3}, {1, 1, 0, 1}},
      {{2, 16, 11, 13}, 16, {3, 3}, {2, 3}, {2, 1, 0, 3}, {2, 2}},
      {{2, 16, 3, 20}, 16, {1, 9}, {1, 2}, {0, 4, 0, 3}},
      // groups
      {{2, 32, 5, 6}, 32, {3, 3}, {}, {1, 1, 1, 1}, {}, 2},
      {{2, 6, 5, 6}, 9, {3, 3}, {}, {1, 1, 1, 1}, {}, 3, "NOTSET", false},
      {{2, 16, 9, 9}, 16, {3, 3}, {}, {1, 1, 1, 1}, {}, 16},
      {{2, 13, 9, 9}, 13, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 13},
      {{1, 9, 7, 8}, 9, {3, 2}, {2, 1}, {2, 1, 0, 3}, {2, 2}, 9, "NOTSET"},
      {{2, 8, 12}, 8, {5}, {2}, {4, 1}, {}, 8},
      {{2, 4, 9, 9}, 12, {3, 3}, {}, {1, 1, 1, 1}, {}, 4, "NOTSET", false},
      // one and three spatial axes
      {{3, 6, 20}, 10, {4}, {2}, {1, 2}},
      {{2, 1, 9}, 4, {3}},
      {{2, 5, 4, 5, 6}, 7, {2, 3, 2}, {1, 2, 1}, {1, 0, 0, 0, 1, 1}},
      {{1, 2, 3, 3, 3, 3}, 3, {2, 2, 2, 2}, {}, {}, {}, 1, "NOTSET", false},
      // more than one tile of im2col
      {{2, 16, 28, 28}, 8, {3, 3}, {}, {1, 1, 1, 1}},
      // padding wider than the window
      {{1, 8, 4, 4}, 8, {2, 2}, {}, {3, 3, 3, 3}, {}, 1, "NOTSET", false},
      // nothing to do
      {{0, 6, 5, 5}, 8, {3, 3}, {}, {}, {}, 1, "NOTSET", false},
  };
}

// Calls fn(x, w, y) offsets for every multiplication of the convolution.
template <class F>
void ForEachProduct(const ConvCase& c, const ops::Window& w, F&& fn) {
  const int64_t group_channels = c.x[1] / c.groups;
  const int64_t group_filters = c.filters / c.groups;
  for (int64_t n = 0; n < c.x[0]; ++n) {
    for (int64_t m = 0; m < c.filters; ++m) {
      for (int64_t ic = 0; ic < group_channels; ++ic) {
        const int64_t channel = m / group_filters * group_channels + ic;
        for (int64_t o = 0; o < w.output_size(); ++o) {
          for (int64_t k = 0; k < w.kernel_size(); ++k) {
            int64_t ro = o, rk = k, at = 0, pitch = 1;
            bool inside = true;
            for (size_t axis = w.rank; axis-- > 0;) {
              const int64_t position = ro % w.output[axis] * w.stride[axis] -
                                       w.pad_begin[axis] +
                                       rk % w.kernel[axis] * w.dilation[axis];
              inside &= position >= 0 && position < w.input[axis];
              ro /= w.output[axis];
              rk /= w.kernel[axis];
              at += position * pitch;
              pitch *= w.input[axis];
            }
            if (!inside) continue;
            fn((n * c.x[1] + channel) * w.input_size() + at,
               (m * group_channels + ic) * w.kernel_size() + k,
               (n * c.filters + m) * w.output_size() + o);
          }
        }
      }
    }
  }
}

// The window, through a node of its own.
ops::Window WindowOf(const ConvCase& c) {
  Graph graph;
  Node node;
  node.op_type = "Conv";
  if (!c.stride.empty()) node.SetAttribute("strides", c.stride);
  if (!c.pads.empty()) node.SetAttribute("pads", c.pads);
  if (!c.dilation.empty()) node.SetAttribute("dilations", c.dilation);
  node.SetAttribute("auto_pad", c.auto_pad);
  return ops::ConvWindow(OpNode(graph, node), Shape(c.x), c.weight_shape());
}

struct ConvData {
  explicit ConvData(const ConvCase& c)
      : window(WindowOf(c)),
        x_shape(c.x),
        w_shape(c.weight_shape()),
        y_shape(ops::WindowOutputShape(window, c.x[0], c.filters)),
        x(RandomFloats(x_shape.element_count(), 1)),
        w(RandomFloats(w_shape.element_count(), 2)),
        bias(RandomFloats(c.filters, 3)),
        dy(RandomFloats(y_shape.element_count(), 4)),
        old_dw(RandomFloats(w_shape.element_count(), 5)),
        old_db(RandomFloats(c.filters, 6)) {
    depth = w_shape.element_count(1, w_shape.rank());
    filter_taps = c.filters * window.kernel_size();
    positions = c.x[0] * window.output_size();
    y.resize(dy.size());
    dx.resize(x.size());
    dw.resize(w.size());
    db.resize(bias.size());
    const int64_t out = window.output_size();
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t m = i / out % c.filters;
      y[i] = bias[m];
      db[m] += dy[i];
    }
    ForEachProduct(c, window, [&](int64_t xi, int64_t wi, int64_t yi) {
      y[yi] += double{x[xi]} * w[wi];
      dx[xi] += double{dy[yi]} * w[wi];
      dw[wi] += double{dy[yi]} * x[xi];
    });
  }

  ops::Window window;
  int64_t depth, filter_taps, positions;  // terms of y, dx, dw
  Shape x_shape, w_shape, y_shape;
  std::vector<float> x, w, bias, dy, old_dw, old_db;
  std::vector<double> y, dx, dw, db;  // what is right
};

// `terms`: products of deviation 1 that make up an element; rounding errors
// grow with it.
void ExpectNear(std::span<const float> got, const std::vector<double>& want,
                int64_t terms, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const double tolerance = 1e-5 + 1e-7 * static_cast<double>(terms);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i])))
        << what << " at " << i;
  }
}

std::vector<double> Sum(const std::vector<double>& a,
                        const std::vector<float>& b) {
  std::vector<double> sum = a;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  return sum;
}

std::vector<float> Nans(const std::vector<float>& like) {
  return std::vector<float>(like.size(), std::nanf(""));
}

using Choose = KernelChoice (*)(const KernelRequest&);
struct Engine {
  const char* name;
  Choose forward, backward;
};

constexpr Engine kEngines[] = {
    {"gemm", ChooseGemmConv, ChooseGemmConvGrad},
    {"direct", ChooseDirectConv, ChooseDirectConvGrad},
    {"depthwise", ChooseDepthwiseConv, ChooseDepthwiseConvGrad},
#ifdef STROP_WITH_ONEDNN
    {"onednn", ChooseOneDnnConv, ChooseOneDnnConvGrad},
#endif
};

constexpr Layout kLayouts[] = {Layout::kPlain, Layout::kBlocked8,
                               Layout::kBlocked16};

// Calls check(case, data, engine, layout of x, threads) for all.
template <class F>
void ForAll(F&& check) {
  for (const ConvCase& c : Cases()) {
    const ConvData data(c);
    for (const Engine& engine : kEngines) {
      for (const Layout layout : kLayouts) {
        // The other layouts make no difference to a kernel that reads plain.
        if (engine.name == std::string("gemm") && layout != Layout::kPlain) {
          continue;
        }
        for (const int threads : {1, 2}) {
          SCOPED_TRACE(std::string(engine.name) + " " + c.Describe() + " " +
                       std::string(LayoutName(layout)) + " threads " +
                       std::to_string(threads));
          check(c, data, engine, layout, threads);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

// Whether the kernel was made, which must be as expected. What oneDNN serves
// beside plain 3x3 and 1x1 convolutions depends on the machine.
bool Accepted(const LayoutRun& run, const ConvCase& c, const Engine& engine) {
  const std::string name = engine.name;
  const bool usual =
      c.x[1] % 16 == 0 && c.filters % 16 == 0 && c.dilation.empty();
  if (name == "onednn" && c.onednn && !usual) return run.accepted;
  bool wanted = true;
  if (name == "onednn") wanted = c.onednn;
  if (name == "direct") {
    wanted = c.groups == 1 && c.kernel.size() < 3 && c.x[0] > 0;
  }
  if (name == "depthwise") {
    wanted = c.groups > 1 && c.groups == c.x[1] && c.groups == c.filters;
  }
  EXPECT_EQ(run.accepted, wanted) << run.reason;
  return run.accepted;
}

// Whatever the machine, some kernel in the list serves every case.
TEST(Conv, EveryCaseIsServed) {
  const auto provider = CpuExecutionProvider();
  for (const ConvCase& c : Cases()) {
    SCOPED_TRACE(c.Describe());
    const ConvData d(c);
    LayoutRunner runner("", "Conv");
    c.SetAttributes(runner);
    runner.Floats(d.x_shape, d.x).Floats(d.w_shape, d.w).Output(d.y_shape);
    static const ExecutionProvider* cpu = nullptr;
    cpu = provider.get();
    const LayoutRun run = runner.Run(
        [](const KernelRequest& request) { return cpu->Choose(request); }, 1);
    ASSERT_TRUE(run.accepted) << run.reason;
    std::vector<double> y = d.y;
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] -= d.bias[i / d.window.output_size() % c.filters];
    }
    ExpectNear(run.out(0), y, d.depth, "y");
  }
}

// The elements that are padding alone are never made: they would not fit.
TEST(Conv, NoKernelPadsImagesBeyondAllSize) {
  constexpr int64_t kFar = int64_t{1} << 31;
  ConvCase c = {
      {1, 8, 1, 1}, 8, {1, 1}, {kFar, kFar}, {kFar, kFar, kFar, kFar}};
  for (const int64_t groups : {1, 8}) {
    c.groups = groups;
    const std::vector<float> w(c.weight_shape().element_count(), 1.0f);
    const std::vector<float> dy(8 * 9, 1.0f);
    for (const Engine& engine : kEngines) {
      SCOPED_TRACE(engine.name);
      LayoutRunner forward("", "Conv");
      c.SetAttributes(forward);
      forward.Floats(Shape(c.x), std::vector<float>(8, 1.0f))
          .Floats(c.weight_shape(), w)
          .Output({1, 8, 3, 3});
      EXPECT_NE(forward.Run(engine.forward, 1).reason, "");
      LayoutRunner backward("com.microsoft", "ConvGrad");
      c.SetAttributes(backward);
      backward.Floats({1, 8, 3, 3}, dy)
          .Floats(Shape(c.x), std::vector<float>(8, 1.0f))
          .Floats(c.weight_shape(), w)
          .Output(Shape(c.x))
          .Output(c.weight_shape())
          .NoOutput();
      EXPECT_NE(backward.Run(engine.backward, 1).reason, "");
    }
  }
}

TEST(Conv, Forward) {
  ForAll([](const ConvCase& c, const ConvData& d, const Engine& engine,
            Layout layout, int threads) {
    LayoutRunner runner("", "Conv");
    c.SetAttributes(runner);
    runner.Floats(d.x_shape, d.x, layout)
        .Floats(d.w_shape, d.w)
        .Floats({c.filters}, d.bias)
        .Output(d.y_shape);
    const LayoutRun run = runner.Run(engine.forward, threads);
    if (Accepted(run, c, engine)) ExpectNear(run.out(0), d.y, d.depth, "y");
  });
}

TEST(Conv, ForwardWithoutBias) {
  ForAll([](const ConvCase& c, const ConvData& d, const Engine& engine,
            Layout layout, int threads) {
    LayoutRunner runner("", "Conv");
    c.SetAttributes(runner);
    runner.Floats(d.x_shape, d.x, layout)
        .Floats(d.w_shape, d.w)
        .Output(d.y_shape);
    const LayoutRun run = runner.Run(engine.forward, threads);
    if (!Accepted(run, c, engine)) return;
    std::vector<double> y = d.y;
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] -= d.bias[i / d.window.output_size() % c.filters];
    }
    ExpectNear(run.out(0), y, d.depth, "y");
  });
}

TEST(Conv, Backward) {
  ForAll([](const ConvCase& c, const ConvData& d, const Engine& engine,
            Layout layout, int threads) {
    LayoutRunner runner("com.microsoft", "ConvGrad");
    c.SetAttributes(runner);
    runner.Floats(d.y_shape, d.dy)
        .Floats(d.x_shape, d.x, layout)
        .Floats(d.w_shape, d.w)
        .Output(d.x_shape)
        .Output(d.w_shape)
        .Output({c.filters});
    const LayoutRun run = runner.Run(engine.backward, threads);
    if (!Accepted(run, c, engine)) return;
    ExpectNear(run.out(0), d.dx, d.filter_taps, "dx");
    ExpectNear(run.out(1), d.dw, d.positions, "dw");
    ExpectNear(run.out(2), d.db, d.positions, "db");
  });
}

// The first layer of a net: no dX, no bias.
TEST(Conv, BackwardOfWeightsOnly) {
  ForAll([](const ConvCase& c, const ConvData& d, const Engine& engine,
            Layout layout, int threads) {
    LayoutRunner runner("com.microsoft", "ConvGrad");
    c.SetAttributes(runner);
    runner.Floats(d.y_shape, d.dy)
        .Floats(d.x_shape, d.x, layout)
        .Floats(d.w_shape, d.w)
        .NoOutput()
        .Output(d.w_shape);
    const LayoutRun run = runner.Run(engine.backward, threads);
    if (Accepted(run, c, engine))
      ExpectNear(run.out(1), d.dw, d.positions, "dw");
  });
}

TEST(Conv, BackwardOfInputOnly) {
  ForAll([](const ConvCase& c, const ConvData& d, const Engine& engine,
            Layout layout, int threads) {
    LayoutRunner runner("com.microsoft", "ConvGrad");
    c.SetAttributes(runner);
    runner.Floats(d.y_shape, d.dy)
        .Floats(d.x_shape, d.x, layout)
        .Floats(d.w_shape, d.w)
        .Output(d.x_shape);
    const LayoutRun run = runner.Run(engine.backward, threads);
    if (Accepted(run, c, engine))
      ExpectNear(run.out(0), d.dx, d.filter_taps, "dx");
  });
}

TEST(Conv, Accumulate) {
  ForAll([](const ConvCase& c, const ConvData& d, const Engine& engine,
            Layout layout, int threads) {
    for (const bool overwrite : {false, true}) {
      SCOPED_TRACE(overwrite ? "overwrite" : "add");
      LayoutRunner runner("strop.internal", "ConvGradAccumulate");
      c.SetAttributes(runner);
      bool flag = overwrite;
      runner.Floats(d.y_shape, d.dy)
          .Floats(d.x_shape, d.x, layout)
          .Floats(d.w_shape, d.w)
          .Floats(d.w_shape, overwrite ? Nans(d.old_dw) : d.old_dw)
          .Floats({c.filters}, overwrite ? Nans(d.old_db) : d.old_db)
          .Input(Tensor(Shape{1}, &flag))
          .Output(d.x_shape)
          .Output(d.w_shape, DataType::kFloat32, /*alias=*/3)
          .Output({c.filters}, DataType::kFloat32, /*alias=*/4);
      const LayoutRun run = runner.Run(engine.backward, threads);
      if (!Accepted(run, c, engine)) return;
      ExpectNear(run.out(0), d.dx, d.filter_taps, "dx");
      ExpectNear(run.out(1), overwrite ? d.dw : Sum(d.dw, d.old_dw),
                 d.positions, "dw");
      ExpectNear(run.out(2), overwrite ? d.db : Sum(d.db, d.old_db),
                 d.positions, "db");
    }
  });
}

}  // namespace
}  // namespace strop
