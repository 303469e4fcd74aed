// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <reprise/budget.h>
#include <reprise/report.h>
#include <reprise/trace_step.h>

#include "workloads/workload.h"

// The budgets of a comparison: one for each strategy that says one, kept over its steps.

namespace reprise::workloads {

/// A strategy and what its measured steps have shown so far.
struct Contestant {
  Strategy strategy;
  StrategyRow row;
  std::vector<double> milliseconds;
  std::optional<Budget> budget;
  bool follows = false;  // a plan that was there before its first step

  Budget* limit() { return budget ? &*budget : nullptr; }
};

/// The plain step, traced when it is first asked for.
class PlainTrace {
 public:
  explicit PlainTrace(Workload& workload) : workload_(workload) {}
  const TracedStep& step();

  /// The least budget above the base that a plan is found for, with the strategy's store.
  int64_t least_bytes(const Strategy& strategy);

 private:
  Workload& workload_;
  std::optional<TracedStep> step_;
  std::optional<int64_t> least_bytes_;
};

/// Gives each strategy with a budget its bytes above the base, and its Budget. A share is one of
/// the peak of a plain step, which is the first contestant's. Throws BudgetInfeasible for a size
/// below what is live before a step.
void make_budgets(Workload& workload, std::vector<Contestant>& contestants);

/// Unmeasured steps: one or, under a budget, so many that the next ones are planned. Throws
/// BudgetInfeasible.
void warm_up(Workload& workload, Contestant& contestant);

/// Its first step goes online, and needs more than a plan does: whether there is a plan, which its
/// first step follows from now on. False as well if it follows one already.
bool follow_from_the_first_step(Workload& workload, PlainTrace& trace, Contestant& contestant);

/// Fills in what the plans of a contestant's budget predicted, if it has one.
void note_plans(Contestant& contestant);

}  // namespace reprise::workloads
