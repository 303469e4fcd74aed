// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/compare_budgets.h"

#include "workloads/measured_step.h"
#include "workloads/plan_workload.h"
#include "workloads/use_budget.h"

namespace reprise::workloads {

const TracedStep& PlainTrace::step() {
  if (!step_) step_ = trace_workload(workload_, {}, /*holds_output=*/true);
  return *step_;
}

int64_t PlainTrace::least_bytes(const Strategy& strategy) {
  if (strategy.store) return least_budget(with_store(step(), strategy).trace).plan.peak_bytes;
  if (!least_bytes_) least_bytes_ = least_budget(step().trace).plan.peak_bytes;
  return *least_bytes_;
}

void make_budgets(Workload& workload, std::vector<Contestant>& contestants) {
  std::optional<MeasuredStep> plain;
  for (Contestant& contestant : contestants) {
    const auto size = budget_of(contestant.strategy);
    if (!size) continue;
    if (!plain) plain = measure_plain(workload);
    const int64_t bytes = bytes_above_base("strategy '" + contestant.strategy.text + "': ", *size,
                                           plain->base_bytes, plain->peak_bytes);
    contestant.row.budget_bytes = bytes;
    contestant.budget = make_budget(contestant.strategy, bytes, workload.device());
  }
}

void warm_up(Workload& workload, Contestant& contestant) {
  const auto step = [&] { measure_step(workload, contestant.strategy, 0, contestant.limit()); };
  if (contestant.limit() == nullptr || stays_online(contestant.strategy)) return step();
  settle(*contestant.budget, step);
}

bool follow_from_the_first_step(Workload& workload, PlainTrace& trace, Contestant& contestant) {
  if (contestant.follows || !contestant.budget || stays_online(contestant.strategy)) return false;
  if (!workload.device().is_cpu()) return false;
  contestant.follows = true;
  try {
    const TracedStep step = with_store(trace.step(), contestant.strategy);
    contestant.budget->follow(step, plan(step.trace, *contestant.row.budget_bytes));
  } catch (const BudgetInfeasible&) {
    return false;
  }
  return true;
}

void note_plans(Contestant& contestant) {
  if (!contestant.budget) return;
  StrategyRow& row = contestant.row;
  row.budget = contestant.budget->summary();
  if (row.budget->planned_steps == 0) return;
  row.predicted_peak_bytes = row.budget->predicted_peak;
  row.predicted_step_ms = row.budget->predicted_ms;
}

}  // namespace reprise::workloads
