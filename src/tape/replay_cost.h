// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tape/record.h"

// What operators take. The choice of what to drop must be the same from step to step, or a budget
// that was enough would not be enough again; but clocks are noisy. So the time of an operator on
// given shapes is the least of its first few, rounded, and stays what it is. Thread-safe.

namespace reprise::detail {

/// Microseconds for an operator that has just taken `nanoseconds`.
float settled_cost(const Node& node, int64_t nanoseconds);

}  // namespace reprise::detail
