// SPDX-License-Identifier: BSD-3-Clause
#include "plan/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "plan/min_cut.h"

// The bound looks at one backward event. What is live there must fit the budget beside gradients
// and scratch. Whatever later events need and is not live must be recomputed after it, and so must
// what those replays read and is not live. Which set of live values makes that cheapest? With a
// price on bytes instead of a limit the question is a minimum cut, and the best price gives a bound
// that holds for every schedule (Lagrangian relaxation). First runs lie before the event, so all of
// this comes on top of the plain step.

namespace reprise::planner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Capacities are whole numbers, rounded down: the sum of all times is about this.
constexpr double kResolution = 0x1.0p40;

/// What a set of live values takes.
struct Line {
  double time = 0;
  double above = 0;  // bytes live, less what there is room for
};

class EventBound {
 public:
  EventBound(const Problem& problem, Index event, int64_t budget);

  /// Seconds or whatever the problem's times are; the best over all prices.
  double solve();

 private:
  double cut(double time_weight, double byte_price, Line& line);
  bool is_forced(Index v) const { return forced_[v] != 0; }

  const Problem& problem_;
  double room_;
  std::vector<char> forced_;  // live at the event in any schedule
  std::vector<char> needed_;  // by later events
  std::vector<char> wanted_;  // needed, or read by a replay that may be
  double total_ = 0;
};

EventBound::EventBound(const Problem& problem, Index event, int64_t budget)
    : problem_(problem),
      room_(static_cast<double>(budget - problem.event_bytes[event])),
      forced_(problem.values, 0),
      needed_(problem.values, 0),
      wanted_(problem.values, 0) {
  for (Index v : problem.needs[event]) forced_[v] = 1;
  for (Index v = 0; v < problem.values; ++v) {
    if (problem.held_until[v] >= problem.operators + event) forced_[v] = 1;
    if (forced_[v]) room_ -= static_cast<double>(problem.bytes[v]);
    const std::span<const Index> events = problem.needed_at[v];
    if (!forced_[v] && !events.empty() && events.back() > event) needed_[v] = wanted_[v] = 1;
  }
  for (Index i = problem.operators - 1; i >= 0; --i) {
    const std::span<const Index> made = problem.makes[i];
    total_ += problem.time[i];
    if (!problem.replayable[i]) continue;
    if (std::none_of(made.begin(), made.end(), [&](Index v) { return wanted_[v] != 0; })) continue;
    for (Index v : problem.reads[i]) {
      if (!forced_[v]) wanted_[v] = 1;
    }
  }
  for (Index j = 0; j < problem.events; ++j) total_ += problem.event_time[j];
}

// The cheapest way at a price of bytes, and what it takes. Rounding makes it cheaper, never dearer.
double EventBound::cut(double time_weight, double byte_price, Line& line) {
  MinCut graph;
  std::vector<int32_t> available(problem_.values, -1), again(problem_.operators, -1);
  const double scale = kResolution / std::max(total_, 1e-300);
  const auto capacity = [&](double cost) {
    return static_cast<int64_t>(std::min(cost, 0x1.0p58));
  };
  for (Index v = 0; v < problem_.values; ++v) {
    if (wanted_[v]) available[v] = graph.add_node();
  }
  for (Index i = 0; i < problem_.operators; ++i) {
    if (!problem_.replayable[i]) continue;
    for (Index v : problem_.makes[i]) {
      if (!wanted_[v] || problem_.fixed[v]) continue;
      if (again[i] < 0) again[i] = graph.add_node();
    }
    if (again[i] < 0) continue;
    graph.add_edge(again[i], MinCut::kSink, capacity(problem_.time[i] * time_weight * scale));
    for (Index v : problem_.reads[i]) {
      if (available[v] >= 0) graph.add_edge(again[i], available[v], MinCut::kNoLimit);
    }
  }
  const auto to_hold = [&](Index v) {  // the smaller form may be cheaper
    const double plain = static_cast<double>(problem_.bytes[v]) * byte_price;
    if (problem_.encoder[v] == kNone) return plain;
    const Index smaller = problem_.makes[problem_.encoder[v]].front();
    const double codec = problem_.time[problem_.encoder[v]] + problem_.time[problem_.decoder[v]];
    return std::min(plain, static_cast<double>(problem_.bytes[smaller]) * byte_price +
                               codec * time_weight * scale);
  };
  for (Index v = 0; v < problem_.values; ++v) {
    if (!wanted_[v]) continue;
    if (needed_[v]) graph.add_edge(MinCut::kSource, available[v], MinCut::kNoLimit);
    const Index maker = problem_.fixed[v] ? kNone : again[problem_.producer[v]];
    graph.add_edge(available[v], maker != kNone ? maker : MinCut::kSink, capacity(to_hold(v)));
  }
  const auto cost = static_cast<double>(graph.solve());

  line = {0, -room_};
  for (Index i = 0; i < problem_.operators; ++i) {
    if (again[i] >= 0 && graph.on_source_side(again[i])) line.time += problem_.time[i];
  }
  for (Index v = 0; v < problem_.values; ++v) {
    if (available[v] < 0 || !graph.on_source_side(available[v])) continue;
    const Index maker = problem_.fixed[v] ? kNone : again[problem_.producer[v]];
    if (maker != kNone && graph.on_source_side(maker)) continue;
    const double plain = static_cast<double>(problem_.bytes[v]) * byte_price;
    if (to_hold(v) < plain) {
      line.time += problem_.time[problem_.encoder[v]] + problem_.time[problem_.decoder[v]];
      line.above += static_cast<double>(
          problem_.bytes[problem_.makes[problem_.encoder[v]].front()]);
    } else {
      line.above += static_cast<double>(problem_.bytes[v]);
    }
  }
  return cost / scale;
}

double EventBound::solve() {
  if (room_ < 0) return kInfinite;
  Line cheap, small, middle;
  cut(1, 0, cheap);
  if (cheap.above <= 0) return 0;
  cut(0, 1, small);
  if (small.above > 0) return kInfinite;
  // The dual is concave and made of lines: go to where the two around its top meet.
  double best = 0;
  const double scale = kResolution / total_;
  for (int round = 0; round < 30; ++round) {
    const double price = (small.time - cheap.time) / (cheap.above - small.above);
    const double meet = cheap.time + price * cheap.above;
    const double value = cut(1, price * scale, middle) - price * room_;
    best = std::max(best, value);
    if (value >= meet - 1e-9 * total_) break;
    if (middle.above > 0) {
      if (middle.above >= cheap.above && middle.time >= cheap.time) break;
      cheap = middle;
    } else {
      if (middle.above <= small.above && middle.time >= small.time) break;
      small = middle;
    }
  }
  return best;
}

}  // namespace

double least_extra_time(const Problem& problem, int64_t budget) {
  // A coarse look at all events, then finer around the best.
  double best = 0;
  Index best_event = 0;
  const auto look_at = [&](Index event) {
    if (event < 0 || event >= problem.events) return;
    const double extra = EventBound(problem, event, budget).solve();
    if (extra > best) {
      best = extra;
      best_event = event;
    }
  };
  Index stride = std::max<Index>(1, problem.events / 24);
  for (Index j = 0; j < problem.events; j += stride) look_at(j);
  while (stride > 1) {
    stride = (stride + 1) / 2;
    const Index middle = best_event;
    for (Index k = -3; k <= 3; ++k) {
      if (k != 0) look_at(middle + k * stride);
    }
  }
  return best;
}

int64_t least_peak(const Problem& problem) {
  int64_t peak = 0;
  for (Index i = 0; i < problem.operators; ++i) {
    int64_t bytes = problem.scratch[i];
    for (Index v : problem.reads[i]) bytes += problem.bytes[v];
    for (Index v : problem.makes[i]) bytes += problem.bytes[v];
    peak = std::max(peak, bytes);
  }
  for (Index j = 0; j < problem.events; ++j) {
    int64_t bytes = problem.event_bytes[j];
    for (Index v : problem.needs[j]) bytes += problem.bytes[v];
    peak = std::max(peak, bytes);
  }
  return peak;
}

}  // namespace reprise::planner
