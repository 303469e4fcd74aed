// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>

// Feeds reprise/stats.h.

namespace reprise::detail {

/// A region was recorded.
void count_region();

/// Whether this thread is inside a ReplayClock.
bool is_replaying();

/// A number for the outermost replay that this thread is in, unique in the process; 0 outside.
int64_t current_replay();

/// Stands around one replay and counts it, its time and its operators; a replay inside another one
/// (nested regions) is part of the outer one's time and operators.
class ReplayClock {
 public:
  ReplayClock();
  ~ReplayClock();
  ReplayClock(const ReplayClock&) = delete;
  ReplayClock& operator=(const ReplayClock&) = delete;

  /// So many operators were run again, those of replays inside this one included.
  void count_operators(int64_t operators) { operators_ += operators; }

  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t operators_ = 0;
};

}  // namespace reprise::detail
