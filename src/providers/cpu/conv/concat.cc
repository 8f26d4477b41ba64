// SPDX-License-Identifier: Apache-2.0
//
// Concat and Split by copies of whole runs, in plain layout, and along the
// channels of blocked tensors whose parts fill their blocks.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/round.h"
#include "providers/cpu/conv/kernels.h"

namespace strop {
namespace {

struct Part {
  size_t offset = 0;  // bytes in a run of the whole
  size_t bytes = 0;   // of its own run
};

// The tensor that is cut: `outer` runs, each made of one run of every part.
struct Cut {
  Layout layout = Layout::kPlain;
  int64_t outer = 1;
  size_t whole_bytes = 0;  // of a run
  std::vector<Part> parts;
};

// Copies the runs of all parts: from them into the whole, or out of it.
class CutKernel final : public Kernel {
 public:
  CutKernel(Cut cut, bool joins, bool tells_sizes, std::vector<int64_t> sizes)
      : cut_(std::move(cut)),
        joins_(joins),
        tells_sizes_(tells_sizes),
        sizes_(std::move(sizes)) {}

  void Run(const KernelContext& context) override {
    const int64_t count = static_cast<int64_t>(cut_.parts.size());
    const double cost = 0.1 * static_cast<double>(cut_.whole_bytes) /
                        static_cast<double>(count);
    context.ParallelFor(
        cut_.outer * count, cost, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            CopyRun(context, i / count, static_cast<size_t>(i % count));
          }
        });
    if (tells_sizes_ && context.has_output(1)) {
      const auto sizes = context.out<int64_t>(1);
      std::copy(sizes_.begin(), sizes_.end(), sizes.begin());
    }
  }

 private:
  void CopyRun(const KernelContext& context, int64_t outer, size_t i) const {
    const Part& part = cut_.parts[i];
    if (part.bytes == 0) return;
    const auto at = static_cast<size_t>(outer);
    const size_t in_whole = at * cut_.whole_bytes + part.offset;
    const size_t in_part = at * part.bytes;
    if (joins_) {
      std::memcpy(Bytes(context.output(0)) + in_whole,
                  Bytes(context.input(i)) + in_part, part.bytes);
    } else {
      std::memcpy(Bytes(context.output(i)) + in_part,
                  Bytes(context.input(0)) + in_whole, part.bytes);
    }
  }

  static std::byte* Bytes(const Tensor& tensor) {
    return static_cast<std::byte*>(tensor.data());
  }

  Cut cut_;
  bool joins_, tells_sizes_;
  std::vector<int64_t> sizes_;
};

// The blocks of `layout`, if parts with these channels begin at blocks.
Layout CommonLayout(Layout layout, size_t axis,
                    const std::vector<int64_t>& sizes) {
  if (axis != 1) return Layout::kPlain;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (sizes[i] % BlockSize(layout) != 0) return Layout::kPlain;
  }
  return layout;
}

Cut MakeCut(const TensorInfo& whole, size_t axis, Layout layout,
            const std::vector<int64_t>& sizes) {
  const Shape& shape = whole.shape;
  const size_t inner =
      static_cast<size_t>(shape.element_count(axis + 1, shape.rank())) *
      DataTypeSize(whole.type);
  Cut cut;
  cut.layout = layout;
  cut.outer = shape.element_count(0, axis);
  for (const int64_t size : sizes) {
    const size_t bytes =
        static_cast<size_t>(RoundUp(size, BlockSize(layout))) * inner;
    cut.parts.push_back({.offset = cut.whole_bytes, .bytes = bytes});
    cut.whole_bytes += bytes;
  }
  return cut;
}

std::optional<size_t> AxisOf(const KernelRequest& request, size_t rank) {
  int64_t axis = request.node.Int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(axis);
}

}  // namespace

KernelChoice ChooseConcat(const KernelRequest& request) {
  const TensorInfo& whole = request.outputs[0];
  const auto axis = AxisOf(request, whole.shape.rank());
  if (!axis || DataTypeSize(whole.type) == 0) {
    return KernelChoice::Decline(DataTypeName(whole.type));
  }
  std::vector<int64_t> sizes;
  Layout layout = Layout::kPlain;
  for (const KernelInput& input : request.inputs) {
    sizes.push_back(input.info.shape[*axis]);
    if (layout == Layout::kPlain) layout = input.layout;
  }
  layout = CommonLayout(layout, *axis, sizes);
  KernelChoice choice;
  choice.kernel = std::make_unique<CutKernel>(
      MakeCut(whole, *axis, layout, sizes), /*joins=*/true,
      request.op.name == "ConcatTraining", sizes);
  choice.input_layouts.assign(sizes.size(), layout);
  choice.output_layouts = {layout, Layout::kPlain};
  return choice;
}

KernelChoice ChooseSplit(const KernelRequest& request) {
  const KernelInput& whole = request.inputs[0];
  const auto axis = AxisOf(request, whole.info.shape.rank());
  if (!axis || DataTypeSize(whole.info.type) == 0) {
    return KernelChoice::Decline(DataTypeName(whole.info.type));
  }
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    if (!request.has_output(i)) return KernelChoice::Decline("a part unused");
    sizes.push_back(request.outputs[i].shape[*axis]);
  }
  const Layout layout = CommonLayout(whole.layout, *axis, sizes);
  KernelChoice choice;
  choice.kernel = std::make_unique<CutKernel>(
      MakeCut(whole.info, *axis, layout, sizes), /*joins=*/false,
      /*tells_sizes=*/false, sizes);
  choice.input_layouts = {layout, Layout::kPlain};
  choice.output_layouts.assign(sizes.size(), layout);
  return choice;
}

}  // namespace strop
