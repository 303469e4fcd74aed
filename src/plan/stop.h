// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stop_token>

// How planning ends before its time: work of more than some milliseconds asks now and then, and is
// left by an exception where it has nothing of its own to return. Planner catches it and has the
// best found so far.

namespace reprise::planner {

struct Stopped {};

inline void leave_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Stopped();
}

}  // namespace reprise::planner
