// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stop_token>

#include <reprise/error.h>

// How planning ends before its time: work of more than some milliseconds asks now and then, and is
// left by an exception where it has nothing of its own to return. Planner catches it and has the
// best found so far.

namespace reprise::planner {

struct Stopped {};

inline void leave_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Stopped();
}

/// What callers get where there is nothing yet.
inline Error stopped_early() {
  return {"planning was stopped before a plan was found", "give it more time, or a larger budget"};
}

}  // namespace reprise::planner
