// SPDX-License-Identifier: BSD-3-Clause
#include "plan/transfers.h"

#include <algorithm>
#include <limits>

namespace reprise::planner {
namespace {

bool is_a(const Problem& problem, const Step& step, Role role) {
  return !step.is_event() && problem.role[step.op] == role;
}

bool uses(const Problem& problem, const Step& step, Index v) {
  const std::span<const Index> used =
      step.is_event() ? problem.needs[step.event()] : problem.reads[step.op];
  return std::find(used.begin(), used.end(), v) != used.end();
}

}  // namespace

// What there is to place, and where the steps before each event begin. False if nothing is sent.
bool Placer::look(const Steps& steps) {
  const auto count = static_cast<Index>(steps.size());
  sent_.clear();
  fetches_.clear();
  slot_.resize(steps.size());
  gone_.assign(problem_.values, kNone);
  Index begin = 0, forward = 0;
  for (Index p = 0; p < count; ++p) {
    slot_[p] = begin;
    const Step& step = steps[p];
    if (step.is_event() || forward < problem_.operators) begin = p + 1;
    if (step.is_event()) continue;
    if (step.op == forward) {
      ++forward;
    } else if (problem_.role[step.op] == Role::encode) {
      begin = p + 1;
    } else if (problem_.role[step.op] == Role::send) {
      begin = p + 1;
      sent_.push_back({problem_.reads[step.op].front(), kNone, 0});
    } else if (problem_.role[step.op] == Role::fetch) {
      const Index v = problem_.makes[step.op].front();
      Index reader = p + 1;
      while (reader + 1 < count && !uses(problem_, steps[reader], v)) ++reader;
      fetches_.push_back({p, std::min(reader, count - 1), kNone});
    }
  }
  return !sent_.empty();
}

// Behind which step each sent value goes. Goes through the step with the clock in its hand: what
// is written may go; what is not must where there is no room, and that waits.
void Placer::settle(int64_t budget, const Steps& steps) {
  std::sort(sent_.begin(), sent_.end(), [](const Sent& a, const Sent& b) {
    return a.last != b.last ? a.last < b.last : a.value < b.value;
  });
  settled_.clear();
  pending_.clear();
  begins_.resize(steps.size());
  written_.assign(problem_.values, 0);
  double time = 0, queue = 0;
  int64_t held = 0;
  const auto release_first = [&](Index behind) {
    const Sent first = pending_.front();
    pending_.erase(pending_.begin());
    time = std::max(time, first.done);
    held -= problem_.bytes[first.value];
    gone_[first.value] = behind;
    if (behind > first.last)
      settled_.push_back({behind + 1, {problem_.settler[first.value], kAll}});
  };
  auto next = sent_.begin();
  for (Index p = 0; p < static_cast<Index>(steps.size()); ++p) {
    const Step& step = steps[p];
    const bool fetches = is_a(problem_, step, Role::fetch);
    const Index back = fetches ? problem_.makes[step.op].front() : kNone;
    const auto is_back = [back](const Sent& sent) { return sent.value == back; };
    while (!pending_.empty() &&
           (curve_[p] + held > budget ||
            (fetches && std::any_of(pending_.begin(), pending_.end(), is_back)))) {
      release_first(p - 1);
    }
    begins_[p] = time;
    curve_[p] += held;
    time += step.is_event() ? problem_.event_time[step.event()] : problem_.time[step.op];
    if (is_a(problem_, step, Role::send)) {
      const Index v = problem_.reads[step.op].front();
      queue = written_[v] = std::max(time, queue) + problem_.send_us[v];
    }
    for (; next != sent_.end() && next->last == p; ++next) {
      next->done = written_[next->value];
      const auto at = std::find_if(pending_.begin(), pending_.end(),
                                   [&](const Sent& other) { return other.done > next->done; });
      pending_.insert(at, *next);
      held += problem_.bytes[next->value];
    }
    while (!pending_.empty() && pending_.front().done <= time) release_first(p);
  }
}

// Where steps before the latest other event that unpacks begin; `at` itself if there is none.
Index Placer::slot_before(const Steps& steps, Index at) const {
  if (slot_[at] < at) return slot_[at];
  Index event = at - 1;
  while (event >= 0 && steps[event].is_event() && !problem_.unpacks[steps[event].event()]) --event;
  return event >= 0 && steps[event].is_event() ? slot_[event] : at;
}

// Whether a value of so many bytes can be live from before step `begin` on until before `end`.
bool Placer::is_room(int64_t budget, const Steps& steps, Index begin, Index end,
                     int64_t bytes) const {
  for (Index p = begin; p < end; ++p) {
    if (curve_[p] + bytes > budget) return false;
  }
  if (!steps[begin].is_event()) return true;
  // The fetch itself finds what is live before the event.
  const Index j = steps[begin].event();
  return curve_[begin] - problem_.event_bytes[j] + problem_.gradients_before[j] + bytes <= budget;
}

// From the last fetch to the first, as the queue serves them: each begins in time for its reader
// and for the fetch behind it.
void Placer::fetch_ahead(int64_t budget, const Steps& steps) {
  fetched_.clear();
  moved_.assign(steps.size(), 0);
  std::sort(fetches_.begin(), fetches_.end(), [](const Fetch& a, const Fetch& b) {
    return a.reader != b.reader ? a.reader > b.reader : a.position > b.position;
  });
  double next = std::numeric_limits<double>::infinity();
  for (const Fetch& fetch : fetches_) {
    const Index v = problem_.makes[steps[fetch.position].op].front();
    const double start = std::min(begins_[fetch.reader], next) - problem_.fetch_us[v];
    Index at = fetch.position;
    while (begins_[at] > start) {
      const Index slot = slot_before(steps, at);
      if (slot == at || slot <= std::max(gone_[v], fetch.before)) break;
      if (!is_room(budget, steps, slot, at, problem_.bytes[v])) break;
      for (Index p = slot; p < at; ++p) curve_[p] += problem_.bytes[v];
      at = slot;
    }
    next = std::max(start, begins_[at]);
    if (at == fetch.position) continue;
    moved_[fetch.position] = 1;
    fetched_.push_back({at, steps[fetch.position]});
  }
}

void Placer::write(Steps& steps) {
  const auto by_place = [](const Insertion& a, const Insertion& b) { return a.at < b.at; };
  std::reverse(fetched_.begin(), fetched_.end());  // of one place, the first that is needed first
  std::stable_sort(fetched_.begin(), fetched_.end(), by_place);
  std::stable_sort(settled_.begin(), settled_.end(), by_place);
  placed_.clear();
  auto settled = settled_.begin(), fetched = fetched_.begin();
  for (Index p = 0; p <= static_cast<Index>(steps.size()); ++p) {
    for (; settled != settled_.end() && settled->at == p; ++settled) {
      placed_.push_back(settled->step);
    }
    for (; fetched != fetched_.end() && fetched->at == p; ++fetched) {
      placed_.push_back(fetched->step);
    }
    if (p < static_cast<Index>(steps.size()) && !moved_[p]) placed_.push_back(steps[p]);
  }
  std::swap(steps, placed_);
}

void Placer::place(int64_t budget, Steps& steps) {
  if (!look(steps)) return;
  Outcome outcome;
  lives_.clear();
  if (!simulator_.run(steps, outcome, &curve_, &lives_)) return;
  // Lives of one value come in their order. The first of a sent one ends as it goes.
  last_.assign(problem_.all_values(), kNone);
  before_.assign(steps.size(), kNone);
  first_last_.assign(problem_.values, kNone);
  for (const Life& life : lives_) {
    before_[life.first] = last_[life.value];
    if (life.value < problem_.values && last_[life.value] == kNone) {
      first_last_[life.value] = life.last;
    }
    last_[life.value] = life.last;
  }
  for (Sent& sent : sent_) sent.last = gone_[sent.value] = first_last_[sent.value];
  for (Fetch& fetch : fetches_) fetch.before = before_[fetch.position];
  settle(budget, steps);
  fetch_ahead(budget, steps);
  write(steps);
}

}  // namespace reprise::planner
