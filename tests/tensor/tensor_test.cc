// SPDX-License-Identifier: Apache-2.0
#include "strop/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/resident_bytes.h"

namespace strop {
namespace {

template <class F>
void ExpectError(ErrorCode code, const std::string& text, F f) {
  try {
    f();
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
        << error.what();
  }
}

TEST(DataType, HasNameAndSize) {
  EXPECT_EQ(DataTypeName(DataType::kFloat32), "float32");
  EXPECT_EQ(DataTypeName(DataType::kBfloat16), "bfloat16");
  EXPECT_EQ(DataTypeName(DataType::kFloat8E8M0), "float8e8m0");
  EXPECT_EQ(DataTypeName(DataType::kUndefined), "undefined");
  EXPECT_EQ(DataTypeName(static_cast<DataType>(99)), "type 99");
  EXPECT_EQ(DataTypeName(static_cast<DataType>(-1)), "type -1");
  EXPECT_EQ(DataTypeSize(DataType::kFloat32), 4u);
  EXPECT_EQ(DataTypeSize(DataType::kBool), 1u);
  EXPECT_EQ(DataTypeSize(DataType::kComplex128), 16u);
  EXPECT_EQ(DataTypeSize(DataType::kFloat8E5M2FNUZ), 1u);
  EXPECT_EQ(DataTypeSize(DataType::kString), 0u);
  EXPECT_EQ(DataTypeSize(DataType::kInt4), 0u);
  EXPECT_EQ(DataTypeSize(static_cast<DataType>(99)), 0u);
  EXPECT_EQ(DataTypeSize(static_cast<DataType>(-1)), 0u);
}

template <class T>
void ExpectType(DataType type) {
  EXPECT_EQ(DataTypeOf<T>(), type);
  EXPECT_EQ(DataTypeSize(type), sizeof(T));
}

TEST(DataType, OfEachCppTypeHasItsSize) {
  ExpectType<float>(DataType::kFloat32);
  ExpectType<double>(DataType::kFloat64);
  ExpectType<int8_t>(DataType::kInt8);
  ExpectType<uint16_t>(DataType::kUint16);
  ExpectType<int64_t>(DataType::kInt64);
  ExpectType<bool>(DataType::kBool);
  ExpectType<Float16>(DataType::kFloat16);
  ExpectType<Bfloat16>(DataType::kBfloat16);
  EXPECT_EQ(DataTypeOf<const float>(), DataType::kFloat32);
  EXPECT_EQ(DataTypeOf<std::string>(), DataType::kUndefined);
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape().element_count(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).element_count(), 24);
  EXPECT_EQ((Shape{2, 0, 4}).element_count(), 0);
  EXPECT_EQ((Shape{2, 3, 4}).element_count(1, 3), 12);
  EXPECT_EQ((Shape{2, 3, 4}).element_count(3, 3), 1);
}

TEST(Shape, PrintsItself) {
  EXPECT_EQ(Shape().ToString(), "()");
  EXPECT_EQ((Shape{5}).ToString(), "(5)");
  EXPECT_EQ((Shape{32, 784}).ToString(), "(32, 784)");
}

TEST(Shape, ComparesDimensionsAndRank) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE(Shape(), (Shape{1}));
}

TEST(Shape, RefusesWhatItCannotCount) {
  ExpectError(ErrorCode::kInvalidArgument, "(2, -1)", [] { Shape({2, -1}); });
  ExpectError(ErrorCode::kInvalidArgument, "62 bits", [] {
    Shape({int64_t{1} << 31, int64_t{1} << 31});
  });
  ExpectError(ErrorCode::kInvalidArgument, "62 bits",
              [] { Shape({INT64_MAX}); });
  // A zero does not hide an overflow of the other dimensions.
  ExpectError(ErrorCode::kInvalidArgument, "62 bits", [] {
    Shape({0, INT64_MAX, INT64_MAX});
  });
  EXPECT_EQ((Shape{(int64_t{1} << 62) - 1}).element_count(),
            (int64_t{1} << 62) - 1);
  const std::vector<int64_t> ones(13, 1);
  ExpectError(ErrorCode::kInvalidArgument, "at most 12",
              [&] { Shape{std::span<const int64_t>(ones)}; });
}

TEST(Tensor, ViewsMemoryOfItsUser) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const Tensor tensor(Shape{2, 3}, x.data());
  EXPECT_EQ(tensor.type(), DataType::kFloat32);
  EXPECT_EQ(tensor.byte_count(), 24u);
  tensor.values<float>()[5] = 7;
  EXPECT_EQ(x[5], 7);
  EXPECT_EQ(tensor.values<const float>().size(), 6u);
}

TEST(Tensor, RefusesAnotherType) {
  float x = 0;
  const Tensor tensor(Shape{1}, &x);
  ExpectError(ErrorCode::kInvalidArgument, "float32 (1)",
              [&] { tensor.values<int64_t>(); });
  ExpectError(ErrorCode::kInvalidArgument, "int64",
              [&] { tensor.values<int64_t>(); });
}

TEST(OwnedTensor, StartsAlignedAndZero) {
  for (int64_t n : {0, 1, 63, 1000, 1 << 18, 300'001}) {
    const OwnedTensor tensor(DataType::kInt32, Shape{n});
    EXPECT_NE(tensor.view().data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.view().data()) % 64, 0u);
    ASSERT_EQ(tensor.values<int32_t>().size(), static_cast<size_t>(n));
    for (int32_t x : tensor.values<int32_t>()) ASSERT_EQ(x, 0);
  }
}

TEST(OwnedTensor, StartsZeroInMemoryThatWasUsedBefore) {
  for (int64_t n : {1000, 1 << 18, 300'001, 10'000'000}) {
    for (int i = 0; i < 3; ++i) {
      OwnedTensor tensor(DataType::kInt32, Shape{n});
      for (int32_t& x : tensor.values<int32_t>()) {
        ASSERT_EQ(x, 0);
        x = -1;
      }
    }
  }
}

TEST(OwnedTensor, TakesNoMemoryUntilItIsWritten) {
  constexpr int64_t kBytes = 256 << 20;
  const auto before = ResidentBytes();
  if (!before) GTEST_SKIP() << "this system does not tell resident memory";
  const OwnedTensor tensor(DataType::kUint8, Shape{kBytes});
  for (int64_t i = 0; i < kBytes; i += 64) {
    ASSERT_EQ(tensor.values<uint8_t>()[static_cast<size_t>(i)], 0);
  }
  EXPECT_LT(*ResidentBytes(), *before + kBytes / 4);
}

TEST(OwnedTensor, CopiesOnCloneAndNotOnMove) {
  OwnedTensor a(DataType::kFloat32, Shape{2});
  a.values<float>()[1] = 5;
  const OwnedTensor b = a.Clone();
  a.values<float>()[1] = 6;
  EXPECT_EQ(b.values<float>()[1], 5);
  const void* const memory = a.view().data();
  OwnedTensor c = std::move(a);
  EXPECT_EQ(c.view().data(), memory);
  EXPECT_EQ(OwnedTensor().Clone().type(), DataType::kUndefined);
}

TEST(OwnedTensor, CanBeResizedAfterAMove) {
  OwnedTensor a(DataType::kFloat32, Shape{4});
  const OwnedTensor b = std::move(a);
  a.Resize(DataType::kFloat32, Shape{2});
  EXPECT_NE(a.view().data(), b.view().data());
  EXPECT_EQ(a.values<float>()[0], 0);
}

TEST(OwnedTensor, KeepsMemoryThatSuffices) {
  OwnedTensor tensor(DataType::kFloat32, Shape{100});
  const void* const memory = tensor.view().data();
  tensor.values<float>()[0] = 1;
  tensor.Resize(DataType::kFloat32, Shape{5, 2});
  EXPECT_EQ(tensor.view().data(), memory);
  EXPECT_EQ(tensor.values<float>()[0], 1);
  tensor.Resize(DataType::kInt64, Shape{50});
  EXPECT_EQ(tensor.view().data(), memory);
  tensor.Resize(DataType::kInt64, Shape{5000});
  EXPECT_EQ(tensor.values<int64_t>()[0], 0);
}

TEST(OwnedTensor, RefusesMoreThanTheMachineHas) {
  OwnedTensor tensor(DataType::kFloat32, Shape{2});
  const void* const memory = tensor.view().data();
  for (int bits : {45, 60, 61}) {
    ExpectError(ErrorCode::kOutOfMemory, "larger than", [&] {
      tensor.Resize(DataType::kComplex128, Shape{int64_t{1} << bits});
    });
  }
  EXPECT_EQ(tensor.view().data(), memory);  // as before the call
  EXPECT_EQ(tensor.shape(), Shape{2});
}

TEST(OwnedTensor, RefusesTypesWithoutASize) {
  ExpectError(ErrorCode::kNotImplemented, "string (3)",
              [] { OwnedTensor(DataType::kString, Shape{3}); });
  ExpectError(ErrorCode::kNotImplemented, "undefined",
              [] { OwnedTensor(DataType::kUndefined, Shape{3}); });
}

}  // namespace
}  // namespace strop
