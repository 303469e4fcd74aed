// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "plan/blocks.h"
#include "plan/schedule.h"

// The ways to run one block: every set of its candidates kept, the rest brought back, each
// simulated alone, and the best of them.

namespace reprise::planner {

/// A block cut out of its step, as a problem of its own: what it reads of other blocks is there for
/// nothing, and its event 0 stands for "the blocks behind run", where its outputs are live.
class BlockProblem {
 public:
  BlockProblem(const Problem& problem, const Block& block);

  /// Equal for blocks of the same operators, sizes and connections, whatever their times are and
  /// whatever gradients of other blocks are live beside them.
  const std::string& signature() const { return signature_; }

  /// What a choice takes. `at_once`: the backward run follows the forward run, which then need not
  /// make the outputs.
  BlockOption simulate(const Choice& choice, bool at_once);

  /// The operators of a run that makes the outputs only, as operators of the step; its time and
  /// peak are those of the option's forward run.
  std::vector<Index> bare_run(BlockOption& cost);

  int64_t gradient() const { return gradient_; }
  std::size_t candidates() const { return candidates_.size(); }

  /// Whether one of these candidates has a smaller form.
  bool can_encode(uint32_t kept) const;

 private:
  void set_labels(const Choice& choice);
  void mark(Index value);
  void mark_inputs();
  double append_forward();
  void append_backward();

  const Index first_operator_;
  Problem inner_;
  std::string signature_;
  std::vector<Index> candidates_;  // as values of inner_
  int64_t gradient_ = 0;           // live as the block's backward run begins
  Simulator simulator_;
  Labels labels_;
  Steps steps_;
  std::vector<char> present_, marked_;
  std::vector<Index> stack_;
  std::vector<int64_t> curve_;
};

/// What a block has to offer, at most about `most` options. Throws Stopped.
struct BlockChoices {
  std::vector<Choice> choices, last;
};
BlockChoices choose_options(BlockProblem& block, int most, const std::stop_token& stop);

}  // namespace reprise::planner
