// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <vector>

#include "plan/simulate.h"

// Labels, one for each value, and the schedule that they mean. Labels are what the search changes;
// schedules are what is judged and executed.

namespace reprise::planner {

enum class Label : uint8_t {
  keep,       // after the forward pass, as long as anyone needs it
  encode,     // keep the smaller form
  offload,    // keep it in the store; once fetched, it stays within the segment
  retain,     // drop; once replayed, it stays until its last use
  segment,    // drop; once replayed, it stays within the segment
  transient,  // drop; once replayed, it serves one event
};
using Labels = std::vector<Label>;

inline bool is_dropped(Label label) { return label >= Label::retain; }

/// What brings a value back that is not there.
inline Index operator_for(const Problem& problem, Index value, Label label) {
  if (label == Label::encode) return problem.decoder[value];
  if (label == Label::offload) return problem.fetcher[value];
  return problem.producer[value];
}

/// Makes schedules. Replays are lazy: at the first unpack that needs one, the operators between it
/// and what is there run, in the order of the tape.
class Scheduler {
 public:
  /// `segments`: one number for each event, equal within a segment. Default: one segment.
  explicit Scheduler(const Problem& problem, std::vector<Index> segments = {});

  /// Values that are fixed must be labelled keep. Returns the time above the plain step.
  double build(const Labels& labels, Steps& steps);

 private:
  bool is_needed(Index value, Index event) const;
  void begin_segment(Index event, const Labels& labels);
  void collect(Index event, const Labels& labels);
  void want(Index value, const Labels& labels);

  const Problem& problem_;
  const std::vector<Index> segments_;
  std::vector<char> present_, marked_;
  std::vector<Index> stack_, closure_, in_segment_, transient_;
};

/// Deletes replays, and results of replays, that nobody uses, and transfers likewise. First runs
/// stay.
void delete_dead(const Problem& problem, Steps& steps);

/// Moves replays to directly before the next event that unpacks: they can be run nowhere else.
void move_to_unpacks(const Problem& problem, Steps& steps);

}  // namespace reprise::planner
