// SPDX-License-Identifier: BSD-3-Clause
#include "interrupt.h"

#include <csignal>

namespace reprise::command {
namespace {

volatile std::sig_atomic_t asked = 0;
struct sigaction before_interrupt, before_termination;

void on_signal(int /*signal*/) { asked = 1; }

}  // namespace

InterruptScope::InterruptScope() {
  asked = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  // The default comes back with the first signal; calls that it breaks into go on.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_interrupt);
  sigaction(SIGTERM, &action, &before_termination);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &before_interrupt, nullptr);
  sigaction(SIGTERM, &before_termination, nullptr);
}

bool InterruptScope::requested() { return asked != 0; }

}  // namespace reprise::command
