// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <reprise/export.h>

// What replays cost: how many there were, how long they took, how many operators ran again.

namespace reprise {

struct ReplayStats {
  int64_t regions = 0;    ///< regions recorded: calls of checkpoint() that were not switched off
  int64_t replays = 0;    ///< replays: runs of a region's function, or of some operators of a tape
  int64_t operators = 0;  ///< operators run again
  double milliseconds = 0;  ///< wall time of the replays; nested ones count once, in the outermost
};

/// Counts the replays of the whole process, on all threads, from its construction to stats().
class REPRISE_API ReplayCounter {
 public:
  ReplayCounter();

  ReplayStats stats() const;

 private:
  ReplayStats start_;
};

}  // namespace reprise
