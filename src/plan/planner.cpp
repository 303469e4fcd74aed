// SPDX-License-Identifier: BSD-3-Clause
#include "plan/planner.h"

#include <algorithm>
#include <limits>

#include "plan/bound.h"
#include "plan/convert.h"
#include "plan/key.h"
#include "plan/stop.h"

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

// Of known schedules, where a search had best begin: the best that fits, else the lowest.
const Candidate* start_of(std::span<const Candidate> known, int64_t budget) {
  const Candidate* start = nullptr;
  for (const Candidate& candidate : known) {
    if (start == nullptr) {
      start = &candidate;
    } else if (candidate.outcome.peak <= budget && start->outcome.peak <= budget) {
      if (is_better(candidate, *start)) start = &candidate;
    } else if (candidate.outcome.peak < start->outcome.peak) {
      start = &candidate;
    }
  }
  return start;
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
  search_.emplace(problem_, chain_->segments(), options_);
}

std::optional<Candidate> Planner::solve(int64_t budget, std::span<const Candidate> known) {
  if (plain_.outcome.peak <= budget) return plain_;
  if (least_peak(problem_) > budget) return std::nullopt;
  std::optional<Candidate> best;
  for (const Candidate& candidate : known) take_better(best, candidate, budget);
  if (!best && lowest_) take_better(best, *lowest_, budget);
  try {
    improve(budget, known, best);
  } catch (const Stopped&) {
    // The best so far.
  }
  return best;
}

void Planner::improve(int64_t budget, std::span<const Candidate> known,
                      std::optional<Candidate>& best) {
  prepare();
  const Candidate* from_known = start_of(known, budget);
  for (Candidate& candidate : chain_->solve(budget))
    take_better(best, std::move(candidate), budget);
  if (options_.evaluations == 0) return;

  search_->restart(options_.seed);
  const auto search_from = [&](const Labels& labels) {
    leave_if_stopped(options_.stop);
    Labelled found = search_->anneal(labels, budget);
    if (found.outcome.peak > budget) return;
    found = search_->climb(found, budget);
    take_better(best, judged(search_->steps_of(found.labels)), budget);
  };
  const std::optional<Candidate> before = best;
  search_from(search_->greedy(budget));
  search_from(search_->keep_all());
  if (before) search_from(search_->labels_of(before->steps));
  if (from_known != nullptr && (!before || before->steps != from_known->steps)) {
    search_from(search_->labels_of(from_known->steps));
  }
  // The best of all a few times more: each search takes another way.
  for (int again = 0; best && again < kAgain; ++again) {
    search_from(search_->labels_of(best->steps));
  }
}

const Candidate& Planner::lowest() {
  if (lowest_) return *lowest_;
  lowest_ = plain_;
  try {
    lower(*lowest_);
  } catch (const Stopped&) {
    // The lowest so far.
  }
  return *lowest_;
}

void Planner::lower(Candidate& best) {
  prepare();
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
  if (options_.evaluations == 0) return;
  search_->restart(options_.seed);
  for (const Labels& start : {search_->labels_of(best.steps), search_->keep_all()}) {
    leave_if_stopped(options_.stop);
    const Labelled found = search_->lower(start);
    if (found.outcome.peak < best.outcome.peak) best = judged(search_->steps_of(found.labels));
  }
}

std::optional<Candidate> Planner::candidate_of(const Plan& plan) const {
  if (plan.decisions.size() != trace_.values.size()) return std::nullopt;
  Candidate candidate;
  try {
    candidate.steps = steps_of(problem_, plan.steps);
  } catch (const UsageError&) {
    return std::nullopt;
  }
  if (!Simulator(problem_).run(candidate.steps, candidate.outcome)) return std::nullopt;
  return candidate;
}

Plan Planner::plan_of(const Candidate& candidate, int64_t budget) {
  Plan plan;
  plan.key = key_of(trace_);
  plan.measurement = measurement_of(trace_);
  plan.budget_bytes = budget;
  plan.seed = options_.seed;
  describe(problem_, candidate.steps, plan);
  plan.bound_microseconds = plan.plain_microseconds;
  if (options_.bound && plan.plain_peak_bytes > budget) {
    plan.bound_microseconds += least_extra_time(
        problem_, budget, plan.microseconds - plan.plain_microseconds, options_.stop);
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
          "a smaller batch, or the batch in parts (accumulate), needs less", budget,
          least_found.plan.peak_bytes, least_found.pinned_by};
}

}  // namespace reprise::planner
