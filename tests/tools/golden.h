// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/arrays.h"
#include "tools/support.h"

namespace strop {

// A golden case (tests/data/golden/README.md) as files for the program.
struct GoldenCase {
  using Arrays = std::map<std::string, OwnedTensor, std::less<>>;

  std::shared_ptr<FileSystem> files = FileSystem::Default();
  std::filesystem::path folder;
  nlohmann::json recipe;
  Arrays inputs, expected;

  explicit GoldenCase(const std::string& name)
      : folder(STROP_TEST_DATA "/golden/" + name),
        recipe(nlohmann::json::parse(ReadText(folder / "recipe.json"))),
        inputs(data::ReadNpz(folder / "inputs.npz", *files)),
        expected(data::ReadNpz(folder / "expected.npz", *files)) {}

  std::string Path(std::string_view file) const {
    return (folder / file).string();
  }

  // "--input NAME=FILE" for each user input: the batches of `steps` train
  // steps (0: of all that follow) from `first` on, one after the other.
  std::vector<std::string> TrainInputs(const TemporaryFolder& to,
                                       int64_t steps = 0,
                                       int64_t first = 0) const {
    return Write(
        to, "train_", recipe["user_inputs"], [&](const std::string& name) {
          const Tensor& all = inputs.at(name);
          std::vector<int64_t> dims(all.shape().begin(), all.shape().end());
          const int64_t skipped =
              static_cast<int64_t>(all.byte_count()) / dims[0] * first;
          dims[0] = steps > 0 ? steps : dims[0] - first;
          dims[1] *= dims[0];
          dims.erase(dims.begin());
          return Tensor(all.type(), Shape(dims), all.bytes().data() + skipped);
        });
  }
  // The same of the batch for evaluation.
  std::vector<std::string> EvalInputs(const TemporaryFolder& to,
                                      std::vector<std::string> names = {}) {
    if (names.empty()) {
      names = recipe["eval_user_inputs"].get<std::vector<std::string>>();
    }
    return Write(to, "eval_", names, [&](const std::string& name) {
      return inputs.at("eval/" + name).view();
    });
  }

  std::vector<float> Expected(const std::string& key) const {
    return Values<float>(expected.at(key));
  }

 private:
  template <class F>
  std::vector<std::string> Write(const TemporaryFolder& to,
                                 const std::string& prefix,
                                 const std::vector<std::string>& names,
                                 F&& tensor) const {
    std::vector<std::string> arguments;
    for (const std::string& name : names) {
      const auto path = to / (prefix + name + ".npy");
      data::WriteNpy(path, tensor(name), *files);
      arguments.push_back("--input");
      arguments.push_back(name + "=" + path.string());
    }
    return arguments;
  }
};

// Largest absolute difference over the largest magnitude of `expected`.
inline double RelativeDifference(const std::vector<float>& actual,
                                 const std::vector<float>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0, largest = 1e-30;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    if (std::isnan(actual[i])) return HUGE_VAL;
    difference =
        std::max<double>(difference, std::abs(actual[i] - expected[i]));
    largest = std::max<double>(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

}  // namespace strop
