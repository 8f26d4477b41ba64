// SPDX-License-Identifier: Apache-2.0
//
// The build takes one of terminal_posix.cc and terminal_windows.cc.
#pragma once

#include <cstddef>

namespace strop {

// Whether a person reads standard error, on a terminal that understands
// escape sequences.
bool ErrorIsTerminal();

// Columns of that terminal; 80 where it does not say.
size_t TerminalWidth();

}  // namespace strop
