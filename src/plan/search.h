// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "plan/schedule.h"
#include "plan/transfers.h"

// Search on labels: greedy dropping, simulated annealing, hill-climbing. Every move is judged by
// the simulator; the seed decides the rest.

namespace reprise::planner {

struct Labelled {
  Labels labels;
  Outcome outcome;
};

/// What to make of a schedule that is as fast as the best: transfers that no one waits for may take
/// no time, and still are better left.
enum class Ties : uint8_t { leave, fewer_steps };

class Search {
 public:
  /// Of the options: the seed; the evaluations for one call of anneal(), and half as many for
  /// climb(); and the token. Stopped, each call returns what it has.
  Search(const Problem& problem, const std::vector<Index>& segments, const PlanOptions& options);

  /// Draws from the beginning again, so that one question has one answer.
  void restart(uint64_t seed) { random_.seed(seed); }

  Labels keep_all() const { return Labels(problem_.values, Label::keep); }

  /// The nearest labels to a schedule.
  Labels labels_of(const Steps& steps) const;

  /// Drops or sends, from keep_all(), what costs least time for each byte above the budget that it
  /// takes away, until the budget is kept or nothing helps.
  Labels greedy(int64_t budget);

  /// The fastest found that keeps the budget; if there is none, the lowest peak found.
  Labelled anneal(const Labels& start, int64_t budget);

  /// Keeps one more, or sends it; keeps one and drops another; as long as that is faster within the
  /// budget, or as `ties` says.
  Labelled climb(const Labels& from, int64_t budget, Ties ties = Ties::leave);

  /// The lowest peak found, at any price.
  Labelled lower(const Labels& start);

  /// Transfers are placed for the budget.
  Steps steps_of(const Labels& labels, int64_t budget);

 private:
  template <class Cost, class IsBetter>
  Labelled anneal(const Labels& start, int64_t budget, int64_t room, const Cost& cost_of,
                  const IsBetter& is_better);
  Outcome judge(const Labels& labels, int64_t budget, std::vector<int64_t>* curve = nullptr);
  Outcome judge_steps(int64_t budget, std::vector<int64_t>* curve = nullptr);
  bool can_be(Index value, Label label) const;
  int affordable(std::size_t steps) const;
  Label other_label(Index value, Label now);
  void change(Labels& labels);
  std::size_t below(std::size_t limit) { return random_() % limit; }
  double chance() { return static_cast<double>(random_() >> 11U) * 0x1.0p-53; }

  const Problem& problem_;
  Scheduler scheduler_;
  Simulator simulator_;
  Placer placer_;
  const int evaluations_;
  const std::stop_token stop_;
  std::mt19937_64 random_;
  std::vector<Index> candidates_;            // values that are worth a move
  std::vector<std::vector<Index>> classes_;  // candidates of one operator, result and size
  std::vector<Index> class_of_;              // by value
  Steps steps_;
  Outcome plain_;
  double usual_time_ = 0;  // of a forward operator
};

}  // namespace reprise::planner
