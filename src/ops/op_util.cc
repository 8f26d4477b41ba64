// SPDX-License-Identifier: Apache-2.0
#include "ops/op_util.h"

#include "ops/number.h"

namespace strop::ops {

void RequireType(const InferContext& c, size_t i, DataType type) {
  if (c.input(i).type != type) {
    Fail(c.node(), "input {} must be {}, not {}", i, DataTypeName(type),
         DataTypeName(c.input(i).type));
  }
}

void RequireFloat(const InferContext& c, size_t i) {
  const DataType type = c.input(i).type;
  if (!IsFloatingPoint(type)) {
    Fail(c.node(), "input {} must be of a floating-point type, not {}", i,
         DataTypeName(type));
  }
}

void RequireSameType(const InferContext& c, size_t i, size_t j) {
  if (c.input(i).type != c.input(j).type) {
    Fail(c.node(), "inputs {} and {} have different element types: {} and {}",
         i, j, DataTypeName(c.input(i).type), DataTypeName(c.input(j).type));
  }
}

DataType AtLeastFloat32(DataType type) {
  return IsHalf(type) ? DataType::kFloat32 : type;
}

void RequireSame(const InferContext& c, size_t i, size_t j) {
  RequireSameType(c, i, j);
  if (c.input(i).shape != c.input(j).shape) {
    Fail(c.node(), "inputs {} and {} have different shapes: {} and {}", i, j,
         c.input(i).shape.ToString(), c.input(j).shape.ToString());
  }
}

void RequireShape(const InferContext& c, size_t i, const Shape& shape) {
  if (c.input(i).shape != shape) {
    Fail(c.node(), "input {} must have the shape {}, not {}", i,
         shape.ToString(), c.input(i).shape.ToString());
  }
}

void RequireIndices(const InferContext& c, size_t i) {
  if (!IsIndexType(c.input(i).type)) {
    Fail(c.node(), "input {} must be int64 or int32, not {}", i,
         DataTypeName(c.input(i).type));
  }
}

void RequireOneElement(const InferContext& c, size_t i) {
  if (c.input(i).shape.element_count() != 1) {
    Fail(c.node(), "input {} must have one element, not the shape {}", i,
         c.input(i).shape.ToString());
  }
}

void SameAsInput(InferContext& c) {
  c.SetOutput(0, c.input(0).type, c.input(0).shape);
}

void SameAsInputs(InferContext& c) {
  for (size_t i = 1; i < c.input_count(); ++i) RequireSame(c, 0, i);
  SameAsInput(c);
}

namespace {

Shape BroadcastAll(InferContext& c) {
  Shape shape = c.input(0).shape;
  for (size_t i = 1; i < c.input_count(); ++i) {
    RequireSameType(c, 0, i);
    shape = BroadcastShapes(c.node(), shape, c.input(i).shape);
  }
  return shape;
}

}  // namespace

void BroadcastInputs(InferContext& c) {
  c.SetOutput(0, c.input(0).type, BroadcastAll(c));
}

void BroadcastInputsToBool(InferContext& c) {
  c.SetOutput(0, DataType::kBool, BroadcastAll(c));
}

void SetListLikeInput(InferContext& c, size_t output, size_t input) {
  const auto list = c.list(input);
  c.SetListOutput(output, {list.begin(), list.end()});
}

size_t NormalizeAxis(const OpNode& node, int64_t axis, size_t rank) {
  const int64_t n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) {
    Fail(node, "axis {} is out of range for rank {}", axis, rank);
  }
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

AxisSet NormalizeAxes(const OpNode& node, std::span<const int64_t> axes,
                      size_t rank) {
  AxisSet set;
  for (const int64_t axis : axes) {
    const size_t a = NormalizeAxis(node, axis, rank);
    if (set[a]) Fail(node, "axis {} is named twice", axis);
    set.set(a);
  }
  return set;
}

Shape BroadcastShapes(const OpNode& node, const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.rank(), b.rank());
  Dims dims = {};
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.rank() < rank ? 1 : a[i + a.rank() - rank];
    const int64_t y = i + b.rank() < rank ? 1 : b[i + b.rank() - rank];
    if (x != y && x != 1 && y != 1) {
      Fail(node, "shapes {} and {} do not broadcast", a.ToString(),
           b.ToString());
    }
    dims[i] = x == 1 ? y : x;
  }
  return Shape(std::span<const int64_t>(dims.data(), rank));
}

void RequireBroadcastTo(const OpNode& node, std::string_view what,
                        const Shape& shape, const Shape& target) {
  const size_t lead = target.rank() - shape.rank();
  bool fits = shape.rank() <= target.rank();
  for (size_t i = 0; fits && i < shape.rank(); ++i) {
    fits = shape[i] == 1 || shape[i] == target[lead + i];
  }
  if (!fits) {
    Fail(node, "{} of shape {} does not broadcast to {}", what,
         shape.ToString(), target.ToString());
  }
}

Dims Strides(const Shape& shape) {
  Dims strides = {};
  int64_t stride = 1;
  for (size_t i = shape.rank(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

Dims BroadcastStrides(const Shape& shape, const Shape& target) {
  const Dims own = Strides(shape);
  const size_t lead = target.rank() - shape.rank();
  Dims strides = {};
  for (size_t i = 0; i < shape.rank(); ++i) {
    strides[lead + i] = shape[i] == 1 ? 0 : own[i];
  }
  return strides;
}

bool IsIndexType(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32;
}

int64_t IndexAt(const Tensor& tensor, size_t i) {
  return tensor.type() == DataType::kInt32 ? tensor.values<int32_t>()[i]
                                           : tensor.values<int64_t>()[i];
}

SmallInts ReadSmallInts(const OpNode& node, const Tensor& tensor) {
  if (tensor.element_count() > static_cast<int64_t>(Shape::kMaxRank)) {
    Fail(node, "{} axes are more than Strop's limit of {}",
         tensor.element_count(), Shape::kMaxRank);
  }
  SmallInts ints;
  ints.size = static_cast<size_t>(tensor.element_count());
  for (size_t i = 0; i < ints.size; ++i) ints.values[i] = IndexAt(tensor, i);
  return ints;
}

bool FlagInput(const KernelContext& c, size_t i, bool fallback) {
  return c.has_input(i) ? c.scalar<bool>(i) : fallback;
}

double ScalarAsDouble(const OpNode& node, const Tensor& tensor) {
  double result = 0;
  const bool known = DispatchType(AllTypes{}, tensor.type(), [&]<class T>() {
    result = ToDouble(tensor.values<T>()[0]);
  });
  if (!known) {
    Fail(node, "a number of type {} is not supported",
         DataTypeName(tensor.type()));
  }
  return result;
}

void CopyBytes(const Tensor& from, const Tensor& to) {
  if (from.data() == to.data() || to.byte_count() == 0) return;
  std::memmove(to.data(), from.data(), to.byte_count());
}

void CopyInput(const KernelContext& c) { CopyBytes(c.input(0), c.output(0)); }

void FillZero(const Tensor& tensor) {
  if (tensor.byte_count() != 0) {
    std::memset(tensor.data(), 0, tensor.byte_count());
  }
}

}  // namespace strop::ops
