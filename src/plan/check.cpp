// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include <reprise/plan.h>

#include "plan/convert.h"
#include "plan/key.h"

// Plans that come from elsewhere: are they what they say, and what are they for a step that was
// measured again?

namespace reprise {
namespace {

constexpr const char* kHint = "plan again for this model and batch";

[[noreturn]] void refuse(const std::string& what) { throw UsageError(what, kHint); }

void require_key(const StepTrace& trace, const Plan& plan) {
  const std::string key = key_of(trace);
  if (plan.key != key) {
    refuse("the plan is for another step: its key is " + plan.key + ", the step's is " + key);
  }
}

// The plan's schedule with everything else worked out from the trace.
Plan worked_out(const StepTrace& trace, const Plan& plan) {
  const planner::Problem problem = planner::compile(trace);
  const planner::Steps steps = planner::steps_of(problem, plan.steps);
  planner::Outcome outcome;
  if (!planner::Simulator(problem).run(steps, outcome)) {
    refuse("not a schedule for this step: it reads a value that is not live");
  }
  Plan again = plan;
  planner::describe(problem, steps, again);
  return again;
}

}  // namespace

void check_plan(const StepTrace& trace, const Plan& plan) {
  require_key(trace, plan);
  if (plan.measurement != planner::measurement_of(trace)) {
    refuse("the plan was made from another measurement of this step");
  }
  const Plan again = worked_out(trace, plan);
  const auto require = [](auto says, auto has, const char* unit) {
    if (says == has) return;
    refuse("the plan says " + std::to_string(says) + unit + ", and has " + std::to_string(has));
  };
  if (again.peak_bytes > plan.budget_bytes) {
    refuse("the plan needs " + std::to_string(again.peak_bytes) + " bytes, above its budget of " +
           std::to_string(plan.budget_bytes));
  }
  require(plan.peak_bytes, again.peak_bytes, " bytes at its peak");
  require(plan.microseconds, again.microseconds, " microseconds");
  require(plan.plain_peak_bytes, again.plain_peak_bytes, " bytes at the plain step's peak");
  require(plan.plain_microseconds, again.plain_microseconds, " microseconds for the plain step");
  if (!(plan.bound_microseconds >= plan.plain_microseconds &&
        plan.bound_microseconds <= plan.microseconds)) {
    refuse("the plan's bound of " + std::to_string(plan.bound_microseconds) +
           " microseconds is not between the plain step's time and its own");
  }
  if (again.decisions != plan.decisions || again.steps != plan.steps) {
    refuse("the plan's decisions or frees do not follow from its schedule");
  }
}

Plan rejudged(const StepTrace& trace, const Plan& plan) {
  require_key(trace, plan);
  Plan again = worked_out(trace, plan);
  again.measurement = planner::measurement_of(trace);
  // A bound holds for the measurement that it was made from; of another, none is known.
  if (again.measurement != plan.measurement) again.bound_microseconds = again.plain_microseconds;
  return again;
}

}  // namespace reprise
