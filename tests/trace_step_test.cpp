// SPDX-License-Identifier: BSD-3-Clause
#include <optional>

#include <reprise/budget.h>
#include <reprise/meta_scope.h>
#include <reprise/plan.h>
#include <reprise/trace_step.h>

#include "tests/budget_models.h"
#include "tests/support.h"

// Steps that are traced by themselves, and budgets that follow plans for them.

namespace reprise {
namespace {

using testing::BudgetModel;
using testing::leaf;
using testing::same_bits;
using testing::step_of;
using testing::take_gradients;
using testing::Tensor;

TEST(TraceStep, SaysToTheByteWhatAPlainStepTakes) {
  for (const auto make :
       {testing::convolutions, testing::skips, testing::recurrence, testing::attention}) {
    torch::manual_seed(1);
    const BudgetModel model = make();
    TraceOptions options;
    options.steps = 3;
    options.begin = [&] {
      torch::manual_seed(5);
      take_gradients(model.parameters);
    };
    const TracedStep step = trace_step(model.loss, options);
    take_gradients(model.parameters);
    const Plan plain = plan(step.trace, int64_t{1} << 60);
    EXPECT_NEAR(static_cast<double>(plain.plain_peak_bytes), static_cast<double>(step.peak_bytes),
                0.01 * static_cast<double>(step.peak_bytes))
        << model.name;
    EXPECT_GT(plain.plain_microseconds, 0);
  }
}

TEST(TraceStep, OfShapesAloneHasTheSameValuesAndEvents) {
  const auto model = [](bool shapes) {
    std::optional<MetaScope> scope;
    if (shapes) scope.emplace();
    const Tensor w = at::ones({96, 96}).requires_grad_(), x = at::ones({256, 96});
    const auto forward = [&] {
      Tensor y = x;
      for (int i = 0; i < 4; ++i) y = at::gelu(at::layer_norm(y.matmul(w), {96}));
      return y.square().mean();
    };
    return trace_step(forward, {.steps = 1, .begin = [&] { w.mutable_grad() = Tensor(); }});
  };
  const TracedStep real = model(false), estimated = model(true);
  EXPECT_EQ(key_of(real.trace), key_of(estimated.trace));
  EXPECT_EQ(real.peak_bytes, estimated.peak_bytes);
  double microseconds = 0;
  for (const TracedOperator& op : estimated.trace.operators) microseconds += op.microseconds;
  EXPECT_GT(microseconds, 0);
}

// The first step has a plan, too, where the step was traced before: a plan needs less than going
// online does.
TEST(TraceStep, APlanOfItIsFollowedFromTheFirstStep) {
  int infeasible_online = 0;
  for (const auto make :
       {testing::convolutions, testing::skips, testing::recurrence, testing::attention}) {
    torch::manual_seed(1);
    const BudgetModel model = make();
    SCOPED_TRACE(model.name);
    TraceOptions options;
    options.begin = [&] {
      torch::manual_seed(5);
      take_gradients(model.parameters);
    };
    const TracedStep step = trace_step(model.loss, options);
    take_gradients(model.parameters);
    const auto plain = step_of(model, nullptr);
    const int64_t bytes = least_budget(step.trace).plan.peak_bytes * 101 / 100;
    auto online = Budget::activations(bytes);
    try {
      step_of(model, &online);
    } catch (const BudgetInfeasible&) {
      ++infeasible_online;
    }
    take_gradients(model.parameters);
    auto budget = Budget::activations(bytes);
    budget.follow(step, plan(step.trace, bytes));
    for (int i = 1; i <= 2; ++i) {
      int64_t peak = 0;
      EXPECT_TRUE(same_bits(step_of(model, &budget, &peak), plain));
      EXPECT_LE(peak, bytes);
      EXPECT_EQ(budget.summary().planned_steps, i) << budget.summary();
    }
  }
  EXPECT_GT(infeasible_online, 0);
}

TEST(TraceStep, APlanOfAnotherStepIsRefused) {
  const Tensor w = leaf({64, 64});
  const TracedStep one = trace_step([&] { return w.sin().cos().exp().sum(); });
  const TracedStep other = trace_step([&] { return w.sin().exp().sum(); });
  auto budget = Budget::activations(1 << 20);
  EXPECT_THROW(budget.follow(one, plan(other.trace, 1 << 20)), UsageError);
  TracedStep read = one;
  read.operators = nullptr;
  EXPECT_THROW(budget.follow(read, plan(one.trace, 1 << 20)), UsageError);
  EXPECT_THROW(budget.follow(one, Plan{}), UsageError);
}

TEST(TraceStep, BadCallsAreErrors) {
  const Tensor w = leaf({4});
  EXPECT_THROW(trace_step([&] { return w.sin(); }), UsageError);
  EXPECT_THROW(trace_step([&] { return w.detach().sum(); }), UsageError);
  EXPECT_THROW(trace_step([&] { return w.sin().sum(); }, {.steps = 0}), UsageError);
  int calls = 0;
  EXPECT_THROW(trace_step([&] {
                 Tensor y = w.sin();
                 for (int i = 0; i < calls; ++i) y = y.cos();
                 ++calls;
                 return y.sum();
               }),
               Error);
}

}  // namespace
}  // namespace reprise
