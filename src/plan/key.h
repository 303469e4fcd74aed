// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include <reprise/plan.h>

// Keys of traces: 16 hexadecimal digits, equal for traces that agree in what the key covers. The
// public key_of() covers less: what each measurement of a step agrees on.

namespace reprise::planner {

/// Covers everything but times.
std::string sizes_of(const StepTrace& trace);

/// Covers everything.
std::string measurement_of(const StepTrace& trace);

}  // namespace reprise::planner
