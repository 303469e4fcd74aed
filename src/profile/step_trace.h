// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <reprise/plan.h>

#include "tape/schedule.h"
#include "tape/step_record.h"

// From what a tape has measured to what a planner plans for, and back from a plan to what a tape
// follows.

namespace reprise::detail {

struct MappedTrace {
  StepTrace trace;

  // What in the record each part of the trace stands for.
  std::vector<ValueId> values;
  std::vector<std::vector<NodeId>> operators;
  std::vector<std::vector<ValueId>> unpacks;  // by event, with repetitions

  std::vector<uint64_t> hashes;
};

/// Operators that write in place to one storage become one, at the place of the last, as long as
/// nobody else reads what was there in between; else nothing of that storage is replayed.
/// None for a step that has no place in a trace: an operator with more than 32 results.
std::optional<MappedTrace> trace_of(const StepRecord& record);

/// `plan` was made for a trace of the same key.
std::shared_ptr<const Schedule> schedule_of(const Plan& plan, const MappedTrace& mapped);

/// The median of several measurements of one step, number by number. REQUIRES: one or more, of one
/// key.
StepTrace median_of(const std::vector<StepTrace>& traces);

}  // namespace reprise::detail
