// SPDX-License-Identifier: BSD-3-Clause
#include "plan/chain_solver.h"

#include <algorithm>
#include <cmath>

#include "plan/stop.h"
#include "plan/transfers.h"

namespace reprise::planner {
namespace {

constexpr double kLift = 1.3;

// No set of cuts is best everywhere: blocks of at most so many large values.
constexpr int kLargePerBlock[] = {11, 7};

// Fewer slots for long chains: the programme takes blocks^3 / 6 · slots additions.
int affordable_slots(std::size_t blocks, int wanted) {
  const double n = static_cast<double>(blocks);
  const double most = 1e9 / std::max(1.0, n * n * n / 6);
  return std::clamp(static_cast<int>(most), std::min(64, wanted), wanted);
}

}  // namespace

ChainSolver::ChainSolver(const Problem& problem, const PlanOptions& options)
    : problem_(problem), slots_(options.slots), stop_(options.stop) {
  std::vector<Index> before;
  for (int large : kLargePerBlock) {
    std::vector<Index> cuts = choose_cuts(problem, large);
    if (cuts == before || (!chains_.empty() && cuts.size() > 150)) continue;
    chains_.push_back(make_blocks(problem, cuts, options.options_per_block, stop_));
    before = std::move(cuts);
  }
}

std::vector<Candidate> ChainSolver::solve(int64_t budget) const {
  std::vector<Candidate> candidates;
  try {
    for (const BlockChain& chain : chains_) add_plans(chain, budget, candidates);
  } catch (const Stopped&) {
    // What there is.
  }
  return candidates;
}

void ChainSolver::add_plans(const BlockChain& chain, int64_t budget,
                            std::vector<Candidate>& candidates) const {
  const int slots = affordable_slots(chain.blocks.size(), slots_);
  const int most = static_cast<int>(slots * kLift);
  const ChainProgramme programme(chain.chain, budget, slots, most, stop_);
  Simulator simulator(problem_);
  Placer placer(problem_);
  float last = -1;
  for (int m = slots * 9 / 10; m <= most; ++m) {
    leave_if_stopped(stop_);
    const float time = programme.time(m);
    if (!std::isfinite(time) || time == last) continue;
    last = time;
    Candidate candidate{schedule_of(problem_, chain, programme.plan(m)), {}};
    if (problem_.has_store) placer.place(budget, candidate.steps);
    if (!simulator.run(candidate.steps, candidate.outcome)) continue;
    candidates.push_back(std::move(candidate));
  }
}

}  // namespace reprise::planner
