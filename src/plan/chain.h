// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "plan/problem.h"

// The chain programme: the fastest persistent schedule of a chain of blocks within a number of
// bytes, by dynamic programming over intervals of blocks and bytes (docs/planning.md has the
// recurrences and where they come from).
//
// Peaks are given by the block. `gradient` is what is live in gradients as the backward pass of the
// block begins: the test of every forward run asks for it, since it is live while that runs.

namespace reprise::planner {

/// One way to run a block, forward and backward.
struct BlockOption {
  double time = 0;       // forward and backward, replays included
  int64_t kept = 0;      // live between the two, the block's output included
  int64_t forward = 0;   // peak of the forward run, above the gradients that are live meanwhile
  int64_t backward = 0;  // peak of the backward run, gradients included
};

struct ChainBlock {
  std::vector<BlockOption> options;  // when blocks behind it run between forward and backward
  std::vector<BlockOption> last;     // when its backward run follows at once; `kept` is not used
  double bare_time = 0;              // of a forward run that keeps nothing but the output
  int64_t bare = 0;                  // its peak
  int64_t gradient = 0;
};

struct Chain {
  std::vector<ChainBlock> blocks;

  /// [s][j - s], j > s: bytes of block j's input that are no part of block s's.
  std::vector<std::vector<int64_t>> checkpoint;
};

/// One entry of a plan for a chain.
struct ChainStep {
  enum class Kind { bare, forward, backward };
  Kind kind = Kind::bare;
  Index block = 0;
  Index option = kNone;  // of a forward or backward run
  bool last = false;     // the option is one of ChainBlock::last
};

class ChainProgramme {
 public:
  /// `budget` bytes are `slots` slots; sizes are rounded up to whole slots. Plans can be had for
  /// up to `most` slots. Throws Stopped.
  ChainProgramme(const Chain& chain, int64_t budget, int slots, int most,
                 const std::stop_token& stop = {});

  /// Least time within a number of slots, infinite if nothing fits.
  float time(int slots) const { return row(0, blocks() - 1)[slots]; }

  /// REQUIRES: time(slots) is finite.
  std::vector<ChainStep> plan(int slots) const;

 private:
  struct Rounded {
    float time;
    int kept;
    int least;  // slots below which the option cannot run
    Index option;
  };

  Index blocks() const { return static_cast<Index>(chain_.blocks.size()); }
  float* row(Index s, Index t) { return table_.data() + offset(s, t); }
  const float* row(Index s, Index t) const { return table_.data() + offset(s, t); }
  std::size_t offset(Index s, Index t) const;
  int& first_finite(Index s, Index t);
  int slots_for(int64_t bytes) const;
  std::vector<Rounded> rounded(const std::vector<BlockOption>& options, int64_t gradient) const;
  void fill_row(Index s, Index t);
  void append(Index s, Index t, int slots, std::vector<ChainStep>& steps) const;
  float bare_between(Index s, Index j) const {
    return static_cast<float>(bare_time_[j] - bare_time_[s]);
  }

  const Chain& chain_;
  const double slots_per_byte_;
  const int most_;
  std::vector<double> bare_time_;  // of the blocks before
  std::vector<int> first_finite_;  // slots, by row
  std::vector<float> table_;       // triangular: rows by s, then t, then slots
  double tie_ = 0;                 // differences below it are none
};

}  // namespace reprise::planner
