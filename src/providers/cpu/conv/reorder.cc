// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/reorder.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/round.h"
#include "base/throw.h"
#include "providers/cpu/simd/transpose.h"

namespace strop {
namespace {

// The tensor as (batch, channels, positions).
struct Extents {
  int64_t batch, channels, positions;
};

Extents ExtentsOf(const Shape& shape) {
  return {shape[0], shape[1], shape.element_count(2, shape.rank())};
}

int64_t BlockCount(int64_t channels, int64_t block) {
  return CeilDiv(channels, block);
}

// target[j][i] = source[i][j] for `rows` rows and `columns` columns.
template <class T>
void TransposeElements(const T* source, int64_t source_stride, int64_t rows,
                       int64_t columns, T* target, int64_t target_stride) {
  if constexpr (sizeof(T) == sizeof(float)) {
    TransposeMatrix(reinterpret_cast<const float*>(source), source_stride, rows,
                    columns, reinterpret_cast<float*>(target), target_stride);
  } else {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        target[j * target_stride + i] = source[i * source_stride + j];
      }
    }
  }
}

// target[s][c] = source[c][s], zero for c >= channels.
template <class T, int kBlock>
void PackBlock(const T* source, int64_t positions, int64_t channels,
               T* target) {
  if (channels < kBlock) {
    std::memset(target, 0, sizeof(T) * kBlock * static_cast<size_t>(positions));
  }
  TransposeElements(source, positions, channels, positions, target, kBlock);
}

// target[c][s] = source[s][c] for c < channels.
template <class T, int kBlock>
void UnpackBlock(const T* source, int64_t positions, int64_t channels,
                 T* target) {
  TransposeElements(source, kBlock, positions, channels, target, positions);
}

// Runs body(image, block) over the blocks of all images.
template <class F>
void ForEachBlock(const KernelContext& context, const Extents& e, int64_t block,
                  F&& body) {
  const int64_t blocks = BlockCount(e.channels, block);
  const double cost = 0.5 * static_cast<double>(block * e.positions);
  context.ParallelFor(e.batch * blocks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(i / blocks, i % blocks);
    }
  });
}

template <class T, int kBlock>
void Pack(const KernelContext& context, const Extents& e, const T* source,
          T* target) {
  const int64_t blocks = BlockCount(e.channels, kBlock);
  ForEachBlock(context, e, kBlock, [&](int64_t n, int64_t b) {
    PackBlock<T, kBlock>(source + (n * e.channels + b * kBlock) * e.positions,
                         e.positions,
                         std::min<int64_t>(kBlock, e.channels - b * kBlock),
                         target + (n * blocks + b) * e.positions * kBlock);
  });
}

template <class T, int kBlock>
void Unpack(const KernelContext& context, const Extents& e, const T* source,
            T* target) {
  const int64_t blocks = BlockCount(e.channels, kBlock);
  ForEachBlock(context, e, kBlock, [&](int64_t n, int64_t b) {
    UnpackBlock<T, kBlock>(
        source + (n * blocks + b) * e.positions * kBlock, e.positions,
        std::min<int64_t>(kBlock, e.channels - b * kBlock),
        target + (n * e.channels + b * kBlock) * e.positions);
  });
}

// Between block sizes: a target block takes its lanes in runs of the smaller
// size from one or more source blocks.
template <class T, int kFrom, int kTo>
void Reblock(const KernelContext& context, const Extents& e, const T* source,
             T* target) {
  constexpr int kRun = std::min(kFrom, kTo);
  const int64_t from_blocks = BlockCount(e.channels, kFrom);
  const int64_t to_blocks = BlockCount(e.channels, kTo);
  ForEachBlock(context, e, kTo, [&](int64_t n, int64_t b) {
    T* to = target + (n * to_blocks + b) * e.positions * kTo;
    for (int64_t c = b * kTo; c < (b + 1) * kTo; c += kRun, to += kRun) {
      // Lanes beyond the last channel of the source are zero by contract;
      // whole runs beyond it do not exist there.
      const int64_t real = std::clamp<int64_t>(e.channels - c, 0, kRun);
      const T* from = source +
                      (n * from_blocks + c / kFrom) * e.positions * kFrom +
                      c % kFrom;
      for (int64_t s = 0; s < e.positions; ++s) {
        for (int64_t lane = 0; lane < real; ++lane) {
          to[s * kTo + lane] = from[s * kFrom + lane];
        }
        for (int64_t lane = real; lane < kRun; ++lane) to[s * kTo + lane] = 0;
      }
    }
  });
}

template <class T>
void ReorderElements(const KernelContext& context, const Extents& e,
                     Layout from, const void* source, Layout to, void* target) {
  const T* x = static_cast<const T*>(source);
  T* y = static_cast<T*>(target);
  if (from == Layout::kPlain) {
    return to == Layout::kBlocked8 ? Pack<T, 8>(context, e, x, y)
                                   : Pack<T, 16>(context, e, x, y);
  }
  if (to == Layout::kPlain) {
    return from == Layout::kBlocked8 ? Unpack<T, 8>(context, e, x, y)
                                     : Unpack<T, 16>(context, e, x, y);
  }
  return from == Layout::kBlocked8 ? Reblock<T, 8, 16>(context, e, x, y)
                                   : Reblock<T, 16, 8>(context, e, x, y);
}

class ReorderKernel final : public Kernel {
 public:
  ReorderKernel(const TensorInfo& info, Layout from, Layout to)
      : info_(info), from_(from), to_(to) {}

  void Run(const KernelContext& context) override {
    Reorder(context, info_.shape, DataTypeSize(info_.type), from_,
            context.input(0).data(), to_, context.output(0).data());
  }

 private:
  TensorInfo info_;
  Layout from_, to_;
};

}  // namespace

void Reorder(const KernelContext& context, const Shape& shape,
             size_t element_size, Layout from, const void* source, Layout to,
             void* target) {
  if (shape.element_count() == 0) return;
  if (from == to) {
    std::memcpy(
        target, source,
        static_cast<size_t>(StoredElementCount(shape, to)) * element_size);
    return;
  }
  const Extents e = ExtentsOf(shape);
  switch (element_size) {
    case 1:
      return ReorderElements<uint8_t>(context, e, from, source, to, target);
    case 2:
      return ReorderElements<uint16_t>(context, e, from, source, to, target);
    case 4:
      return ReorderElements<uint32_t>(context, e, from, source, to, target);
    case 8:
      return ReorderElements<uint64_t>(context, e, from, source, to, target);
    default:
      STROP_CHECK(element_size == 8);
  }
}

KernelChoice ChooseReorder(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  const int64_t layout = request.node.Int("layout");
  if (layout < 0 || layout > static_cast<int64_t>(Layout::kBlocked16)) {
    return KernelChoice::Decline("no such layout");
  }
  if (x.info.shape.rank() < 2) {
    return KernelChoice::Decline("rank below 2");
  }
  if (DataTypeSize(x.info.type) == 0) {
    return KernelChoice::Decline(DataTypeName(x.info.type));
  }
  const Layout to = static_cast<Layout>(layout);
  KernelChoice choice;
  choice.kernel = std::make_unique<ReorderKernel>(x.info, x.layout, to);
  choice.input_layouts = {x.layout};
  choice.output_layouts = {to};
  return choice;
}

}  // namespace strop
