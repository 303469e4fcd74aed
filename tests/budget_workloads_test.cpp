// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>
#include <vector>

#include <reprise/budget.h>
#include <reprise/meta_scope.h>
#include <reprise/plan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "workloads/measured_step.h"
#include "workloads/plan_workload.h"
#include "workloads/step_by_shapes.h"
#include "workloads/train.h"
#include "workloads/workload.h"

// Every workload at three budgets, from all that a plain step needs down to a little above the
// least that a plan is found for. bench/budgets.py goes through twenty.

namespace reprise::workloads {
namespace {

WorkloadOptions small(const std::string& name) {
  WorkloadOptions options;
  if (name == "gpt" || name == "bert") {
    options.layers = 3;
    options.width = 64;
    options.heads = 2;
    options.context = 64;
    options.batch = 8;
  } else if (name == "blocks") {
    options.layers = 8;
    options.batch = 256;
  } else if (name == "unet") {
    options.batch = 2;
  } else if (name == "resnet50") {
    options.size = 64;
    options.batch = 4;
  }
  return options;
}

class BudgetsOfWorkloads : public ::testing::TestWithParam<const char*> {};

TEST_P(BudgetsOfWorkloads, KeepTheLimitAndTheBits) {
  const auto workload = make_workload(GetParam(), small(GetParam()));
  const Strategy plain = parse_strategy("plain"), budgeted = parse_strategy("budget=50%");
  measure_step(*workload, plain, 0);
  const MeasuredStep expected = measure_step(*workload, plain, 0);
  const TracedStep traced = trace_workload(*workload, {.steps = 1});
  const PlanOptions quick{.evaluations = 1000, .bound = false};
  const int64_t least = least_budget(traced.trace, quick).plan.peak_bytes;
  const int64_t most = std::max(expected.peak_bytes, least) * 101 / 100;
  int64_t planned = 0;
  for (const int64_t bytes : {most, (most + least) / 2, least + (most - least) / 8}) {
    SCOPED_TRACE(std::to_string(bytes) + " of " + std::to_string(expected.peak_bytes));
    auto budget = Budget::activations(bytes);
    budget.plan_with(quick);
    try {
      for (int step = 0; step < 3; ++step) {
        const MeasuredStep ours = measure_step(*workload, budgeted, 0, &budget);
        EXPECT_LE(ours.peak_bytes, bytes);
        const Difference difference = compare_results(ours.results, expected.results);
        EXPECT_TRUE(difference.bit_equal);
        EXPECT_TRUE(difference.buffers_bit_equal);
        EXPECT_TRUE(difference.rng_preserved);
        budget.finish_planning();
      }
    } catch (const BudgetInfeasible& error) {
      // The first step has no plan, and may need a little more than one.
      EXPECT_LT(bytes, (most + least) / 2) << error.what();
    }
    planned += budget.summary().planned_steps;
  }
  EXPECT_GE(planned, 4);
}

// A comparison holds on to outputs, and so does the step that is traced for it.
TEST_P(BudgetsOfWorkloads, FollowPlansFromTheFirstStepOnWithLittleRoomToSpare) {
  const auto workload = make_workload(GetParam(), small(GetParam()));
  const Strategy plain = parse_strategy("plain"), budgeted = parse_strategy("budget=50%");
  measure_step(*workload, plain, 0);
  const MeasuredStep expected = measure_step(*workload, plain, 0);
  const TracedStep traced = trace_workload(*workload, {.steps = 1}, /*holds_output=*/true);
  const PlanOptions quick{.evaluations = 1000, .bound = false};
  const int64_t bytes = least_budget(traced.trace, quick).plan.peak_bytes * 102 / 100;
  auto budget = Budget::activations(bytes);
  budget.follow(traced, plan(traced.trace, bytes, quick));
  const MeasuredStep ours = measure_step(*workload, budgeted, 0, &budget);
  EXPECT_LE(ours.peak_bytes, bytes);
  EXPECT_TRUE(compare_results(ours.results, expected.results).bit_equal);
  EXPECT_EQ(budget.summary().planned_steps, 1);
}

TEST_P(BudgetsOfWorkloads, ShapesAloneGiveTheTraceOfTheRealStep) {
  const auto workload = make_workload(GetParam(), small(GetParam()));
  const TracedStep real = trace_workload(*workload, {.steps = 1});
  const MetaScope scope;
  const auto phantom = make_workload(GetParam(), small(GetParam()));
  const TracedStep shapes = trace_workload(*phantom);
  EXPECT_THAT(scope.run_operators(), ::testing::IsEmpty());
  EXPECT_EQ(key_of(shapes.trace), key_of(real.trace));
  ASSERT_EQ(shapes.trace.events.size(), real.trace.events.size());
  // A real step holds states of generators besides, from the beginning of its backward pass on.
  const int64_t beside =
      real.trace.events[0].gradient_bytes - shapes.trace.events[0].gradient_bytes;
  EXPECT_LT(beside, 100'000);
  for (std::size_t j = 0; j < real.trace.events.size(); ++j) {
    EXPECT_EQ(shapes.trace.events[j].gradient_bytes + beside, real.trace.events[j].gradient_bytes)
        << j << " " << real.trace.events[j].name;
  }
}

// What the command does where the first step does not fit online.
TEST(TrainByShapes, FollowsAPlanFromTheFirstStep) {
  TrainOptions options;
  options.strategy = parse_strategy("budget=40MiB");
  options.steps = 3;
  for (const int64_t parts : {1, 2}) {
    options.accumulate = parts;
    options.shapes = std::nullopt;
    const Training online = train(*make_workload("blocks", small("blocks")), options);
    options.shapes = step_by_shapes("blocks", small("blocks"), parts);
    ASSERT_TRUE(options.shapes.has_value());
    const Training planned = train(*make_workload("blocks", small("blocks")), options);
    // A second part leaves other gradients behind, and is another sequence the first time.
    EXPECT_EQ(planned.budget->online_steps, parts - 1) << *planned.budget;
    EXPECT_EQ(planned.budget->planned_steps, 2 * parts + 1) << *planned.budget;
    EXPECT_GT(online.budget->online_steps, 0) << *online.budget;
    EXPECT_EQ(planned.loss, online.loss);
    EXPECT_LE(planned.total_peak_bytes, int64_t{40} << 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, BudgetsOfWorkloads,
                         ::testing::Values("digits", "blocks", "gpt", "bert", "resnet50", "unet"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace reprise::workloads
