// SPDX-License-Identifier: Apache-2.0
//
// checkpoint_roundtrip [--external] IN OUT: reads the checkpoint IN and writes
// it, optimizer state included, to OUT; with --external the parameters go to
// OUT.data.
#include <exception>
#include <iostream>
#include <string_view>

#include "checkpoint/parameter_store.h"
#include "strop/checkpoint_state.h"

int main(int argc, char** argv) {
  const bool external = argc == 4 && std::string_view(argv[1]) == "--external";
  if (argc != 3 && !external) {
    std::cerr << "usage: checkpoint_roundtrip [--external] IN OUT\n";
    return 2;
  }
  try {
    const strop::Environment environment;
    const strop::CheckpointState state =
        strop::CheckpointState::Load(argv[argc - 2], environment);
    if (external) state.store().has_external_data = true;
    state.Save(argv[argc - 1], /*include_optimizer_state=*/true);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
