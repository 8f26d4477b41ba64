// SPDX-License-Identifier: Apache-2.0
#include <windows.h>

#include "terminal.h"

namespace strop {

bool ErrorIsTerminal() {
  const HANDLE console = ::GetStdHandle(STD_ERROR_HANDLE);
  DWORD mode = 0;
  // Fails for what is no console; setting it, before Windows 10.
  return ::GetConsoleMode(console, &mode) &&
         ::SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

size_t TerminalWidth() {
  CONSOLE_SCREEN_BUFFER_INFO info = {};
  const HANDLE console = ::GetStdHandle(STD_ERROR_HANDLE);
  if (::GetConsoleScreenBufferInfo(console, &info) &&
      info.srWindow.Right > info.srWindow.Left) {
    return static_cast<size_t>(info.srWindow.Right - info.srWindow.Left + 1);
  }
  return 80;
}

}  // namespace strop
