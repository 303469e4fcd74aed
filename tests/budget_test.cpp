// SPDX-License-Identifier: BSD-3-Clause
#include <sstream>
#include <thread>

#include <reprise/budget.h>
#include <reprise/meter.h>

#include <torch/script.h>

#include "tests/budget_models.h"
#include "tests/support.h"

namespace reprise {
namespace {

using testing::BudgetModel;
using testing::message_of;
using testing::same_bits;
using testing::share_of;
using testing::step_of;
using testing::take_gradients;
using testing::Tensor;

// ---- Models, from generous budgets to such as cannot be.

class BudgetOfModels : public ::testing::TestWithParam<BudgetModel (*)()> {};

TEST_P(BudgetOfModels, KeepsTheLimitAndTheBits) {
  torch::manual_seed(1);
  const BudgetModel model = GetParam()();
  const int64_t plain_peak = testing::plain_peak_of(model);
  const auto plain = step_of(model, nullptr);
  int with_drops = 0, infeasible = 0;
  for (double share = 1.2; share > 0.02; share *= 0.9) {
    SCOPED_TRACE(model.name + " at " + std::to_string(share));
    const int64_t bytes = share_of(plain_peak, share);
    const int64_t base = Meter().live();
    auto budget = Budget::activations(bytes);
    for (int step = 0; step < 2; ++step) {
      int64_t peak = 0;
      try {
        EXPECT_TRUE(same_bits(step_of(model, &budget, &peak), plain));
        with_drops += budget.summary().drops > 0;
      } catch (const BudgetInfeasible& error) {
        ++infeasible;
        EXPECT_TRUE(error.least() == 0 || error.least() > error.limit()) << error.what();
      }
      EXPECT_LE(peak, bytes);
      EXPECT_EQ(Meter().live(), base);
    }
    const BudgetSummary summary = budget.summary();
    EXPECT_LE(summary.peak, bytes);
    EXPECT_EQ(summary.limit, bytes);
    EXPECT_EQ(summary.forwards, 2);
    EXPECT_EQ(summary.overruns, 0);
  }
  std::cout << model.name << ": " << with_drops << " steps with drops, " << infeasible
            << " infeasible\n";
  EXPECT_GE(with_drops, 6);
  EXPECT_GT(infeasible, 0);
}

INSTANTIATE_TEST_SUITE_P(Budgets, BudgetOfModels,
                         ::testing::Values(testing::convolutions, testing::skips,
                                           testing::recurrence, testing::attention));

// ---- The three ways to say it.

class Budgets : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    model_ = testing::attention();
    plain_peak_ = testing::plain_peak_of(model_);
    plain_ = step_of(model_, nullptr);
  }
  int64_t part(double share) const { return share_of(plain_peak_, share); }

  BudgetModel model_;
  int64_t plain_peak_ = 0;
  std::vector<Tensor> plain_;
};

TEST_F(Budgets, OfAllBytesHoldInTheOptimizerToo) {
  const auto train = [&](Budget* budget) {
    std::vector<Tensor> before;
    for (const Tensor& parameter : model_.parameters) before.push_back(parameter.detach().clone());
    torch::optim::Adam adam(model_.parameters, 1e-3);
    torch::manual_seed(2);
    for (int step = 0; step < 3; ++step) {
      adam.zero_grad();
      Tensor loss = budget ? budget->forward(model_.loss) : model_.loss();
      loss.backward();
      adam.step();
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
  // Beside the step itself: a copy of the parameters, and two moments of Adam's.
  const int64_t limit = Meter().live() + 3 * parameters + part(0.6);
  Budget budget(limit);
  const PeakScope scope;
  EXPECT_TRUE(same_bits(train(&budget), plain));
  EXPECT_LE(scope.peak(), limit);
  EXPECT_GT(budget.summary().drops, 0);
  EXPECT_LE(budget.summary().peak, limit);
  EXPECT_EQ(budget.summary().base, 0);
  // In force until its end, wherever memory is asked for.
  EXPECT_THROW(at::empty({limit}, at::kByte), BudgetInfeasible);
  { const Budget ended = std::move(budget); }
  EXPECT_NO_THROW(at::empty({limit}, at::kByte));
}

TEST_F(Budgets, OfAllBytesBelowWhatIsLiveAreInfeasibleAtOnce) {
  Budget budget(Meter().live() / 2);
  bool ran = false;
  const std::string message = message_of<BudgetInfeasible>([&] {
    budget.forward([&] {
      ran = true;
      return model_.loss();
    });
  });
  EXPECT_FALSE(ran);
  EXPECT_NE(message.find("are live before the forward pass begins"), std::string::npos) << message;
}

TEST_F(Budgets, OfActivationsEndWithTheGraph) {
  auto budget = Budget::activations(part(0.6));
  {
    Tensor loss = budget.forward(model_.loss);
    EXPECT_THROW(at::empty({plain_peak_}, at::kByte), BudgetInfeasible);  // the graph is alive
    loss.backward();
  }
  EXPECT_NO_THROW(at::empty({plain_peak_}, at::kByte));
  for (Tensor parameter : model_.parameters) parameter.mutable_grad() = Tensor();
}

TEST_F(Budgets, OfAFractionMeasureAPlainStep) {
  auto budget = Budget::fraction(0.5);
  {
    const torch::NoGradGuard no_grad;
    budget.forward(model_.loss);  // no step
  }
  budget.forward(model_.loss);  // neither: no backward pass
  EXPECT_EQ(budget.summary().plain_peak, 0);
  EXPECT_TRUE(same_bits(step_of(model_, &budget), plain_));
  EXPECT_EQ(budget.summary().drops, 0);
  const BudgetSummary measured = budget.summary();
  EXPECT_EQ(measured.plain_peak, plain_peak_);
  EXPECT_EQ(measured.limit, plain_peak_ / 2);
  int64_t peak = 0;
  EXPECT_TRUE(same_bits(step_of(model_, &budget, &peak), plain_));
  EXPECT_LE(peak, plain_peak_ / 2);
  EXPECT_GT(budget.summary().drops, 0);
}

TEST(BudgetInput, IsChecked) {
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}}) {
    EXPECT_THROW(Budget{bytes}, UsageError);
    EXPECT_THROW(Budget::activations(bytes), UsageError);
  }
  for (const double fraction : {0.0, -0.5, 1.01, std::nan("")}) {
    EXPECT_THROW(Budget::fraction(fraction), UsageError);
  }
  const std::string message = message_of<UsageError>([] { Budget(1_GiB, c10::Device("cuda:0")); });
  EXPECT_NE(message.find("cuda:0"), std::string::npos) << message;
  EXPECT_EQ(512_MiB, int64_t{512} * 1024 * 1024);
  EXPECT_EQ(1_GiB, 1024 * 1024_KiB);
}

// ---- Backward passes of all kinds.

/// Compares what `work(forward)` returns with and without a budget of that part of its plain peak.
void expect_same_as_plain(
    const std::function<std::vector<Tensor>(const std::function<Tensor(std::function<Tensor()>)>&)>&
        work,
    double share) {
  const auto run = [&](Budget* budget, int64_t* peak) {
    torch::manual_seed(5);
    const PeakScope scope;
    auto results = work([&](const std::function<Tensor()>& forward) {
      return budget ? budget->forward(forward) : forward();
    });
    *peak = scope.peak_above_base();
    results.push_back(at::rand({3}));
    return results;
  };
  int64_t plain_peak = 0, peak = 0;
  run(nullptr, &plain_peak);
  const auto plain = run(nullptr, &plain_peak);
  const int64_t base = Meter().live();
  const int64_t limit = base + share_of(plain_peak, share);
  Budget budget(limit);
  {
    const auto ours = run(&budget, &peak);
    EXPECT_TRUE(same_bits(ours, plain));
  }
  EXPECT_LE(base + peak, limit);
  EXPECT_GT(budget.summary().drops, 0);
  EXPECT_GT(budget.summary().operators, 0);
  EXPECT_EQ(Meter().live(), base);
}

TEST_F(Budgets, ServeSeveralLossesAndRetainedGraphs) {
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor first = forward(model_.loss);
        const Tensor second = forward([&] { return model_.loss() * 2; });
        first.backward({}, /*retain_graph=*/true);
        (second + first).backward({}, /*retain_graph=*/true);
        second.backward();
        return take_gradients(model_.parameters);
      },
      0.6);
}

TEST_F(Budgets, ServeAccumulation) {
  expect_same_as_plain(
      [&](const auto& forward) {
        for (int part = 0; part < 3; ++part) forward(model_.loss).backward();
        return take_gradients(model_.parameters);
      },
      0.6);
}

TEST_F(Budgets, ServeSecondDerivatives) {
  const Tensor w = testing::leaf({64, 64}), x = testing::leaf({256, 64}, 2);
  const Tensor v = testing::leaf({256, 64}, 3);
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor loss = forward([&] {
          Tensor y = x, z = v;
          for (int i = 0; i < 6; ++i) y = y.matmul(w).tanh();
          for (int i = 0; i < 20; ++i) z = z.sin();  // not in the second derivative
          return y.square().mean() + z.square().mean();
        });
        auto first = torch::autograd::grad({loss}, {w, x}, {}, true, /*create_graph=*/true);
        auto second = torch::autograd::grad({first[0].square().sum()}, {w, x});
        for (Tensor& gradient : first) second.push_back(gradient.detach());
        second.push_back(torch::autograd::grad({loss}, {v})[0]);
        return second;
      },
      0.8);
}

TEST_F(Budgets, ServeAutocast) {
  expect_same_as_plain(
      [&](const auto& forward) {
        forward([&] {
          const Autocast autocast(c10::kCPU, at::kBFloat16);
          return model_.loss().to(at::kFloat);
        }).backward();
        return take_gradients(model_.parameters);
      },
      0.6);
}

const char* const kScript = R"(
def layer(x: Tensor, w: Tensor):
    x = torch.tanh(torch.matmul(x, w))
    return torch.sigmoid(torch.matmul(x, w))
)";

TEST_F(Budgets, ServeTorchScript) {
  const auto script = torch::jit::compile(kScript);
  const Tensor w = testing::leaf({64, 64}), x = testing::leaf({256, 64}, 2);
  const auto loss = [&] {
    Tensor y = x;
    for (int i = 0; i < 8; ++i) y = script->run_method("layer", y, w).toTensor();
    return y.square().mean();
  };
  for (int i = 0; i < 3; ++i) loss().backward();  // its executor settles
  take_gradients({w, x});
  expect_same_as_plain(
      [&](const auto& forward) {
        forward(loss).backward();
        return take_gradients({w, x});
      },
      0.6);
  // It makes exceptions of its own of ours; forward() finds them.
  auto budget = Budget::activations(1024);
  EXPECT_THROW(budget.forward(loss), BudgetInfeasible);
}

TEST_F(Budgets, AreSharedByModels) {
  const BudgetModel other = testing::skips();
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor a = forward(model_.loss);
        const Tensor b = forward(other.loss);
        (a * b).backward();
        auto gradients = take_gradients(model_.parameters);
        for (const Tensor& gradient : take_gradients(other.parameters)) {
          gradients.push_back(gradient);
        }
        return gradients;
      },
      0.6);
}

TEST_F(Budgets, LetEvaluationsComeBetween) {
  expect_same_as_plain(
      [&](const auto& forward) {
        const Tensor loss = forward(model_.loss);
        Tensor evaluated;
        {
          const torch::NoGradGuard no_grad;
          evaluated = forward(model_.loss);
        }
        loss.backward();
        auto results = take_gradients(model_.parameters);
        results.push_back(evaluated);
        return results;
      },
      0.6);
}

TEST_F(Budgets, TakeGradientsInsideOfForwardPasses) {
  const Tensor w = testing::leaf({64, 64}), x = testing::leaf({512, 64}, 2);
  expect_same_as_plain(
      [&](const auto& forward) {
        forward([&] {
          Tensor y = x;
          for (int i = 0; i < 6; ++i) y = y.matmul(w).tanh();
          const Tensor inner = torch::autograd::grad({y.sum()}, {x}, {}, true)[0];
          return (y * inner).square().mean();
        }).backward();
        return take_gradients({w, x});
      },
      0.7);
}

// ---- Where scopes begin and end.

TEST_F(Budgets, NestIntoThemselves) {
  auto budget = Budget::activations(part(0.6));
  torch::manual_seed(5);
  Tensor loss = budget.forward([&] { return budget.forward(model_.loss); });
  EXPECT_EQ(budget.summary().forwards, 1);
  loss.backward();
  const std::vector<Tensor> expected(plain_.begin() + 1,
                                     plain_.begin() + 1 + int64_t(model_.parameters.size()));
  EXPECT_TRUE(same_bits(take_gradients(model_.parameters), expected));
}

TEST_F(Budgets, NestedIntoOthersTheTighterHolds) {
  for (const bool outer_is_tighter : {true, false}) {
    const int64_t base = Meter().live();
    auto outer = Budget::activations(part(outer_is_tighter ? 0.6 : 2));
    auto inner = Budget::activations(part(outer_is_tighter ? 2 : 0.6));
    const std::vector<Tensor> expected(plain_.begin() + 1,
                                       plain_.begin() + 1 + int64_t(model_.parameters.size()));
    torch::manual_seed(5);
    {
      const PeakScope scope;
      outer.forward([&] { return inner.forward(model_.loss); }).backward();
      EXPECT_LE(scope.peak_above_base(), part(0.6));
    }
    EXPECT_TRUE(same_bits(take_gradients(model_.parameters), expected));
    EXPECT_GT(inner.summary().drops, 0);  // it is the inner scope that records
    EXPECT_EQ(Meter().live(), base);
  }
}

TEST_F(Budgets, NeedNoBackwardPass) {
  const int64_t base = Meter().live();
  auto budget = Budget::activations(part(0.6));
  for (int i = 0; i < 3; ++i) budget.forward(model_.loss);
  EXPECT_GT(budget.summary().drops, 0);
  EXPECT_EQ(Meter().live(), base);
  EXPECT_TRUE(same_bits(step_of(model_, &budget), plain_));
}

TEST_F(Budgets, MayEndBeforeTheirGraphs) {
  Tensor loss;
  torch::manual_seed(5);
  {
    auto budget = Budget::activations(part(0.6));
    loss = budget.forward(model_.loss);
    EXPECT_GT(budget.summary().drops, 0);
  }
  loss.backward();
  const std::vector<Tensor> expected(plain_.begin() + 1,
                                     plain_.begin() + 1 + int64_t(model_.parameters.size()));
  EXPECT_TRUE(same_bits(take_gradients(model_.parameters), expected));
}

TEST_F(Budgets, SurviveExceptions) {
  const int64_t base = Meter().live();
  auto budget = Budget::activations(part(0.6));
  EXPECT_THROW(budget.forward([&]() -> Tensor {
    const Tensor loss = model_.loss();
    throw std::runtime_error("in the forward pass");
  }),
               std::runtime_error);
  EXPECT_EQ(Meter().live(), base);
  {
    const Tensor loss = budget.forward(model_.loss);
    const Tensor bad = loss * 1;
    bad.register_hook([](const Tensor& gradient) -> Tensor {
      if (gradient.defined()) throw std::runtime_error("in the backward pass");
      return gradient;
    });
    EXPECT_THROW(bad.backward(), std::runtime_error);
  }
  take_gradients(model_.parameters);
  EXPECT_EQ(Meter().live(), base);
  EXPECT_TRUE(same_bits(step_of(model_, &budget), plain_));
}

// ---- What does not fit.

// Once a step was measured, it is known that what comes later needs more.
TEST_F(Budgets, SayWhatAWholeStepNeeds) {
  Budget budget(Meter().live() + 2 * plain_peak_);
  step_of(model_, &budget);
  ASSERT_TRUE(budget.trace().has_value());
  const int64_t needed = least_budget(*budget.trace()).plan.peak_bytes;
  const Tensor states = torch::empty({2 * plain_peak_ - needed / 2}, torch::kByte);
  const int64_t base = Meter().live();
  try {
    step_of(model_, &budget);
    FAIL() << "no exception";
  } catch (const BudgetInfeasible& error) {
    EXPECT_GT(error.least(), error.limit());
    EXPECT_GE(error.least(), base + needed);
    EXPECT_LE(error.least(), base + plain_peak_);
  }
  take_gradients(model_.parameters);
}

TEST_F(Budgets, SayWhatDoesNotFit) {
  const Tensor w = testing::leaf({32, 32}), x = testing::leaf({1024, 32}, 2);
  const int64_t base = Meter().live();
  auto budget = Budget::activations(1024 * 32 * 4 + 1024);
  std::string op;
  int64_t least = 0;
  const std::string message = message_of<BudgetInfeasible>([&] {
    try {
      budget.forward([&] { return x.matmul(w).exp().sum(); });
    } catch (const BudgetInfeasible& error) {
      op = error.op();
      least = error.least();
      throw;
    }
  });
  EXPECT_EQ(op, "aten::exp");
  EXPECT_EQ(least, base + 2 * 1024 * 32 * 4);
  for (const char* part : {"aten::exp", "Float[1024, 32] on cpu", "131072 bytes", "hint: "}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
  EXPECT_EQ(Meter().live(), base);
  // With what it said, that operator passes.
  auto enough = Budget::activations(least - base);
  const std::string next = message_of<BudgetInfeasible>(
      [&] { enough.forward([&] { return x.matmul(w).exp().sum(); }).backward(); });
  EXPECT_EQ(next.find("aten::exp"), std::string::npos) << next;
  EXPECT_EQ(Meter().live(), base);
}

TEST_F(Budgets, SummariesArePrinted) {
  auto budget = Budget::activations(part(0.6));
  step_of(model_, &budget);
  std::ostringstream text;
  text << budget.summary();
  EXPECT_NE(text.str().find("1 forward passes"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find(std::to_string(part(0.6)) + " bytes"), std::string::npos);
}

// ---- Threads share the limit of the process.

TEST_F(Budgets, AreSharedByThreads) {
  constexpr int kThreads = 3;
  struct Replica {
    Tensor w = testing::leaf({64, 64}), x = testing::leaf({256, 64}, 2);
    std::vector<Tensor> results;
    void step(Budget* budget) {
      const auto loss = [&] {
        Tensor y = x;
        for (int i = 0; i < 12; ++i) y = y.matmul(w).tanh();
        return y.square().mean();
      };
      (budget ? budget->forward(loss) : loss()).backward();
      results = take_gradients({w, x});
    }
  };
  Replica plain;
  plain.step(nullptr);
  std::vector<Replica> replicas(kThreads);
  const int64_t base = Meter().live();
  const int64_t each = 256 * 64 * 4;
  // Plain steps hold 24 of them at once each, and 12 beside gradients.
  const int64_t limit = base + kThreads * 12 * each;
  Budget budget(limit);
  const PeakScope scope;
  std::vector<std::thread> threads;
  for (Replica& replica : replicas) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) replica.step(&budget);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(scope.peak(), limit);
  for (const Replica& replica : replicas) EXPECT_TRUE(same_bits(replica.results, plain.results));
  EXPECT_EQ(budget.summary().forwards, kThreads * 20);
}

}  // namespace
}  // namespace reprise
