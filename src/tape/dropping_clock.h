// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>

#include "tape/held_set.h"

namespace reprise::detail {

/// The time of a piece of work on this thread, less what it spent on making room.
class DroppingClock {
 public:
  int64_t nanoseconds() const {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count() -
           (nanoseconds_of_dropping() - dropping_);
  }

 private:
  const int64_t dropping_ = nanoseconds_of_dropping();
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace reprise::detail
