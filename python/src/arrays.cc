// SPDX-License-Identifier: Apache-2.0
//
// Arrays in and out: NumPy, and whatever speaks DLPack or the buffer protocol.
#include <bit>

#include "binding.h"

namespace strop::python {
namespace {

using Code = nb::dlpack::dtype_code;

static_assert(std::endian::native == std::endian::little,
              "tensors are little-endian");

DataType TypeOf(const nb::dlpack::dtype& type) {
  if (type.lanes != 1) return DataType::kUndefined;
  const int bits = type.bits;
  switch (static_cast<Code>(type.code)) {
    case Code::Float:
      if (bits == 16) return DataType::kFloat16;
      if (bits == 32) return DataType::kFloat32;
      return bits == 64 ? DataType::kFloat64 : DataType::kUndefined;
    case Code::Bfloat:
      return bits == 16 ? DataType::kBfloat16 : DataType::kUndefined;
    case Code::Bool:
      return bits == 8 ? DataType::kBool : DataType::kUndefined;
    case Code::Int:
      if (bits == 8) return DataType::kInt8;
      if (bits == 16) return DataType::kInt16;
      if (bits == 32) return DataType::kInt32;
      return bits == 64 ? DataType::kInt64 : DataType::kUndefined;
    case Code::UInt:
      if (bits == 8) return DataType::kUint8;
      if (bits == 16) return DataType::kUint16;
      if (bits == 32) return DataType::kUint32;
      return bits == 64 ? DataType::kUint64 : DataType::kUndefined;
    default:
      return DataType::kUndefined;
  }
}

nb::dlpack::dtype CodeOf(DataType type) {
  const auto code = [&](Code c) {
    return nb::dlpack::dtype{static_cast<uint8_t>(c),
                             static_cast<uint8_t>(8 * DataTypeSize(type)), 1};
  };
  switch (type) {
    case DataType::kFloat16:
    case DataType::kFloat32:
    case DataType::kFloat64:
      return code(Code::Float);
    case DataType::kBool:
      return code(Code::Bool);
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
      return code(Code::Int);
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      return code(Code::UInt);
    case DataType::kBfloat16:  // NumPy has no such type: its bits
      return code(Code::UInt);
    default:
      throw Error(ErrorCode::kNotImplemented,
                  DataTypeName(type) + " has no type in NumPy");
  }
}

template <class Array>
bool IsContiguous(const Array& array) {
  int64_t step = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) == 0) return true;
    if (array.shape(i) != 1 && array.stride(i) != step) return false;
    step *= static_cast<int64_t>(array.shape(i));
  }
  return true;
}

template <class Array>
Shape ShapeOf(const Array& array) {
  std::vector<int64_t> dims(array.ndim());
  for (size_t i = 0; i < dims.size(); ++i)
    dims[i] = static_cast<int64_t>(array.shape(i));
  return Shape(dims);
}

// strop._arrays.NAME(object, name): what NumPy does better.
nb::object Prepared(const char* function, nb::handle object,
                    const std::string& name) {
  return nb::module_::import_("strop._arrays").attr(function)(object, name);
}

nb::object ArrayOver(const Tensor& tensor, nb::handle owner) {
  const Shape& shape = tensor.shape();
  std::vector<size_t> dims(shape.begin(), shape.end());
  const nb::ndarray<nb::numpy> array(tensor.data(), dims.size(), dims.data(),
                                     owner, nullptr, CodeOf(tensor.type()));
  nb::object result = nb::cast(array, nb::rv_policy::reference);
  if (tensor.type() == DataType::kBfloat16)
    result = Prepared("from_bfloat16_bits", result, "");
  return result;
}

}  // namespace

ArrayIn::ArrayIn(nb::handle object, const std::string& name) {
  if (!nb::try_cast(object, array_, false) || !IsContiguous(array_) ||
      array_.device_type() != nb::device::cpu::value) {
    keep_ = Prepared("contiguous", object, name);
    array_ = nb::cast<nb::ndarray<nb::ro>>(keep_, false);
  }
  DataType type = TypeOf(array_.dtype());
  if (type == DataType::kUint16 && nb::hasattr(object, "dtype") &&
      std::string(nb::str(object.attr("dtype")).c_str()).find("bfloat16") !=
          std::string::npos)
    type = DataType::kBfloat16;
  tensor_ = Tensor(type, ShapeOf(array_), const_cast<void*>(array_.data()));
}

ArraysIn::ArraysIn(const nb::args& objects,
                   const std::vector<std::string>& names) {
  arrays_.reserve(objects.size());
  tensors_.reserve(objects.size());
  for (size_t i = 0; i < objects.size(); ++i) {
    arrays_.emplace_back(
        objects[i], i < names.size() ? names[i] : "input " + std::to_string(i));
    tensors_.push_back(arrays_.back().tensor());
  }
}

nb::object ToNumpy(OwnedTensor tensor) {
  auto* owned = new OwnedTensor(std::move(tensor));
  const nb::capsule owner(
      owned, [](void* p) noexcept { delete static_cast<OwnedTensor*>(p); });
  return ArrayOver(owned->view(), owner);
}

nb::object CopyToNumpy(const Tensor& tensor) {
  return ToNumpy(OwnedTensor(tensor));
}

nb::object ViewAsNumpy(const Tensor& tensor, nb::handle owner) {
  return ArrayOver(tensor, owner);
}

Tensor TensorToFill(nb::handle object, const std::string& name) {
  nb::ndarray<> array;
  if (!nb::try_cast(object, array, false) || !IsContiguous(array) ||
      array.device_type() != nb::device::cpu::value) {
    throw Error(ErrorCode::kInvalidArgument,
                name +
                    ": an array to be filled must be contiguous, writable "
                    "and in this machine's byte order");
  }
  // The caller's array keeps the memory.
  return Tensor(TypeOf(array.dtype()), ShapeOf(array), array.data());
}

}  // namespace strop::python
