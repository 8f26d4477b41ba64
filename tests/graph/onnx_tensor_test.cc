// SPDX-License-Identifier: Apache-2.0
//
// Every encoding of a tensor's elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/onnx_io.h"
#include "graph/proto.h"

namespace strop {
namespace {

using namespace test;
using ::testing::HasSubstr;

Proto TensorOf(DataType type, const std::vector<int64_t>& dims) {
  Proto tensor;
  for (const int64_t dim : dims) tensor.Int(num::kDims, dim);
  return tensor.Int(num::kType, static_cast<int64_t>(type))
      .Bytes(num::kTensorName, "w");
}

Proto ModelWith(const Proto& tensor) {
  return ModelProto(Proto().Message(num::kInitializer, tensor));
}

TensorData Read(const Proto& tensor) {
  const Model model = ReadOnnx(ModelWith(tensor).bytes());
  return *model.graph.value(model.graph.initializers()[0]).initializer;
}

std::string BytesOf(const TensorData& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()),
          tensor.bytes.size()};
}

std::string ErrorOf(const Proto& tensor) {
  try {
    Read(tensor);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidFile) << e.what();
    return e.what();
  }
  return "no error";
}

template <class T>
void ExpectElements(const Proto& tensor, const std::vector<T>& elements) {
  const TensorData data = Read(tensor);
  EXPECT_EQ(BytesOf(data), Proto::AsText(elements));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data.bytes.data()) % alignof(T), 0u);
  EXPECT_EQ(data.view().byte_count(), elements.size() * sizeof(T));
}

TEST(OnnxTensor, RawDataAtAnyAlignment) {
  const std::vector<double> numbers = {1.5, -2, 3e300};
  for (size_t i = 0; i < 8; ++i) {
    Proto tensor = TensorOf(DataType::kFloat64, {3});
    tensor.Bytes(num::kTensorDoc, std::string(i, '.'));
    ExpectElements(tensor.Bytes(num::kRawData, Proto::AsText(numbers)),
                   numbers);
  }
}

TEST(OnnxTensor, FloatAndDoubleData) {
  const std::vector<float> floats = {1.5f, -2, 3e30f};
  const std::vector<double> doubles = {1.5, -2, 3e300};
  ExpectElements(
      TensorOf(DataType::kFloat32, {3}).PackedFixed(num::kFloatData, floats),
      floats);
  ExpectElements(
      TensorOf(DataType::kFloat64, {3}).PackedFixed(num::kDoubleData, doubles),
      doubles);
  Proto one_by_one = TensorOf(DataType::kFloat32, {3});
  for (const float f : floats) one_by_one.Float(num::kFloatData, f);
  ExpectElements(one_by_one, floats);
  Proto wide = TensorOf(DataType::kFloat64, {3});
  for (const double d : doubles) wide.Double(num::kDoubleData, d);
  ExpectElements(wide, doubles);
}

TEST(OnnxTensor, ComplexNumbersAreTwoFloats) {
  const std::vector<float> floats = {1, 2, 3, 4};
  const TensorData data = Read(
      TensorOf(DataType::kComplex64, {2}).PackedFixed(num::kFloatData, floats));
  EXPECT_EQ(BytesOf(data), Proto::AsText(floats));
  const std::vector<double> doubles = {1, 2};
  EXPECT_EQ(BytesOf(Read(TensorOf(DataType::kComplex128, {})
                             .PackedFixed(num::kDoubleData, doubles))),
            Proto::AsText(doubles));
}

template <class T>
void ExpectInt32Data(DataType type, const std::vector<T>& elements) {
  ExpectElements(
      TensorOf(type, {2, 1}).PackedVarints(num::kInt32Data, elements),
      elements);
  Proto one_by_one = TensorOf(type, {2, 1});
  for (const T element : elements) one_by_one.Int(num::kInt32Data, element);
  ExpectElements(one_by_one, elements);
}

TEST(OnnxTensor, Int32DataHoldsSmallTypes) {
  ExpectInt32Data<int32_t>(DataType::kInt32, {-2000000000, 7});
  ExpectInt32Data<int16_t>(DataType::kInt16, {-30000, 7});
  ExpectInt32Data<int8_t>(DataType::kInt8, {-128, 7});
  ExpectInt32Data<uint16_t>(DataType::kUint16, {65535, 7});
  ExpectInt32Data<uint8_t>(DataType::kUint8, {255, 7});
  ExpectInt32Data<uint8_t>(DataType::kBool, {1, 0});
  ExpectInt32Data<uint16_t>(DataType::kFloat16, {0x3c00, 0xc000});
  ExpectInt32Data<uint16_t>(DataType::kBfloat16, {0x3f80, 0xc000});
  ExpectInt32Data<uint8_t>(DataType::kFloat8E4M3FN, {0x7e, 0x80});
}

TEST(OnnxTensor, Int64AndUint64Data) {
  ExpectElements<int64_t>(
      TensorOf(DataType::kInt64, {2})
          .PackedVarints<int64_t>(num::kInt64Data, {INT64_MIN, 5}),
      {INT64_MIN, 5});
  ExpectElements<uint64_t>(
      TensorOf(DataType::kUint64, {2})
          .PackedVarints<uint64_t>(num::kUint64Data, {UINT64_MAX, 5}),
      {UINT64_MAX, 5});
  ExpectElements<uint32_t>(
      TensorOf(DataType::kUint32, {2})
          .PackedVarints<uint64_t>(num::kUint64Data, {UINT32_MAX, 5}),
      {UINT32_MAX, 5});
}

TEST(OnnxTensor, FourBitTypesStayPacked) {
  const TensorData data =
      Read(TensorOf(DataType::kInt4, {3})
               .PackedVarints<int>(num::kInt32Data, {0x21, 0x03}));
  EXPECT_EQ(BytesOf(data), "\x21\x03");
  EXPECT_EQ(
      BytesOf(Read(
          TensorOf(DataType::kUint4, {3}).Bytes(num::kRawData, "\x21\x03"))),
      "\x21\x03");
  EXPECT_THROW(data.view(), Error);
}

TEST(OnnxTensor, ABoolIsZeroOrOne) {
  const TensorData data =
      Read(TensorOf(DataType::kBool, {3})
               .Bytes(num::kRawData, std::string("\x02\x00\xff", 3)));
  EXPECT_EQ(BytesOf(data), std::string("\x01\x00\x01", 3));
}

TEST(OnnxTensor, RankZeroAndNoElements) {
  ExpectElements<float>(TensorOf(DataType::kFloat32, {}).Float(4, 2.5f),
                        {2.5f});
  ExpectElements<float>(TensorOf(DataType::kFloat32, {0, 7}), {});
}

TEST(OnnxTensor, WhatIsNotUnderstoodIsWrittenAsItCame) {
  Proto strings = TensorOf(DataType::kString, {2});
  strings.Bytes(num::kStringData, "a").Bytes(num::kStringData, "");
  Proto future = TensorOf(static_cast<DataType>(77), {5});
  future.Bytes(num::kRawData, "xyz").Bytes(900, "unheard of");
  for (const Proto& tensor : {strings, future}) {
    const std::string written = EncodeOnnx(ReadOnnx(ModelWith(tensor).bytes()));
    EXPECT_NE(written.find(tensor.text()), std::string::npos);
  }
}

TEST(OnnxTensor, AChangedTensorIsWrittenAnew) {
  Model model = ReadOnnx(
      ModelWith(TensorOf(DataType::kInt64, {1}).Int(num::kInt64Data, 3))
          .bytes());
  const ValueId w = model.graph.initializers()[0];
  const int64_t changed[] = {4};
  model.graph.value(w).initializer =
      TensorData::Copy("w", Tensor(Shape{1}, const_cast<int64_t*>(changed)));
  const std::string written = EncodeOnnx(model);
  const Model again = ReadOnnx(std::as_bytes(std::span(written)));
  EXPECT_EQ(again.graph.value(again.graph.Find("w"))
                .initializer->view()
                .values<int64_t>()[0],
            4);
}

TEST(OnnxTensor, BadSizesAreErrorsThatNameTheTensor) {
  const std::string raw(12, '\0');
  const Proto bad[] = {
      TensorOf(DataType::kFloat32, {4}).Bytes(num::kRawData, raw),
      TensorOf(DataType::kFloat32, {2}).Bytes(num::kRawData, raw),
      TensorOf(DataType::kFloat32, {-1}).Bytes(num::kRawData, raw),
      TensorOf(DataType::kFloat32, {-3, 0}).Bytes(num::kRawData, ""),
      TensorOf(DataType::kFloat32, {INT64_MAX, INT64_MAX}),
      TensorOf(DataType::kFloat32, {int64_t{1} << 62, 4}),
      TensorOf(DataType::kFloat32, {int64_t{1} << 60, 0, int64_t{1} << 60}),
      TensorOf(DataType::kFloat64, {int64_t{1} << 61}),
      TensorOf(DataType::kFloat32, {int64_t{1} << 40}),
      TensorOf(DataType::kFloat32, {1}).Int(num::kInt64Data, 1),
      TensorOf(DataType::kInt64, {2}).Int(num::kInt64Data, 1),
      TensorOf(DataType::kFloat32, {1}).Bytes(num::kFloatData, "123"),
      TensorOf(DataType::kInt64, {1}).Bytes(num::kInt64Data, "\xff\xff"),
      TensorOf(DataType::kInt4, {3}).Bytes(num::kRawData, "1"),
      TensorOf(DataType::kString, {2}).Bytes(num::kStringData, "a"),
  };
  for (const Proto& tensor : bad) {
    const std::string text = ErrorOf(tensor);
    EXPECT_THAT(text, HasSubstr("tensor \"w\""))
        << "case " << &tensor - std::begin(bad);
  }
}

TEST(OnnxTensor, ExternalDataNeedAFile) {
  Proto tensor = TensorOf(DataType::kFloat32, {1});
  tensor.Int(num::kLocation, 1)
      .Message(num::kExternal, Proto().Bytes(1, "location").Bytes(2, "w.bin"));
  EXPECT_THAT(ErrorOf(tensor), HasSubstr("read from memory"));
}

}  // namespace
}  // namespace strop
