// SPDX-License-Identifier: BSD-3-Clause
#include "plan/planner.h"

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "plan/bound.h"
#include "plan/convert.h"
#include "plan/min_cut.h"
#include "tests/plan_support.h"

// The planner's parts against what can be had by trying everything, and many random steps.

namespace reprise::planner {
namespace {

// Every labelling of a small step.
void for_each_labelling(const Problem& problem, Labels& labels, Index v, auto&& visit) {
  if (v == problem.values) {
    visit(labels);
    return;
  }
  for (Label label :
       {Label::keep, Label::retain, Label::transient, Label::encode, Label::offload}) {
    if (label != Label::keep && label != Label::offload && problem.fixed[v]) continue;
    if (label == Label::encode && problem.encoder[v] == kNone) continue;
    if (label == Label::offload && (!problem.has_store || !problem.movable[v])) continue;
    labels[v] = label;
    for_each_labelling(problem, labels, v + 1, visit);
  }
}

TEST(Planner, FindsWhatTryingAllLabelsFindsAndTheBoundIsBelow) {
  std::mt19937 random(5);
  int tight = 0, budgets = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const StepTrace trace = tests::random_trace(random, {trial % 2 == 0, true, true, 6});
    const Problem problem = compile(trace);
    if (problem.values > 8) continue;
    std::vector<Outcome> outcomes;
    Scheduler scheduler(problem);
    Simulator simulator(problem);
    Steps steps;
    Labels labels(problem.values, Label::keep);
    for_each_labelling(problem, labels, 0, [&](const Labels& all) {
      scheduler.build(all, steps);
      delete_dead(problem, steps);
      Outcome& outcome = outcomes.emplace_back();
      ASSERT_TRUE(simulator.run(steps, outcome));
    });
    int64_t least = outcomes.front().peak;
    for (const Outcome& outcome : outcomes) least = std::min(least, outcome.peak);
    EXPECT_LE(least_peak(problem), least);
    const int64_t most = outcomes.front().peak;  // everything kept
    for (int64_t budget = least; budget <= most;
         budget += std::max<int64_t>(1, (most - least) / 6)) {
      double best = outcomes.front().time * 100;
      for (const Outcome& outcome : outcomes) {
        if (outcome.peak <= budget) best = std::min(best, outcome.time);
      }
      PlanOptions options;
      options.evaluations = 5000;
      const Plan made = plan(trace, budget, options);
      EXPECT_LE(made.microseconds, best) << "trial " << trial << ", " << budget << " bytes";
      EXPECT_LE(made.plain_microseconds + least_extra_time(problem, budget, 1e30),
                made.microseconds + 1e-6);
      tight += made.looseness() < 1e-6;
      ++budgets;
    }
  }
  EXPECT_GT(budgets, 150);
  EXPECT_GT(tight, budgets / 3);  // the bound often meets the plan
}

TEST(Planner, ManyRandomSteps) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 2500; ++trial) {
    const bool chain = trial < 2000;
    const StepTrace trace = tests::random_trace(random, {chain, true, true, chain ? 10 : 20});
    PlanOptions options;
    options.evaluations = 60;
    Planner planner(trace, options);
    const Problem& problem = planner.problem();
    const int64_t peak = planner.plain().outcome.peak;
    const int64_t budget = std::max(planner.lowest().outcome.peak, peak * (40 + trial % 60) / 100);
    const std::optional<Candidate> found = planner.solve(budget, {&planner.lowest(), 1}).best;
    ASSERT_TRUE(found);
    const Plan made = planner.plan_of(*found, budget);
    check_plan(trace, made);
    ASSERT_LE(made.peak_bytes, budget);
    ASSERT_LE(made.bound_microseconds, made.microseconds);
    tests::Heap heap;
    heap.run(trace, made.steps);
    ASSERT_EQ(heap.peak, made.peak_bytes);
    ASSERT_EQ(heap.time, made.microseconds);

    // Greedy dropping alone is never better.
    PlanOptions patient;
    patient.evaluations = 100000;
    Search search(problem, {}, patient);
    const Labels greedy = search.greedy(budget);
    Outcome outcome;
    Simulator(problem).run(search.steps_of(greedy, budget), outcome);
    if (outcome.peak <= budget) {
      ASSERT_LE(made.microseconds, outcome.time);
    }
  }
}

// Whatever is kept, sent or made again, and however tight its transfers are placed: no schedule
// takes less than the bound for its own peak.
TEST(Planner, TheBoundIsBelowAllThatSend) {
  std::mt19937 random(13);
  int above_plain = 0;
  for (int trial = 0; trial < 60; ++trial) {
    StepTrace trace = tests::random_trace(random, {trial % 2 == 0, true, true, 6});
    trace.store = tests::random_store(random);
    if (trial % 4 > 0) {  // small steps leave little to hide behind
      trace.store->send_bytes_per_us /= 64;
      trace.store->fetch_bytes_per_us /= 64;
    }
    const Problem problem = compile(trace);
    if (problem.values > 7) continue;
    Scheduler scheduler(problem);
    Simulator simulator(problem);
    Placer placer(problem);
    Outcome plain;
    simulator.run(plain_steps(problem), plain);
    std::vector<Outcome> outcomes;
    Steps steps;
    Labels labels(problem.values, Label::keep);
    for_each_labelling(problem, labels, 0, [&](const Labels& all) {
      for (int64_t room : {int64_t{0}, plain.peak / 2, plain.peak}) {
        scheduler.build(all, steps);
        delete_dead(problem, steps);
        placer.place(room, steps);
        Outcome& outcome = outcomes.emplace_back();
        ASSERT_TRUE(simulator.run(steps, outcome));
      }
    });
    // The fastest at each peak.
    std::sort(outcomes.begin(), outcomes.end(), [](const Outcome& a, const Outcome& b) {
      return std::tuple(a.peak, a.time) < std::tuple(b.peak, b.time);
    });
    EXPECT_LE(least_peak(problem), outcomes.front().peak);
    double fastest = std::numeric_limits<double>::infinity();
    for (const Outcome& outcome : outcomes) {
      if (outcome.time >= fastest) continue;
      fastest = outcome.time;
      const double bound = plain.time + least_extra_time(problem, outcome.peak, 1e30);
      ASSERT_LE(bound, outcome.time + 1e-6) << "trial " << trial << ", " << outcome.peak;
      above_plain += bound > plain.time + 1e-6;
    }
  }
  EXPECT_GT(above_plain, 20);
}

// Placed with room for all, nothing waits but for a queue that is full; placed for less, a schedule
// that could keep the budget does.
TEST(Transfers, KeepTheBudgetThatTheScheduleKeeps) {
  std::mt19937 random(14);
  int sends = 0;
  for (int trial = 0; trial < 300; ++trial) {
    StepTrace trace = tests::random_trace(random, {trial % 2 == 0, false, true, 14});
    trace.store = tests::random_store(random);
    const Problem problem = compile(trace);
    Labels labels(problem.values, Label::keep);
    for (Index v = 0; v < problem.values; ++v) {
      if (problem.movable[v] && random() % 2 == 0) labels[v] = Label::offload;
    }
    Scheduler scheduler(problem);
    Simulator simulator(problem);
    Placer placer(problem);
    Steps bare;
    scheduler.build(labels, bare);
    delete_dead(problem, bare);
    Outcome tight, roomy;
    ASSERT_TRUE(simulator.run(bare, tight));
    Steps placed = bare;
    placer.place(tight.peak, placed);
    Outcome outcome;
    ASSERT_TRUE(simulator.run(placed, outcome));
    ASSERT_EQ(outcome.peak, tight.peak) << trial;
    Steps far = bare;
    placer.place(tight.peak * 100, far);
    ASSERT_TRUE(simulator.run(far, roomy));
    sends += far.size() > bare.size();
  }
  EXPECT_GT(sends, 100);
}

TEST(Planner, LongerSearchesAndMoreOptionsArePossible) {
  std::mt19937 random(12);
  const StepTrace trace = tests::random_trace(random, {false, true, false, 60});
  Planner planner(trace, {});
  for (int options : {1, 4, 16}) {
    PlanOptions few;
    few.options_per_block = options;
    few.evaluations = 0;
    few.slots = 512;
    const int64_t budget = planner.plain().outcome.peak * 7 / 10;
    const Plan made = plan(trace, std::max(budget, planner.lowest().outcome.peak), few);
    check_plan(trace, made);
  }
}

TEST(Schedule, DeadReplaysAreDeleted) {
  StepTrace trace;
  trace.values = {{10, -1, -1, std::nullopt}, {10, -1, -1, std::nullopt}};
  trace.operators = {{"a", 1, 0, {}, {0}, true}, {"b", 1, 0, {0}, {1}, true}};
  trace.events = {{"", 1, 0, 0, 0, -1, {1}, {}}, {"", 1, 0, 0, 0, -1, {0}, {}}};
  const Problem problem = compile(trace);
  Steps steps = {{0, kAll},     {1, kAll}, {0, kAll},    {1, kAll},
                 event_step(0), {1, kAll}, event_step(1)};
  delete_dead(problem, steps);
  // The replay of operator 1 serves event 0; the first of operator 0 serves it and event 1.
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_EQ(steps[2].op, 0);
  EXPECT_EQ(steps[3].op, 1);
  EXPECT_TRUE(steps[5].is_event());
}

TEST(Schedule, ReplaysWaitForAnEventThatUnpacks) {
  StepTrace trace;
  trace.values = {{10, -1, -1, std::nullopt}};
  trace.operators = {{"a", 1, 0, {}, {0}, true}};
  trace.events = {{"", 1, 0, 0, 0, -1, {}, {}}, {"", 1, 0, 0, 0, -1, {0}, {}}};
  const Problem problem = compile(trace);
  Steps steps = {{0, kAll}, {0, kAll}, event_step(0), event_step(1)};
  // Steps before the first event count as the forward pass; a replay behind it moves.
  steps = {{0, kAll}, event_step(0), {0, kAll}, event_step(1)};
  move_to_unpacks(problem, steps);
  EXPECT_EQ(steps[2].op, 0);
  EXPECT_EQ(steps[3].event(), 1);
}

TEST(MinCut, SmallGraphs) {
  MinCut graph;
  const int32_t a = graph.add_node(), b = graph.add_node();
  graph.add_edge(MinCut::kSource, a, 5);
  graph.add_edge(MinCut::kSource, b, 4);
  graph.add_edge(a, b, 3);
  graph.add_edge(a, MinCut::kSink, 1);
  graph.add_edge(b, MinCut::kSink, 6);
  EXPECT_EQ(graph.solve(), 7);
  EXPECT_TRUE(graph.on_source_side(a));
  EXPECT_TRUE(graph.on_source_side(MinCut::kSource));
  EXPECT_FALSE(graph.on_source_side(MinCut::kSink));
}

// Against all cuts of random graphs.
TEST(MinCut, IsTheCheapestOfAllCuts) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    const int nodes = 2 + static_cast<int>(random() % 6);
    std::vector<std::tuple<int, int, int64_t>> edges;
    MinCut graph;
    for (int i = 2; i < nodes; ++i) graph.add_node();
    for (int e = 0; e < 3 * nodes; ++e) {
      const auto from = static_cast<int>(random() % nodes), to = static_cast<int>(random() % nodes);
      if (from == to) continue;
      edges.emplace_back(from, to, random() % 20);
      graph.add_edge(from, to, std::get<2>(edges.back()));
    }
    int64_t best = MinCut::kNoLimit;
    for (int sides = 0; sides < 1 << nodes; ++sides) {
      if ((sides & 1) == 0 || (sides & 2) != 0) continue;
      int64_t cost = 0;
      for (const auto& [from, to, capacity] : edges) {
        if ((sides >> from & 1) != 0 && (sides >> to & 1) == 0) cost += capacity;
      }
      best = std::min(best, cost);
    }
    ASSERT_EQ(graph.solve(), best);
  }
}

}  // namespace
}  // namespace reprise::planner
