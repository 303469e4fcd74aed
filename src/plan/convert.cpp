// SPDX-License-Identifier: BSD-3-Clause
#include "plan/convert.h"

#include <algorithm>
#include <string>

namespace reprise::planner {
namespace {

[[noreturn]] void fail(std::size_t step, const std::string& what) {
  throw UsageError("not a schedule for this step: at step " + std::to_string(step) + ", " + what,
                   "plan again for this model and batch");
}

std::string named(const char* what, Index index) { return what + (" " + std::to_string(index)); }

Mask mask_of(const Problem& problem, std::size_t p, const PlanStep& step) {
  Mask leaves = 0;
  for (Index v : step.leaves) {
    std::size_t result = 0;
    bool found = false;
    for (Index made : problem.makes[step.index]) {
      if (made == v) {
        leaves |= bit(result);
        found = true;
      }
      ++result;
    }
    if (!found) fail(p, named("value", v) + " is no result of " + named("operator", step.index));
  }
  return leaves;
}

void add_leaves(const Problem& problem, const Step& step, PlanStep& out) {
  std::size_t result = 0;
  for (Index v : problem.makes[step.op]) {
    if (has(step.leaves, result++)) out.leaves.push_back(v);
  }
}

PlanStep plan_step(const Problem& problem, const Step& step, bool first) {
  PlanStep out;
  if (step.is_event()) {
    out.kind = PlanStep::Kind::backward;
    out.index = step.event();
    return out;
  }
  switch (problem.role[step.op]) {
    case Role::encode:
    case Role::send:
      out.kind =
          problem.role[step.op] == Role::send ? PlanStep::Kind::send : PlanStep::Kind::encode;
      out.index = problem.reads[step.op].front();
      break;
    case Role::decode:
    case Role::fetch:
      out.kind =
          problem.role[step.op] == Role::fetch ? PlanStep::Kind::fetch : PlanStep::Kind::decode;
      out.index = problem.makes[step.op].front();
      break;
    case Role::run:
    case Role::settle:  // is no step of a plan
      out.kind = first ? PlanStep::Kind::forward : PlanStep::Kind::replay;
      out.index = step.op;
      if (!first) add_leaves(problem, step, out);
      break;
  }
  return out;
}

bool is_settling(const Problem& problem, const Step& step) {
  return !step.is_event() && problem.role[step.op] == Role::settle;
}

bool is_of_value(PlanStep::Kind kind) {
  using Kind = PlanStep::Kind;
  return kind == Kind::encode || kind == Kind::decode || kind == Kind::send || kind == Kind::fetch;
}

// What the program holds is not brought back beside it.
void require_released(const Problem& problem, std::size_t p, Index v, Index next_event) {
  if (problem.held_until[v] < problem.operators + next_event) return;
  fail(p, named("value", v) + " is still held by the program");
}

/// Which values are sent, and where they go.
class Transfers {
 public:
  explicit Transfers(const Problem& problem)
      : problem_(problem), sent_(problem.values, 0), gone_(problem.values, 0) {}

  void send(std::size_t p, Index v) {
    if (!problem_.has_store) fail(p, named("value", v) + " is sent, and there is no store");
    if (problem_.held[v])
      fail(p, named("value", v) + " is held by the program, and cannot be sent");
    if (sent_[v]) fail(p, named("value", v) + " is sent twice");
    sent_[v] = 1;
  }

  void fetch(std::size_t p, Index v, Index next_event) {
    if (!sent_[v]) fail(p, named("value", v) + " is fetched, and was never sent");
    require_released(problem_, p, v, next_event);
    gone_[v] = 1;
  }

  /// Sent values go where the plan says.
  void settle(const PlanStep& step, Steps& out) {
    for (Index v : step.frees) {
      if (v < 0 || v >= problem_.values || !sent_[v] || gone_[v]) continue;
      out.push_back({problem_.settler[v], kAll});
      gone_[v] = 1;
    }
  }

 private:
  const Problem& problem_;
  std::vector<char> sent_, gone_;
};

}  // namespace

std::vector<Index> places_of(const Problem& problem, const Steps& steps) {
  std::vector<Index> places;
  Index next = 0;
  for (const Step& step : steps) places.push_back(is_settling(problem, step) ? next - 1 : next++);
  return places;
}

Steps plain_steps(const Problem& problem) {
  Steps steps;
  for (Index i = 0; i < problem.operators; ++i) steps.push_back({i, kAll});
  for (Index j = 0; j < problem.events; ++j) steps.push_back(event_step(j));
  return steps;
}

void describe(const Problem& problem, const Steps& steps, Plan& plan) {
  Outcome outcome;
  std::vector<Life> lives;
  Simulator simulator(problem);
  simulator.run(steps, outcome, nullptr, &lives);
  plan.microseconds = outcome.time;
  plan.peak_bytes = outcome.peak;

  plan.steps.clear();
  Index next_operator = 0;
  for (const Step& step : steps) {
    const bool first = step.op == next_operator && step.op < problem.operators;
    if (first) ++next_operator;
    if (is_settling(problem, step)) continue;
    plan.steps.push_back(plan_step(problem, step, first));
  }

  const std::vector<Index> places = places_of(problem, steps);

  // Lives come in the order of values' ends within the pass: sort what each step frees.
  std::vector<Index> smaller_of(problem.all_values(), kNone);
  for (Index v = 0; v < problem.values; ++v) {
    if (problem.encoder[v] != kNone) smaller_of[problem.makes[problem.encoder[v]].front()] = v;
  }
  std::vector<int> count(problem.values, 0);
  std::vector<char> stays(problem.values, 0), encoded(problem.values, 0), sent(problem.values, 0);
  for (const Life& life : lives) {
    PlanStep& last = plan.steps[places[life.last]];
    if (life.value >= problem.values) {
      if (smaller_of[life.value] == kNone) continue;  // a copy in the store
      last.frees_encoded.push_back(smaller_of[life.value]);
      encoded[smaller_of[life.value]] = 1;
      continue;
    }
    last.frees.push_back(life.value);
    ++count[life.value];
    // What lives into the backward pass by its first life is kept.
    if (last.kind != PlanStep::Kind::forward && last.kind != PlanStep::Kind::encode &&
        last.kind != PlanStep::Kind::send) {
      stays[life.value] = 1;
    }
  }
  for (const PlanStep& step : plan.steps) {
    if (step.kind == PlanStep::Kind::send) sent[step.index] = 1;
  }
  plan.decisions.assign(problem.values, Decision::none);
  for (Index v = 0; v < problem.values; ++v) {
    if (encoded[v]) {
      plan.decisions[v] = Decision::encode;
    } else if (sent[v]) {
      plan.decisions[v] = Decision::offload;
    } else if (count[v] > 1) {
      plan.decisions[v] = Decision::recompute;
    } else if (stays[v]) {
      plan.decisions[v] = Decision::keep;
    }
  }
  for (PlanStep& step : plan.steps) {
    std::sort(step.frees.begin(), step.frees.end());
    std::sort(step.frees_encoded.begin(), step.frees_encoded.end());
  }

  Outcome plain;
  simulator.run(plain_steps(problem), plain);
  plan.plain_microseconds = plain.time;
  plan.plain_peak_bytes = plain.peak;
}

Steps steps_of(const Problem& problem, const std::vector<PlanStep>& steps) {
  Steps out;
  Transfers transfers(problem);
  Index next_operator = 0, next_event = 0;
  bool replays_wait = false;
  for (std::size_t p = 0; p < steps.size(); ++p) {
    const PlanStep& step = steps[p];
    const Index i = step.index;
    using Kind = PlanStep::Kind;
    const bool of_value = is_of_value(step.kind);
    const bool of_event = step.kind == Kind::backward;
    const Index limit = of_value ? problem.values : (of_event ? problem.events : problem.operators);
    if (i < 0 || i >= limit) {
      fail(p, "index " + std::to_string(i) + " is none of " + std::to_string(limit));
    }
    const bool of_codec = step.kind == Kind::encode || step.kind == Kind::decode;
    if (of_codec && problem.encoder[i] == kNone)
      fail(p, named("value", i) + " has no smaller form");
    switch (step.kind) {
      case Kind::forward:
        if (i != next_operator) fail(p, named("operator", i) + " is out of its order");
        ++next_operator;
        out.push_back({i, kAll});
        break;
      case Kind::encode:
        out.push_back({problem.encoder[i], kAll});
        break;
      case Kind::replay:
        if (!problem.replayable[i]) fail(p, named("operator", i) + " cannot be replayed");
        for (Index v : step.leaves) {
          if (v < 0 || v >= problem.values) continue;
          if (problem.fixed[v]) fail(p, named("value", v) + " is still held by the program");
          require_released(problem, p, v, next_event);
        }
        out.push_back({i, mask_of(problem, p, step)});
        break;
      case Kind::decode:
        out.push_back({problem.decoder[i], kAll});
        break;
      case Kind::backward:
        if (i != next_event) fail(p, named("event", i) + " is out of its order");
        if (replays_wait && !problem.unpacks[i]) {
          fail(p, "there are replays before " + named("event", i) + ", which unpacks nothing");
        }
        ++next_event;
        out.push_back(event_step(i));
        break;
      case Kind::send:
        transfers.send(p, i);
        out.push_back({problem.sender[i], kAll});
        break;
      case Kind::fetch:
        transfers.fetch(p, i, next_event);
        out.push_back({problem.fetcher[i], kAll});
        break;
    }
    transfers.settle(step, out);
    const bool replays =
        step.kind == Kind::replay || step.kind == Kind::decode || step.kind == Kind::fetch;
    if (replays && next_operator < problem.operators)
      fail(p, step.kind == Kind::fetch ? "a fetch in the forward pass"
                                       : "a replay in the forward pass");
    if (step.kind == Kind::encode && next_event > 0) fail(p, "an encoding in the backward pass");
    if (step.kind == Kind::send && next_event > 0) fail(p, "a send in the backward pass");
    replays_wait = replays;
  }
  if (next_operator != problem.operators || next_event != problem.events) {
    fail(steps.size(), "operators or events are missing");
  }
  return out;
}

}  // namespace reprise::planner

namespace reprise {

Evaluation evaluate(const StepTrace& trace, const std::vector<PlanStep>& steps) {
  const planner::Problem problem = planner::compile(trace);
  const planner::Steps inner = planner::steps_of(problem, steps);
  planner::Outcome outcome;
  Evaluation evaluation;
  std::vector<int64_t> curve;
  planner::Simulator simulator(problem);
  if (!simulator.run(inner, outcome, &curve)) {
    throw UsageError("not a schedule for this step: it reads a value that is not live",
                     "plan again for this model and batch");
  }
  evaluation.microseconds = outcome.time;
  evaluation.peak_bytes = outcome.peak;
  const std::vector<planner::Index> places = planner::places_of(problem, inner);
  evaluation.peak_step = inner.empty() ? 0 : static_cast<std::size_t>(places[outcome.peak_step]);
  const std::vector<double> begins = simulator.begins(inner);
  for (std::size_t p = 0; p < curve.size(); ++p) {
    // A settling has no bytes of its own, and takes no time.
    if (static_cast<std::size_t>(places[p]) < evaluation.live_bytes.size()) continue;
    evaluation.live_bytes.push_back(curve[p]);
    evaluation.begins_us.push_back(begins[p]);
  }
  return evaluation;
}

}  // namespace reprise
