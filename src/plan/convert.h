// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "plan/simulate.h"

// Between the planner's schedules and those of the public header.

namespace reprise::planner {

/// Fills decisions, steps, prediction and plain figures of a plan.
void describe(const Problem& problem, const Steps& steps, Plan& plan);

/// Throws UsageError unless the steps are in a lawful order: operators and events each once and in
/// theirs, replays and fetches directly before an event that unpacks, nothing that cannot be
/// replayed or sent or is still there. Of what they free, that of sent values counts.
Steps steps_of(const Problem& problem, const std::vector<PlanStep>& steps);

/// Settling is no step of a plan: for each step here, the step of the plan that it is a part of.
std::vector<Index> places_of(const Problem& problem, const Steps& steps);

/// The schedule that keeps everything.
Steps plain_steps(const Problem& problem);

}  // namespace reprise::planner
