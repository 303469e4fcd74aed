// SPDX-License-Identifier: BSD-3-Clause
#include "plan/planner.h"

#include <algorithm>
#include <limits>

#include "plan/bound.h"
#include "plan/convert.h"

namespace reprise::planner {
namespace {

// Searches from the best that was found.
constexpr int kAgain = 3;

// The faster one; of two that are as fast, the one that does less.
bool is_better(const Candidate& a, const Candidate& b) {
  if (a.outcome.time != b.outcome.time) return a.outcome.time < b.outcome.time;
  return a.steps.size() < b.steps.size();
}

void take_better(std::optional<Candidate>& best, Candidate candidate, int64_t budget) {
  if (candidate.outcome.peak > budget) return;
  if (!best || is_better(candidate, *best)) best = std::move(candidate);
}

}  // namespace

Planner::Planner(const StepTrace& trace, const PlanOptions& options)
    : trace_(trace), options_(options), problem_(compile(trace)) {
  if (options.evaluations < 0 || options.slots < 1 || options.options_per_block < 1) {
    throw UsageError("options of a plan below their least: evaluations 0, slots 1, options 1",
                     "leave them at their defaults");
  }
  plain_ = judged(plain_steps(problem_));
}

Candidate Planner::judged(Steps steps) {
  Candidate candidate{std::move(steps), {}};
  Simulator(problem_).run(candidate.steps, candidate.outcome);
  return candidate;
}

void Planner::prepare() {
  if (chain_) return;
  chain_.emplace(problem_, options_);
  search_.emplace(problem_, chain_->segments(), options_.seed, options_.evaluations);
}

std::optional<Candidate> Planner::solve(int64_t budget, const std::vector<Candidate>& known) {
  if (plain_.outcome.peak <= budget) return plain_;
  if (least_peak(problem_) > budget) return std::nullopt;
  prepare();
  std::optional<Candidate> best;
  for (Candidate& candidate : chain_->solve(budget))
    take_better(best, std::move(candidate), budget);
  for (const Candidate& candidate : known) take_better(best, candidate, budget);
  if (!best && lowest_) take_better(best, *lowest_, budget);
  if (options_.evaluations == 0) return best;

  search_->restart(options_.seed);
  const auto search_from = [&](const Labels& labels) {
    Labelled found = search_->anneal(labels, budget);
    if (found.outcome.peak > budget) return;
    found = search_->climb(found, budget);
    take_better(best, judged(search_->steps_of(found.labels)), budget);
  };
  const std::optional<Candidate> from_chain = best;
  search_from(search_->greedy(budget));
  search_from(search_->keep_all());
  if (from_chain) search_from(search_->labels_of(from_chain->steps));
  // The best of all a few times more: each search takes another way.
  for (int again = 0; best && again < kAgain; ++again) {
    search_from(search_->labels_of(best->steps));
  }
  return best;
}

const Candidate& Planner::lowest() {
  if (lowest_) return *lowest_;
  prepare();
  Candidate best = plain_;
  // The programme is finer the smaller the budget is: ask again just below what was found.
  for (int failures = 0; failures < 2;) {
    const int64_t budget = best.outcome.peak - 1 - best.outcome.peak / (failures == 0 ? 8 : 50);
    if (budget < 1) break;
    bool found = false;
    for (Candidate& candidate : chain_->solve(budget)) {
      if (candidate.outcome.peak >= best.outcome.peak) continue;
      best = std::move(candidate);
      found = true;
    }
    if (!found) ++failures;
  }
  if (options_.evaluations > 0) {
    search_->restart(options_.seed);
    for (const Labels& start : {search_->labels_of(best.steps), search_->keep_all()}) {
      const Labelled found = search_->lower(start);
      if (found.outcome.peak < best.outcome.peak) best = judged(search_->steps_of(found.labels));
    }
  }
  lowest_ = std::move(best);
  return *lowest_;
}

Plan Planner::plan_of(const Candidate& candidate, int64_t budget) {
  Plan plan;
  plan.key = key_of(trace_);
  plan.budget_bytes = budget;
  plan.seed = options_.seed;
  describe(problem_, candidate.steps, plan);
  plan.bound_microseconds = plan.plain_microseconds;
  if (options_.bound && plan.plain_peak_bytes > budget) {
    plan.bound_microseconds +=
        least_extra_time(problem_, budget, plan.microseconds - plan.plain_microseconds);
    // Sums of other orders: never above by a last digit.
    plan.bound_microseconds = std::min(plan.bound_microseconds, plan.microseconds);
  }
  return plan;
}

std::string Planner::name_of(const Step& step) const {
  if (step.is_event()) return trace_.events[step.event()].name;
  if (step.op < problem_.operators) return trace_.operators[step.op].name;
  return "encoding";
}

std::vector<Index> Planner::live_at(const Candidate& candidate, std::size_t step) {
  Outcome outcome;
  std::vector<Life> lives;
  Simulator(problem_).run(candidate.steps, outcome, nullptr, &lives);
  std::vector<Index> live;
  for (const Life& life : lives) {
    const auto at = static_cast<Index>(step);
    if (life.value < problem_.values && life.first <= at && at <= life.last) {
      live.push_back(life.value);
    }
  }
  std::sort(live.begin(), live.end(), [&](Index a, Index b) {
    return problem_.bytes[a] != problem_.bytes[b] ? problem_.bytes[a] > problem_.bytes[b] : a < b;
  });
  return live;
}

LeastBudget Planner::least() {
  const Candidate& candidate = lowest();
  LeastBudget least;
  least.plan = plan_of(candidate, std::max<int64_t>(1, candidate.outcome.peak));
  least.bound_bytes = least_peak(problem_);
  if (!candidate.steps.empty()) {
    least.pinned_by = name_of(candidate.steps[candidate.outcome.peak_step]);
    least.live_values = live_at(candidate, candidate.outcome.peak_step);
  }
  return least;
}

BudgetInfeasible Planner::infeasible(int64_t budget) {
  const LeastBudget least_found = least();
  return {"no plan fits " + std::to_string(budget) +
              " bytes above the base: the least found needs " +
              std::to_string(least_found.plan.peak_bytes) + ", pinned by " + least_found.pinned_by +
              " with " + std::to_string(least_found.live_values.size()) + " values live",
          "a smaller batch, or the batch in parts (accumulate), needs less",
          budget, least_found.plan.peak_bytes, least_found.pinned_by};
}

}  // namespace reprise::planner

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

// Known plans that are schedules for this trace.
std::vector<Candidate> candidates_of(const Planner& planner, const StepTrace& trace,
                                     std::span<const Plan> plans) {
  std::vector<Candidate> candidates;
  const std::string key = plans.empty() ? "" : key_of(trace);
  for (const Plan& known : plans) {
    if (known.key != key) continue;
    Candidate candidate{planner::steps_of(planner.problem(), known.steps), {}};
    if (planner::Simulator(planner.problem()).run(candidate.steps, candidate.outcome)) {
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

}  // namespace

Plan plan(const StepTrace& trace, int64_t budget_bytes, const PlanOptions& options,
          std::span<const Plan> known) {
  check_budget(budget_bytes);
  Planner planner(trace, options);
  std::optional<Candidate> best = planner.solve(budget_bytes, candidates_of(planner, trace, known));
  if (!best && planner.lowest().outcome.peak <= budget_bytes) {
    best = planner.solve(budget_bytes, {planner.lowest()});
  }
  if (!best) throw planner.infeasible(budget_bytes);
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
    std::optional<Candidate> best = planner.solve(budgets[i], known);
    if (!best && planner.lowest().outcome.peak <= budgets[i]) {
      best = planner.solve(budgets[i], {planner.lowest()});
    }
    if (!best) continue;
    plans[i] = planner.plan_of(*best, budgets[i]);
    known.assign(1, std::move(*best));
  }
  return plans;
}

LeastBudget least_budget(const StepTrace& trace, const PlanOptions& options) {
  return Planner(trace, options).least();
}

}  // namespace reprise
