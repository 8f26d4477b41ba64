// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <cmath>
#include <cstring>

#include "data/arrays.h"
#include "tools/support.h"

namespace strop::data {
namespace {

using namespace std::string_literals;

std::string Npy(std::string_view header, std::string_view elements) {
  std::string text(header);
  text += '\n';
  std::string file = "\x93NUMPY\x01\x00"s;
  file += static_cast<char>(text.size() & 0xff);
  file += static_cast<char>(text.size() >> 8);
  return file + text + std::string(elements);
}

std::string Npy(std::string_view type, std::string_view order,
                std::string_view shape, std::string_view elements) {
  return Npy("{'descr': '" + std::string(type) +
                 "', 'fortran_order': " + std::string(order) +
                 ", 'shape': " + std::string(shape) + ", }",
             elements);
}

std::string Idx(char type, std::vector<uint32_t> dims,
                std::string_view elements) {
  std::string file = {'\0', '\0', type, static_cast<char>(dims.size())};
  for (uint32_t dim : dims) {
    for (int shift : {24, 16, 8, 0}) file += static_cast<char>(dim >> shift);
  }
  return file + std::string(elements);
}

// window_bits as zlib has them: 31 makes gzip, -15 bare deflate data.
std::string Deflate(std::string_view text, int window_bits) {
  z_stream z = {};
  EXPECT_EQ(Z_OK, deflateInit2(&z, 9, Z_DEFLATED, window_bits, 8,
                               Z_DEFAULT_STRATEGY));
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(Z_STREAM_END, deflate(&z, Z_FINISH));
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

OwnedTensor ReadNpyText(std::string_view file) {
  return ReadNpy(Bytes(file), "x.npy");
}

TEST(Npy, ReadsEveryElementType) {
  struct Case {
    const char* code;
    DataType type;
    size_t size;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"|b1", DataType::kBool, 1},
                                   {"|i1", DataType::kInt8, 1},
                                   {"<i2", DataType::kInt16, 2},
                                   {"<i4", DataType::kInt32, 4},
                                   {"<i8", DataType::kInt64, 8},
                                   {"|u1", DataType::kUint8, 1},
                                   {"<u2", DataType::kUint16, 2},
                                   {"<u4", DataType::kUint32, 4},
                                   {"<u8", DataType::kUint64, 8},
                                   {"<f2", DataType::kFloat16, 2},
                                   {"<f4", DataType::kFloat32, 4},
                                   {"<f8", DataType::kFloat64, 8},
                                   {"<c8", DataType::kComplex64, 8},
                                   {"<c16", DataType::kComplex128, 16}}) {
    std::string elements(3 * c.size, '\0');
    for (size_t i = 0; i < elements.size(); ++i) {
      elements[i] = c.type == DataType::kBool ? i % 2 : i + 1;
    }
    OwnedTensor x = ReadNpyText(Npy(c.code, "False", "(3,)", elements));
    EXPECT_EQ(x.type(), c.type) << c.code;
    EXPECT_EQ(x.shape(), Shape{3});
    EXPECT_EQ(0,
              std::memcmp(x.view().data(), elements.data(), elements.size()));
  }
}

TEST(Npy, ConvertsBigEndian) {
  OwnedTensor x = ReadNpyText(
      Npy(">i4", "False", "(2,)", "\x00\x00\x01\x02\xff\xff\xff\xfe"s));
  EXPECT_EQ(Values<int32_t>(x), (std::vector<int32_t>{0x102, -2}));
  OwnedTensor y =
      ReadNpyText(Npy(">f8", "False", "()", "\x3f\xf8\0\0\0\0\0\0"s));
  EXPECT_EQ(y.shape().rank(), 0u);
  EXPECT_EQ(y.values<double>()[0], 1.5);
}

TEST(Npy, TransposesFortranOrder) {
  // numpy.asfortranarray(numpy.arange(6, dtype='u1').reshape(2, 3))
  OwnedTensor x =
      ReadNpyText(Npy("|u1", "True", "(2, 3)", "\x00\x03\x01\x04\x02\x05"s));
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(Values<uint8_t>(x), (std::vector<uint8_t>{0, 1, 2, 3, 4, 5}));
  // The same of arange(8).reshape(2, 2, 2).
  OwnedTensor y = ReadNpyText(
      Npy("|u1", "True", "(2, 2, 2)", "\x00\x04\x02\x06\x01\x05\x03\x07"s));
  EXPECT_EQ(Values<uint8_t>(y), (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Npy, ReadsVersionsTwoAndThree) {
  for (char version : {'\x02', '\x03'}) {
    std::string header =
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n";
    std::string file = "\x93NUMPY"s + version + '\0' +
                       static_cast<char>(header.size()) + "\0\0\0"s + header +
                       "\x07\x08";
    EXPECT_EQ(Values<uint8_t>(ReadNpyText(file)), (std::vector<uint8_t>{7, 8}));
  }
}

TEST(Npy, EveryTruncationIsAnError) {
  const std::string file = Npy("<f4", "False", "(2,)", "12345678");
  for (size_t size = 0; size < file.size(); ++size) {
    std::string error = ErrorOf([&] { ReadNpyText(file.substr(0, size)); });
    EXPECT_NE(error.find("x.npy"), error.npos) << error;
  }
  EXPECT_NO_THROW(ReadNpyText(file));
}

TEST(Npy, RejectsHostileHeaders) {
  for (const std::string& file : {
           Npy("<f4", "False", "(9223372036854775807,)", "1234"),
           Npy("<f4", "False", "(4294967296, 4294967296, 4294967296)", "12"),
           Npy("<f4", "False", "(0, 9223372036854775807, 9)", ""),
           Npy("<f4", "False", "(99999999999999999999999,)", "1234"),
           Npy("<f4", "False", "(-1,)", "1234"),
           Npy("<f4", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1)", "1234"),
           Npy("<f4", "False", "(1,", "1234"),
           Npy("<f4", "Maybe", "(1,)", "1234"),
           Npy("<f4", "False", "(1,)", "12345"),
           Npy("|O", "False", "(1,)", "12345678"),
           Npy("<U4", "False", "(1,)", "1234567812345678"),
           Npy("f4", "False", "(1,)", "1234"),
           Npy("", "False", "(1,)", "1234"),
           Npy("{'descr': [('a', '<f4')], 'fortran_order': False, "
               "'shape': (1,), }",
               "1234"),
           Npy("{'fortran_order': False, 'shape': (1,), }", "1234"),
           Npy("{", ""),
           Npy("", ""),
           "\x93NUMPY\x09\x00\x00\x00"s,
           "\x93NUMPY\x02\x00\xff\xff\xff\xff{"s,
       }) {
    std::string error = ErrorOf([&] { ReadNpyText(file); });
    EXPECT_TRUE(error.starts_with("x.npy ")) << error;
  }
}

TEST(Npy, RoundTrip) {
  TemporaryFolder folder;
  auto files = FileSystem::Default();
  std::vector<double> values = {1.5, -2, 3, 4, 5, std::nan("")};
  for (const Shape& shape : {Shape{6}, Shape{2, 3}, Shape{1, 6, 1}}) {
    WriteNpy(folder / "a.npy", Tensor(shape, values.data()), *files);
    OwnedTensor x = ReadNpy(folder / "a.npy", *files);
    EXPECT_EQ(x.shape(), shape);
    EXPECT_EQ(0, std::memcmp(x.view().data(), values.data(), 48));
  }
  int64_t scalar = -7;
  WriteNpy(folder / "s.npy", Tensor(Shape{}, &scalar), *files);
  EXPECT_EQ(ReadNpy(folder / "s.npy", *files).values<int64_t>()[0], -7);
  WriteNpy(folder / "e.npy", Tensor(Shape{0, 3}, &scalar), *files);
  EXPECT_EQ(ReadNpy(folder / "e.npy", *files).shape(), (Shape{0, 3}));
  // NumPy maps elements in place only at a multiple of 64 bytes.
  EXPECT_EQ(std::filesystem::file_size(folder / "s.npy") % 64, 8u);
}

TEST(Npz, RoundTripAndKeys) {
  TemporaryFolder folder;
  auto files = FileSystem::Default();
  std::vector<float> a = {1, 2, 3};
  std::vector<int64_t> b = {4, 5};
  uint16_t half_one = 0x3f80;  // 1 in bfloat16
  std::map<std::string, Tensor> arrays = {
      {"a", Tensor(Shape{3}, a.data())},
      {"deep/name", Tensor(Shape{2, 1}, b.data())},
      {"brain", Tensor(DataType::kBfloat16, Shape{1}, &half_one)}};
  WriteNpz(folder / "x.npz", arrays, *files);
  auto read = ReadNpz(folder / "x.npz", *files);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(Values<float>(read["a"]), a);
  EXPECT_EQ(read["deep/name"].shape(), (Shape{2, 1}));
  EXPECT_EQ(Values<int64_t>(read["deep/name"]), b);
  EXPECT_EQ(Values<float>(read["brain"]), std::vector<float>{1});

  const std::string path = (folder / "x.npz").string();
  EXPECT_EQ(Values<float>(ReadArray(path + ":a", *files)), a);
  std::string error = ErrorOf([&] { ReadArray(path + ":c", *files); });
  EXPECT_NE(error.find("holds no array \"c\"; it has \"a\""), error.npos)
      << error;
  error = ErrorOf([&] { ReadArray(path, *files); });
  EXPECT_NE(error.find("several arrays"), error.npos) << error;
  WriteNpz(folder / "one.npz", {{"a", arrays["a"]}}, *files);
  EXPECT_EQ(Values<float>(ReadArray((folder / "one.npz").string(), *files)), a);
}

TEST(Npz, ReadsWhatNumPyWrote) {
  auto files = FileSystem::Default();
  const std::string folder = STROP_TEST_DATA "/golden/mlp_ce_adamw";
  auto inputs = ReadNpz(folder + "/inputs.npz", *files);
  EXPECT_EQ(inputs.at("input").shape(), (Shape{30, 32, 784}));
  EXPECT_EQ(inputs.at("labels").type(), DataType::kInt64);
  auto expected = ReadNpz(folder + "/expected.npz", *files);
  EXPECT_EQ(expected.at("train_loss").shape(), Shape{20});
  EXPECT_EQ(expected.at("optimizer_step").values<int64_t>()[0], 20);
}

// A zip archive with one deflated entry, its sizes as given.
std::string Zip(std::string_view content, uint32_t size, uint32_t crc) {
  auto number = [](uint64_t value, int bytes) {
    std::string out;
    for (; bytes > 0; --bytes, value >>= 8) out += static_cast<char>(value);
    return out;
  };
  const std::string data = Deflate(content, -15);
  const std::string common = number(20, 2) + number(0, 2) + number(8, 2) +
                             number(0, 4) + number(crc, 4) +
                             number(data.size(), 4) + number(size, 4) +
                             number(5, 2) + number(0, 2);
  const std::string local = "PK\3\4" + common + "a.npy" + data;
  const std::string entry =
      "PK\1\2" + number(20, 2) + common + number(0, 14) + "a.npy";
  return local + entry + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(entry.size(), 4) + number(local.size(), 4) + number(0, 2);
}

TEST(Npz, ChecksDeflatedEntries) {
  TemporaryFolder folder;
  auto files = FileSystem::Default();
  const std::string npy = Npy("|u1", "False", "(3,)", "abc");
  const uint32_t size = static_cast<uint32_t>(npy.size());
  const uint32_t crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(npy.data()), size));
  auto read = [&](const std::string& file) {
    WriteText(folder / "x.npz", file);
    return ReadArray((folder / "x.npz").string(), *files);
  };
  const std::string good = Zip(npy, size, crc);
  EXPECT_EQ(Values<uint8_t>(read(good)), (std::vector<uint8_t>{'a', 'b', 'c'}));
  EXPECT_THROW(read(Zip(npy, size, crc + 1)), Error);
  EXPECT_THROW(read(Zip(npy, size - 1, crc)), Error);
  EXPECT_THROW(read(Zip(npy, size + 1, crc)), Error);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_THROW(read(good.substr(0, i)), Error) << i;
  }
  // Whatever a byte is changed to, there is an array or an Error.
  for (size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(~damaged[i]);
    try {
      read(damaged);
    } catch (const Error&) {
    }
  }
  // Stated sizes that the few compressed bytes cannot hold take no memory.
  const std::string bomb = Npy("<f8", "False", "(500000000, 1)", "abc");
  EXPECT_THROW(read(Zip(bomb, 0xfffffff0, crc)), Error);
}

TEST(Idx, ReadsEveryElementType) {
  auto read = [](const std::string& file) {
    return ReadIdx(Bytes(file), "x.idx");
  };
  EXPECT_EQ(Values<uint8_t>(read(Idx(8, {2, 1}, "\xff\x01"))),
            (std::vector<uint8_t>{255, 1}));
  EXPECT_EQ(Values<int8_t>(read(Idx(9, {1}, "\xff"))), std::vector<int8_t>{-1});
  EXPECT_EQ(Values<int16_t>(read(Idx(0xb, {1}, "\xff\xfe"))),
            std::vector<int16_t>{-2});
  EXPECT_EQ(Values<int32_t>(read(Idx(0xc, {1}, "\0\0\x01\x02"s))),
            std::vector<int32_t>{0x102});
  EXPECT_EQ(Values<float>(read(Idx(0xd, {1}, "\x3f\xc0\0\0"s))),
            std::vector<float>{1.5f});
  EXPECT_EQ(Values<double>(read(Idx(0xe, {1}, "\x3f\xf8\0\0\0\0\0\0"s))),
            std::vector<double>{1.5});
}

TEST(Idx, ReadsGzip) {
  TemporaryFolder folder;
  auto files = FileSystem::Default();
  const std::string idx = Idx(8, {2, 3}, "abcdef");
  const std::string gz = Deflate(idx, 31);
  WriteText(folder / "x.gz", gz);
  OwnedTensor x = ReadArray((folder / "x.gz").string(), *files);
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  for (size_t size = 0; size < gz.size(); ++size) {
    EXPECT_THROW(ReadIdx(Bytes(std::string_view(gz).substr(0, size)), "x"),
                 Error)
        << size;
  }
}

TEST(Idx, RejectsHostileFiles) {
  const std::string good = Idx(8, {2, 3}, "abcdef");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(ReadIdx(Bytes(std::string_view(good).substr(0, size)), "x"),
                 Error);
  }
  for (const std::string& file :
       {Idx(8, {2, 3}, "abcdefg"), Idx(7, {1}, "a"), "\x01\0\x08\x01a"s,
        Idx(0xe, {~0u, ~0u, ~0u, ~0u}, "a"),
        Deflate(Idx(0xe, {~0u, ~0u}, "a"), 31),
        Idx(8, std::vector<uint32_t>(200, 1), "a"),
        Deflate(Idx(8, {1}, "a") + std::string(1 << 20, '\0'), 31)}) {
    std::string error = ErrorOf([&] { ReadIdx(Bytes(file), "x.idx"); });
    EXPECT_TRUE(error.starts_with("x.idx ")) << error;
  }
}

OwnedTensor ReadCsvText(std::string_view text) {
  return ReadCsv(Bytes(text), "x.csv");
}

TEST(Csv, ReadsRows) {
  OwnedTensor x = ReadCsvText("1,2\n-3,+4\n");
  EXPECT_EQ(x.shape(), (Shape{2, 2}));
  EXPECT_EQ(Values<int64_t>(x), (std::vector<int64_t>{1, 2, -3, 4}));
  OwnedTensor y = ReadCsvText(
      "\xef\xbb\xbf"
      "a,\"b, c\"\r\n1e3, 2.5 \r\n\r\n"
      "\"7\" ,\"-0.5\"");
  EXPECT_EQ(Values<double>(y), (std::vector<double>{1000, 2.5, 7, -0.5}));
  // A number that only a 64-bit integer holds.
  EXPECT_EQ(Values<int64_t>(ReadCsvText("9007199254740993\n")),
            std::vector<int64_t>{9007199254740993});
  EXPECT_EQ(ReadCsvText("\"line\nbreak\"\"\"\n5\n").values<int64_t>()[0], 5);
}

TEST(Csv, NamesTheLineOfAFault) {
  auto error = [](std::string_view text) {
    return ErrorOf([&] { ReadCsvText(text); });
  };
  EXPECT_EQ(error("a,b\n1,2\n3\n"),
            "x.csv, line 3: 1 fields, where 2 were expected");
  EXPECT_EQ(error("1,2\n3,cat\n"),
            "x.csv, line 2: field 2 is \"cat\", which is not a number");
  EXPECT_EQ(error("1,2\n\n3,\n"),
            "x.csv, line 3: field 2 is \"\", which is not a number");
  EXPECT_EQ(error("1,\"2\n"), "x.csv, line 1: a quoted field has no end");
  EXPECT_EQ(error("1,\"2\"3\n"), "x.csv, line 1: text follows a quoted field");
  // One number among words is no header.
  EXPECT_EQ(error("1,x2\n3,4\n"),
            "x.csv, line 1: field 2 is \"x2\", which is not a number");
  EXPECT_EQ(error("1e400\n3\n"),
            "x.csv, line 1: field 1 is \"1e400\", which is not a number");
  EXPECT_EQ(error("a,b\n"), "x.csv holds no rows of numbers");
  EXPECT_EQ(error(""), "x.csv holds no rows of numbers");
}

TEST(ReadArray, TellsFilesApart) {
  TemporaryFolder folder;
  auto files = FileSystem::Default();
  auto read = [&](std::string_view name, const std::string& content) {
    WriteText(folder / name, content);
    return ReadArray((folder / name).string(), *files);
  };
  // The content counts, not the name.
  EXPECT_EQ(read("a.csv", Npy("|u1", "False", "(1,)", "a")).type(),
            DataType::kUint8);
  EXPECT_EQ(read("b.npy", "1\n2\n").shape(), (Shape{2, 1}));
  EXPECT_EQ(read("c", Idx(8, {1}, "a")).type(), DataType::kUint8);
  std::string error = ErrorOf([&] { read("d.bin", "\x08\x07\x12\x04"); });
  EXPECT_NE(error.find("d.bin is none of"), error.npos) << error;
  EXPECT_THROW(read("empty", ""), Error);
  error = ErrorOf([&] { ReadArray((folder / "no.npy").string(), *files); });
  EXPECT_NE(error.find("no.npy"), error.npos) << error;
  EXPECT_THROW(ReadArray(folder.path().string(), *files), Error);
}

}  // namespace
}  // namespace strop::data
