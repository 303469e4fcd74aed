// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <optional>
#include <pthread.h>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <reprise/plan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan_support.h"

// Planning that is stopped: what comes back, and how soon.

namespace reprise {
namespace {

using ::testing::HasSubstr;
using tests::measured_trace;
using tests::random_trace;

std::stop_token stopped_before() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

int64_t plain_peak(const StepTrace& trace) { return plan(trace, int64_t{1} << 50).peak_bytes; }

TEST(PlanStop, WithoutAPlanIsAnErrorThatIsNotInfeasible) {
  const StepTrace trace = measured_trace("gpt2");
  PlanOptions options;
  options.stop = stopped_before();
  const int64_t budget = plain_peak(trace) / 2;
  try {
    plan(trace, budget, options);
    FAIL();
  } catch (const BudgetInfeasible&) {
    FAIL() << "nobody knows";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("stopped before a plan was found"));
    EXPECT_THAT(error.what(), HasSubstr("\nhint: "));
  }
  EXPECT_THROW(frontier(trace, std::vector{budget, budget + 1}, options), Error);
}

TEST(PlanStop, GivesWhatIsKnown) {
  const StepTrace trace = measured_trace("gpt2");
  const int64_t peak = plain_peak(trace);
  PlanOptions options;
  options.evaluations = 500;
  const Plan known = plan(trace, peak / 2, options);
  options.stop = stopped_before();
  const Plan again = plan(trace, peak * 6 / 10, options, std::vector{known});
  EXPECT_EQ(again.steps, known.steps);
  EXPECT_EQ(again.bound_microseconds, again.plain_microseconds);
  check_plan(trace, again);
  // The plain step is always known.
  EXPECT_EQ(plan(trace, peak, options).microseconds, again.plain_microseconds);
  EXPECT_EQ(least_budget(trace, options).plan.peak_bytes, peak);
  const auto plans = frontier(trace, std::vector{peak / 2, peak}, options);
  EXPECT_FALSE(plans[0]);
  EXPECT_TRUE(plans[1]);
}

TEST(PlanStop, ATokenThatIsNeverStoppedChangesNothing) {
  const StepTrace trace = measured_trace("gpt2");
  const int64_t budget = plain_peak(trace) / 2;
  PlanOptions options;
  options.evaluations = 500;
  const Plan alone = plan(trace, budget, options);
  const std::stop_source source;
  options.stop = source.get_token();
  EXPECT_EQ(plan(trace, budget, options), alone);
}

/// Asks another thread to stop once it has run so long, and tells how long it ran on: time of a
/// processor, so that other programs do not count.
double seconds_after_stop(double after, auto&& work) {
  const auto time_of = [](clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  double ended = 0;
  std::stop_source source;
  std::atomic<bool> over = false;
  std::thread worker([&] {
    work(source.get_token());
    ended = time_of(CLOCK_THREAD_CPUTIME_ID);
    over = true;
    while (!source.stop_requested()) std::this_thread::yield();  // its clock ends with it
  });
  clockid_t clock{};
  pthread_getcpuclockid(worker.native_handle(), &clock);
  while (!over && time_of(clock) < after) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double asked = time_of(clock);
  source.request_stop();
  worker.join();
  return ended - asked;
}

TEST(PlanStop, IsObeyedSoonInLongSteps) {
  std::mt19937 random(13);
  StepTrace trace;
  while (trace.operators.size() < 2900) trace = random_trace(random, {false, true, false, 3000});
  const int64_t peak = plain_peak(trace);
  std::optional<Plan> made;
  const auto plan_it = [&](std::stop_token token) {
    PlanOptions options;
    options.stop = std::move(token);
    try {
      made = plan(trace, peak * 6 / 10, options);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("stopped"));
    }
  };
  const auto lower_it = [&](std::stop_token token) {
    PlanOptions options;
    options.stop = std::move(token);
    made = least_budget(trace, options).plan;
  };
  double longest = 0;
  for (double after : {0.01, 0.05, 0.2, 0.5}) {
    longest = std::max(longest, seconds_after_stop(after, plan_it));
    if (made) check_plan(trace, *made);
    longest = std::max(longest, seconds_after_stop(after, lower_it));
    check_plan(trace, *made);
  }
  RecordProperty("milliseconds", static_cast<int>(longest * 1000));
  EXPECT_LT(longest, 0.3);  // 0.02 where nothing slows the program down
}

// Wherever it is by then: with the plans that send nothing, with those that do, or the bound.
TEST(PlanStop, IsObeyedSoonWithAStore) {
  StepTrace trace = measured_trace("gpt6");
  trace.store = {500, 500, 50, 0};
  const int64_t budget = plain_peak(trace) * 3 / 10;
  PlanOptions options;
  options.evaluations = 200;
  const Plan known = plan(trace, budget, options);
  double longest = 0;
  for (double after : {0.1, 0.6, 1.2, 1.8, 2.4}) {
    std::optional<Plan> made;
    longest = std::max(longest, seconds_after_stop(after, [&](std::stop_token token) {
                         PlanOptions stopped;
                         stopped.stop = std::move(token);
                         made = plan(trace, budget, stopped, std::vector{known});
                       }));
    check_plan(trace, *made);
    EXPECT_LE(made->microseconds, known.microseconds);
  }
  EXPECT_LT(longest, 0.3);
}

}  // namespace
}  // namespace reprise
