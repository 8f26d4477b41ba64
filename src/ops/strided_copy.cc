// SPDX-License-Identifier: Apache-2.0
#include "ops/strided_copy.h"

namespace strop::ops {
namespace {

template <size_t size>
struct alignas(size <= 8 ? size : 8) Element {
  std::byte bytes[size];
};

template <class E>
void CopyRow(const E* from, int64_t from_stride, E* to, int64_t to_stride,
             int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(E));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

template <class E>
void CopyRows(const StridedCopy& s, int64_t begin, int64_t end, const E* from,
              E* to) {
  const size_t inner = s.rank - 1;
  int64_t at[StridedCopy::kMaxAxes] = {};
  int64_t rest = begin;
  for (size_t axis = inner; axis-- > 0;) {
    at[axis] = rest % s.dims[axis];
    rest /= s.dims[axis];
    from += at[axis] * s.from_strides[axis];
    to += at[axis] * s.to_strides[axis];
  }
  for (int64_t row = begin; row < end; ++row) {
    CopyRow(from, s.from_strides[inner], to, s.to_strides[inner],
            s.dims[inner]);
    for (size_t axis = inner; axis-- > 0;) {
      from += s.from_strides[axis];
      to += s.to_strides[axis];
      if (++at[axis] < s.dims[axis]) break;
      from -= at[axis] * s.from_strides[axis];
      to -= at[axis] * s.to_strides[axis];
      at[axis] = 0;
    }
  }
}

template <class E>
void Copy(const KernelContext& c, const StridedCopy& s, const Tensor& from,
          const Tensor& to) {
  const E* source = static_cast<const E*>(from.data()) + s.from_offset;
  E* target = static_cast<E*>(to.data()) + s.to_offset;
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < s.rank; ++axis) rows *= s.dims[axis];
  const double cost = 1 + 0.5 * static_cast<double>(s.dims[s.rank - 1]);
  c.ParallelFor(rows, cost, [&](int64_t begin, int64_t end) {
    CopyRows(s, begin, end, source, target);
  });
}

}  // namespace

void StridedCopy::AddAxis(int64_t dim, int64_t from_stride, int64_t to_stride) {
  if (dim == 1) return;
  if (rank > 0 && from_strides[rank - 1] == from_stride * dim &&
      to_strides[rank - 1] == to_stride * dim) {
    dims[rank - 1] *= dim;
    from_strides[rank - 1] = from_stride;
    to_strides[rank - 1] = to_stride;
    return;
  }
  dims[rank] = dim;
  from_strides[rank] = from_stride;
  to_strides[rank] = to_stride;
  ++rank;
}

void StridedCopy::Run(const KernelContext& c, const Tensor& from,
                      const Tensor& to) const {
  StridedCopy walk = *this;
  if (walk.rank == 0) {  // one element
    walk.dims[0] = walk.from_strides[0] = walk.to_strides[0] = 1;
    walk.rank = 1;
  }
  for (size_t axis = 0; axis < walk.rank; ++axis) {
    if (walk.dims[axis] == 0) return;
  }
  switch (DataTypeSize(from.type())) {
    case 1:
      return Copy<Element<1>>(c, walk, from, to);
    case 2:
      return Copy<Element<2>>(c, walk, from, to);
    case 4:
      return Copy<Element<4>>(c, walk, from, to);
    case 8:
      return Copy<Element<8>>(c, walk, from, to);
    case 16:
      return Copy<Element<16>>(c, walk, from, to);
    default:
      c.node().Fail(
          "element type " + DataTypeName(from.type()) + " is not supported",
          ErrorCode::kNotImplemented);
  }
}

}  // namespace strop::ops
