// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stop_token>
#include <vector>

#include "plan/chain.h"
#include "plan/simulate.h"

// A step as a chain of blocks: where to cut it, and which ways there are to run a block.

namespace reprise::planner {

/// Positions of the forward pass, from 0 to the number of operators, such that few bytes cross them
/// and at most `most_large` large values are made between two. Large: see is_large().
std::vector<Index> choose_cuts(const Problem& problem, int most_large);

/// Whether a value is worth a decision of its own: more than 1/4096 of the plain step's peak.
std::vector<char> large_values(const Problem& problem);

/// Which of a block's candidates are kept, by bit; whether those that can be are encoded; and which
/// of the kept are kept in the store.
struct Choice {
  uint32_t kept = 0;
  bool encodes = false;
  uint32_t sent = 0;
};

struct Block {
  Index begin = 0, end = 0;       // operators
  std::vector<Index> events;      // ascending
  std::vector<Index> outputs;     // values made here that later blocks read
  std::vector<Index> candidates;  // large values that someone may ask for
  std::vector<Choice> choices;    // behind ChainBlock::options
  std::vector<Choice> last;       // behind ChainBlock::last
  std::vector<Index> bare;        // operators of a run that makes the outputs only
};

struct BlockChain {
  std::vector<Block> blocks;
  std::vector<Index> block_of_event;
  Chain chain;
};

/// Blocks with the same operators, sizes and connections share the search for their options. Throws
/// Stopped.
BlockChain make_blocks(const Problem& problem, const std::vector<Index>& cuts, int most_options,
                       const std::stop_token& stop);

/// With a store: every option once more for each part of what can be written while the next block
/// runs forward, and read while it runs backward. Those bytes are counted as gone at once; plans
/// are judged with what they truly take.
void add_sends(const Problem& problem, BlockChain& chain);

/// The schedule that a plan for the chain means, dead replays deleted.
Steps schedule_of(const Problem& problem, const BlockChain& blocks,
                  const std::vector<ChainStep>& plan);

}  // namespace reprise::planner
