// SPDX-License-Identifier: Apache-2.0
//
// Arrays in and out: NumPy, and whatever speaks DLPack or the buffer protocol.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

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

// A format of the struct module, where it is this machine's form of a number.
DataType TypeOf(const char* format, Py_ssize_t size) {
  if (format == nullptr) return DataType::kUint8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == 0 || format[1] != 0) return DataType::kUndefined;
  const auto of_size = [&](DataType of1, DataType of2, DataType of4,
                           DataType of8) {
    if (size == 1) return of1;
    if (size == 2) return of2;
    return size == 4 ? of4 : size == 8 ? of8 : DataType::kUndefined;
  };
  switch (*format) {
    case '?':
      return DataType::kBool;
    case 'e':
    case 'f':
    case 'd':
      return of_size(DataType::kUndefined, DataType::kFloat16,
                     DataType::kFloat32, DataType::kFloat64);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return of_size(DataType::kInt8, DataType::kInt16, DataType::kInt32,
                     DataType::kInt64);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return of_size(DataType::kUint8, DataType::kUint16, DataType::kUint32,
                     DataType::kUint64);
    default:
      return DataType::kUndefined;
  }
}

bool IsBfloat16(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return false;
  const nb::object type = object.attr("dtype");
  const nb::str text{nb::handle(type)};
  return std::string_view(text.c_str()).find("bfloat16") !=
         std::string_view::npos;
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

// A view of PyTorch that holds its numbers with the other sign. DLPack hands
// them out as they lie in memory.
bool IsNegated(nb::handle object) {
  return nb::hasattr(object, "is_neg") &&
         nb::cast<bool>(object.attr("is_neg")());
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

// The name that numpy.dtype knows, for types that NumPy has.
nb::object NumpyType(DataType type) {
  // Kept for the life of the process.
  static auto* types = new nb::object[32];
  const auto i = static_cast<size_t>(type);
  if (i >= 32) throw Error(ErrorCode::kNotImplemented, DataTypeName(type));
  if (!types[i].is_valid())
    types[i] = nb::module_::import_("numpy").attr("dtype")(DataTypeName(type));
  return types[i];
}

// A new array for a few bytes, which is quicker made than one over memory of
// ours.
nb::object SmallCopy(const Tensor& tensor) {
  static auto* empty =
      new nb::object(nb::module_::import_("numpy").attr("empty"));
  const Shape& shape = tensor.shape();
  const nb::object dims =
      nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.rank())));
  for (size_t i = 0; i < shape.rank(); ++i) {
    PyTuple_SetItem(dims.ptr(), static_cast<Py_ssize_t>(i),
                    PyLong_FromLongLong(shape[i]));
  }
  nb::object array = (*empty)(dims, NumpyType(tensor.type()));
  Py_buffer buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_C_CONTIGUOUS) != 0)
    throw nb::python_error();
  if (tensor.byte_count() > 0)
    std::memcpy(buffer.buf, tensor.data(), tensor.byte_count());
  PyBuffer_Release(&buffer);
  return array;
}

}  // namespace

ArrayIn::ArrayIn(nb::handle object, const std::string& name) {
  if (ReadBuffer(object) || ReadDlpack(object)) return;
  const nb::object array = Prepared("contiguous", object, name);
  if (!ReadBuffer(array) && !ReadDlpack(array)) {
    throw Error(ErrorCode::kTypeMismatch,
                name + ": an array of numbers is wanted");
  }
  // bfloat16 comes as its bits.
  if (tensor_.type() == DataType::kUint16 && IsBfloat16(object))
    tensor_ = Tensor(DataType::kBfloat16, tensor_.shape(), tensor_.data());
}

ArrayIn::ArrayIn(ArrayIn&& other) noexcept
    : buffer_(std::exchange(other.buffer_, {})),
      array_(std::move(other.array_)),
      tensor_(other.tensor_) {}

ArrayIn::~ArrayIn() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
}

// NumPy's own way in, several times faster than DLPack.
bool ArrayIn::ReadBuffer(nb::handle object) {
  if (PyObject_GetBuffer(object.ptr(), &buffer_,
                         PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    buffer_ = {};
    return false;
  }
  const DataType type = TypeOf(buffer_.format, buffer_.itemsize);
  if (type == DataType::kUndefined ||
      static_cast<size_t>(buffer_.ndim) > Shape::kMaxRank) {
    PyBuffer_Release(&buffer_);
    buffer_ = {};
    return false;
  }
  int64_t dims[Shape::kMaxRank];
  std::copy_n(buffer_.shape, buffer_.ndim, dims);
  const Shape shape(std::span(dims, static_cast<size_t>(buffer_.ndim)));
  tensor_ = Tensor(type, shape, buffer_.buf);
  return true;
}

bool ArrayIn::ReadDlpack(nb::handle object) {
  if (!nb::try_cast(object, array_, false) || !IsContiguous(array_) ||
      array_.device_type() != nb::device::cpu::value || IsNegated(object))
    return false;
  const DataType type = TypeOf(array_.dtype());
  if (type == DataType::kUndefined) return false;
  tensor_ = Tensor(type, ShapeOf(array_), const_cast<void*>(array_.data()));
  return true;
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
  constexpr size_t kSmall = 16384;
  if (tensor.view().byte_count() <= kSmall &&
      tensor.type() != DataType::kBfloat16)
    return SmallCopy(tensor);
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
