// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <stop_token>

#include "plan/problem.h"

// What no schedule can beat.

namespace reprise::planner {

/// Time that any schedule within `budget` takes at least, above the plain step; 0 or more. Infinite
/// where no schedule can fit. No better bound than `enough` is looked for. Stopped, it returns the
/// best so far.
double least_extra_time(const Problem& problem, int64_t budget, double enough,
                        const std::stop_token& stop = {});

/// No schedule has a lower peak.
int64_t least_peak(const Problem& problem);

}  // namespace reprise::planner
