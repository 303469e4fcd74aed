// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/chain_solver.h"
#include "plan/search.h"

// All methods together, for one trace: made once, asked for several budgets.

namespace reprise::planner {

class Planner {
 public:
  Planner(const StepTrace& trace, const PlanOptions& options);

  /// The best schedule found within the budget, if any. `known` may hold schedules to start from.
  /// Stopped, the best so far.
  std::optional<Candidate> solve(int64_t budget, std::span<const Candidate> known);

  /// The schedule of the lowest peak that is found. Stopped, the lowest so far.
  const Candidate& lowest();

  /// What a plan for another trace is for this one; none if its schedule is no schedule here.
  std::optional<Candidate> candidate_of(const Plan& plan) const;

  Plan plan_of(const Candidate& candidate, int64_t budget);

  /// Error for a budget below that of lowest().
  BudgetInfeasible infeasible(int64_t budget);

  LeastBudget least();

  const Problem& problem() const { return problem_; }
  const Candidate& plain() const { return plain_; }

 private:
  void prepare();
  void improve(int64_t budget, std::span<const Candidate> known, std::optional<Candidate>& best);
  void lower(Candidate& best);
  Candidate judged(Steps steps);
  std::string name_of(const Step& step) const;
  std::vector<Index> live_at(const Candidate& candidate, std::size_t step);

  const StepTrace& trace_;
  const PlanOptions options_;
  const Problem problem_;
  Candidate plain_;
  std::optional<ChainSolver> chain_;  // made when first needed, as is the search
  std::optional<Search> search_;
  std::optional<Candidate> lowest_;
};

}  // namespace reprise::planner
