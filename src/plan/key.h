// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include <reprise/plan.h>

// Keys of traces: 16 hexadecimal digits, equal for traces that agree in what the key covers. The
// public key_of() lies between the first two: it covers the bytes of values, too.

namespace reprise::planner {

/// Covers operators, events and what they read, make and unpack; no sizes. The same model at
/// another batch has the same.
std::string structure_of(const StepTrace& trace);

/// Covers everything but times.
std::string sizes_of(const StepTrace& trace);

/// Covers everything.
std::string measurement_of(const StepTrace& trace);

}  // namespace reprise::planner
