// SPDX-License-Identifier: Apache-2.0
//
// Writes checkpoints of every kind into a folder, for ort_loads_test.py.
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_file.h"
#include "checkpoint/parameter_store.h"
#include "strop/checkpoint_state.h"

namespace strop {
namespace {

void Write(const std::filesystem::path& folder,
           const Environment& environment) {
  const auto known = [&] {
    return CheckpointState::LoadFromBuffer(KnownFile(), environment);
  };
  const auto save = [&](const CheckpointState& state, const char* name) {
    state.Save(folder / name, /*include_optimizer_state=*/true);
  };
  save(CheckpointState(environment), "empty");
  save(known(), "known");

  CheckpointState rate = known();
  rate.store().groups.at("group0").learning_rate = 0.5f;
  rate.SetProperty("strop.position", int64_t{7});
  save(rate, "rate");

  CheckpointState external = known();
  external.store().has_external_data = true;
  save(external, "external");

  CheckpointState properties(environment);
  properties.SetProperty("zero", int64_t{0});
  properties.SetProperty("low", std::numeric_limits<int64_t>::min());
  properties.SetProperty("zero float", 0.0f);
  properties.SetProperty("", std::string());
  save(properties, "properties");

  for (const char* name : {"nominal_checkpoint", "checkpoint_after"}) {
    for (const std::filesystem::path& path : GoldenFiles(name)) {
      save(CheckpointState::Load(path, environment),
           (path.parent_path().filename().string() + "_" + name).c_str());
    }
  }

  // Every element type that ONNX Runtime loads, one byte pattern for each,
  // inside and outside.
  std::vector<FileTensor> tensors;
  for (const int type : {1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13}) {
    const size_t size = DataTypeSize(static_cast<DataType>(type));
    tensors.push_back({.name = "t" + std::to_string(type),
                       .dims = {{1, 3, 1}},
                       .type = type,
                       .raw = Bytes(3 * size, std::byte{1})});
  }
  CheckpointState types = CheckpointState::LoadFromBuffer(
      Build({.trainable = {{Floats1D("w", {1})}}, .frozen = tensors}),
      environment);
  save(types, "types");
  types.store().has_external_data = true;
  save(types, "types_external");
}

}  // namespace
}  // namespace strop

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const strop::Environment environment;
  strop::Write(argv[1], environment);
}
