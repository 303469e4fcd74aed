// SPDX-License-Identifier: BSD-3-Clause
#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "plan/blocks.h"
#include "plan/convert.h"

namespace reprise::planner {
namespace {

// Steps that one annealing may simulate; keeps the time of long traces in bounds.
constexpr double kMostWork = 3e7;

// What it takes longer to judge a schedule that sends: its transfers are placed first.
constexpr double kPlacing = 4;

// Temperatures at the beginning and the end, in times of a forward operator.
constexpr double kHot = 1.0;
constexpr double kCold = 5e-3;

// What it costs to be above the budget: in plain steps for each budget above it, and at once. The
// price rises while the search stays above and falls while it stays below: the best plans lie at
// the border.
constexpr double kExcess = 1.0;
constexpr double kAnyExcess = 1e-3;
constexpr int kPeriod = 64;
constexpr double kPriceStep = 1.25;

// Whether anyone may ask for a value: a backward event, or a replay that one leads to.
std::vector<char> asked_for(const Problem& problem) {
  std::vector<char> asked(problem.all_values(), 0);
  for (Index v = 0; v < problem.values; ++v) asked[v] = !problem.needed_at[v].empty();
  for (Index i = problem.operators - 1; i >= 0; --i) {
    const std::span<const Index> made = problem.makes[i];
    if (std::none_of(made.begin(), made.end(), [&](Index v) { return asked[v] != 0; })) continue;
    for (Index v : problem.reads[i]) asked[v] = 1;
  }
  return asked;
}

}  // namespace

Search::Search(const Problem& problem, const std::vector<Index>& segments,
               const PlanOptions& options)
    : problem_(problem),
      scheduler_(problem, segments),
      simulator_(problem),
      placer_(problem),
      evaluations_(options.evaluations),
      stop_(options.stop),
      random_(options.seed),
      class_of_(problem.values, kNone) {
  const std::vector<char> large = large_values(problem);
  const std::vector<char> asked = asked_for(problem);
  std::map<std::tuple<Index, std::size_t, int64_t>, Index> known;
  for (Index i = 0; i < problem.operators; ++i) {
    std::size_t result = 0;
    for (Index v : problem.makes[i]) {
      const std::size_t r = result++;
      const bool stays = problem.fixed[v] && !can_be(v, Label::offload);
      if (!large[v] || !asked[v] || stays) continue;
      candidates_.push_back(v);
      const auto key = std::tuple(problem.kind[i], r, problem.bytes[v]);
      class_of_[v] = known.try_emplace(key, known.size()).first->second;
      classes_.resize(known.size());
      classes_[class_of_[v]].push_back(v);
    }
  }
  simulator_.run(plain_steps(problem), plain_);
  for (Index i = 0; i < problem.operators; ++i) usual_time_ += problem.time[i];
  usual_time_ /= std::max(1, problem.operators);
}

bool Search::can_be(Index value, Label label) const {
  if (label == Label::keep) return true;
  if (label == Label::encode) return problem_.encoder[value] != kNone && !problem_.fixed[value];
  if (label == Label::offload) return problem_.has_store && problem_.movable[value];
  return !problem_.fixed[value];
}

// Of the schedule in steps_, whose transfers are placed.
Outcome Search::judge_steps(int64_t budget, std::vector<int64_t>* curve) {
  if (problem_.has_store) placer_.place(budget, steps_);
  Outcome outcome;
  simulator_.run(steps_, outcome, curve);
  return outcome;
}

Outcome Search::judge(const Labels& labels, int64_t budget, std::vector<int64_t>* curve) {
  scheduler_.build(labels, steps_);
  return judge_steps(budget, curve);
}

Steps Search::steps_of(const Labels& labels, int64_t budget) {
  Steps steps;
  scheduler_.build(labels, steps);
  delete_dead(problem_, steps);
  if (problem_.has_store) placer_.place(budget, steps);
  return steps;
}

int Search::affordable(std::size_t steps) const {
  const double most = kMostWork / static_cast<double>(std::max<std::size_t>(1, steps));
  const double tries = std::min<double>(evaluations_, most);
  return static_cast<int>(problem_.has_store ? tries / kPlacing : tries);
}

Labels Search::labels_of(const Steps& steps) const {
  Labels labels = keep_all();
  for (const Step& step : steps) {
    if (step.is_event() || step.op < problem_.operators) continue;
    const Role role = problem_.role[step.op];
    if (role == Role::encode) labels[problem_.reads[step.op].front()] = Label::encode;
    if (role == Role::send) labels[problem_.reads[step.op].front()] = Label::offload;
  }
  Index next_operator = 0;
  for (const Step& step : steps) {
    if (step.is_event() || step.op >= problem_.operators) continue;
    if (step.op == next_operator) {
      ++next_operator;
      continue;
    }
    std::size_t result = 0;
    for (Index v : problem_.makes[step.op]) {
      if (!has(step.leaves, result++) || problem_.fixed[v] || labels[v] == Label::encode ||
          labels[v] == Label::offload) {
        continue;
      }
      labels[v] = labels[v] == Label::keep ? Label::retain : Label::segment;
    }
  }
  return labels;
}

Labels Search::greedy(int64_t budget) {
  Labels labels = keep_all();
  std::vector<int64_t> curve;
  const auto excess_of = [&] {
    double excess = 0;
    for (int64_t bytes : curve) excess += static_cast<double>(std::max<int64_t>(0, bytes - budget));
    return excess;
  };
  Outcome now = judge(labels, budget, &curve);
  double excess = excess_of();
  int left = affordable(steps_.size());
  std::vector<Label> fate(problem_.values, Label::retain);  // the cheaper one
  const auto score = [&](Index v) {
    double best = std::numeric_limits<double>::infinity();
    for (Label label : {Label::retain, Label::offload}) {
      if (!can_be(v, label)) continue;
      labels[v] = label;
      const Outcome then = judge(labels, budget, &curve);
      const double less = excess - excess_of();
      --left;
      const double price = std::max(0.0, then.time - now.time) / less;
      if (less <= 0 || price >= best) continue;
      best = price;
      fate[v] = label;
    }
    labels[v] = Label::keep;
    return best;
  };

  // Scores of before are good guesses: only the best is worked out again.
  using Scored = std::pair<double, Index>;
  std::priority_queue<Scored, std::vector<Scored>, std::greater<>> queue;
  for (Index v : candidates_) {
    if (left > 0 && !stop_.stop_requested()) queue.emplace(score(v), v);
  }
  while (now.peak > budget && !queue.empty() && left > 0 && !stop_.stop_requested()) {
    const Index v = queue.top().second;
    queue.pop();
    const double again = score(v);
    if (std::isinf(again)) continue;
    if (!queue.empty() && again > queue.top().first) {
      queue.emplace(again, v);
      continue;
    }
    labels[v] = fate[v];
    now = judge(labels, budget, &curve);
    excess = excess_of();
  }
  return labels;
}

Label Search::other_label(Index value, Label now) {
  if (problem_.fixed[value]) return now == Label::keep ? Label::offload : Label::keep;
  const std::size_t encodes = can_be(value, Label::encode) ? 2 : 0;
  const std::size_t sends = can_be(value, Label::offload) ? 3 : 0;
  while (true) {
    Label label = Label::keep;
    const std::size_t draw = below(6 + encodes + sends);
    switch (draw) {
      case 0:
      case 1:
        label = Label::keep;
        break;
      case 2:
      case 3:
        label = Label::retain;
        break;
      case 4:
        label = Label::segment;
        break;
      case 5:
        label = Label::transient;
        break;
      default:
        label = draw < 6 + encodes ? Label::encode : Label::offload;
    }
    if (label != now) return label;
  }
}

// One move: flip one value; a run of values of one class; exchange two.
void Search::change(Labels& labels) {
  const Index v = candidates_[below(candidates_.size())];
  const Label label = other_label(v, labels[v]);
  const std::size_t move = below(10);
  if (move < 6) {
    labels[v] = label;
  } else if (move < 8) {
    const std::vector<Index>& members = classes_[class_of_[v]];
    std::size_t from = below(members.size()), to = below(members.size());
    if (from > to) std::swap(from, to);
    for (std::size_t i = from; i <= to; ++i) {
      if (can_be(members[i], label)) labels[members[i]] = label;
    }
    labels[v] = label;
  } else {
    const Index u = candidates_[below(candidates_.size())];
    const Label mine = labels[v], others = labels[u];
    if (mine == Label::encode || others == Label::encode || !can_be(v, others) ||
        !can_be(u, mine)) {
      labels[v] = label;
    } else if (move == 8) {
      labels[v] = others;
      labels[u] = mine;
    } else {
      labels[v] = label;
      labels[u] = mine;
    }
  }
}

template <class Cost, class IsBetter>
Labelled Search::anneal(const Labels& start, int64_t budget, int64_t room, const Cost& cost_of,
                        const IsBetter& is_better) {
  Labels now = start, next;
  Outcome outcome = judge(now, room);
  Labelled best{now, outcome};
  double price = 1;
  double cost = cost_of(outcome, price);
  int above = 0;
  const int rounds = candidates_.empty() ? 0 : affordable(steps_.size());
  for (int round = 0; round < rounds && !stop_.stop_requested(); ++round) {
    above += outcome.peak > budget;
    if (round % kPeriod == kPeriod - 1) {
      if (above > kPeriod * 3 / 4) price *= kPriceStep;
      if (above < kPeriod / 4) price = std::max(1.0, price / kPriceStep);
      above = 0;
      cost = cost_of(outcome, price);
    }
    const double temperature =
        usual_time_ * kHot * std::pow(kCold / kHot, static_cast<double>(round) / rounds);
    const double accepted = cost - temperature * std::log(1 - chance());
    next = now;
    change(next);
    // Most moves are refused for their time alone, which needs no simulation.
    const double extra = scheduler_.build(next, steps_);
    if (cost_of({plain_.time + extra, 0, 0}, price) > accepted) continue;
    const Outcome then = judge_steps(room);
    const double then_cost = cost_of(then, price);
    if (then_cost > accepted) continue;
    now = next;
    outcome = then;
    cost = then_cost;
    if (is_better(then, best.outcome)) best = {now, then};
  }
  return best;
}

Labelled Search::anneal(const Labels& start, int64_t budget) {
  return anneal(
      start, budget, budget,
      [&](const Outcome& o, double price) {
        if (o.peak <= budget) return o.time;
        const double above = static_cast<double>(o.peak - budget) / static_cast<double>(budget);
        return o.time + price * plain_.time * (kExcess * above + kAnyExcess);
      },
      [&](const Outcome& a, const Outcome& b) {
        if (a.peak <= budget && b.peak <= budget) return a.time < b.time;
        return a.peak < b.peak;
      });
}

Labelled Search::lower(const Labels& start) {
  // The peak as a time, so that one set of temperatures serves; of two like peaks, the faster.
  const double weight = plain_.time / static_cast<double>(std::max<int64_t>(1, plain_.peak));
  return anneal(
      start, plain_.peak, 0,
      [&](const Outcome& o, double) {
        return static_cast<double>(o.peak) * weight + o.time * 1e-4;
      },
      [&](const Outcome& a, const Outcome& b) { return a.peak < b.peak; });
}

Labelled Search::climb(const Labels& from, int64_t budget, Ties ties) {
  Labelled best{from, judge(from, budget)};
  std::size_t steps = steps_.size();
  int left = affordable(steps_.size()) / 2;
  const auto is_over = [&] { return left <= 0 || stop_.stop_requested(); };
  const auto accept = [&](const Labels& labels) {
    --left;
    const Outcome outcome = judge(labels, budget);
    if (outcome.peak > budget) return false;
    const bool as_fast =
        ties == Ties::fewer_steps && outcome.time == best.outcome.time && steps_.size() < steps;
    if (outcome.time >= best.outcome.time && !as_fast) return false;
    best = {labels, outcome};
    steps = steps_.size();
    return true;
  };
  const auto keep_one = [&] {
    for (Index v : candidates_) {
      if (best.labels[v] == Label::keep || is_over()) continue;
      Labels labels = best.labels;
      labels[v] = Label::keep;
      if (accept(labels)) return true;
      if (!is_dropped(best.labels[v]) || !can_be(v, Label::offload)) continue;
      labels[v] = Label::offload;
      if (accept(labels)) return true;
    }
    return false;
  };
  const auto exchange = [&] {
    for (Index v : candidates_) {
      if (best.labels[v] == Label::keep || is_over()) continue;
      Labels labels = best.labels;
      labels[v] = Label::keep;
      if (--left; judge(labels, budget).time >= best.outcome.time) continue;
      for (Index u : candidates_) {
        if (u == v || labels[u] != Label::keep || is_over()) continue;
        for (Label label : {Label::retain, Label::offload}) {
          if (!can_be(u, label)) continue;
          labels[u] = label;
          if (accept(labels)) return true;
        }
        labels[u] = Label::keep;
      }
    }
    return false;
  };
  while (!is_over() && (keep_one() || exchange())) {
  }
  return best;
}

}  // namespace reprise::planner
