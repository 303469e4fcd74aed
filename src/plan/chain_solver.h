// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "plan/blocks.h"

// Plans by the chain programme. Blocks are simulated alone and sizes rounded up, so a plan for more
// than the budget may fit it: such plans are made, too, and all are judged by the simulator.

namespace reprise::planner {

struct Candidate {
  Steps steps;
  Outcome outcome;
};

class ChainSolver {
 public:
  /// Throws Stopped.
  ChainSolver(const Problem& problem, const PlanOptions& options);

  /// Schedules for about `budget` bytes, of every time that the programme offers up to 1.3 times as
  /// many. Not all fit the budget. Stopped, it returns what it has.
  std::vector<Candidate> solve(int64_t budget) const;

  /// Segments of the backward pass: the block of each event.
  const std::vector<Index>& segments() const { return chains_.front().block_of_event; }

 private:
  void add_plans(const BlockChain& chain, int64_t budget, std::vector<Candidate>& candidates) const;

  const Problem& problem_;
  const int slots_;
  const std::stop_token stop_;
  std::vector<BlockChain> chains_;  // of several sets of cuts
};

}  // namespace reprise::planner
