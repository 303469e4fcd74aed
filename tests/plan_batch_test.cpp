// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdint>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include <reprise/plan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan_support.h"

// Steps at batches that were not measured, and the largest batch that fits, against closed forms.

namespace reprise {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kAmple = int64_t{1} << 50;

// By hand: the least peak is 120 bytes for a sample and 7 for the parameters' gradient.
TracedBatch small_step(int64_t n) {
  StepTrace trace;
  trace.values = {{100 * n, -1, -1, std::nullopt}, {10 * n, -1, -1, std::nullopt}};
  trace.operators = {{"gelu", 5.0 * static_cast<double>(n), 0, {}, {0}, true},
                     {"mm", 50, 0, {0}, {1}, true}};
  trace.events = {{"loss", 1, 0, 60 * n, 0, 1, {1}, {}},
                  {"mm_backward", 9, 0, 20 * n + 7, 10 * n, 1, {0}, {}}};
  return {n, 1000 + 5 * n, trace};
}

// A random step whose numbers are all a constant and so much for each sample.
TracedBatch random_step(unsigned seed, int64_t n) {
  std::mt19937 random(seed);
  StepTrace trace = tests::random_trace(random, {seed % 2 == 0, true, true, 10});
  const auto grow = [&](auto& number) {
    using Number = std::remove_reference_t<decltype(number)>;
    number += static_cast<Number>(random() % 30) * static_cast<Number>(n);
  };
  for (TracedValue& value : trace.values) {
    grow(value.bytes);
    if (!value.encoded) continue;
    grow(value.encoded->bytes);
    grow(value.encoded->encode_us);
    grow(value.encoded->decode_us);
  }
  for (TracedOperator& op : trace.operators) {
    grow(op.microseconds);
    grow(op.scratch_bytes);
  }
  for (BackwardEvent& event : trace.events) {
    grow(event.microseconds);
    grow(event.scratch_bytes);
    grow(event.gradient_bytes);
    grow(event.gradient_bytes_before);
  }
  return {n, 50 + 3 * n, trace};
}

TEST(ScaleBatch, IsTheStepItself) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    for (const auto& [a, b] : {std::pair{3, 7}, std::pair{8, 2}, std::pair{1, 2}}) {
      for (int64_t n : {1, 2, 3, 5, 7, 100, 12345}) {
        const TracedBatch step = scale_batch(random_step(seed, a), random_step(seed, b), n);
        const TracedBatch truth = random_step(seed, n);
        ASSERT_EQ(to_json(step.trace), to_json(truth.trace)) << seed << ", " << n;
        ASSERT_EQ(step.base_bytes, truth.base_bytes);
        ASSERT_EQ(step.batch, n);
      }
    }
  }
}

TEST(ScaleBatch, RoundsUpAndStaysAboveZero) {
  TracedBatch a = small_step(2), b = small_step(5);
  a.trace.values[0].bytes = 10;
  b.trace.values[0].bytes = 11;
  a.trace.operators[1].scratch_bytes = 20;
  b.trace.operators[1].scratch_bytes = 10;
  a.trace.operators[1].microseconds = 20;
  b.trace.operators[1].microseconds = 10;
  const auto at = [&](int64_t n) { return scale_batch(a, b, n).trace; };
  EXPECT_EQ(at(1).values[0].bytes, 10);  // 9 2/3
  EXPECT_EQ(at(2).values[0].bytes, 10);
  EXPECT_EQ(at(3).values[0].bytes, 11);  // 10 1/3
  EXPECT_EQ(at(6).values[0].bytes, 12);  // 11 1/3
  EXPECT_EQ(at(1).operators[1].scratch_bytes, 24);
  EXPECT_EQ(at(4).operators[1].scratch_bytes, 14);  // 13 1/3
  EXPECT_EQ(at(7).operators[1].scratch_bytes, 4);   // 3 1/3
  EXPECT_EQ(at(9).operators[1].scratch_bytes, 0);
  EXPECT_EQ(at(9).operators[1].microseconds, 0);
  EXPECT_EQ(at(2000000000).operators[1].scratch_bytes, 0);
  EXPECT_EQ(scale_batch(b, a, 3).trace.values[0].bytes, 11);  // in either order
}

TEST(ScaleBatch, WhatOneOfTheTwoHoldsOrCannotDoCounts) {
  TracedBatch a = small_step(1), b = small_step(2);
  a.trace.operators[0].replayable = false;
  b.trace.values[0].held_until = 2;
  a.trace.values[0].encoded = {4, 1, 1};
  b.trace.events[0].holds = {0};
  const StepTrace step = scale_batch(a, b, 3).trace;
  EXPECT_FALSE(step.operators[0].replayable);
  EXPECT_EQ(step.values[0].held_until, 2);
  EXPECT_FALSE(step.values[0].encoded);
  EXPECT_EQ(step.events[0].holds, std::vector<int32_t>{0});
}

TEST(ScaleBatch, RefusesWhatCannotBeScaled) {
  const auto refused = [](const TracedBatch& a, const TracedBatch& b, int64_t n, const char* why) {
    try {
      scale_batch(a, b, n);
      ADD_FAILURE() << why;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  const TracedBatch a = small_step(1);
  refused(a, a, 2, "two batches of 1");
  refused(small_step(0), a, 2, "a batch of 0");
  refused(a, small_step(2), 0, "a batch of 0");
  refused(a, small_step(2), int64_t{1} << 40, "is none of 1 to 2147483647");
  const auto edited = [](auto&& edit) {
    TracedBatch b = small_step(2);
    edit(b);
    return b;
  };
  refused(a, edited([](auto& b) { b.trace.operators[1].name = "bmm"; }), 3, "operator 1 differs");
  refused(a, edited([](auto& b) { b.trace.operators[1].reads = {}; }), 3, "operator 1 differs");
  refused(a, edited([](auto& b) { b.trace.events[1].unpacks = {}; }), 3, "event 1 differs");
  refused(a, edited([](auto& b) { b.trace.events.pop_back(); }), 3, "2 and 1 backward events");
  refused(a, edited([](auto& b) { b.base_bytes = -1; }), 3, "base bytes of 1005 and -1");
  refused(a, edited([](auto& b) { b.trace.values[0].bytes = int64_t{1} << 47; }), 9, "256 TiB");
}

TEST(LargestBatch, IsTheClosedForm) {
  for (int64_t budget : {1132, 1256, 1257, 1258, 2000, 5000, 123456, 99999999}) {
    const LargestBatch found = largest_batch(small_step(2), small_step(6), budget);
    const int64_t n = (budget - 1000 - 7) / 125;
    EXPECT_EQ(found.step.batch, n) << budget;
    EXPECT_EQ(found.step.base_bytes, 1000 + 5 * n);
    EXPECT_EQ(found.plan.budget_bytes, budget - 1000 - 5 * n);
    EXPECT_GE(found.plan.peak_bytes, 120 * n + 7);
    EXPECT_LE(found.plan.peak_bytes, found.plan.budget_bytes);
    check_plan(found.step.trace, found.plan);
  }
  EXPECT_EQ(largest_batch(small_step(2), small_step(6), 123456, {}, 100).step.batch, 100);
  EXPECT_EQ(largest_batch(small_step(2), small_step(6), 123456, {}, 1).step.batch, 1);
}

TEST(LargestBatch, OfAStepThatDoesNotGrowIsTheMost) {
  TracedBatch a = small_step(1), b = small_step(1);
  b.batch = 2;
  EXPECT_EQ(largest_batch(a, b, 5000, {}, 777).step.batch, 777);
}

TEST(LargestBatch, InfeasibleNamesWhatASingleSampleNeeds) {
  try {
    largest_batch(small_step(2), small_step(6), 1131);
    FAIL();
  } catch (const BudgetInfeasible& error) {
    EXPECT_EQ(error.least(), 1132);
    EXPECT_THAT(error.what(), HasSubstr("a single sample needs 1005 in the base and 127 above it"));
  }
  EXPECT_THROW(largest_batch(small_step(2), small_step(6), 0), UsageError);
  EXPECT_THROW(largest_batch(small_step(2), small_step(6), 5000, {}, 0), UsageError);
  std::stop_source source;
  source.request_stop();
  PlanOptions options;
  options.stop = source.get_token();
  try {
    largest_batch(small_step(2), small_step(6), 251, options);
    FAIL();
  } catch (const BudgetInfeasible&) {
    FAIL() << "nobody knows";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("stopped"));
  }
}

// The same answer as asking every batch in turn.
TEST(LargestBatch, IsWhatAskingEachBatchFinds) {
  PlanOptions options;
  options.evaluations = 2000;
  for (unsigned seed = 0; seed < 12; ++seed) {
    const TracedBatch a = random_step(seed, 2), b = random_step(seed, 3);
    const TracedBatch twelve = random_step(seed, 12);
    const int64_t budget = twelve.base_bytes + plan(twelve.trace, kAmple).peak_bytes;
    int64_t largest = 0;
    for (int64_t n = 1; n < 40; ++n) {
      const TracedBatch step = random_step(seed, n);
      if (step.base_bytes + least_budget(step.trace, options).plan.peak_bytes <= budget)
        largest = n;
    }
    const LargestBatch found = largest_batch(a, b, budget, options);
    EXPECT_GE(found.step.batch, 12);  // the plain step
    ASSERT_LT(largest, 39);
    EXPECT_EQ(found.step.batch, largest) << seed;
    check_plan(found.step.trace, found.plan);
    EXPECT_LE(found.step.base_bytes + found.plan.peak_bytes, budget);
  }
}

TEST(LargestBatch, OfAMeasuredModel) {
  TracedBatch a{8, 0, tests::measured_trace("gpt2")}, b = a;
  b.batch = 16;
  for (TracedValue& value : b.trace.values) value.bytes *= 2;
  for (TracedOperator& op : b.trace.operators) op.scratch_bytes *= 2;
  for (BackwardEvent& event : b.trace.events) {
    event.scratch_bytes *= 2;
    event.gradient_bytes *= 2;
    event.gradient_bytes_before *= 2;
  }
  const LeastBudget least = least_budget(a.trace);
  // Five times what the least plan needs with 8 samples: 40 samples, and no two more.
  const LargestBatch found = largest_batch(a, b, 5 * least.plan.peak_bytes);
  EXPECT_GE(found.step.batch, 40);
  EXPECT_LE(found.step.batch, 41);
  check_plan(found.step.trace, found.plan);
}

}  // namespace
}  // namespace reprise
