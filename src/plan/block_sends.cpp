// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "plan/blocks.h"

namespace reprise::planner {
namespace {

// Parts of what the queue can take behind one block.
constexpr double kParts[] = {1.0, 0.5};

struct Window {
  double forward = 0;   // time of a block's forward run
  double backward = 0;  // and of its backward run
};

Window window_of(const Problem& problem, const Block& block) {
  Window window;
  for (Index i = block.begin; i < block.end; ++i) window.forward += problem.time[i];
  for (Index j : block.events) window.backward += problem.event_time[j];
  return window;
}

// Kept as it is, and asked for by the block's own backward run.
bool can_be_sent(const Problem& problem, const Block& block, const Choice& choice, std::size_t i) {
  const Index v = block.candidates[i];
  if ((choice.kept >> i & 1U) == 0 || !problem.movable[v]) return false;
  if (choice.encodes && problem.encoder[v] != kNone) return false;
  const std::span<const Index> asked = problem.needed_at[v];
  return std::any_of(block.events.begin(), block.events.end(),
                     [&](Index j) { return std::binary_search(asked.begin(), asked.end(), j); });
}

// Sends the largest values that the window has room for.
Choice with_sends(const Problem& problem, const Block& block, Choice choice, Window window) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < block.candidates.size(); ++i) {
    if (can_be_sent(problem, block, choice, i)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return problem.bytes[block.candidates[a]] > problem.bytes[block.candidates[b]];
  });
  for (std::size_t i : order) {
    const Index v = block.candidates[i];
    if (problem.send_us[v] > window.forward || problem.fetch_us[v] > window.backward) continue;
    window.forward -= problem.send_us[v];
    window.backward -= problem.fetch_us[v];
    choice.sent |= 1U << i;
  }
  return choice;
}

}  // namespace

void add_sends(const Problem& problem, BlockChain& chain) {
  for (std::size_t k = 0; k + 1 < chain.blocks.size(); ++k) {
    Block& block = chain.blocks[k];
    const Window behind = window_of(problem, chain.blocks[k + 1]);
    const std::size_t count = block.choices.size();
    for (std::size_t c = 0; c < count; ++c) {
      uint32_t before = 0;
      for (double part : kParts) {
        const Choice choice = with_sends(problem, block, block.choices[c],
                                         {part * behind.forward, part * behind.backward});
        if (choice.sent == before) break;
        before = choice.sent;
        BlockOption option = chain.chain.blocks[k].options[c];
        for (std::size_t i = 0; i < block.candidates.size(); ++i) {
          if ((choice.sent >> i & 1U) == 0) continue;
          const Index v = block.candidates[i];
          option.kept -= problem.bytes[v];
          option.time += problem.time[problem.sender[v]] + problem.time[problem.fetcher[v]];
        }
        block.choices.push_back(choice);
        chain.chain.blocks[k].options.push_back(option);
      }
    }
  }
}

}  // namespace reprise::planner
