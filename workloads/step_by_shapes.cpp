// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/step_by_shapes.h"

#include <exception>

#include <reprise/meta_scope.h>
#include <reprise/plan.h>
#include <reprise/report.h>

#include "workloads/plan_workload.h"

namespace reprise::workloads {

std::optional<TracedStep> step_by_shapes(const std::string& name, WorkloadOptions options,
                                         int64_t parts) {
  if (!options.device.is_cpu()) return std::nullopt;
  try {
    const MetaScope shapes;
    auto workload = make_workload(name, options);
    if (parts > 1) {
      options.batch = (workload->samples_per_batch() + parts - 1) / parts;
      workload = make_workload(name, options);
    }
    return trace_workload(*workload);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

BudgetInfeasible explained(const BudgetInfeasible& error, const TracedStep& step) {
  PlanOptions few;
  few.evaluations = 1000;
  few.bound = false;
  const LeastBudget least = least_budget(step.trace, few);
  const std::string text = error.what();
  return BudgetInfeasible(
      text.substr(0, text.find('\n')),
      "a whole step needs " + format_bytes(least.plan.peak_bytes) +
          " above what is live before it, which from the second step on has "
          "the optimizer's state in it (by shapes, planned; the peak stands at " +
          least.pinned_by +
          "): give it that, a smaller --batch, or take the batch in parts by "
          "--accumulate",
      error.limit(), error.least(), error.op());
}

}  // namespace reprise::workloads
