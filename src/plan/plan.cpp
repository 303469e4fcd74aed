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
using planner::Planner;

void check_budget(int64_t budget) {
  if (budget < 1) {
    throw UsageError("a budget of " + std::to_string(budget) + " bytes",
                     "give a number of bytes above 0");
  }
}

// The best plan within the budget, at last at any price.
std::optional<Candidate> solve(Planner& planner, int64_t budget,
                               const std::vector<Candidate>& known) {
  std::optional<Candidate> best = planner.solve(budget, known);
  if (!best && planner.lowest().outcome.peak <= budget) {
    best = planner.solve(budget, {&planner.lowest(), 1});
  }
  return best;
}

}  // namespace

Plan plan(const StepTrace& trace, int64_t budget_bytes, const PlanOptions& options,
          std::span<const Plan> known) {
  check_budget(budget_bytes);
  Planner planner(trace, options);
  std::vector<Candidate> candidates;
  for (const Plan& other : known) {
    if (std::optional<Candidate> candidate = planner.candidate_of(other)) {
      candidates.push_back(std::move(*candidate));
    }
  }
  const std::optional<Candidate> best = solve(planner, budget_bytes, candidates);
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
  std::vector<Candidate> known;
  for (std::size_t i : order) {
    std::optional<Candidate> best = solve(planner, budgets[i], known);
    if (!best) continue;
    plans[i] = planner.plan_of(*best, budgets[i]);
    known.assign(1, std::move(*best));
  }
  if (known.empty() && !budgets.empty() && options.stop.stop_requested())
    throw planner::stopped_early();
  return plans;
}

LeastBudget least_budget(const StepTrace& trace, const PlanOptions& options) {
  return Planner(trace, options).least();
}

}  // namespace reprise
