// SPDX-License-Identifier: Apache-2.0
#include "example_inputs.h"

#include <algorithm>
#include <map>

#include "usage.h"
#include "whole_number.h"

namespace strop {

void AddExampleShapes(CLI::App& verb, ExampleShapes* shapes) {
  verb.add_option("--batch-size", shapes->batch_size,
                  "Size of the first dimension where the model leaves it open "
                  "(default 32)")
      ->check(WholeNumber(1));
  verb.add_option("--shape", shapes->given,
                  "Shape of an input, where the model leaves more open")
      ->type_name("NAME=1x28x28")
      ->allow_extra_args(false);
}

std::vector<OwnedTensor> ExampleInputs(std::span<const Module::InputInfo> infos,
                                       const ExampleShapes& shapes) {
  std::map<std::string, std::vector<int64_t>> given;
  for (const std::string& text : shapes.given) {
    auto [name, shape] = SplitAssignment("--shape", text);
    std::vector<int64_t>& dims = given[name];
    for (const std::string& part : CLI::detail::split(shape, 'x')) {
      const std::string fault = WholeNumber(0)(part);
      if (!fault.empty()) {
        ThrowUsage("--shape {}: wanted NAME=1x28x28; {}", text, fault);
      }
      dims.push_back(std::stoll(part));
    }
  }
  for (const auto& [name, dims] : given) {
    const bool known = std::ranges::any_of(
        infos, [&](const auto& info) { return info.name == name; });
    if (known) continue;
    std::string names;
    for (const Module::InputInfo& info : infos) {
      names += (names.empty() ? "" : ", ") + info.name;
    }
    ThrowUsage("--shape {}: there is no such input; there are {}", name, names);
  }
  std::vector<OwnedTensor> inputs;
  for (const Module::InputInfo& info : infos) {
    std::vector<int64_t> dims = info.dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 0) dims[i] = i == 0 ? shapes.batch_size : 1;
    }
    if (auto it = given.find(info.name); it != given.end()) {
      dims = it->second;
    } else if (!info.has_shape) {
      ThrowUsage(
          "the shape of input \"{}\" is not known; give "
          "--shape {}=...",
          info.name, info.name);
    }
    inputs.emplace_back(info.type, Shape(dims));
  }
  return inputs;
}

}  // namespace strop
