// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <reprise/plan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/plan_support.h"

// Plans that send values to a store and fetch them: bytes that depend on no speed, times that wait
// for the queue, and never a slower plan than without the store.

namespace reprise {
namespace {

using ::testing::HasSubstr;
using tests::Heap;
using tests::kAmple;
using tests::measured_trace;
using tests::part_of;
using tests::quick;
using tests::random_store;
using tests::random_trace;
using Kind = PlanStep::Kind;

StepTrace without_store(StepTrace trace) {
  trace.store.reset();
  return trace;
}

double extra_percent(const Plan& plan) {
  return 100 * (plan.microseconds / plan.plain_microseconds - 1);
}

std::size_t count(const Plan& plan, Kind kind) {
  return static_cast<std::size_t>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                                [&](const PlanStep& s) { return s.kind == kind; }));
}

std::size_t find(const Plan& plan, Kind kind) {
  const auto at = std::find_if(plan.steps.begin(), plan.steps.end(),
                               [&](const PlanStep& step) { return step.kind == kind; });
  return static_cast<std::size_t>(at - plan.steps.begin());
}

void expect_true(const StepTrace& trace, const Plan& plan, int64_t budget) {
  check_plan(trace, plan);
  Heap heap;
  heap.run(trace, plan.steps);
  EXPECT_EQ(heap.peak, plan.peak_bytes);
  EXPECT_EQ(heap.time, plan.microseconds);
  EXPECT_LE(plan.peak_bytes, budget);
  EXPECT_LE(plan.bound_microseconds, plan.microseconds);
  EXPECT_GE(plan.bound_microseconds, plan.plain_microseconds);
  const Evaluation evaluation = evaluate(trace, plan.steps);
  EXPECT_EQ(evaluation.peak_bytes, plan.peak_bytes);
  EXPECT_EQ(evaluation.microseconds, plan.microseconds);
  ASSERT_EQ(evaluation.live_bytes.size(), plan.steps.size());
  EXPECT_EQ(evaluation.live_bytes[evaluation.peak_step], plan.peak_bytes);
}

// Two operators; the first's result is large and cheap.
StepTrace small_trace(double send, double fetch) {
  StepTrace trace;
  trace.values = {{100, -1, -1, std::nullopt}, {10, -1, -1, std::nullopt}};
  trace.operators = {{"gelu", 5, 0, {}, {0}, true}, {"mm", 50, 0, {0}, {1}, true}};
  trace.events = {{"loss", 1, 0, 60, 0, 1, {1}, {}}, {"mm_backward", 9, 0, 20, 10, 1, {0}, {}}};
  trace.store = {send, fetch, 0, 0};
  return trace;
}

TEST(PlanOffload, SmallStepByHand) {
  const StepTrace fast = small_trace(100, 50);
  const Plan sent = plan(fast, 120);
  expect_true(fast, sent, 120);
  EXPECT_EQ(sent.decisions, (std::vector{Decision::offload, Decision::keep}));
  EXPECT_EQ(sent.microseconds, 67);  // written behind mm; 2 to be read, before the last event
  const std::vector<PlanStep> expected = {
      {Kind::forward, 0, {}, {}, {}},  {Kind::send, 0, {}, {}, {}},
      {Kind::forward, 1, {}, {0}, {}}, {Kind::backward, 0, {}, {1}, {}},
      {Kind::fetch, 0, {}, {}, {}},    {Kind::backward, 1, {}, {0}, {}},
  };
  EXPECT_EQ(sent.steps, expected);
  EXPECT_EQ(evaluate(fast, sent.steps).live_bytes,
            (std::vector<int64_t>{100, 100, 110, 70, 110, 120}));

  // What the step works on them is no part of the transfers.
  StepTrace working = fast;
  working.store->work_us_per_byte = 0.0078125;
  const Plan worked = plan(working, 120);
  expect_true(working, worked, 120);
  EXPECT_EQ(worked.steps, expected);
  EXPECT_EQ(worked.microseconds, 67 + 2 * 100 * 0.0078125);
  working.store->work_us_per_byte = 0.015625;  // 3.125 and 2 of waiting, against 5
  EXPECT_EQ(plan(working, 120).decisions[0], Decision::recompute);

  // To run the operator again takes 5.
  EXPECT_EQ(plan(small_trace(100, 10), 120).decisions[0], Decision::recompute);
  // Unless it cannot be: then the loss waits until the value is written, at 105.
  StepTrace slow = small_trace(1, 10);
  slow.operators[0].replayable = false;
  EXPECT_THROW(plan(without_store(slow), 120), BudgetInfeasible);
  const Plan waits = plan(slow, 120);
  expect_true(slow, waits, 120);
  EXPECT_EQ(waits.microseconds, 105 + 1 + 10 + 9);
  EXPECT_EQ(least_budget(slow).plan.peak_bytes, 120);
  // What the program holds itself stays.
  slow.events[1].holds = {0};
  slow.events[1].unpacks = {};
  EXPECT_THROW(plan(slow, 120), BudgetInfeasible);
}

// The same bytes at any speed; only the time waits.
TEST(PlanOffload, AFreedValueWaitsUntilItIsWritten) {
  StepTrace trace = small_trace(1, 1);
  const std::vector<PlanStep> early = {
      {Kind::forward, 0, {}, {}, {}},  {Kind::send, 0, {}, {}, {}},
      {Kind::forward, 1, {}, {0}, {}}, {Kind::backward, 0, {}, {1}, {}},
      {Kind::fetch, 0, {}, {}, {}},    {Kind::backward, 1, {}, {0}, {}},
  };
  std::vector<PlanStep> late = early;
  std::swap(late[2].frees, late[3].frees);
  late[3].frees = {0, 1};
  for (double rate : {0.25, 1.0, 1000.0}) {
    trace.store = {rate, rate, 3, 0};
    const double transfer = 3 + 100 / rate;
    const Evaluation a = evaluate(trace, early), b = evaluate(trace, late);
    EXPECT_EQ(a.live_bytes, (std::vector<int64_t>{100, 100, 110, 70, 110, 120}));
    EXPECT_EQ(b.live_bytes, (std::vector<int64_t>{100, 100, 110, 170, 110, 120}));
    EXPECT_EQ(a.microseconds, std::max(55.0, 5 + transfer) + 1 + transfer + 9);
    EXPECT_EQ(b.microseconds, std::max(56.0, 5 + transfer) + transfer + 9);
    const double freed = std::max(55.0, 5 + transfer);
    EXPECT_EQ(a.begins_us, (std::vector<double>{0, 5, 5, freed, freed + 1, freed + 1 + transfer}));
  }
  EXPECT_THROW(evaluate(without_store(trace), early), UsageError);
}

TEST(PlanOffload, BrokenStoresAreUsageErrors) {
  const auto expect_broken = [](const char* what, TracedStore store) {
    StepTrace trace = small_trace(1, 1);
    trace.store = store;
    try {
      check_trace(trace);
      ADD_FAILURE() << what;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  expect_broken("the store has a rate of 0", {0, 1, 0, 0});
  expect_broken("the store has a rate of 0", {1, 0, 0, 0});
  expect_broken("bytes per microsecond of -1", {1, -1, 0, 0});
  expect_broken("bytes per microsecond of inf", {INFINITY, 1, 0, 0});
  expect_broken("latency in microseconds of nan", {1, 1, NAN, 0});
  expect_broken("least bytes of -3", {1, 1, 0, -3});
  expect_broken("work in microseconds per byte of -1", {1, 1, 0, 0, -1});
  expect_broken("work in microseconds per byte of nan", {1, 1, 0, 0, NAN});
}

TEST(PlanOffload, WrongTransfersAreRefused) {
  const StepTrace trace = small_trace(100, 50);
  const Plan good = plan(trace, 120);
  const auto expect_refused = [&](const char* what, const std::function<void(Plan&)>& edit) {
    Plan edited = good;
    edit(edited);
    try {
      check_plan(trace, edited);
      ADD_FAILURE() << what;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  const auto move = [](Plan& p, std::ptrdiff_t from, std::ptrdiff_t to) {
    const PlanStep step = p.steps[static_cast<std::size_t>(from)];
    p.steps.erase(p.steps.begin() + from);
    p.steps.insert(p.steps.begin() + to, step);
  };
  expect_refused("was never sent", [](Plan& p) { p.steps.erase(p.steps.begin() + 1); });
  expect_refused("bytes", [](Plan& p) { p.steps.erase(p.steps.begin() + 4); });
  expect_refused("is sent twice", [](Plan& p) { p.steps.insert(p.steps.begin(), p.steps[1]); });
  expect_refused("reads a value that is not live", [&](Plan& p) { move(p, 1, 0); });
  expect_refused("a send in the backward pass", [&](Plan& p) { move(p, 1, 3); });
  expect_refused("a fetch in the forward pass", [&](Plan& p) { move(p, 4, 2); });
  expect_refused("decisions or frees", [](Plan& p) { p.steps[0].frees = {0}; });
  expect_refused("decisions or frees", [](Plan& p) {
    p.steps[1].frees = {0};
    p.steps[2].frees = {};
  });
  expect_refused("170", [](Plan& p) {  // later than it says: the bytes tell
    p.steps[2].frees = {};
    p.steps[3].frees = {0, 1};
  });
  expect_refused("decisions or frees", [](Plan& p) { p.decisions[0] = Decision::recompute; });
  expect_refused("is none of 2", [](Plan& p) { p.steps[1].index = 2; });
  expect_refused("says 66.0", [](Plan& p) { p.microseconds = 66; });

  // Another day: no store, a slower one, or the program holds on.
  StepTrace again = without_store(trace);
  EXPECT_EQ(key_of(again), key_of(trace));
  EXPECT_THROW(rejudged(again, good), UsageError);
  again.store = {4, 4, 0, 0};
  EXPECT_THROW(check_plan(again, good), UsageError);
  const Plan judged = rejudged(again, good);
  EXPECT_EQ(judged.steps, good.steps);
  EXPECT_EQ(judged.peak_bytes, good.peak_bytes);
  EXPECT_EQ(judged.microseconds, 55 + 1 + 25 + 9);
  EXPECT_NE(judged.measurement, good.measurement);
  again.values[0].held_until = 3;
  EXPECT_THROW(rejudged(again, good), UsageError);
}

// Every plan: what a heap sees, within its budget, no slower than without the store, no faster than
// the bound, and itself again through a file. Edits of its transfers do not pass.
void check_random(const StepTrace& trace, std::mt19937& random, int& sent, int& faster) {
  const StepTrace bare = without_store(trace);
  const Plan plain = plan(trace, kAmple);
  expect_true(trace, plain, kAmple);
  EXPECT_EQ(count(plain, Kind::send), 0U);
  const LeastBudget least = least_budget(trace, quick());
  expect_true(trace, least.plan, least.plan.budget_bytes);
  EXPECT_LE(least.bound_bytes, least.plan.peak_bytes);
  const LeastBudget bare_least = least_budget(bare, quick());
  EXPECT_LE(least.plan.peak_bytes, bare_least.plan.peak_bytes);
  const int64_t budget =
      std::max(part_of(plain.peak_bytes, 0.4 + 0.01 * static_cast<double>(random() % 60)),
               least.plan.peak_bytes);
  const Plan made = plan(trace, budget, quick());
  expect_true(trace, made, budget);
  if (budget >= bare_least.plan.peak_bytes) {
    const Plan alone = plan(bare, budget, quick());
    EXPECT_LE(made.microseconds, alone.microseconds);
    faster += made.microseconds < alone.microseconds;
  }
  EXPECT_EQ(plan(trace, budget, quick()), made);
  EXPECT_EQ(plan_from_json(to_json(made)), made);
  EXPECT_EQ(to_json(trace_from_json(to_json(trace))), to_json(trace));
  check_plan(trace_from_json(to_json(trace)), plan_from_json(to_json(made)));

  if (count(made, Kind::send) == 0) return;
  ++sent;
  for (Kind kind : {Kind::send, Kind::fetch}) {
    Plan edited = made;
    edited.steps.erase(edited.steps.begin() + static_cast<std::ptrdiff_t>(find(made, kind)));
    EXPECT_THROW(check_plan(trace, edited), UsageError);
  }
  Plan edited = made;
  const std::size_t send = find(made, Kind::send);
  const int32_t v = made.steps[send].index;
  for (PlanStep& step : edited.steps) {
    if (std::erase(step.frees, v) > 0) break;
  }
  edited.steps[0].frees.push_back(v);
  EXPECT_THROW(check_plan(trace, edited), UsageError);
}

void check_many(std::mt19937& random, int trials, tests::TraceKind kind, int& sent, int& faster) {
  for (int trial = 0; trial < trials; ++trial) {
    kind.smaller_forms = trial % 3 != 0;
    kind.holds = trial % 2 == 0;
    StepTrace trace = random_trace(random, kind);
    trace.store = random_store(random);
    check_random(trace, random, sent, faster);
    if (::testing::Test::HasFailure()) FAIL() << "trial " << trial;
  }
}

TEST(PlanOffload, RandomChains) {
  std::mt19937 random(21);
  int sent = 0, faster = 0;
  check_many(random, 2000, {.chain = true, .operators = 12}, sent, faster);
  EXPECT_GT(sent, 500);
  EXPECT_GT(faster, 300);
}

TEST(PlanOffload, RandomGraphs) {
  std::mt19937 random(22);
  int sent = 0, faster = 0;
  check_many(random, 500, {.chain = false, .operators = 20}, sent, faster);
  EXPECT_GT(sent, 100);
  EXPECT_GT(faster, 60);
}

TEST(PlanOffload, AFrontierIsNeverSlowerThanWithoutTheStore) {
  std::mt19937 random(23);
  for (int trial = 0; trial < 100; ++trial) {
    StepTrace trace = random_trace(random, {trial % 2 == 0, true, true, 16});
    trace.store = random_store(random);
    const int64_t peak = plan(trace, kAmple).peak_bytes;
    std::vector<int64_t> budgets;
    for (double part : {0.5, 0.9, 0.6, 0.75}) budgets.push_back(part_of(peak, part) + 1);
    const auto with = frontier(trace, budgets, quick());
    const auto without = frontier(without_store(trace), budgets, quick());
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      if (with[i]) expect_true(trace, *with[i], budgets[i]);
      if (!without[i]) continue;
      ASSERT_TRUE(with[i]);
      ASSERT_LE(with[i]->microseconds, without[i]->microseconds) << trial;
      for (std::size_t k = 0; k < budgets.size(); ++k) {
        if (budgets[k] < budgets[i]) continue;
        ASSERT_LE(with[k]->microseconds, with[i]->microseconds);
      }
    }
  }
}

// Of two measurements the slower store counts, whatever the batch.
TEST(PlanOffload, TheLargestBatchHasTheStore) {
  const auto at = [](int64_t batch) {
    TracedBatch step{batch, 50, small_trace(100, 100)};
    for (TracedValue& value : step.trace.values) value.bytes *= batch;
    for (TracedOperator& op : step.trace.operators) op.microseconds *= static_cast<double>(batch);
    for (BackwardEvent& event : step.trace.events) event.gradient_bytes *= batch;
    step.trace.operators[0].replayable = false;
    return step;
  };
  TracedBatch one = at(1), two = at(2);
  two.trace.store = {60, 200, 7, 5, 0.25};
  const TracedBatch eight = scale_batch(one, two, 8);
  ASSERT_TRUE(eight.trace.store);
  EXPECT_EQ(eight.trace.store->send_bytes_per_us, 60);
  EXPECT_EQ(eight.trace.store->fetch_bytes_per_us, 100);
  EXPECT_EQ(eight.trace.store->latency_us, 7);
  EXPECT_EQ(eight.trace.store->least_bytes, 5);
  EXPECT_EQ(eight.trace.store->work_us_per_byte, 0.25);
  const LargestBatch with = largest_batch(one, two, 1000);
  EXPECT_EQ(with.plan.decisions[0], Decision::offload);
  check_plan(with.step.trace, with.plan);
  one.trace.store.reset();
  EXPECT_FALSE(scale_batch(one, two, 8).trace.store);
  EXPECT_LT(largest_batch(one, two, 1000).step.batch, with.step.batch);
}

// A speed without end costs latency at most; none to speak of gives the plan without the store.
TEST(PlanOffload, TheEndsOfTheScale) {
  for (const char* name : {"gpt2", "unet"}) {
    StepTrace trace = measured_trace(name);
    const int64_t budget = part_of(plan(trace, kAmple).peak_bytes, 0.5);
    PlanOptions options;
    options.evaluations = 2000;
    const Plan alone = plan(trace, budget, options);

    trace.store = {1e30, 1e30, 0, 0};
    const Plan fast = plan(trace, budget, options);
    EXPECT_LT(extra_percent(fast), 1e-6) << name;
    // Though it costs nothing, no more is sent than must be.
    int64_t sent = 0;
    for (const PlanStep& step : fast.steps) {
      if (step.kind == Kind::send) sent += trace.values[static_cast<std::size_t>(step.index)].bytes;
    }
    const auto missing = static_cast<double>(fast.plain_peak_bytes - budget);
    EXPECT_LT(static_cast<double>(sent), 1.15 * missing) << name;
    trace.store->latency_us = 2;
    const Plan late = plan(trace, budget, options);
    const auto transfers = static_cast<double>(count(late, Kind::send) + count(late, Kind::fetch));
    EXPECT_LE(late.microseconds, late.plain_microseconds + 2 * transfers) << name;

    trace.store = {1e-6, 1e-6, 0, 0};
    Plan slow = plan(trace, budget, options);
    check_plan(trace, slow);
    EXPECT_LE(slow.bound_microseconds, alone.bound_microseconds + 1e-6);
    slow.bound_microseconds = alone.bound_microseconds;
    slow.measurement = alone.measurement;
    EXPECT_EQ(slow, alone) << name;
    trace.store = {1e30, 1e30, 0, int64_t{1} << 40};  // nothing is large enough
    EXPECT_EQ(plan(trace, budget, options).steps, alone.steps);
  }
}

// Like blocks, whose backward run takes twice the forward run: at 30 % of the plain peak, and a
// block's bytes written in so many times its forward run.
TEST(PlanOffload, AUniformChain) {
  constexpr int kBlocks = 34;
  StepTrace trace;
  for (int32_t i = 0; i < kBlocks; ++i) {
    trace.operators.push_back({"block", 100, 0, {}, {2 * i, 2 * i + 1}, true});
    if (i > 0) trace.operators.back().reads = {2 * i - 2};
    trace.values.push_back({10, -1, -1, std::nullopt});
    trace.values.push_back({50, -1, -1, std::nullopt});
  }
  for (int32_t i = kBlocks; i-- > 0;) {
    trace.events.push_back({"block_backward", 200, 0, 20, 10, i, {2 * i + 1}, {}});
    if (i > 0) trace.events.back().unpacks.push_back(2 * i - 2);
  }
  const int64_t budget = part_of(plan(trace, kAmple).peak_bytes, 0.3);
  EXPECT_NEAR(extra_percent(plan(trace, budget)), 24.5, 0.1);
  double before = 0;
  for (const auto& [ratio, most] :
       {std::pair{0.5, 0.0}, {1.0, 0.0}, {2.0, 18.8}, {4.0, 22.4}, {8.0, 24.6}, {16.0, 24.6}}) {
    trace.store = {60 / 100.0 / ratio, 60 / 100.0 / ratio, 0, 0};
    const Plan made = plan(trace, budget);
    expect_true(trace, made, budget);
    EXPECT_LE(extra_percent(made), most + 1e-9) << ratio;
    EXPECT_GE(extra_percent(made), before) << ratio;
    before = extra_percent(made);
  }
}

// Six like blocks of which two bytes each can be sent, in the time of a forward run: what the
// textbook's double buffer takes at these budgets, and less where more can be on its way.
TEST(PlanOffload, NoWorseThanADoubleBuffer) {
  StepTrace trace;
  for (int32_t i = 0; i < 6; ++i) {
    trace.operators.push_back({"block", 1, 0, {}, {2 * i, 2 * i + 1}, true});
    if (i > 0) trace.operators.back().reads = {2 * i - 2};
    trace.values.push_back({1, -1, -1, std::nullopt});
    trace.values.push_back({2, -1, -1, std::nullopt});
  }
  for (int32_t i = 6; i-- > 0;) {
    trace.events.push_back({"block_backward", 2, 0, 2, 1, i, {2 * i, 2 * i + 1}, {}});
    if (i > 0) trace.events.back().unpacks.push_back(2 * i - 2);
  }
  trace.store = {2, 2, 0, 2};
  for (const auto& [budget, most] :
       {std::pair{6, 33}, {7, 26}, {8, 24}, {9, 22}, {10, 20}, {11, 19}, {12, 18}}) {
    const Plan made = plan(trace, budget);
    expect_true(trace, made, budget);
    EXPECT_LE(made.microseconds, most) << budget;
  }
}

// Measured steps, with a store that takes so many forward passes for all of the values, and so many
// of work. The plans stay close to the bound; where a store could be no use, it costs nothing.
TEST(PlanOffload, MeasuredSteps) {
  struct Case {
    const char* name;
    double part, passes, work, most_extra;
  };
  for (const Case& c : std::vector<Case>{{"gpt6", 0.5, 1, 0, 0.0},
                                         {"gpt6", 0.5, 4, 0, 1.2},
                                         {"gpt6", 0.3, 2, 0, 0.8},
                                         {"gpt6", 0.3, 4, 0, 7.2},
                                         {"gpt6", 0.25, 4, 0, 10.5},
                                         {"gpt6", 0.5, 1, 0.2, 4.5},
                                         {"gpt6", 0.3, 2, 0.1, 4.5},
                                         {"unet", 0.5, 4, 0.1, 4.5},
                                         {"unet", 0.5, 4, 0, 2.9}}) {
    StepTrace trace = measured_trace(c.name);
    double bytes = 0, forward = 0;
    for (const TracedValue& value : trace.values) bytes += static_cast<double>(value.bytes);
    for (const TracedOperator& op : trace.operators) forward += op.microseconds;
    const double rate = bytes / forward / c.passes;
    trace.store = {rate, rate, 50, 0, c.work * forward / bytes};
    const int64_t budget = part_of(plan(trace, kAmple).peak_bytes, c.part);
    const Plan made = plan(trace, budget);
    check_plan(trace, made);
    EXPECT_LE(extra_percent(made), c.most_extra) << c.name << " at " << c.part;
    EXPECT_LE(100 * made.looseness(), 2.0) << c.name << " at " << c.part;
    Heap heap;
    heap.run(trace, made.steps);
    EXPECT_EQ(heap.peak, made.peak_bytes);
    EXPECT_EQ(heap.time, made.microseconds);
    if (count(made, Kind::send) > 0) {
      EXPECT_GT(count(made, Kind::fetch), 0U);
    }
  }
}

TEST(PlanOffload, StoresAsFiles) {
  StepTrace trace = small_trace(100, 50);
  using Json = nlohmann::json;
  Json json = Json::parse(to_json(trace));
  EXPECT_EQ(json["store"], (Json{{"send_bytes_per_us", 100.0}, {"fetch_bytes_per_us", 50.0}}));
  trace.store = {3, 4, 5, 6, 7};
  const StepTrace again = trace_from_json(to_json(trace));
  ASSERT_TRUE(again.store);
  EXPECT_EQ(again.store->latency_us, 5);
  EXPECT_EQ(again.store->least_bytes, 6);
  EXPECT_EQ(again.store->work_us_per_byte, 7);
  EXPECT_FALSE(Json::parse(to_json(without_store(trace))).contains("store"));
  EXPECT_FALSE(trace_from_json(to_json(without_store(trace))).store);
  json["store"].erase("fetch_bytes_per_us");
  EXPECT_THROW(trace_from_json(json.dump()), UsageError);
  json["store"] = 7;
  EXPECT_THROW(trace_from_json(json.dump()), UsageError);
  json["store"] = {{"send_bytes_per_us", 0}, {"fetch_bytes_per_us", 1}};
  EXPECT_THROW(trace_from_json(json.dump()), UsageError);
}

}  // namespace
}  // namespace reprise
