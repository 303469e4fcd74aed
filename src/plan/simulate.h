// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <vector>

#include "plan/problem.h"

// The judge: what a schedule takes, to the byte, in one linear pass; where values are sent, a
// second pass has the time, with what it waits for the store. Everything that the planner finds is
// judged here.

namespace reprise::planner {

/// An operator that runs, or an event: -1 - its index. First runs leave everything.
struct Step {
  Index op = 0;
  Mask leaves = kAll;
  bool is_event() const { return op < 0; }
  Index event() const { return -1 - op; }
  bool operator==(const Step&) const = default;
};
using Steps = std::vector<Step>;

inline Step event_step(Index event) { return {-1 - event, 0}; }

struct Outcome {
  double time = 0;
  int64_t peak = 0;
  std::size_t peak_step = 0;
};

/// From the step that makes a value to the one that uses it last.
struct Life {
  Index value = 0;
  Index first = 0;
  Index last = 0;
};

/// Has working memory of its own; one for each thread.
class Simulator {
 public:
  explicit Simulator(const Problem& problem) : problem_(problem) {}

  /// False if something is read that is not there. `lives`, `curve`: filled where given.
  bool run(std::span<const Step> steps, Outcome& outcome, std::vector<int64_t>* curve = nullptr,
           std::vector<Life>* lives = nullptr);

  /// When each step of the schedule that was run last begins to run.
  std::vector<double> begins(std::span<const Step> steps) {
    std::vector<double> begins(steps.size());
    time_with_waits(steps, &begins);
    return begins;
  }

 private:
  void end_life(Index value, std::vector<Life>* lives);
  double time_with_waits(std::span<const Step> steps, std::vector<double>* begins = nullptr);

  const Problem& problem_;
  std::vector<int64_t> change_;  // of live bytes, by step
  std::vector<int64_t> beside_;  // bytes of the step itself
  std::vector<Index> first_, last_;
  std::vector<char> moves_;             // its life ends when the store is done with it
  std::vector<Life> moved_;             // lives of such values
  std::vector<double> written_, read_;  // when the store is done, by value
};

}  // namespace reprise::planner
