// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <reprise/budget_infeasible.h>
#include <reprise/trace_step.h>

#include "workloads/workload.h"

namespace reprise::workloads {

/// The plain step of a workload on the CPU, by its shapes, with the batch taken in `parts`. None
/// where these cannot be looked at: on another device, or for a script that asks for values.
/// REQUIRES: no MetaScope on this thread.
std::optional<TracedStep> step_by_shapes(const std::string& name, WorkloadOptions options,
                                         int64_t parts);

/// An operator that does not fit knows only of itself. The same error, with what the whole step
/// needs at least.
BudgetInfeasible explained(const BudgetInfeasible& error, const TracedStep& step);

}  // namespace reprise::workloads
