// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reprise/plan.h>

#include "plan/batch.h"
#include "plan/bound.h"
#include "plan/planner.h"
#include "plan/stop.h"

// The largest batch that fits, by bisection. Whether a batch fits is asked of schedules that fitted
// another one first: sizes change with the batch, operators do not.

namespace reprise {
namespace {

using planner::Candidate;
using planner::Planner;

// The first search for a low peak is in full; those of other batches know its schedule, and are
// shorter by this.
constexpr int kPatience = 10;

class Probe {
 public:
  Probe(const TracedBatch& a, const TracedBatch& b, int64_t budget, const PlanOptions& options)
      : a_(a), b_(b), budget_(budget), options_(options), brief_(options) {
    brief_.evaluations = options.evaluations / kPatience;
  }

  bool fits(int64_t batch) {
    const std::optional<TracedBatch> step = planner::scaled(a_, b_, batch);
    if (!step) return false;
    const int64_t left = budget_ - step->base_bytes;
    if (left < 1) return false;
    Planner planner(step->trace, known_.empty() ? options_ : brief_);
    if (planner.plain().outcome.peak <= left) return true;
    if (planner::least_peak(planner.problem()) > left) return false;
    for (const Candidate& candidate : judged(planner)) {
      if (candidate.outcome.peak <= left) return true;
    }
    known_.push_back(planner.lowest().steps);
    return planner.lowest().outcome.peak <= left;
  }

  /// REQUIRES: fits(batch).
  LargestBatch result(int64_t batch) {
    LargestBatch largest;
    largest.step = std::move(*planner::scaled(a_, b_, batch));
    const int64_t left = budget_ - largest.step.base_bytes;
    Planner planner(largest.step.trace, options_);
    largest.plan = planner.plan_of(*best_of(planner, left), left);
    return largest;
  }

  /// Why not even a single sample fits.
  BudgetInfeasible infeasible() const {
    const std::optional<TracedBatch> one = planner::scaled(a_, b_, 1);
    const int64_t base = one ? one->base_bytes : std::max(a_.base_bytes, b_.base_bytes);
    const int64_t least = Planner(one ? one->trace : a_.trace, options_).lowest().outcome.peak;
    return {"no batch fits " + std::to_string(budget_) + " bytes: a single sample needs " +
                std::to_string(base) + " in the base and " + std::to_string(least) + " above it",
            "give a larger budget, or a smaller model", budget_, base + least, ""};
  }

 private:
  std::optional<Candidate> best_of(Planner& planner, int64_t budget) const {
    const std::vector<Candidate> all = judged(planner);
    std::vector<Candidate> alone;
    for (const Candidate& candidate : all) {
      if (!planner.sends(candidate)) alone.push_back(candidate);
    }
    return planner.solve(budget, alone, all).best;
  }

  std::vector<Candidate> judged(const Planner& planner) const {
    std::vector<Candidate> candidates;
    planner::Simulator simulator(planner.problem());
    for (const planner::Steps& steps : known_) {
      Candidate candidate{steps, {}};
      if (simulator.run(steps, candidate.outcome)) candidates.push_back(std::move(candidate));
    }
    return candidates;
  }

  const TracedBatch& a_;
  const TracedBatch& b_;
  const int64_t budget_;
  const PlanOptions options_;
  PlanOptions brief_;
  std::vector<planner::Steps> known_;
};

}  // namespace

LargestBatch largest_batch(const TracedBatch& a, const TracedBatch& b, int64_t budget_bytes,
                           const PlanOptions& options, int64_t most) {
  planner::check_batches(a, b);
  if (budget_bytes < 1 || most < 1) {
    throw UsageError("a largest batch of at most " + std::to_string(most) + " within " +
                         std::to_string(budget_bytes) + " bytes",
                     "give numbers above 0");
  }
  Probe probe(a, b, budget_bytes, options);
  int64_t fits = 0, over = most;
  int64_t next = std::min(std::max(a.batch, b.batch), most);
  // Doubled until it does not fit, then halved in between.
  while (fits < most) {
    if (!probe.fits(next)) {
      over = next;
      break;
    }
    fits = next;
    next = std::min(2 * next, most);
  }
  while (fits + 1 < over) {
    const int64_t middle = fits + (over - fits) / 2;
    (probe.fits(middle) ? fits : over) = middle;
  }
  if (fits == 0) {
    if (options.stop.stop_requested()) throw planner::stopped_early();
    throw probe.infeasible();
  }
  return probe.result(fits);
}

}  // namespace reprise
