// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/chain_solver.h"
#include "plan/search.h"

// All methods together, for one trace: made once, asked for several budgets. What a store gives is
// looked for last, from the best plan that needs none: so no plan is slower for there being one.

namespace reprise::planner {

/// The best schedules found within a budget, if any.
struct Found {
  std::optional<Candidate> alone;  // that sends nothing: the same as without a store
  std::optional<Candidate> best;
};

class Planner {
 public:
  Planner(const StepTrace& trace, const PlanOptions& options);

  /// `known` may hold schedules to start from; with a store, `known_best` too. Stopped, the best so
  /// far.
  Found solve(int64_t budget, std::span<const Candidate> known,
              std::span<const Candidate> known_best = {});

  /// The schedule of the lowest peak that is found. Stopped, the lowest so far.
  const Candidate& lowest();

  /// Whether a schedule sends anything.
  bool sends(const Candidate& candidate) const;

  /// What a plan for another trace is for this one; none if its schedule is no schedule here.
  std::optional<Candidate> candidate_of(const Plan& plan) const;

  Plan plan_of(const Candidate& candidate, int64_t budget);

  /// Error for a budget below that of lowest().
  BudgetInfeasible infeasible(int64_t budget);

  LeastBudget least();

  const Problem& problem() const { return stored_ ? *stored_ : problem_; }
  const Candidate& plain() const { return plain_; }

 private:
  struct Methods {
    Methods(const Problem& problem, const PlanOptions& options);
    Candidate judged(const Labels& labels, int64_t budget);

    const Problem& problem;
    ChainSolver chain;
    Search search;
  };

  Methods& alone();
  Methods& stored();
  std::optional<Candidate> solve_alone(int64_t budget, std::span<const Candidate> known);
  void improve(int64_t budget, std::span<const Candidate> known, std::optional<Candidate>& best);
  void offload(int64_t budget, std::span<const Candidate> known, std::optional<Candidate>& best);
  bool may_gain(const std::optional<Candidate>& best) const;
  const Candidate& lowest_alone();
  void lower(Methods& methods, Candidate& best);
  std::string name_of(const Step& step) const;
  std::vector<Index> live_at(const Candidate& candidate, std::size_t step);

  const StepTrace& trace_;
  const PlanOptions options_;
  const Problem problem_;                // as if there were no store
  const std::optional<Problem> stored_;  // where there is one
  Candidate plain_;
  std::optional<Methods> alone_methods_, stored_methods_;  // made when first needed
  std::optional<Candidate> lowest_alone_, lowest_;
};

}  // namespace reprise::planner
