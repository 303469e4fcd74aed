// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <random>
#include <thread>

#include <reprise/amp.h>
#include <reprise/budget.h>
#include <reprise/meter.h>
#include <reprise/plan.h>

#include <torch/script.h>

#include "tests/budget_models.h"
#include "tests/support.h"

// Budgets whose steps follow plans.

namespace reprise {
namespace {

using testing::BudgetModel;
using testing::leaf;
using testing::same_bits;
using testing::share_of;
using testing::step_of;
using testing::take_gradients;
using testing::Tensor;

/// A budget whose plans take little time to find.
Budget quick(int64_t bytes) {
  auto budget = Budget::activations(bytes);
  budget.plan_with({.evaluations = 2000, .bound = false});
  return budget;
}

// ---- Models.

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
    auto budget = quick(bytes);
    try {
      for (int step = 0; step < 4; ++step) {
        int64_t peak = 0;
        EXPECT_TRUE(same_bits(step_of(model, &budget, &peak), plain)) << "step " << step;
        EXPECT_LE(peak, bytes);
        budget.finish_planning();
      }
    } catch (const BudgetInfeasible&) {  // the first step, online
      continue;
    }
    if (!budget.followed()) continue;
    ++planned;
    const BudgetSummary summary = budget.summary();
    EXPECT_GE(summary.planned_steps, 2);
    EXPECT_LE(summary.predicted_peak, bytes);
    EXPECT_LE(summary.measured_peak, bytes);
    const auto predicted = static_cast<double>(summary.predicted_peak);
    EXPECT_NEAR(static_cast<double>(summary.measured_peak), predicted, 0.02 * predicted);
  }
  EXPECT_GE(planned, 4);
}

INSTANTIATE_TEST_SUITE_P(Budgets, PlansOfModels,
                         ::testing::Values(testing::convolutions, testing::skips,
                                           testing::recurrence, testing::attention));

// ---- Steps of all kinds.

/// Runs `step(forward)` several times, plainly and under a budget of that part of its plain peak,
/// and compares what it returns. `planned`: how many forward passes must have followed a plan.
void expect_same_as_plain(
    const std::function<std::vector<Tensor>(const std::function<Tensor(std::function<Tensor()>)>&)>&
        step,
    double share, int planned) {
  const auto run = [&](Budget* budget, int64_t* peak) {
    torch::manual_seed(5);
    const PeakScope scope;
    auto results = step([&](const std::function<Tensor()>& forward) {
      return budget ? budget->forward(forward) : forward();
    });
    *peak = std::max(*peak, scope.peak_above_base());
    results.push_back(at::rand({3}));
    return results;
  };
  int64_t plain_peak = 0, peak = 0;
  run(nullptr, &plain_peak);
  const auto plain = run(nullptr, &plain_peak);
  const int64_t base = Meter().live();
  Budget budget(base + share_of(plain_peak, share));
  budget.plan_with({.evaluations = 2000, .bound = false});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(same_bits(run(&budget, &peak), plain)) << "step " << i;
    EXPECT_EQ(Meter().live(), base);
    budget.finish_planning();
  }
  EXPECT_LE(peak, share_of(plain_peak, share));
  EXPECT_GE(budget.summary().planned_steps, planned) << budget.summary();
}

class PlannedSteps : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    model_ = testing::attention();
    plain_peak_ = testing::plain_peak_of(model_);
    plain_ = step_of(model_, nullptr);
  }
  BudgetModel model_;
  int64_t plain_peak_ = 0;
  std::vector<Tensor> plain_;
};

TEST_F(PlannedSteps, OfAccumulatedParts) {
  expect_same_as_plain(
      [&](const auto& forward) {
        for (int part = 0; part < 3; ++part) forward(model_.loss).backward();
        return take_gradients(model_.parameters);
      },
      0.7, 4);
}

TEST_F(PlannedSteps, WhoseGraphIsKeptOrDifferentiatedGoOnOnline) {
  int step = 0;
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor loss = forward(model_.loss);
        if (++step % 2 == 0) loss.backward({}, /*retain_graph=*/true);
        loss.backward();
        take_gradients(model_.parameters);
        forward(model_.loss).backward();
        return take_gradients(model_.parameters);
      },
      0.7, 2);
}

TEST_F(PlannedSteps, OfSeveralLosses) {
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor first = forward(model_.loss);
        const Tensor second = forward([&] { return model_.loss() * 2; });
        (first + second).backward();
        return take_gradients(model_.parameters);
      },
      0.7, 0);
}

TEST_F(PlannedSteps, ThatWantOnlySomeGradients) {
  int step = 0;
  expect_same_as_plain(
      [&](const auto& forward) {
        std::vector<Tensor> some(model_.parameters.end() - 2, model_.parameters.end());
        if (++step % 3 == 0) some = {model_.parameters.front()};
        auto gradients = torch::autograd::grad({forward(model_.loss)}, some);
        forward(model_.loss).backward();
        auto more = take_gradients(model_.parameters);
        gradients.insert(gradients.end(), more.begin(), more.end());
        return std::vector<Tensor>(more);
      },
      0.8, 1);
}

TEST_F(PlannedSteps, UnderAutocast) {
  const Tensor w = leaf({128, 128}), x = leaf({256, 128}, 2);
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor loss = forward([&] {
          const Autocast autocast(at::kCPU, at::kBFloat16);
          Tensor y = x;
          for (int i = 0; i < 8; ++i) y = at::gelu(at::linear(y, w));
          return y.to(at::kFloat).square().mean();
        });
        loss.backward();
        return take_gradients({w, x});
      },
      0.6, 2);
}

// What was there before a write is read by somebody else, so that it cannot be replayed; views,
// and buffers that are filled piece by piece.
TEST_F(PlannedSteps, ThatWriteInPlace) {
  const Tensor w = leaf({96, 96}), x = leaf({128, 96}, 2);
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor loss = forward([&] {
          Tensor y = x;
          for (int i = 0; i < 12; ++i) y = at::gelu(y);
          for (int i = 0; i < 4; ++i) {
            Tensor h = y.matmul(w).add_(1).tanh_() * 0.5;
            Tensor before = h + 1;  // reads what the next line overwrites, and does not save it
            h.mul_(2);
            Tensor filled = at::zeros({2, 128, 96});
            filled[0].copy_(before.detach());
            filled[1].copy_(h.detach());
            y = (before + h + filled.sum(0) * h).sigmoid();
          }
          return y.square().mean();
        });
        loss.backward();
        return take_gradients({w, x});
      },
      0.9, 2);
}

TEST_F(PlannedSteps, LetEvaluationsComeBetween) {
  expect_same_as_plain(
      [&](const auto& forward) {
        {
          const torch::NoGradGuard no_grad;
          forward(model_.loss);
        }
        const Tensor loss = forward(model_.loss);
        {
          const torch::NoGradGuard no_grad;
          forward(model_.loss);
        }
        loss.backward();
        return take_gradients(model_.parameters);
      },
      0.7, 0);
}

TEST_F(PlannedSteps, OfTorchScript) {
  const auto module = torch::jit::compile(R"JIT(
    def f(x, w):
      y = torch.tanh(x.matmul(w))
      return torch.dropout(torch.gelu(y), 0.1, True)
  )JIT");
  const Tensor w = leaf({96, 96}), x = leaf({256, 96}, 2);
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor loss = forward([&] {
          Tensor y = x;
          for (int i = 0; i < 5; ++i) y = module->run_method("f", y, w).toTensor();
          return y.square().mean();
        });
        loss.backward();
        return take_gradients({w, x});
      },
      0.8, 1);
}

TEST_F(PlannedSteps, SurviveExceptions) {
  auto budget = quick(share_of(plain_peak_, 0.7));
  const int64_t base = Meter().live();
  for (int step = 0; step < 8; ++step) {
    if (step % 3 == 2) {  // in the forward pass
      EXPECT_THROW(budget.forward([&]() -> Tensor {
        const Tensor loss = model_.loss();
        throw std::runtime_error("in the forward pass");
      }),
                   std::runtime_error);
    } else if (step % 3 == 1) {  // in the backward pass, half way
      Tensor loss = budget.forward([&] {
        const Tensor all = model_.loss();
        return all;
      });
      int calls = 0;
      const auto hook = model_.parameters.front().register_hook([&](const Tensor&) -> Tensor {
        ++calls;
        throw std::runtime_error("in the backward pass");
      });
      EXPECT_THROW(loss.backward(), std::exception);
      model_.parameters.front().remove_hook(hook);
      EXPECT_EQ(calls, 1);
      take_gradients(model_.parameters);
    } else {
      EXPECT_TRUE(same_bits(step_of(model_, &budget), plain_)) << "step " << step;
    }
    EXPECT_EQ(Meter().live(), base) << "step " << step;
    budget.finish_planning();
  }
  EXPECT_GE(budget.summary().planned_steps, 1);
}

TEST_F(PlannedSteps, OfSeveralModelsInTurn) {
  torch::manual_seed(3);
  const BudgetModel other = testing::recurrence();
  const auto plain_other = step_of(other, nullptr);
  auto budget = quick(share_of(plain_peak_, 0.7));
  for (int step = 0; step < 4; ++step) {
    EXPECT_TRUE(same_bits(step_of(model_, &budget), plain_));
    EXPECT_TRUE(same_bits(step_of(other, &budget), plain_other));
    budget.finish_planning();
  }
  EXPECT_EQ(budget.summary().planned_steps, 6);
  EXPECT_EQ(budget.summary().online_steps, 2);
}

TEST_F(PlannedSteps, OnSeveralThreads) {
  auto budget = quick(share_of(plain_peak_, 1.6));
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const Tensor w = leaf({96, 96}, 10 + t), x = leaf({256, 96}, 20 + t);
      const auto loss = [&] {
        Tensor y = x;
        for (int i = 0; i < 6; ++i) y = at::gelu(y.matmul(w));
        return y.square().mean();
      };
      loss().backward();
      const auto plain = take_gradients({w, x});
      for (int step = 0; step < 6; ++step) {
        budget.forward(loss).backward();
        EXPECT_TRUE(same_bits(take_gradients({w, x}), plain)) << "thread " << t;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  budget.finish_planning();
}

// ---- All bytes: the base grows when the optimizer gets its state, and plans are made anew.
TEST_F(PlannedSteps, BesideAnOptimizer) {
  const auto train = [&](Budget* budget) {
    std::vector<Tensor> before;
    for (const Tensor& parameter : model_.parameters) before.push_back(parameter.detach().clone());
    torch::optim::Adam adam(model_.parameters, 1e-3);
    torch::manual_seed(2);
    for (int step = 0; step < 6; ++step) {
      adam.zero_grad();
      Tensor loss = budget ? budget->forward(model_.loss) : model_.loss();
      loss.backward();
      adam.step();
      if (budget) budget->finish_planning();
    }
    adam.zero_grad();
    std::vector<Tensor> after;
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < before.size(); ++i) {
      after.push_back(model_.parameters[i].detach().clone());
      model_.parameters[i].copy_(before[i]);
    }
    return after;
  };
  const auto plain = train(nullptr);
  int64_t parameters = 0;
  for (const Tensor& parameter : model_.parameters) {
    parameters += static_cast<int64_t>(parameter.nbytes());
  }
  const int64_t limit = Meter().live() + 3 * parameters + share_of(plain_peak_, 0.7);
  Budget budget(limit);
  budget.plan_with({.evaluations = 2000, .bound = false});
  const PeakScope scope;
  EXPECT_TRUE(same_bits(train(&budget), plain));
  EXPECT_LE(scope.peak(), limit);
  EXPECT_GE(budget.summary().planned_steps, 2) << budget.summary();
  EXPECT_GE(budget.summary().plans, 2) << budget.summary();
}

// ---- Lengths that vary: each has its own plan.
TEST(StreamOfSteps, EachShapeIsPlannedForOnceItWasSeen) {
  const Tensor w = leaf({64, 64}), v = leaf({64, 64}, 3);
  const auto loss_of = [&](int64_t length) {
    Tensor y = at::ones({length, 64});
    for (int i = 0; i < 6; ++i) y = at::gelu(y.matmul(w)).matmul(v).tanh();
    return y.square().mean();
  };
  std::mt19937 random(4);
  std::map<int64_t, std::vector<Tensor>> plain;
  int64_t plain_peak = 0;
  for (int64_t length = 128; length <= 1024; length += 128) {
    const PeakScope scope;
    loss_of(length).backward();
    plain_peak = std::max(plain_peak, scope.peak_above_base());
    plain[length] = take_gradients({w, v});
  }
  const int64_t bytes = share_of(plain_peak, 0.6);
  auto budget = quick(bytes);
  std::map<int64_t, int> seen;
  int64_t planned_at_least = 0;
  const PeakScope scope;
  for (int step = 0; step < 60; ++step) {
    const int64_t length = 128 * (1 + static_cast<int64_t>(random() % 8));
    planned_at_least += ++seen[length] > 1;
    budget.forward([&] { return loss_of(length); }).backward();
    EXPECT_TRUE(same_bits(take_gradients({w, v}), plain[length])) << length;
    budget.finish_planning();
  }
  EXPECT_LE(scope.peak_above_base(), bytes);
  EXPECT_GE(budget.summary().planned_steps, planned_at_least) << budget.summary();
  EXPECT_GE(budget.summary().plans, static_cast<int64_t>(seen.size()));
}

TEST(StreamOfSteps, TheShapesThatWereUsedLastAreRemembered) {
  const Tensor w = leaf({16, 16});
  auto budget = Budget::activations(1_MiB);
  budget.plan_with({.evaluations = 0, .bound = false});
  const auto is_planned = [&](int64_t length) {
    budget.forward([&] { return at::ones({length, 16}).matmul(w).tanh().sum(); }).backward();
    w.mutable_grad() = Tensor();
    budget.finish_planning();
    return budget.followed().has_value();
  };
  for (int64_t length = 1; length <= 80; ++length) EXPECT_FALSE(is_planned(length)) << length;
  EXPECT_TRUE(is_planned(80));
  EXPECT_TRUE(is_planned(60));
  EXPECT_FALSE(is_planned(1));
  EXPECT_TRUE(is_planned(1));
}

// ---- What a budget can be told.

TEST_F(PlannedSteps, CanBeSwitchedOff) {
  auto budget = quick(share_of(plain_peak_, 0.7));
  budget.stay_online();
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(same_bits(step_of(model_, &budget), plain_));
    budget.finish_planning();
  }
  EXPECT_EQ(budget.summary().planned_steps, 0);
  EXPECT_EQ(budget.summary().plans, 0);
  EXPECT_FALSE(budget.followed());
}

TEST_F(PlannedSteps, FollowPlansThatWereMadeBefore) {
  const int64_t bytes = share_of(plain_peak_, 0.6);
  auto first = quick(bytes);
  for (int step = 0; step < 3; ++step) {
    step_of(model_, &first);
    first.finish_planning();
  }
  ASSERT_TRUE(first.followed());
  const Plan plan = plan_from_json(to_json(*first.followed()));
  auto second = quick(bytes);
  second.follow(plan);
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(same_bits(step_of(model_, &second), plain_));
  }
  ASSERT_TRUE(second.followed());
  EXPECT_EQ(second.followed()->key, plan.key);
  EXPECT_EQ(second.followed()->decisions, plan.decisions);
  EXPECT_EQ(second.summary().plans, 0);
  EXPECT_EQ(key_of(*second.trace()), plan.key);
}

TEST_F(PlannedSteps, EndQuicklyWhenTheBudgetEnds) {
  const auto start = std::chrono::steady_clock::now();
  {
    auto budget = Budget::activations(share_of(plain_peak_, 0.6));
    budget.plan_with({.evaluations = 2000000});
    step_of(model_, &budget);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(PlannedMasks, AreEncoded) {
  const Tensor w = leaf({64, 64}), x = leaf({2048, 64}, 2);
  const auto loss = [&] {
    Tensor y = x;
    for (int i = 0; i < 4; ++i) y = at::dropout(y.matmul(w), 0.2, true);
    return y.square().mean();
  };
  expect_same_as_plain(
      [&](const auto& forward) {
        forward(loss).backward();
        return take_gradients({w, x});
      },
      0.75, 2);
  auto budget = Budget::activations(share_of(int64_t{2048} * 64 * 4 * 10, 0.75));
  for (int step = 0; step < 3; ++step) {
    budget.forward(loss).backward();
    take_gradients({w, x});
    budget.finish_planning();
  }
  ASSERT_TRUE(budget.followed());
  const auto decisions = budget.followed()->decisions;
  EXPECT_GT(std::count(decisions.begin(), decisions.end(), Decision::encode), 0);
}

// A plan lets go of a mask where its own pass is done with it, but a second pass, over another part
// of the graph, may have to make again what was multiplied by it.
TEST(PlannedMasks, AreMadeAgainForAnotherPass) {
  const Tensor w = leaf({64, 64}), x = leaf({2048, 64}, 2);
  const auto net = [&](Tensor y) {
    for (int i = 0; i < 4; ++i) y = at::dropout(at::gelu(y.matmul(w)), 0.2, true);
    return y;
  };
  expect_same_as_plain(
      [&](const auto& forward) {
        Tensor second;
        const Tensor first = forward([&] {
          const Tensor y = net(x);
          second = net(y.detach()).square();
          return y.square().mean();
        });
        first.backward();
        second.mean().backward();
        return take_gradients({w, x});
      },
      0.8, 2);
}

}  // namespace
}  // namespace reprise
