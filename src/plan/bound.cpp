// SPDX-License-Identifier: BSD-3-Clause
#include "plan/bound.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "plan/min_cut.h"
#include "plan/stop.h"

// The bound looks at one backward event. What is live there must fit the budget beside gradients
// and scratch. Whatever later events need and is not live must be recomputed after it, and so must
// what those replays read and is not live. Which set of live values makes that cheapest? With a
// price on bytes instead of a limit the question is a minimum cut, and the best price gives a bound
// that holds for every schedule (Lagrangian relaxation). First runs lie before the event, so all of
// this comes on top of the plain step.
//
// With a store, what is not live may have been sent, too. All of that is written before the event
// begins: if it takes longer than the plain step needs to get there, the step waits for the rest.
// The wait counts with a weight between 0 and 1, and any weight gives a bound: sending has a price,
// and the time up to the event is a credit. (To encode, which lies before the event as well, counts
// with what the wait leaves of the weight, and so does the work of sending; that of fetching, which
// lies behind the event, counts in full.) The wait for what is fetched behind the event, and that
// both directions share a queue, is left out.

namespace reprise::planner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Capacities are whole numbers, rounded down: the sum of all times is about this.
constexpr double kResolution = 0x1.0p40;

// Cases that are told apart, times operators: keeps the time of long traces in bounds.
constexpr int kRefinement = 40000;

// Weights of the wait for the store that are tried, before the best is made finer: parts of the
// weight at which to send everything costs as much as to make it again.
constexpr double kSendWeights[] = {2, 0.5, 0.125};
constexpr double kFinerWeights[] = {2, 1.4, 1.2, 1.1};

/// In which a value is there.
enum class Form : uint8_t { plain, encoded, sent };

/// What a set of live values takes.
struct Line {
  double time = 0;
  double above = 0;  // bytes live, less what there is room for
};

/// That a value is live at the event as it is, or that it is not.
struct Branch {
  Index value = kNone;
  bool live = false;
};

struct Relaxation {
  double time = kInfinite;  // what is left takes at least
  Index undecided = kNone;  // the largest value that is live in part
};

class EventBound {
 public:
  /// `send_weight`: of the wait for the store; not used without one.
  EventBound(const Problem& problem, Index event, int64_t budget, double send_weight,
             const std::stop_token& stop)
      : problem_(problem),
        event_(event),
        budget_(budget),
        send_weight_(problem.has_store ? send_weight : 0),
        stop_(stop) {
    for (Index i = 0; i < problem.operators; ++i) total_ += problem.time[i];
    for (Index j = 0; j < problem.events; ++j) {
      if (j == event) credit_ = send_weight_ * total_;
      total_ += problem.event_time[j];
    }
  }

  /// The best bound over all prices.
  Relaxation relax(const std::vector<Branch>& branches);

  /// The same, with up to `most` cases told apart in which a value is live or not; stops at
  /// `enough`.
  double refine(int most, double enough);

 private:
  struct Held {
    Index value;
    int32_t available;
    int32_t maker;  // the sink where it cannot be made again
  };

  void begin(const std::vector<Branch>& branches);
  double cut(double time_weight, double byte_price, Line& line, std::vector<Index>& live);
  double price_of(Index v, double time_weight, double byte_price, Form& form) const;
  double codec_time(Index v) const;
  double transfer_time(Index v) const;

  const Problem& problem_;
  const Index event_;
  const int64_t budget_;
  const double send_weight_;
  const std::stop_token& stop_;
  double total_ = 0;
  double credit_ = 0;  // of what is sent before the event
  double room_ = 0;
  std::vector<char> forced_;  // live at the event
  std::vector<char> gone_;    // not live as they are
  std::vector<char> needed_;  // by later events
  std::vector<char> wanted_;  // needed, or read by a replay that may be
};

void EventBound::begin(const std::vector<Branch>& branches) {
  forced_.assign(problem_.values, 0);
  gone_.assign(problem_.values, 0);
  needed_.assign(problem_.values, 0);
  for (const Branch& branch : branches) (branch.live ? forced_ : gone_)[branch.value] = 1;
  for (Index v : problem_.needs[event_]) forced_[v] = 1;
  room_ = static_cast<double>(budget_ - problem_.event_bytes[event_]);
  for (Index v = 0; v < problem_.values; ++v) {
    if (problem_.held_until[v] >= problem_.operators + event_) forced_[v] = 1;
    if (forced_[v]) room_ -= static_cast<double>(problem_.bytes[v]);
    const std::span<const Index> events = problem_.needed_at[v];
    if (!forced_[v] && !events.empty() && events.back() > event_) needed_[v] = 1;
  }
  wanted_ = needed_;
  for (Index i = problem_.operators - 1; i >= 0; --i) {
    const std::span<const Index> made = problem_.makes[i];
    if (!problem_.replayable[i]) continue;
    if (std::none_of(made.begin(), made.end(), [&](Index v) { return wanted_[v] != 0; })) continue;
    for (Index v : problem_.reads[i]) {
      if (!forced_[v]) wanted_[v] = 1;
    }
  }
}

double EventBound::codec_time(Index v) const {
  return (1 - send_weight_) * problem_.time[problem_.encoder[v]] +
         problem_.time[problem_.decoder[v]];
}

double EventBound::transfer_time(Index v) const {
  return send_weight_ * problem_.send_us[v] +
         (1 - send_weight_) * problem_.time[problem_.sender[v]] +
         problem_.time[problem_.fetcher[v]];
}

// What it costs to hold a value in the cheapest of its forms.
double EventBound::price_of(Index v, double time_weight, double byte_price, Form& form) const {
  double price = gone_[v] ? kInfinite : static_cast<double>(problem_.bytes[v]) * byte_price;
  form = Form::plain;
  if (problem_.encoder[v] != kNone) {
    const Index smaller = problem_.makes[problem_.encoder[v]].front();
    const double encoded =
        static_cast<double>(problem_.bytes[smaller]) * byte_price + codec_time(v) * time_weight;
    if (encoded < price) form = Form::encoded;
    price = std::min(price, encoded);
  }
  if (problem_.has_store && !problem_.held[v]) {
    const double sent = transfer_time(v) * time_weight;
    if (sent < price) form = Form::sent;
    price = std::min(price, sent);
  }
  return price;
}

// The cheapest way at a price of bytes, and what it takes. Rounding makes it cheaper, never dearer.
double EventBound::cut(double time_weight, double byte_price, Line& line,
                       std::vector<Index>& live) {
  MinCut graph;
  std::vector<int32_t> available(problem_.values, -1), again(problem_.operators, -1);
  const auto capacity = [](double cost) { return static_cast<int64_t>(std::min(cost, 0x1.0p58)); };
  for (Index v = 0; v < problem_.values; ++v) {
    if (wanted_[v]) available[v] = graph.add_node();
  }
  for (Index i = 0; i < problem_.operators; ++i) {
    if (!problem_.replayable[i]) continue;
    for (Index v : problem_.makes[i]) {
      if (wanted_[v] && !problem_.fixed[v] && again[i] < 0) again[i] = graph.add_node();
    }
    if (again[i] < 0) continue;
    graph.add_edge(again[i], MinCut::kSink, capacity(problem_.time[i] * time_weight));
    for (Index v : problem_.reads[i]) {
      if (available[v] >= 0) graph.add_edge(again[i], available[v], MinCut::kNoLimit);
    }
  }
  std::vector<Held> held;
  Form form = Form::plain;
  for (Index v = 0; v < problem_.values; ++v) {
    if (!wanted_[v]) continue;
    if (needed_[v]) graph.add_edge(MinCut::kSource, available[v], MinCut::kNoLimit);
    const int32_t maker = problem_.fixed[v] ? MinCut::kSink : again[problem_.producer[v]];
    held.push_back({v, available[v], maker});
    graph.add_edge(available[v], maker, capacity(price_of(v, time_weight, byte_price, form)));
  }
  const auto cost = static_cast<double>(graph.solve(stop_));

  line = {0, -room_};
  live.clear();
  for (Index i = 0; i < problem_.operators; ++i) {
    if (again[i] >= 0 && graph.on_source_side(again[i])) line.time += problem_.time[i];
  }
  for (const Held& h : held) {
    if (!graph.on_source_side(h.available)) continue;
    if (h.maker != MinCut::kSink && graph.on_source_side(h.maker)) continue;
    price_of(h.value, time_weight, byte_price, form);
    if (form == Form::encoded) {
      const Index encoder = problem_.encoder[h.value];
      line.time += codec_time(h.value);
      line.above += static_cast<double>(problem_.bytes[problem_.makes[encoder].front()]);
    } else if (form == Form::sent) {
      line.time += transfer_time(h.value);
    } else if (gone_[h.value]) {
      line.time = line.above = kInfinite;
    } else {
      line.above += static_cast<double>(problem_.bytes[h.value]);
      live.push_back(h.value);
    }
  }
  return cost;
}

Relaxation EventBound::relax(const std::vector<Branch>& branches) {
  begin(branches);
  if (room_ < 0) return {};
  const double scale = kResolution / std::max(total_, 1e-300);
  Line cheap, small, middle;
  std::vector<Index> cheap_live, small_live, middle_live;
  cut(0, 1, small, small_live);
  if (!(small.above <= 0)) return {};
  const double alone = cut(scale, 0, cheap, cheap_live) / scale;
  if (cheap.above <= 0) return {alone - credit_, kNone};
  // The dual is concave and made of lines: go to where the two around its top meet.
  double best = alone;
  for (int round = 0; round < 30; ++round) {
    const double price = (small.time - cheap.time) / (cheap.above - small.above);
    if (!(price > 0)) break;
    const double meet = cheap.time + price * cheap.above;
    const double value = cut(scale, price * scale, middle, middle_live) / scale - price * room_;
    best = std::max(best, value);
    if (value >= meet - 1e-9 * total_) break;
    if (middle.above > 0) {
      if (middle.above >= cheap.above && middle.time >= cheap.time) break;
      cheap = middle;
      cheap_live = middle_live;
    } else {
      if (middle.above <= small.above && middle.time >= small.time) break;
      small = middle;
      small_live = middle_live;
    }
  }
  // What the two ways at the top do not agree on.
  Relaxation relaxation{best - credit_, kNone};
  std::vector<Index> differ;
  std::set_symmetric_difference(cheap_live.begin(), cheap_live.end(), small_live.begin(),
                                small_live.end(), std::back_inserter(differ));
  for (Index v : differ) {
    if (relaxation.undecided == kNone || problem_.bytes[v] > problem_.bytes[relaxation.undecided]) {
      relaxation.undecided = v;
    }
  }
  return relaxation;
}

double EventBound::refine(int most, double enough) {
  struct Case {
    Relaxation relaxation;
    std::vector<Branch> branches;
    bool operator<(const Case& other) const {  // the lowest bound first
      return relaxation.time > other.relaxation.time;
    }
  };
  std::priority_queue<Case> open;
  open.push({relax({}), {}});
  // The case of the lowest bound decides; it is split until it cannot be.
  while (most > 0 && open.top().relaxation.undecided != kNone &&
         open.top().relaxation.time < enough) {
    const Case split = open.top();
    open.pop();
    for (bool live : {false, true}) {
      std::vector<Branch> branches = split.branches;
      branches.push_back({split.relaxation.undecided, live});
      Relaxation relaxation = relax(branches);
      relaxation.time = std::max(relaxation.time, split.relaxation.time);
      open.push({relaxation, std::move(branches)});
      --most;
    }
  }
  return open.top().relaxation.time;
}

double even_weight(const Problem& problem) {
  double again = 0, sending = 0;
  for (Index i = 0; i < problem.operators; ++i) again += problem.time[i];
  for (double us : problem.send_us) sending += us;
  return sending > 0 ? again / sending : 1;
}

// Without work, what nobody waits for costs nothing: then a weight of 0 says nothing.
bool has_work(const Problem& problem) {
  return std::any_of(problem.sender.begin(), problem.sender.end(),
                     [&](Index op) { return problem.time[op] > 0; });
}

// A coarse look at all events, then finer around the best.
void look_for_bound(const Problem& problem, int64_t budget, double enough,
                    const std::stop_token& stop, double& best) {
  Index best_event = kNone;
  double best_weight = 0;
  const double even = even_weight(problem);
  const bool work = has_work(problem);
  const auto look = [&](Index event, double weight) {
    const double extra = EventBound(problem, event, budget, weight, stop).relax({}).time;
    if (extra <= best) return false;
    best = extra;
    best_event = event;
    best_weight = weight;
    return true;
  };
  const auto look_at = [&](Index event) {
    if (event < 0 || event >= problem.events) return;
    if (!problem.has_store || work) look(event, 0);
    if (!problem.has_store) return;
    for (double weight : kSendWeights) look(event, std::min(1.0, weight * even));
  };
  Index stride = std::max<Index>(1, problem.events / 24);
  for (Index j = 0; j < problem.events; j += stride) look_at(j);
  while (stride > 1 && best_event != kNone) {
    stride = (stride + 1) / 2;
    const Index middle = best_event;
    for (Index k = -3; k <= 3; ++k) {
      if (k != 0) look_at(middle + k * stride);
    }
  }
  if (best_event == kNone || std::isinf(best)) return;
  for (double factor : kFinerWeights) {
    while (best_weight * factor <= 1 && look(best_event, best_weight * factor)) {
    }
    while (best_weight > 0 && look(best_event, best_weight / factor)) {
    }
  }
  const auto cases = static_cast<int>(kRefinement / std::max(1, problem.operators));
  best = std::max(best,
                  EventBound(problem, best_event, budget, best_weight, stop).refine(cases, enough));
}

}  // namespace

double least_extra_time(const Problem& problem, int64_t budget, double enough,
                        const std::stop_token& stop) {
  double best = 0;
  try {
    look_for_bound(problem, budget, enough, stop, best);
  } catch (const Stopped&) {
    // Each bound that was seen holds.
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
