// SPDX-License-Identifier: Apache-2.0
//
// A user's project: it sees nothing but what was installed.
#include <cstdio>

#include "strop/strop.h"

int main() {
  const strop::OwnedTensor tensor(strop::DataType::kFloat32,
                                  strop::Shape{2, 3});
  try {
    tensor.values<int64_t>();
  } catch (const strop::Error& error) {
    std::puts(error.what());
  }
  const strop::Environment environment;
  const strop::CheckpointState state(environment);
  std::printf("%zu parameters\n", state.ParameterNames().size());
}
