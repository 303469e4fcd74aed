// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>

namespace reprise::detail {

/// Times kernels on this thread and, where this process has an accelerator, on the current device:
/// it waits for the device at both ends.
class KernelClock {
 public:
  KernelClock();
  double milliseconds() const;

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace reprise::detail
