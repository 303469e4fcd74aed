// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/plan.h>
#include <reprise/trace_step.h>

#include "workloads/workload.h"

// Plans for the steps of a workload.

namespace reprise::workloads {

/// The plain step of batch 0: gradients set to none, forward, backward. `holds_output`: through the
/// backward pass, as `compare` does. Weights, buffers and gradients are left as they were. Throws
/// as trace_step() does.
TracedStep trace_workload(Workload& workload, const TraceOptions& options = {},
                          bool holds_output = false);

/// The step with what plans need to know of the store that the strategy has, which is measured. As
/// it is without one, and where it cannot be measured: plans do without then, as a Budget's do.
TracedStep with_store(TracedStep step, const Strategy& strategy);

/// plan(), for people: BudgetInfeasible says what is meant in all bytes and above base, and `where`
/// begins it. Its least() is above the base.
Plan plan_within(const std::string& where, const TracedStep& step, int64_t above_base,
                 const PlanOptions& options = {});

}  // namespace reprise::workloads
