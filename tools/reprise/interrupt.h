// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace reprise::command {

/// While it lives, Ctrl-C (SIGINT) and SIGTERM ask the program to end at its next good moment. The
/// second one ends it at once, as without this. One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested();
};

}  // namespace reprise::command
