// SPDX-License-Identifier: BSD-3-Clause
#include "plan/blocks.h"

#include <algorithm>
#include <map>

#include "plan/block_options.h"
#include "plan/stop.h"

namespace reprise::planner {
namespace {

constexpr std::size_t kMostCandidates = 12;  // 4096 sets of them are tried

Index block_of(const std::vector<Index>& cuts, Index op) {
  const auto above = std::upper_bound(cuts.begin(), cuts.end(), std::max(op, Index{0}));
  return static_cast<Index>(above - cuts.begin()) - 1;
}

void add_outputs(const Problem& problem, Block& block) {
  for (Index i = block.begin; i < block.end; ++i) {
    for (Index v : problem.makes[i]) {
      const bool read_later = problem.last_read[v] >= block.end;
      const bool is_result = block.end == problem.operators && i == problem.operators - 1;
      if (read_later || is_result) block.outputs.push_back(v);
    }
  }
}

// Large values that its backward events or its own operators ask for; the largest, if too many.
void add_candidates(const Problem& problem, const std::vector<char>& large, Block& block) {
  std::vector<char> used(problem.values, 0);
  for (Index i = block.begin; i < block.end; ++i) {
    for (Index v : problem.reads[i]) used[v] = 1;
  }
  for (Index j : block.events) {
    for (Index v : problem.needs[j]) used[v] = 1;
  }
  for (Index v : block.outputs) used[v] = 1;
  for (Index i = block.begin; i < block.end; ++i) {
    for (Index v : problem.makes[i]) {
      if (large[v] && used[v] && !problem.fixed[v]) block.candidates.push_back(v);
    }
  }
  if (block.candidates.size() > kMostCandidates) {
    std::stable_sort(block.candidates.begin(), block.candidates.end(),
                     [&](Index a, Index b) { return problem.bytes[a] > problem.bytes[b]; });
    block.candidates.resize(kMostCandidates);
    std::sort(block.candidates.begin(), block.candidates.end());
  }
}

// [s][j - s]: what is made in blocks s .. j-1 and read in j or later.
std::vector<std::vector<int64_t>> checkpoints(const Problem& problem,
                                              const std::vector<Index>& cuts) {
  const auto n = static_cast<Index>(cuts.size()) - 1;
  std::vector<std::vector<int64_t>> bytes(n);
  for (Index s = 0; s < n; ++s) bytes[s].assign(n - s + 1, 0);
  std::vector<int64_t> made_in(n);
  for (Index j = 1; j < n; ++j) {
    std::fill(made_in.begin(), made_in.end(), 0);
    for (Index i = 0; i < cuts[j]; ++i) {
      for (Index v : problem.makes[i]) {
        if (problem.last_read[v] >= cuts[j]) made_in[block_of(cuts, i)] += problem.bytes[v];
      }
    }
    int64_t sum = 0;
    for (Index s = j - 1; s >= 0; --s) {
      sum += made_in[s];
      bytes[s][j - s] = sum;
    }
  }
  return bytes;
}

}  // namespace

BlockChain make_blocks(const Problem& problem, const std::vector<Index>& cuts, int most_options,
                       const std::stop_token& stop) {
  BlockChain result;
  const std::vector<char> large = large_values(problem);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    result.blocks.emplace_back();
    result.blocks.back().begin = cuts[i];
    result.blocks.back().end = cuts[i + 1];
  }
  for (Index j = 0; j < problem.events; ++j) {
    result.block_of_event.push_back(block_of(cuts, problem.event_operator[j]));
    result.blocks[result.block_of_event.back()].events.push_back(j);
  }

  std::map<std::string, BlockChoices> known;
  for (Block& block : result.blocks) {
    leave_if_stopped(stop);
    add_outputs(problem, block);
    add_candidates(problem, large, block);
    BlockProblem alone(problem, block);
    const auto [found, is_new] = known.try_emplace(alone.signature());
    if (is_new) found->second = choose_options(alone, most_options, stop);
    block.choices = found->second.choices;
    block.last = found->second.last;

    ChainBlock cost;
    for (const Choice& choice : block.choices)
      cost.options.push_back(alone.simulate(choice, false));
    for (const Choice& choice : block.last) cost.last.push_back(alone.simulate(choice, true));
    BlockOption bare;
    block.bare = alone.bare_run(bare);
    cost.bare_time = bare.time;
    cost.bare = bare.forward;
    cost.gradient = alone.gradient();
    result.chain.blocks.push_back(std::move(cost));
  }
  // A block without events is passed by with the gradients of the one behind it.
  for (std::size_t i = result.blocks.size(); i-- > 0;) {
    if (!result.blocks[i].events.empty() || i + 1 == result.blocks.size()) continue;
    result.chain.blocks[i].gradient = result.chain.blocks[i + 1].gradient;
  }
  result.chain.checkpoint = checkpoints(problem, cuts);
  if (problem.has_store) add_sends(problem, result);
  return result;
}

}  // namespace reprise::planner
