// SPDX-License-Identifier: Apache-2.0
//
// Damaged files at random, from a fixed seed: each loads or gives one Error.
// What loads can be saved and loaded again. STROP_MUTATION_SECONDS says how
// long to go on (default 10).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "base/memory_file_system.h"
#include "checkpoint/checkpoint_file.h"
#include "checkpoint/checkpoint_format.h"

namespace strop {
namespace {

std::chrono::duration<double> Budget() {
  const char* const seconds = std::getenv("STROP_MUTATION_SECONDS");
  return std::chrono::duration<double>(seconds ? std::atof(seconds) : 10.0);
}

class Mutator {
 public:
  Bytes Mutate(Bytes bytes) {
    for (uint64_t count = 1 + Below(4); count > 0 && !bytes.empty(); --count) {
      switch (Below(6)) {
        case 0:
          bytes[Below(bytes.size())] ^= std::byte{1} << Below(8);
          break;
        case 1:
          bytes[Below(bytes.size())] = static_cast<std::byte>(Below(256));
          break;
        case 2:
          Overwrite<uint32_t>(bytes);
          break;
        case 3:
          Overwrite<uint64_t>(bytes);
          break;
        case 4: {
          // A word of the file over another: an offset to another place.
          if (bytes.size() < 8) break;
          const size_t from = Below(bytes.size() / 4) * 4;
          const size_t to = Below(bytes.size() / 4) * 4;
          std::memmove(&bytes[to], &bytes[from], 4);
          break;
        }
        default:
          bytes.resize(Below(bytes.size()) / 4 * 4);
      }
    }
    return bytes;
  }

  uint64_t Below(uint64_t bound) { return random_() % bound; }

 private:
  // A number at which readers go wrong, at an aligned place.
  template <class T>
  void Overwrite(Bytes& bytes) {
    const uint64_t interesting[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    8,
                                    0x7f,
                                    0x80,
                                    0xff,
                                    0x7fff,
                                    0xffff,
                                    0x10000,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    0xfffffffc,
                                    bytes.size(),
                                    uint64_t{1} << 61,
                                    uint64_t{1} << 62,
                                    ~uint64_t{0} >> 1,
                                    ~uint64_t{0},
                                    random_()};
    const auto value =
        static_cast<T>(interesting[Below(std::size(interesting))]);
    if (bytes.size() < sizeof(T)) return;
    const size_t place = Below((bytes.size() - sizeof(T)) / 4 + 1) * 4;
    std::memcpy(&bytes[place], &value, sizeof(T));
  }

  std::mt19937_64 random_{20240721};
};

std::vector<Bytes> Originals() {
  std::vector<Bytes> files = {KnownFile()};
  for (const char* name : {"nominal_checkpoint", "checkpoint_after"}) {
    for (const auto& path : GoldenFiles(name)) {
      if (std::filesystem::file_size(path) < 3000) {
        files.push_back(ReadFile(path));
      }
    }
  }
  files.push_back(Build(
      {.trainable = {{{.name = "b", .dims = {{3}}, .external_offset = 0}}},
       .frozen =
           {{{.name = "n", .dims = {{1}}, .type = 7, .external_offset = 16}}},
       .has_external_data = true}));
  return files;
}

TEST(CheckpointMutation, EveryDamagedFileLoadsOrGivesOneError) {
  const auto files = std::make_shared<MemoryFileSystem>();
  const Environment environment(EnvironmentOptions{.files = files});
  const Bytes data(24);
  files->Write({{{.path = "c.data", .parts = {data}}}});

  const std::vector<Bytes> originals = Originals();
  ASSERT_GE(originals.size(), 5u);
  Mutator mutator;
  size_t loaded = 0;
  size_t refused = 0;
  const auto end = std::chrono::steady_clock::now() + Budget();
  while (std::chrono::steady_clock::now() < end) {
    const Bytes bytes =
        mutator.Mutate(originals[mutator.Below(originals.size())]);
    try {
      const ParameterStore store = ParseCheckpoint(bytes, "c", environment);
      const SerializedCheckpoint saved =
          SerializeCheckpoint(store, /*include_optimizer_state=*/true);
      ++loaded;
      if (store.has_external_data) continue;
      const ParameterStore again =
          ParseCheckpoint(saved.bytes, "c", environment);
      const SerializedCheckpoint twice =
          SerializeCheckpoint(again, /*include_optimizer_state=*/true);
      ASSERT_TRUE(std::ranges::equal(saved.bytes, twice.bytes));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInvalidFile) << error.what();
      ++refused;
    }
  }
  // Both ways were taken.
  if (Budget().count() >= 1) {
    EXPECT_GT(loaded, 100u);
    EXPECT_GT(refused, 100u);
  }
}

}  // namespace
}  // namespace strop
