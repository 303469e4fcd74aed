// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <reprise/plan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan_support.h"

// Plans: predictions against a heap that really allocates, budgets kept, what grows with the
// budget and what does not, and the figures on measured steps.

namespace reprise {
namespace {

using ::testing::HasSubstr;
using tests::Heap;
using tests::kAmple;
using tests::measured_trace;
using tests::part_of;
using tests::quick;
using tests::random_trace;

std::size_t replays_in(const Plan& plan) {
  std::size_t replays = 0;
  for (const PlanStep& step : plan.steps) replays += step.kind == PlanStep::Kind::replay;
  return replays;
}

// Two operators; the first's result is large and cheap.
StepTrace small_trace() {
  StepTrace trace;
  trace.values = {{100, -1, -1, std::nullopt}, {10, -1, -1, std::nullopt}};
  trace.operators = {{"gelu", 5, 0, {}, {0}, true}, {"mm", 50, 0, {0}, {1}, true}};
  trace.events = {{"loss", 1, 0, 60, 0, 1, {1}, {}}, {"mm_backward", 9, 0, 20, 10, 1, {0}, {}}};
  return trace;
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
  EXPECT_GE(plan.looseness(), 0);
}

TEST(Plan, SmallStepByHand) {
  const StepTrace trace = small_trace();
  const Plan plain = plan(trace, kAmple);
  EXPECT_EQ(plain.peak_bytes, 170);  // at the loss: both values and 60 of gradients
  EXPECT_EQ(plain.microseconds, 65);
  EXPECT_EQ(plain.decisions, (std::vector{Decision::keep, Decision::keep}));

  const Plan tight = plan(trace, 120);
  EXPECT_EQ(tight.peak_bytes, 120);  // while the second operator reads the first's result: 110;
                                     // at its backward event: 100 and 20 of gradients
  EXPECT_EQ(tight.microseconds, 70);
  EXPECT_NEAR(tight.bound_microseconds, 70, 1e-6);
  EXPECT_EQ(tight.decisions, (std::vector{Decision::recompute, Decision::keep}));
  const std::vector<PlanStep> expected = {
      {PlanStep::Kind::forward, 0, {}, {}, {}},   {PlanStep::Kind::forward, 1, {}, {0}, {}},
      {PlanStep::Kind::backward, 0, {}, {1}, {}}, {PlanStep::Kind::replay, 0, {0}, {}, {}},
      {PlanStep::Kind::backward, 1, {}, {0}, {}},
  };
  EXPECT_EQ(tight.steps, expected);
  const Evaluation evaluation = evaluate(trace, tight.steps);
  EXPECT_EQ(evaluation.live_bytes, (std::vector<int64_t>{100, 110, 70, 110, 120}));
  EXPECT_EQ(evaluation.peak_step, 4U);
}

TEST(Plan, InfeasibleNamesTheLeastBudgetAndWhatPinsIt) {
  const StepTrace trace = small_trace();
  try {
    plan(trace, 119);
    FAIL();
  } catch (const BudgetInfeasible& error) {
    EXPECT_EQ(error.least(), 120);
    EXPECT_EQ(error.limit(), 119);
    EXPECT_EQ(error.op(), "mm_backward");
    EXPECT_THAT(error.what(), HasSubstr("no plan fits 119 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("pinned by mm_backward"));
    EXPECT_THAT(error.what(), HasSubstr("\nhint: "));
  }
  const LeastBudget least = least_budget(trace);
  EXPECT_EQ(least.plan.peak_bytes, 120);
  EXPECT_EQ(least.bound_bytes, 120);
  EXPECT_EQ(least.pinned_by, "mm_backward");
  EXPECT_EQ(least.live_values, std::vector<int32_t>{0});
}

TEST(Plan, EmptyAndForwardOnlySteps) {
  EXPECT_EQ(plan({}, 1).peak_bytes, 0);
  StepTrace trace = small_trace();
  trace.events.clear();
  EXPECT_EQ(plan(trace, 110).peak_bytes, 110);
  EXPECT_THROW(plan(trace, 109), BudgetInfeasible);
}

TEST(Plan, BadCallsAreUsageErrors) {
  const StepTrace trace = small_trace();
  EXPECT_THROW(plan(trace, 0), UsageError);
  EXPECT_THROW(plan(trace, -5), UsageError);
  PlanOptions options;
  options.slots = 0;
  EXPECT_THROW(plan(trace, 130, options), UsageError);
  const auto expect_broken = [&](const char* what, auto&& break_it) {
    StepTrace broken = small_trace();
    break_it(broken);
    try {
      check_trace(broken);
      ADD_FAILURE() << what;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  expect_broken("names value 7 of 2", [](auto& t) { t.operators[0].reads = {7}; });
  expect_broken("reads value 1 before", [](auto& t) { t.operators[0].reads = {1}; });
  expect_broken("is made twice", [](auto& t) { t.operators[1].makes = {0, 1}; });
  expect_broken("is made by no operator", [](auto& t) { t.operators[1].makes = {}; });
  expect_broken("names value 0 twice", [](auto& t) { t.events[1].unpacks = {0, 0}; });
  expect_broken("bytes of -1", [](auto& t) { t.values[0].bytes = -1; });
  expect_broken("microseconds of nan", [](auto& t) { t.operators[0].microseconds = NAN; });
  expect_broken("beyond the step", [](auto& t) { t.values[0].held_until = 4; });
  expect_broken("before it is made", [](auto& t) { t.values[1].saved_at = 0; });
  expect_broken("belongs to operator 2 of 2", [](auto& t) { t.events[0].belongs_to = 2; });
}

TEST(Plan, WrongSchedulesAreRefused) {
  const StepTrace trace = small_trace();
  const Plan good = plan(trace, 120);
  const auto expect_refused = [&](const char* what, auto&& edit) {
    Plan edited = good;
    edit(edited);
    try {
      check_plan(trace, edited);
      ADD_FAILURE() << what;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  expect_refused("is for another step", [](Plan& p) { p.key = "0123456789abcdef"; });
  expect_refused("above its budget of 119", [](Plan& p) { p.budget_bytes = 119; });
  expect_refused("says 100 bytes at its peak, and has 120", [](Plan& p) { p.peak_bytes = 100; });
  expect_refused("above its budget of 120", [](Plan& p) { p.steps.erase(p.steps.begin() + 3); });
  expect_refused("out of its order", [](Plan& p) { std::swap(p.steps[0], p.steps[1]); });
  expect_refused("are missing", [](Plan& p) { p.steps.pop_back(); });
  expect_refused("is none of 2", [](Plan& p) { p.steps[3].index = 2; });
  expect_refused("is no result of operator 0", [](Plan& p) { p.steps[3].leaves = {1}; });
  expect_refused("says 64.000000 microseconds, and has 70", [](Plan& p) { p.microseconds = 64; });
  expect_refused("at the plain step's peak", [](Plan& p) { p.plain_peak_bytes += 1; });
  expect_refused("for the plain step, and has 65", [](Plan& p) { p.plain_microseconds = 66; });
  expect_refused("bound of 70.5", [](Plan& p) { p.bound_microseconds = 70.5; });
  expect_refused("bound of 64.0", [](Plan& p) { p.bound_microseconds = 64; });
  expect_refused("another measurement", [](Plan& p) { p.measurement = "0123456789abcdef"; });
  expect_refused("decisions or frees", [](Plan& p) { p.steps[3].frees = {0}; });
  expect_refused("decisions or frees", [](Plan& p) { p.decisions[0] = Decision::keep; });
  expect_refused("a replay in the forward pass",
                 [](Plan& p) { std::swap(p.steps[1], p.steps[3]); });
  expect_refused("has no smaller form", [](Plan& p) { p.steps[3].kind = PlanStep::Kind::decode; });
}

// The same step, measured again: what one measurement may tell otherwise than another.
TEST(Plan, IsRejudgedByANewMeasurement) {
  const StepTrace trace = small_trace();
  const Plan made = plan(trace, 120);
  EXPECT_EQ(rejudged(trace, made), made);

  StepTrace again = trace;
  again.operators[0].microseconds = 8;
  again.operators[1].scratch_bytes = 15;
  again.events[0].gradient_bytes = 70;
  again.values[1].held_until = 2;
  EXPECT_EQ(key_of(again), key_of(trace));
  EXPECT_THROW(check_plan(again, made), UsageError);
  const Plan judged = rejudged(again, made);
  check_plan(again, [&] {
    Plan roomy = judged;
    roomy.budget_bytes = judged.peak_bytes;
    return roomy;
  }());
  EXPECT_EQ(judged.key, made.key);
  EXPECT_NE(judged.measurement, made.measurement);
  EXPECT_EQ(judged.budget_bytes, 120);
  EXPECT_EQ(judged.peak_bytes, 125);  // above the budget now: both values and 15 of scratch
  EXPECT_EQ(judged.microseconds, 76);
  EXPECT_EQ(judged.plain_peak_bytes, 180);
  EXPECT_EQ(judged.plain_microseconds, 68);
  EXPECT_EQ(judged.bound_microseconds, 68);
  EXPECT_EQ(judged.decisions, made.decisions);

  // Held longer, a value is freed later.
  again = trace;
  again.events[1].holds = {1};
  EXPECT_EQ(key_of(again), key_of(trace));
  EXPECT_EQ(rejudged(again, made).steps[2].frees, std::vector<int32_t>{});
  EXPECT_EQ(rejudged(again, made).steps[4].frees, (std::vector<int32_t>{0, 1}));

  // No schedule any more.
  again = trace;
  again.operators[0].replayable = false;
  EXPECT_EQ(key_of(again), key_of(trace));
  EXPECT_THROW(rejudged(again, made), UsageError);
  again = trace;
  again.values[0].held_until = 2;  // through the loss, and only then made again
  EXPECT_EQ(rejudged(again, made).peak_bytes, 170);
  again.values[0].held_until = 3;
  EXPECT_THROW(rejudged(again, made), UsageError);
  again = trace;
  again.events[0].holds = {0};  // without any unpack: the program's own
  EXPECT_THROW(rejudged(again, made), UsageError);

  // Another step.
  again = trace;
  again.values[0].bytes += 1;
  EXPECT_THROW(rejudged(again, made), UsageError);
}

TEST(Plan, RandomPlansAreRejudgedAsAHeapWould) {
  std::mt19937 random(10);
  int above = 0;
  for (int trial = 0; trial < 100; ++trial) {
    const StepTrace trace = random_trace(random, {trial % 2 == 0, true, false, 16});
    const Plan made = least_budget(trace, quick()).plan;
    StepTrace again = trace;
    for (TracedOperator& op : again.operators) {
      op.microseconds = 1 + static_cast<double>(random() % 50);
      op.scratch_bytes = static_cast<int64_t>(random() % 20);
    }
    for (BackwardEvent& event : again.events) {
      event.microseconds = 1 + static_cast<double>(random() % 50);
      event.scratch_bytes = static_cast<int64_t>(random() % 20);
    }
    const Plan judged = rejudged(again, made);
    Heap heap;
    heap.run(again, judged.steps);
    ASSERT_EQ(heap.peak, judged.peak_bytes);
    ASSERT_EQ(heap.time, judged.microseconds);
    ASSERT_EQ(judged.bound_microseconds, judged.plain_microseconds);
    above += judged.peak_bytes > judged.budget_bytes;
  }
  EXPECT_GT(above, 10);
}

TEST(Plan, DecodingWhatWasNotEncodedIsRefused) {
  StepTrace trace = small_trace();
  trace.operators[0].microseconds = 1000;
  trace.values[0].encoded = {4, 10, 12};
  Plan edited = plan(trace, 130);
  ASSERT_EQ(edited.steps[1].kind, PlanStep::Kind::encode);
  edited.steps.erase(edited.steps.begin() + 1);
  EXPECT_THROW(check_plan(trace, edited), UsageError);
  EXPECT_THROW(evaluate(trace, edited.steps), UsageError);
}

TEST(Plan, WhatCannotBeReplayedOrIsHeldStays) {
  StepTrace trace = small_trace();
  trace.operators[0].replayable = false;
  EXPECT_EQ(least_budget(trace).plan.peak_bytes, 170);

  trace = small_trace();
  trace.values[0].held_until = 2;  // through the loss
  EXPECT_EQ(least_budget(trace).plan.peak_bytes, 170);
  trace.values[0].held_until = 1;  // the last operator reads it anyway
  EXPECT_EQ(least_budget(trace).plan.peak_bytes, 120);

  trace = small_trace();
  trace.events[1].holds = {0};  // never through a hook: the program keeps it
  trace.events[1].unpacks = {};
  EXPECT_EQ(least_budget(trace).plan.peak_bytes, 170);
}

TEST(Plan, EncodesWhatIsDearToDraw) {
  StepTrace trace = small_trace();
  trace.operators[0].microseconds = 1000;
  trace.values[0].encoded = {4, 10, 12};
  trace.values[0].saved_at = 1;
  const Plan encoded = plan(trace, 130);
  expect_true(trace, encoded, 130);
  EXPECT_EQ(encoded.decisions[0], Decision::encode);
  EXPECT_EQ(encoded.microseconds, encoded.plain_microseconds + 22);
  EXPECT_NEAR(encoded.bound_microseconds, encoded.microseconds, 1e-6);
  EXPECT_EQ(replays_in(encoded), 0U);
  // Where drawing costs less than to encode and decode, it is drawn again.
  trace.operators[0].microseconds = 20;
  EXPECT_EQ(plan(trace, 130).decisions[0], Decision::recompute);
}

TEST(Plan, PredictionsOfRandomStepsAreWhatAHeapSees) {
  std::mt19937 random(7);
  int planned = 0, encoded = 0;
  for (int trial = 0; trial < 400; ++trial) {
    tests::TraceKind kind;
    kind.chain = trial % 2 == 0;
    kind.operators = 16;
    const StepTrace trace = random_trace(random, kind);
    const Plan plain = plan(trace, kAmple);
    expect_true(trace, plain, kAmple);
    ASSERT_EQ(replays_in(plain), 0U);
    ASSERT_EQ(plain.microseconds, plain.plain_microseconds);
    const LeastBudget least = least_budget(trace, quick());
    expect_true(trace, least.plan, least.plan.budget_bytes);
    ASSERT_LE(least.bound_bytes, least.plan.peak_bytes);
    for (double part : {0.9, 0.75, 0.6}) {
      const int64_t budget = std::max(part_of(plain.peak_bytes, part), least.plan.peak_bytes);
      const Plan made = plan(trace, budget, quick());
      expect_true(trace, made, budget);
      planned += replays_in(made) > 0;
      for (Decision decision : made.decisions) encoded += decision == Decision::encode;
    }
    if (HasFailure()) FAIL() << "trial " << trial;
  }
  EXPECT_GT(planned, 100);
  EXPECT_GT(encoded, 100);
}

TEST(Plan, TimeNeverRisesWithTheBudget) {
  std::mt19937 random(8);
  for (int trial = 0; trial < 60; ++trial) {
    const StepTrace trace = random_trace(random, {trial % 2 == 0, true, true, 16});
    const int64_t peak = plan(trace, kAmple).peak_bytes;
    std::vector<int64_t> budgets;
    for (int percent = 100; percent > 0; percent -= 7) {
      budgets.push_back(std::max<int64_t>(1, peak * percent / 100));
    }
    std::shuffle(budgets.begin(), budgets.end(), random);
    const auto plans = frontier(trace, budgets, quick());
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      if (plans[i]) expect_true(trace, *plans[i], budgets[i]);
      for (std::size_t k = 0; k < budgets.size(); ++k) {
        if (budgets[k] < budgets[i] || !plans[i]) continue;
        ASSERT_TRUE(plans[k]);
        ASSERT_LE(plans[k]->microseconds, plans[i]->microseconds);
      }
    }
  }
}

// Powers of two, which change no digit of a float.
TEST(Plan, IsFreeOfScaleInBytesAndTime) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 40; ++trial) {
    const StepTrace trace = random_trace(random, {trial % 2 == 0, true, true, 14});
    StepTrace scaled = trace;
    for (TracedValue& value : scaled.values) {
      value.bytes *= 1024;
      if (value.encoded) {
        value.encoded->bytes *= 1024;
        value.encoded->encode_us /= 8;
        value.encoded->decode_us /= 8;
      }
    }
    for (TracedOperator& op : scaled.operators) {
      op.scratch_bytes *= 1024;
      op.microseconds /= 8;
    }
    for (BackwardEvent& event : scaled.events) {
      event.scratch_bytes *= 1024;
      event.gradient_bytes *= 1024;
      event.gradient_bytes_before *= 1024;
      event.microseconds /= 8;
    }
    const Plan plain = plan(trace, kAmple);
    const LeastBudget least = least_budget(trace, quick());
    const int64_t budget = (plain.peak_bytes + least.plan.peak_bytes) / 2;
    const Plan one = plan(trace, budget, quick());
    const Plan other = plan(scaled, budget * 1024, quick());
    ASSERT_EQ(one.decisions, other.decisions) << trial;
    ASSERT_EQ(one.steps, other.steps);
    ASSERT_EQ(one.peak_bytes * 1024, other.peak_bytes);
    ASSERT_EQ(one.microseconds, other.microseconds * 8);
  }
}

TEST(Plan, TheSameSeedGivesTheSamePlan) {
  const StepTrace trace = measured_trace("gpt2");
  const int64_t budget = part_of(plan(trace, kAmple).peak_bytes, 0.5);
  PlanOptions options;
  options.evaluations = 2000;
  EXPECT_EQ(plan(trace, budget, options), plan(trace, budget, options));
  options.seed = 1;
  const Plan other = plan(trace, budget, options);
  EXPECT_EQ(other.seed, 1U);
  expect_true(trace, other, budget);
}

TEST(Plan, IsNeverSlowerThanAKnownPlan) {
  const StepTrace trace = measured_trace("unet");
  const int64_t peak = plan(trace, kAmple).peak_bytes;
  const Plan careful = plan(trace, part_of(peak, 0.5));
  PlanOptions hasty;
  hasty.evaluations = 0;
  hasty.bound = false;
  const Plan alone = plan(trace, part_of(peak, 0.55), hasty);
  EXPECT_GT(alone.microseconds, careful.microseconds);
  const Plan helped = plan(trace, part_of(peak, 0.55), hasty, std::vector{careful});
  EXPECT_LE(helped.microseconds, careful.microseconds);
  // Of another step: ignored.
  const StepTrace other = measured_trace("gpt2");
  EXPECT_NO_THROW(
      plan(other, part_of(plan(other, kAmple).peak_bytes, 0.6), hasty, std::vector{careful}));
}

// The same model at another batch: sizes in other proportions, and a plan that was made for them.
StepTrace larger(StepTrace trace) {
  for (TracedValue& value : trace.values) value.bytes += value.bytes / 2 + 64;
  for (TracedOperator& op : trace.operators) op.microseconds *= 1.4;
  for (BackwardEvent& event : trace.events) {
    event.microseconds *= 1.4;
    event.gradient_bytes += event.gradient_bytes / 3;
    event.gradient_bytes_before += event.gradient_bytes_before / 3;
  }
  return trace;
}

TEST(Plan, StartsFromPlansForOtherSizes) {
  const StepTrace small = measured_trace("unet");
  const StepTrace large = larger(small);
  ASSERT_NE(key_of(small), key_of(large));
  const Plan known = plan(small, part_of(plan(small, kAmple).peak_bytes, 0.5));
  const int64_t peak = plan(large, kAmple).peak_bytes;
  const Evaluation there = evaluate(large, known.steps);
  EXPECT_THROW(rejudged(large, known), UsageError);

  // It fits: as it stands it is a candidate, better than what the chain programme alone finds.
  PlanOptions hasty;
  hasty.evaluations = 0;
  const Plan alone = plan(large, there.peak_bytes, hasty);
  const Plan taken = plan(large, there.peak_bytes, hasty, std::vector{known});
  EXPECT_LT(there.microseconds, alone.microseconds);
  EXPECT_LE(taken.microseconds, there.microseconds);
  EXPECT_EQ(taken.key, key_of(large));
  expect_true(large, taken, there.peak_bytes);

  // It does not fit: a short search from it finds what a short search alone does not.
  PlanOptions brief;
  brief.evaluations = 200;
  const int64_t less = there.peak_bytes - part_of(peak, 0.01);
  const Plan searched = plan(large, less, brief, std::vector{known});
  expect_true(large, searched, less);
  EXPECT_LT(searched.microseconds, plan(large, less, brief).microseconds);

  // Schedules that are none here, and plans of other models, are ignored.
  StepTrace other = large;
  for (TracedOperator& op : other.operators) op.replayable = false;
  EXPECT_THROW(plan(other, there.peak_bytes, hasty, std::vector{known}), BudgetInfeasible);
  other = large;
  other.values.pop_back();
  other.operators.back().makes.pop_back();
  for (BackwardEvent& event : other.events) {
    std::erase(event.unpacks, static_cast<int32_t>(other.values.size()));
    std::erase(event.holds, static_cast<int32_t>(other.values.size()));
  }
  EXPECT_EQ(plan(other, there.peak_bytes, hasty, std::vector{known}),
            plan(other, there.peak_bytes, hasty));
}

// What the method reaches on measured steps, in percent of a plain step, with some room: the
// figures are those of one search, and a better search may only lower them.
TEST(Plan, MeasuredSteps) {
  struct Case {
    const char* name;
    double part, most_extra, least_bound;
  };
  for (const Case& c : std::vector<Case>{{"gpt6", 0.8, 1.0, 0.9},
                                         {"gpt6", 0.6, 5.6, 5.3},
                                         {"gpt6", 0.5, 9.6, 9.1},
                                         {"gpt6", 0.4, 13.5, 13.0},
                                         {"gpt6", 0.3, 19.9, 18.5},
                                         {"gpt6", 0.25, 29.0, 19.4},
                                         {"unet", 0.7, 4.4, 3.7},
                                         {"unet", 0.5, 13.0, 10.4}}) {
    const StepTrace trace = measured_trace(c.name);
    const int64_t budget = part_of(plan(trace, kAmple).peak_bytes, c.part);
    const Plan made = plan(trace, budget);
    check_plan(trace, made);
    const double extra = 100 * (made.microseconds / made.plain_microseconds - 1);
    const double bound = 100 * (made.bound_microseconds / made.plain_microseconds - 1);
    EXPECT_LE(extra, c.most_extra) << c.name << " at " << c.part;
    EXPECT_GE(bound, c.least_bound) << c.name << " at " << c.part;
    EXPECT_LE(made.peak_bytes, budget);
    Heap heap;
    heap.run(trace, made.steps);
    EXPECT_EQ(heap.peak, made.peak_bytes);
  }
}

TEST(Plan, LeastBudgetsOfMeasuredSteps) {
  for (const auto& [name, most] : {std::pair{"gpt6", 0.221}, std::pair{"unet", 0.42}}) {
    const StepTrace trace = measured_trace(name);
    const LeastBudget least = least_budget(trace);
    check_plan(trace, least.plan);
    const auto part = static_cast<double>(least.plan.peak_bytes) /
                      static_cast<double>(least.plan.plain_peak_bytes);
    EXPECT_LE(part, most) << name;
    EXPECT_LE(least.bound_bytes, least.plan.peak_bytes);
  }
}

}  // namespace
}  // namespace reprise
