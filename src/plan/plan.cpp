// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reprise/plan.h>

#include "plan/planner.h"
#include "plan/stop.h"

// The calls of the public header.

namespace reprise {
namespace {

using planner::Candidate;
using planner::Found;
using planner::Planner;

void check_budget(int64_t budget) {
  if (budget < 1) {
    throw UsageError("a budget of " + std::to_string(budget) + " bytes",
                     "give a number of bytes above 0");
  }
}

}  // namespace

Plan plan(const StepTrace& trace, int64_t budget_bytes, const PlanOptions& options,
          std::span<const Plan> known) {
  check_budget(budget_bytes);
  Planner planner(trace, options);
  std::vector<Candidate> alone, all;
  for (const Plan& other : known) {
    std::optional<Candidate> candidate = planner.candidate_of(other);
    if (!candidate) continue;
    if (!planner.sends(*candidate)) alone.push_back(*candidate);
    all.push_back(std::move(*candidate));
  }
  const std::optional<Candidate> best = planner.solve(budget_bytes, alone, all).best;
  if (!best) {
    if (options.stop.stop_requested()) throw planner::stopped_early();
    throw planner.infeasible(budget_bytes);
  }
  return planner.plan_of(*best, budget_bytes);
}

std::vector<std::optional<Plan>> frontier(const StepTrace& trace, std::span<const int64_t> budgets,
                                          const PlanOptions& options) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    check_budget(budgets[i]);
    order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return budgets[a] < budgets[b]; });

  // From the smallest budget up: what fits a smaller one fits.
  Planner planner(trace, options);
  std::vector<std::optional<Plan>> plans(budgets.size());
  std::vector<Candidate> known, known_best;
  for (std::size_t i : order) {
    Found found = planner.solve(budgets[i], known, known_best);
    if (found.alone) known.assign(1, std::move(*found.alone));
    if (!found.best) continue;
    plans[i] = planner.plan_of(*found.best, budgets[i]);
    known_best.assign(1, std::move(*found.best));
  }
  if (known_best.empty() && !budgets.empty() && options.stop.stop_requested())
    throw planner::stopped_early();
  return plans;
}

LeastBudget least_budget(const StepTrace& trace, const PlanOptions& options) {
  return Planner(trace, options).least();
}

}  // namespace reprise
