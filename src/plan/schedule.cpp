// SPDX-License-Identifier: BSD-3-Clause
#include "plan/schedule.h"

#include <algorithm>
#include <utility>

namespace reprise::planner {

Scheduler::Scheduler(const Problem& problem, std::vector<Index> segments)
    : problem_(problem),
      segments_(segments.empty() ? std::vector<Index>(problem.events, 0) : std::move(segments)),
      present_(problem.all_values()),
      marked_(problem.all_operators(), 0) {}

bool Scheduler::is_needed(Index value, Index event) const {
  const std::span<const Index> events = problem_.needed_at[value];
  return std::binary_search(events.begin(), events.end(), event);
}

double Scheduler::build(const Labels& labels, Steps& steps) {
  steps.clear();
  in_segment_.clear();
  transient_.clear();
  double extra = 0;
  for (Index i = 0; i < problem_.operators; ++i) {
    steps.push_back({i, kAll});
    for (Index v : problem_.encode_after[i]) {
      if (labels[v] != Label::encode) continue;
      steps.push_back({problem_.encoder[v], kAll});
      extra += problem_.time[problem_.encoder[v]];
    }
    if (!problem_.has_store) continue;
    for (Index v : problem_.send_after[i]) {
      if (labels[v] != Label::offload) continue;
      steps.push_back({problem_.sender[v], kAll});
      extra += problem_.time[problem_.sender[v]];
    }
  }
  std::fill(present_.begin(), present_.end(), 1);
  for (Index v = 0; v < problem_.values; ++v) {
    present_[v] = labels[v] == Label::keep || problem_.held_until[v] >= problem_.operators;
  }

  for (Index j = 0; j < problem_.events; ++j) {
    if (j > 0 && segments_[j] != segments_[j - 1]) begin_segment(j, labels);
    collect(j, labels);
    for (Index op : closure_) {
      marked_[op] = 0;
      extra += problem_.time[op];
      Mask leaves = 0;
      std::size_t result = 0;
      for (Index v : problem_.makes[op]) {
        if (!present_[v]) {
          present_[v] = 1;
          leaves |= bit(result);
          if (labels[v] == Label::transient) {
            transient_.push_back(v);
          } else if (labels[v] != Label::retain) {
            in_segment_.push_back(v);
          }
        }
        ++result;
      }
      steps.push_back({op, leaves});
    }
    steps.push_back(event_step(j));

    std::erase_if(transient_, [&](Index v) {
      if (is_needed(v, j) && is_needed(v, j + 1)) return false;  // still pinned
      present_[v] = 0;
      return true;
    });
    if (problem_.holds_any) {
      for (Index v : problem_.released_at[problem_.operators + j]) {
        if (labels[v] == Label::keep) continue;
        const bool pinned = is_needed(v, j) && is_needed(v, j + 1);
        if (pinned) transient_.push_back(v);
        present_[v] = pinned;
      }
    }
  }
  return extra;
}

void Scheduler::begin_segment(Index event, const Labels& labels) {
  std::erase_if(in_segment_, [&](Index v) {
    if (labels[v] == Label::retain) return true;
    if (is_needed(v, event) && is_needed(v, event - 1)) return false;  // still pinned
    present_[v] = 0;
    return true;
  });
}

void Scheduler::want(Index value, const Labels& labels) {
  if (present_[value]) return;
  const Index op = operator_for(problem_, value, labels[value]);
  if (marked_[op]) return;
  marked_[op] = 1;
  stack_.push_back(op);
}

// What must run before the event, in closure_.
void Scheduler::collect(Index event, const Labels& labels) {
  closure_.clear();
  for (Index v : problem_.needs[event]) want(v, labels);
  while (!stack_.empty()) {
    const Index op = stack_.back();
    stack_.pop_back();
    closure_.push_back(op);
    if (op >= problem_.operators) continue;  // its smaller form, or its copy, is always there
    for (Index v : problem_.reads[op]) want(v, labels);
  }
  std::sort(closure_.begin(), closure_.end(),
            [&](Index a, Index b) { return problem_.rank[a] < problem_.rank[b]; });
}

void delete_dead(const Problem& problem, Steps& steps) {
  std::vector<char> needed(problem.all_values(), 0);
  std::vector<char> first(steps.size(), 0), dead(steps.size(), 0);
  Index next_operator = 0, position = 0;
  for (std::size_t p = 0; p < steps.size(); ++p) {
    Step& step = steps[p];
    if (step.is_event()) {
      position = problem.operators + step.event() + 1;
    } else if (step.op == next_operator && next_operator < problem.operators) {
      first[p] = 1;
      position = ++next_operator;
    } else if (problem.holds_any &&
               (step.op < problem.operators || problem.role[step.op] == Role::fetch)) {
      // What the program itself still holds is not made again.
      std::size_t result = 0;
      for (Index v : problem.makes[step.op]) {
        if (problem.held_until[v] >= position) step.leaves &= ~bit(result);
        ++result;
      }
    }
  }
  for (std::size_t p = steps.size(); p-- > 0;) {
    Step& step = steps[p];
    if (step.is_event()) {
      for (Index v : problem.needs[step.event()]) needed[v] = 1;
      continue;
    }
    if (problem.role[step.op] == Role::settle) {
      const Index v = problem.reads[step.op].front();
      dead[p] = !needed[problem.makes[problem.sender[v]].front()];
      if (!dead[p]) needed[v] = 1;
      continue;
    }
    Mask leaves = 0;
    std::size_t result = 0;
    for (Index v : problem.makes[step.op]) {
      if (has(step.leaves, result) && needed[v]) {
        leaves |= bit(result);
        needed[v] = 0;
      }
      ++result;
    }
    const bool encodes =
        problem.role[step.op] == Role::encode || problem.role[step.op] == Role::send;
    if (first[p] || (encodes && leaves != 0)) {
      step.leaves = kAll;
    } else if (leaves == 0) {
      dead[p] = 1;
      continue;
    } else {
      step.leaves = leaves;
    }
    for (Index v : problem.reads[step.op]) needed[v] = 1;
  }
  std::size_t kept = 0;
  for (std::size_t p = 0; p < steps.size(); ++p) {
    if (!dead[p]) steps[kept++] = steps[p];
  }
  steps.resize(kept);
}

void move_to_unpacks(const Problem& problem, Steps& steps) {
  Steps moved, waiting;
  moved.reserve(steps.size());
  bool backward = false;
  for (const Step& step : steps) {
    if (!step.is_event()) {
      (backward ? waiting : moved).push_back(step);
      // Replays begin behind the last operator's first run.
      continue;
    }
    backward = true;
    if (problem.unpacks[step.event()]) {
      moved.insert(moved.end(), waiting.begin(), waiting.end());
      waiting.clear();
    }
    moved.push_back(step);
  }
  steps = std::move(moved);
}

}  // namespace reprise::planner
