// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <map>

#include <reprise/plan_report.h>

// A plan in figures.

namespace reprise {
namespace {

double to_ms(double microseconds) { return microseconds / 1000; }

PlannedValues* place_of(PlanReport& report, Decision decision) {
  switch (decision) {
    case Decision::keep:
      return &report.kept;
    case Decision::encode:
      return &report.encoded;
    case Decision::recompute:
      return &report.recomputed;
    case Decision::offload:
      return &report.offloaded;
    case Decision::none:
      break;
  }
  return nullptr;
}

void add_values(PlanReport& report, const StepTrace& trace, const Plan& plan) {
  for (std::size_t i = 0; i < plan.decisions.size(); ++i) {
    const TracedValue& value = trace.values[i];
    PlannedValues* place = place_of(report, plan.decisions[i]);
    if (place == nullptr) continue;
    ++place->count;
    place->bytes += value.bytes;
    if (plan.decisions[i] == Decision::keep) place->kept_bytes += value.bytes;
    if (plan.decisions[i] == Decision::encode) place->kept_bytes += value.encoded->bytes;
  }
}

std::vector<ReplayedOperator> replays_of(const StepTrace& trace, const Plan& plan) {
  std::map<std::string, ReplayedOperator> by_name;
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::replay) continue;
    const TracedOperator& op = trace.operators[static_cast<std::size_t>(step.index)];
    ReplayedOperator& entry = by_name[op.name];
    entry.name = op.name;
    ++entry.times;
    entry.milliseconds += to_ms(op.microseconds);
  }
  std::vector<ReplayedOperator> all;
  for (auto& [name, entry] : by_name) all.push_back(std::move(entry));
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.milliseconds > b.milliseconds; });
  return all;
}

}  // namespace

PlanReport describe_plan(const StepTrace& trace, const Plan& plan) {
  PlanReport report;
  report.budget_bytes = plan.budget_bytes;
  report.plain_peak_bytes = plan.plain_peak_bytes;
  report.peak_bytes = plan.peak_bytes;
  report.plain_ms = to_ms(plan.plain_microseconds);
  report.milliseconds = to_ms(plan.microseconds);
  report.bound_ms = to_ms(plan.bound_microseconds);
  report.seed = plan.seed;
  report.store = trace.store;
  add_values(report, trace, plan);
  report.replayed = replays_of(trace, plan);
  return report;
}

LeastBudgetReport describe_least(const StepTrace& trace, const LeastBudget& least) {
  LeastBudgetReport report;
  report.bytes = least.plan.peak_bytes;
  report.bound_bytes = least.bound_bytes;
  report.milliseconds = to_ms(least.plan.microseconds);
  report.pinned_by = least.pinned_by;
  report.live_values = static_cast<int64_t>(least.live_values.size());
  for (const int32_t value : least.live_values) {
    report.live_bytes += trace.values[static_cast<std::size_t>(value)].bytes;
  }
  return report;
}

}  // namespace reprise
