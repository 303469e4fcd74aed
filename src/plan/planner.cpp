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

std::optional<Problem> compile_stored(const StepTrace& trace) {
  if (!trace.store) return std::nullopt;
  return compile(trace, Store::take);
}

}  // namespace

Planner::Methods::Methods(const Problem& problem_of, const PlanOptions& options)
    : problem(problem_of), chain(problem, options), search(problem, chain.segments(), options) {}

Candidate Planner::Methods::judged(const Labels& labels, int64_t budget) {
  Candidate candidate{search.steps_of(labels, budget), {}};
  Simulator(problem).run(candidate.steps, candidate.outcome);
  return candidate;
}

Planner::Planner(const StepTrace& trace, const PlanOptions& options)
    : trace_(trace),
      options_(options),
      problem_(compile(trace, Store::leave)),
      stored_(compile_stored(trace)) {
  if (options.evaluations < 0 || options.slots < 1 || options.options_per_block < 1) {
    throw UsageError("options of a plan below their least: evaluations 0, slots 1, options 1",
                     "leave them at their defaults");
  }
  plain_.steps = plain_steps(problem_);
  Simulator(problem_).run(plain_.steps, plain_.outcome);
}

bool Planner::sends(const Candidate& candidate) const {
  return std::any_of(candidate.steps.begin(), candidate.steps.end(), [&](const Step& step) {
    return !step.is_event() && problem().role[step.op] == Role::send;
  });
}

Planner::Methods& Planner::alone() {
  if (!alone_methods_) alone_methods_.emplace(problem_, options_);
  return *alone_methods_;
}

Planner::Methods& Planner::stored() {
  if (!stored_methods_) stored_methods_.emplace(*stored_, options_);
  return *stored_methods_;
}

Found Planner::solve(int64_t budget, std::span<const Candidate> known,
                     std::span<const Candidate> known_best) {
  Found found;
  found.alone = solve_alone(budget, known);
  if (!found.alone && lowest_alone().outcome.peak <= budget) {
    found.alone = solve_alone(budget, {&lowest_alone(), 1});
  }
  found.best = found.alone;
  if (!stored_) return found;
  offload(budget, known_best, found.best);
  if (!found.best && lowest().outcome.peak <= budget) {
    offload(budget, {&lowest(), 1}, found.best);
  }
  return found;
}

std::optional<Candidate> Planner::solve_alone(int64_t budget, std::span<const Candidate> known) {
  if (plain_.outcome.peak <= budget) return plain_;
  if (least_peak(problem_) > budget) return std::nullopt;
  std::optional<Candidate> best;
  for (const Candidate& candidate : known) take_better(best, candidate, budget);
  if (!best && lowest_alone_) take_better(best, *lowest_alone_, budget);
  try {
    improve(budget, known, best);
  } catch (const Stopped&) {
    // The best so far.
  }
  return best;
}

void Planner::improve(int64_t budget, std::span<const Candidate> known,
                      std::optional<Candidate>& best) {
  auto& [problem, chain, search] = alone();
  const Candidate* from_known = start_of(known, budget);
  for (Candidate& candidate : chain.solve(budget)) take_better(best, std::move(candidate), budget);
  if (options_.evaluations == 0) return;

  search.restart(options_.seed);
  const auto search_from = [&](const Labels& labels) {
    leave_if_stopped(options_.stop);
    Labelled found = search.anneal(labels, budget);
    if (found.outcome.peak > budget) return;
    found = search.climb(found.labels, budget);
    take_better(best, alone().judged(found.labels, budget), budget);
  };
  const std::optional<Candidate> before = best;
  search_from(search.greedy(budget));
  search_from(search.keep_all());
  if (before) search_from(search.labels_of(before->steps));
  if (from_known != nullptr && (!before || before->steps != from_known->steps)) {
    search_from(search.labels_of(from_known->steps));
  }
  // The best of all a few times more: each search takes another way.
  for (int again = 0; best && again < kAgain; ++again) {
    search_from(search.labels_of(best->steps));
  }
}

// Whether any value could be sent and fetched within the time of the best, and for less work than
// the best has beyond the plain step.
bool Planner::may_gain(const std::optional<Candidate>& best) const {
  if (best && best->outcome.time <= plain_.outcome.time) return false;
  for (Index v = 0; v < stored_->values; ++v) {
    if (!stored_->movable[v]) continue;
    if (!best) return true;
    const double transfers = stored_->send_us[v] + stored_->fetch_us[v];
    const double work = stored_->time[stored_->sender[v]] + stored_->time[stored_->fetcher[v]];
    if (transfers < best->outcome.time && plain_.outcome.time + work < best->outcome.time) {
      return true;
    }
  }
  return false;
}

// Takes the best further with the store. Where there is one, what is found without a send is left:
// it would be another answer to the question that has been answered without the store.
void Planner::offload(int64_t budget, std::span<const Candidate> known,
                      std::optional<Candidate>& best) {
  const auto take = [&, all = !best](Candidate candidate) {
    if (all || sends(candidate)) take_better(best, std::move(candidate), budget);
  };
  if (!may_gain(best) || least_peak(*stored_) > budget) return;
  for (const Candidate& candidate : known) take(candidate);
  try {
    auto& [problem, chain, search] = stored();
    for (Candidate& candidate : chain.solve(budget)) take(std::move(candidate));
    if (options_.evaluations == 0) return;
    search.restart(options_.seed);
    const auto search_from = [&](const Labels& labels) {
      leave_if_stopped(options_.stop);
      if (best && best->outcome.time <= plain_.outcome.time) return;
      Labelled found = search.anneal(labels, budget);
      if (found.outcome.peak > budget) return;
      found = search.climb(found.labels, budget);
      take(stored().judged(found.labels, budget));
    };
    const std::optional<Candidate> before = best;
    search_from(search.greedy(budget));
    if (before) search_from(search.labels_of(before->steps));
    const Candidate* from_known = start_of(known, budget);
    if (from_known != nullptr) search_from(search.labels_of(from_known->steps));
    for (int again = 0; best && again < kAgain; ++again) {
      search_from(search.labels_of(best->steps));
    }
    // What takes no longer than the plain step may still send more than it need.
    if (!best || !sends(*best)) return;
    const Labels labels = search.labels_of(best->steps);
    take(stored().judged(search.climb(labels, budget, Ties::fewer_steps).labels, budget));
  } catch (const Stopped&) {
    // The best so far.
  }
}

const Candidate& Planner::lowest_alone() {
  if (lowest_alone_) return *lowest_alone_;
  lowest_alone_ = plain_;
  try {
    lower(alone(), *lowest_alone_);
  } catch (const Stopped&) {
    // The lowest so far.
  }
  return *lowest_alone_;
}

const Candidate& Planner::lowest() {
  if (!stored_) return lowest_alone();
  if (lowest_) return *lowest_;
  lowest_ = lowest_alone();
  try {
    lower(stored(), *lowest_);
  } catch (const Stopped&) {
    // The lowest so far.
  }
  return *lowest_;
}

void Planner::lower(Methods& methods, Candidate& best) {
  // The programme is finer the smaller the budget is: ask again just below what was found.
  for (int failures = 0; failures < 2;) {
    const int64_t budget = best.outcome.peak - 1 - best.outcome.peak / (failures == 0 ? 8 : 50);
    if (budget < 1) break;
    bool found = false;
    for (Candidate& candidate : methods.chain.solve(budget)) {
      if (candidate.outcome.peak >= best.outcome.peak) continue;
      best = std::move(candidate);
      found = true;
    }
    if (!found) ++failures;
  }
  if (options_.evaluations == 0) return;
  Search& search = methods.search;
  search.restart(options_.seed);
  for (const Labels& start : {search.labels_of(best.steps), search.keep_all()}) {
    leave_if_stopped(options_.stop);
    const Labelled found = search.lower(start);
    if (found.outcome.peak < best.outcome.peak) best = methods.judged(found.labels, 0);
  }
}

std::optional<Candidate> Planner::candidate_of(const Plan& plan) const {
  if (plan.decisions.size() != trace_.values.size()) return std::nullopt;
  Candidate candidate;
  try {
    candidate.steps = steps_of(problem(), plan.steps);
  } catch (const UsageError&) {
    return std::nullopt;
  }
  if (!Simulator(problem()).run(candidate.steps, candidate.outcome)) return std::nullopt;
  return candidate;
}

Plan Planner::plan_of(const Candidate& candidate, int64_t budget) {
  Plan plan;
  plan.key = key_of(trace_);
  plan.measurement = measurement_of(trace_);
  plan.budget_bytes = budget;
  plan.seed = options_.seed;
  describe(problem(), candidate.steps, plan);
  plan.bound_microseconds = plan.plain_microseconds;
  if (options_.bound && plan.plain_peak_bytes > budget) {
    plan.bound_microseconds += least_extra_time(
        problem(), budget, plan.microseconds - plan.plain_microseconds, options_.stop);
    // Sums of other orders: never above by a last digit.
    plan.bound_microseconds = std::min(plan.bound_microseconds, plan.microseconds);
  }
  return plan;
}

std::string Planner::name_of(const Step& step) const {
  if (step.is_event()) return trace_.events[step.event()].name;
  if (step.op < problem_.operators) return trace_.operators[step.op].name;
  return problem().role[step.op] <= Role::decode ? "encoding" : "a transfer";
}

std::vector<Index> Planner::live_at(const Candidate& candidate, std::size_t step) {
  Outcome outcome;
  std::vector<Life> lives;
  Simulator(problem()).run(candidate.steps, outcome, nullptr, &lives);
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
