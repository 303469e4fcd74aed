// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "plan/simulate.h"

// When transfers had best begin and end. Memory that is being written, or read into, counts; who
// needs it back, or its contents, waits. So each has as long as it takes, and less only where the
// budget asks for its memory.

namespace reprise::planner {

class Placer {
 public:
  explicit Placer(const Problem& problem) : problem_(problem), simulator_(problem) {}

  /// Adds to a schedule of sends and fetches the steps behind which sent values go, and moves
  /// fetches ahead, to before other events that unpack. What keeps the budget keeps it.
  /// REQUIRES: every fetch stands before the event that needs it; nothing settles yet.
  void place(int64_t budget, Steps& steps);

 private:
  struct Sent {
    Index value;
    Index last;   // the step that uses it last before it goes
    double done;  // when it is written
  };
  struct Fetch {
    Index position;
    Index reader;  // the first step that waits for it
    Index before;  // the last step of the value's life before
  };

  bool look(const Steps& steps);
  void settle(int64_t budget, const Steps& steps);
  void fetch_ahead(int64_t budget, const Steps& steps);
  Index slot_before(const Steps& steps, Index at) const;
  bool is_room(int64_t budget, const Steps& steps, Index begin, Index end, int64_t bytes) const;
  void write(Steps& steps);

  struct Insertion {
    Index at;  // before this step
    Step step;
  };

  const Problem& problem_;
  Simulator simulator_;
  std::vector<Life> lives_;
  std::vector<int64_t> curve_;  // bytes during each step
  std::vector<double> begins_;  // time at which each step begins
  std::vector<Index> slot_;     // where the steps before the event begin, by step
  std::vector<Index> gone_;     // the step behind which a value is gone, by value
  std::vector<Sent> sent_, pending_;
  std::vector<Fetch> fetches_;
  std::vector<Insertion> settled_, fetched_;
  std::vector<char> moved_;               // fetches, by step
  std::vector<Index> last_, first_last_;  // steps at which lives end, by value
  std::vector<Index> before_;             // the same of the life before, by step that begins one
  std::vector<double> written_;           // by value
  Steps placed_;
};

}  // namespace reprise::planner
