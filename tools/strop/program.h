// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strop {

// The whole program: reads the command line, runs a verb, returns the exit
// code. SIGPIPE is ignored from then on.
int RunProgram(int argc, char** argv);

}  // namespace strop
