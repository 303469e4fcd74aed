// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <reprise/export.h>
#include <reprise/html_report.h>
#include <reprise/plan.h>
#include <reprise/text_style.h>

// A plan for people: what it is predicted to take beside the plain step, what it keeps and what it
// runs again, and what other budgets would take. docs/command.md describes the JSON.

namespace reprise {

/// Values with one fate.
struct PlannedValues {
  int64_t count = 0;
  int64_t bytes = 0;       ///< of the values
  int64_t kept_bytes = 0;  ///< that stay after the forward pass, of them or their smaller forms
};

/// An operator that is run again.
struct ReplayedOperator {
  std::string name;
  int64_t times = 0;
  double milliseconds = 0;  ///< all times together
};

/// The step at one budget.
struct FrontierPoint {
  int64_t budget_bytes = 0;  ///< above base
  int64_t peak_bytes = 0;
  double milliseconds = 0;
  double bound_ms = 0;
};

/// The least budget, and why it is no less.
struct LeastBudgetReport {
  int64_t bytes = 0;        ///< above base
  int64_t bound_bytes = 0;  ///< no schedule whatever has a lower peak
  double milliseconds = 0;
  std::string pinned_by;    ///< the operator or event at its peak
  int64_t live_values = 0;  ///< that are alive there
  int64_t live_bytes = 0;   ///< of them
};

/// All bytes are above the base unless they say otherwise.
struct PlanReport {
  std::string workload;
  std::string device;
  std::string libtorch;
  int64_t threads = 0;
  int64_t parameters = 0;
  int64_t batch = 0;
  bool meta = false;  ///< from shapes: nothing was run
  int64_t base_bytes = 0;

  int64_t budget_bytes = 0;
  int64_t plain_peak_bytes = 0;
  int64_t peak_bytes = 0;
  double plain_ms = 0;
  double milliseconds = 0;
  double bound_ms = 0;  ///< no schedule that fits takes less
  uint64_t seed = 0;
  std::optional<TracedStore> store;  ///< that values can be sent to

  PlannedValues kept, encoded, recomputed, offloaded;
  std::vector<ReplayedOperator> replayed;  ///< the ones that take longest first
  std::vector<FrontierPoint> frontier;     ///< from the largest budget down
  LeastBudgetReport least;
  std::vector<std::string> notes;
};

/// What the trace and its plan say: sizes, times, fates of values, replays. The rest is left to the
/// caller. REQUIRES: check_plan() accepts them.
REPRISE_API PlanReport describe_plan(const StepTrace& trace, const Plan& plan);
REPRISE_API LeastBudgetReport describe_least(const StepTrace& trace, const LeastBudget& least);

/// The largest batch of one strategy.
struct BatchRow {
  std::string strategy;
  int64_t samples = 0;  ///< 0: not even one fits; bytes are then those of one
  int64_t base_bytes = 0;
  int64_t peak_bytes = 0;                    ///< above base
  std::optional<double> samples_per_second;  ///< predicted; none where no time is known
};

/// How many samples fit so many bytes, by each strategy.
struct BatchReport {
  std::string workload;
  std::string device;
  std::string libtorch;
  int64_t threads = 0;
  int64_t limit_bytes = 0;  ///< all bytes, base included
  int64_t measured_at = 0;  ///< batch at which times were measured; 0: by operator rates
  std::vector<BatchRow> rows;
};

REPRISE_API std::string to_json(const PlanReport& report);
REPRISE_API std::string to_json(const BatchReport& report);
REPRISE_API std::string to_table(const PlanReport& report, const TextStyle& style = {});
REPRISE_API std::string to_table(const BatchReport& report, const TextStyle& style = {});

/// Time against memory: the plans of the frontier, and their bound.
REPRISE_API Curve frontier_curve(const PlanReport& report);

/// Memory as it is predicted to rise and fall over the step: plain, and by the plan. REQUIRES:
/// check_plan() accepts them.
REPRISE_API Curve memory_curve(const StepTrace& trace, const Plan& plan);

}  // namespace reprise
