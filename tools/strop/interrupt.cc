// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <csignal>

namespace strop {
namespace {

volatile std::sig_atomic_t received_signal = 0;

extern "C" void NoteSignal(int signal) {
  received_signal = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received_signal = 0;
  std::signal(SIGINT, NoteSignal);
  std::signal(SIGTERM, NoteSignal);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int InterruptGuard::signal() { return received_signal; }

}  // namespace strop
