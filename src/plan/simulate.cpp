// SPDX-License-Identifier: BSD-3-Clause
#include "plan/simulate.h"

#include <algorithm>

namespace reprise::planner {

void Simulator::end_life(Index v, std::vector<Life>* lives) {
  change_[first_[v]] += problem_.bytes[v];
  change_[last_[v] + 1] -= problem_.bytes[v];
  if (lives != nullptr) lives->push_back({v, first_[v], last_[v]});
  if (!moves_.empty() && moves_[v]) {
    moved_.push_back({v, first_[v], last_[v]});
    moves_[v] = 0;
  }
}

double Simulator::time_with_waits(std::span<const Step> steps, std::vector<double>* begins) {
  std::sort(moved_.begin(), moved_.end(),
            [](const Life& a, const Life& b) { return a.last < b.last; });
  written_.assign(static_cast<std::size_t>(problem_.values), 0);
  read_.assign(static_cast<std::size_t>(problem_.all_values()), 0);
  double time = 0, queue = 0;
  auto ends = moved_.begin();
  for (Index p = 0; p < static_cast<Index>(steps.size()); ++p) {
    const Step& step = steps[p];
    const Role role = step.is_event() ? Role::run : problem_.role[step.op];
    if (role <= Role::decode) {
      const std::span<const Index> read =
          step.is_event() ? problem_.needs[step.event()] : problem_.reads[step.op];
      for (Index v : read) time = std::max(time, read_[v]);
    }
    if (begins != nullptr) (*begins)[p] = time;
    time += step.is_event() ? problem_.event_time[step.event()] : problem_.time[step.op];
    if (role == Role::send) {
      const Index v = problem_.reads[step.op].front();
      queue = written_[v] = std::max(time, queue) + problem_.send_us[v];
    } else if (role == Role::fetch) {
      const Index v = problem_.makes[step.op].front();
      queue = read_[v] = std::max(time, queue) + problem_.fetch_us[v];
    }
    for (; ends != moved_.end() && ends->last == p; ++ends) {
      time = std::max({time, written_[ends->value], read_[ends->value]});
    }
  }
  return time;
}

bool Simulator::run(std::span<const Step> steps, Outcome& outcome, std::vector<int64_t>* curve,
                    std::vector<Life>* lives) {
  const auto count = static_cast<Index>(steps.size());
  change_.assign(steps.size() + 1, 0);
  beside_.resize(steps.size());
  first_.assign(problem_.bytes.size(), kNone);
  last_.resize(problem_.bytes.size());
  moves_.assign(problem_.has_store ? problem_.bytes.size() : 0, 0);
  moved_.clear();

  double time = 0;
  bool transfers = false;
  Index next_operator = 0, next_event = 0;
  for (Index p = 0; p < count; ++p) {
    const Step& step = steps[p];
    Index position = kNone;  // in the plain step
    if (step.is_event()) {
      const Index j = step.event();
      time += problem_.event_time[j];
      for (Index v : problem_.needs[j]) {
        if (first_[v] < 0) return false;
        last_[v] = p;
      }
      beside_[p] = problem_.event_bytes[j];
      next_event = j + 1;
      position = problem_.operators + j;
    } else {
      time += problem_.time[step.op];
      for (Index v : problem_.reads[step.op]) {
        if (first_[v] < 0) return false;
        last_[v] = p;
      }
      int64_t beside = problem_.scratch[step.op];
      std::size_t result = 0;
      for (Index v : problem_.makes[step.op]) {
        if (has(step.leaves, result++)) {
          if (first_[v] >= 0) end_life(v, lives);
          first_[v] = last_[v] = p;
        } else {
          beside += problem_.bytes[v];
        }
      }
      if (step.op == next_operator && next_operator < problem_.operators && next_event == 0) {
        position = next_operator++;
      } else if ((next_event > 0 || next_operator == problem_.operators) &&
                 next_event < problem_.events) {
        beside += problem_.gradients_before[next_event];
      }
      beside_[p] = beside;
      if (step.op >= problem_.operators && problem_.has_store) {
        const Role role = problem_.role[step.op];
        if (role == Role::send || role == Role::settle) beside_[p] = 0;
        if (role == Role::send) moves_[problem_.reads[step.op].front()] = 1;
        if (role == Role::fetch) moves_[problem_.makes[step.op].front()] = 1;
        transfers = transfers || role == Role::send;
      }
    }
    if (problem_.holds_any && position != kNone) {
      for (Index v : problem_.released_at[position]) {
        if (first_[v] >= 0) last_[v] = p;
      }
    }
  }
  for (Index v = 0; v < problem_.all_values(); ++v) {
    if (first_[v] >= 0) end_life(v, lives);
  }

  outcome = {transfers ? time_with_waits(steps) : time, -1, 0};
  if (curve != nullptr) curve->resize(steps.size());
  int64_t live = 0;
  for (Index p = 0; p < count; ++p) {
    live += change_[p];
    const int64_t bytes = live + beside_[p];
    if (curve != nullptr) (*curve)[p] = bytes;
    if (bytes > outcome.peak) {
      outcome.peak = bytes;
      outcome.peak_step = static_cast<std::size_t>(p);
    }
  }
  if (count == 0) outcome.peak = 0;
  return true;
}

}  // namespace reprise::planner
