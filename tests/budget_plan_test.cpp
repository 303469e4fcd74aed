// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <iostream>

#include <reprise/budget.h>
#include <reprise/meter.h>
#include <reprise/plan.h>

#include "tests/budget_models.h"
#include "tests/support.h"

// Budgets whose steps follow plans.

namespace reprise {
namespace {

using testing::BudgetModel;
using testing::same_bits;
using testing::step_of;
using testing::Tensor;

int64_t share_of(int64_t bytes, double share) {
  return static_cast<int64_t>(share * static_cast<double>(bytes));
}

/// Steps until plans stand, each compared with the plain one.
void train(Budget& budget, const BudgetModel& model, const std::vector<Tensor>& plain, int64_t bytes,
           int steps = 5) {
  for (int step = 0; step < steps; ++step) {
    int64_t peak = 0;
    EXPECT_TRUE(same_bits(step_of(model, &budget, &peak), plain)) << "step " << step;
    EXPECT_LE(peak, bytes);
    budget.finish_planning();
  }
}

class PlansOfModels : public ::testing::TestWithParam<BudgetModel (*)()> {};

TEST_P(PlansOfModels, KeepTheLimitAndTheBitsAndWhatTheyPredict) {
  torch::manual_seed(1);
  const BudgetModel model = GetParam()();
  const int64_t plain_peak = testing::plain_peak_of(model);
  const auto plain = step_of(model, nullptr);
  int planned = 0;
  for (const double share : {1.05, 0.9, 0.8, 0.7, 0.6, 0.5}) {
    SCOPED_TRACE(model.name + " at " + std::to_string(share));
    const int64_t bytes = share_of(plain_peak, share);
    auto budget = Budget::activations(bytes);
    try {
      train(budget, model, plain, bytes);
    } catch (const BudgetInfeasible& error) {
      std::cout << model.name << " at " << share << ": " << error.what() << "\n";
      continue;
    }
    const BudgetSummary summary = budget.summary();
    std::cout << model.name << " at " << share << " of " << plain_peak << ":\n" << summary;
    if (!budget.followed()) continue;
    ++planned;
    EXPECT_LE(summary.predicted_peak, bytes);
    EXPECT_LE(summary.measured_peak, bytes);
    EXPECT_NEAR(static_cast<double>(summary.measured_peak),
                static_cast<double>(summary.predicted_peak),
                0.02 * static_cast<double>(summary.predicted_peak));
    EXPECT_GE(summary.planned_steps, 2);
  }
  EXPECT_GE(planned, 4);
}

INSTANTIATE_TEST_SUITE_P(Budgets, PlansOfModels,
                         ::testing::Values(testing::convolutions, testing::skips,
                                           testing::recurrence, testing::attention));

}  // namespace
}  // namespace reprise
