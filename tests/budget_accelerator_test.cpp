// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/budget.h>
#include <reprise/meter.h>

#include <torch/torch.h>

#include "tests/fake_accelerator.h"
#include "tests/fake_callbacks.h"
#include "tests/support.h"

// Budgets where the allocator is another's, on an accelerator of host memory.

namespace reprise {
namespace {

using testing::fake_device;
using testing::fake_memory;
using testing::Tensor;

class BudgetOnAnAccelerator : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::install_fake_accelerator();
    torch::manual_seed(1);
    for (int layer = 0; layer < 6; ++layer) {
      layers_->push_back(torch::nn::Linear(64, 64));
      layers_->push_back(torch::nn::GELU());
      layers_->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})));
      layers_->push_back(torch::nn::Dropout(0.2));
    }
    layers_->to(fake_device());
    input_ = torch::randn({512, 64}).to(fake_device());
    plain_ = step(nullptr);  // allocators and generators are there from now on
    Meter meter(fake_device());
    base_ = meter.live();
    const PeakScope peak(meter);
    plain_ = step(nullptr);
    plain_peak_ = peak.peak_above_base();
  }

  Tensor forward() { return layers_->forward(input_).square().mean(); }

  /// Loss and gradients.
  std::vector<Tensor> step(Budget* budget) {
    torch::manual_seed(3);
    Tensor loss = budget == nullptr ? forward() : budget->forward([&] { return forward(); });
    loss.backward();
    std::vector<Tensor> results{loss.detach().cpu()};
    for (Tensor& parameter : layers_->parameters()) {
      results.push_back(parameter.grad().cpu());
      parameter.mutable_grad() = Tensor();
    }
    return results;
  }

  int64_t share(double part) const { return static_cast<int64_t>(part * plain_peak_); }

  torch::nn::Sequential layers_;
  Tensor input_;
  std::vector<Tensor> plain_;
  int64_t base_ = 0, plain_peak_ = 0;
};

TEST_F(BudgetOnAnAccelerator, KeepsTheLimitOnceOperatorsAreKnown) {
  const Meter meter(fake_device());
  for (const double part : {1.0, 0.8, 0.6, 0.45}) {
    SCOPED_TRACE(part);
    auto budget = Budget::activations(share(part), fake_device());
    budget.stay_online();
    for (int i = 0; i < 4; ++i) {
      const int64_t before = budget.summary().overruns;
      const PeakScope peak(meter);
      EXPECT_TRUE(testing::same_bits(step(&budget), plain_));
      EXPECT_EQ(meter.live(), base_);
      if (i == 0) continue;
      EXPECT_LE(peak.peak_above_base(), share(part)) << "step " << i;
      EXPECT_EQ(budget.summary().overruns, before) << "step " << i;
    }
    const BudgetSummary summary = budget.summary();
    EXPECT_EQ(summary.online_steps, 4);
    EXPECT_EQ(summary.planned_steps, 0);
    if (part == 1) continue;  // what is guessed at first may be too much
    EXPECT_GT(summary.drops, 0) << summary;
    EXPECT_GT(summary.replays, 0) << summary;
  }
}

TEST_F(BudgetOnAnAccelerator, OfAllBytesAndOfAFraction) {
  const int64_t limit = base_ + share(0.6);
  {
    Budget all(limit, fake_device());
    step(&all);
    const PeakScope peak{Meter(fake_device())};
    EXPECT_TRUE(testing::same_bits(step(&all), plain_));
    EXPECT_LE(peak.peak(), limit);
    EXPECT_GT(all.summary().drops, 0);
  }
  auto half = Budget::fraction(0.5, fake_device());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(testing::same_bits(step(&half), plain_));
  EXPECT_EQ(half.summary().plain_peak, plain_peak_);
  EXPECT_EQ(half.summary().limit, share(0.5));
  EXPECT_GT(half.summary().drops, 0);
}

TEST_F(BudgetOnAnAccelerator, LeavesThePeakOfTheMeterAlone) {
  const Meter meter(fake_device());
  meter.reset_peak();
  { const Tensor large = torch::empty({1 << 22}, fake_device()); }
  const int64_t peak = meter.peak();
  auto budget = Budget::activations(share(0.6), fake_device());
  step(&budget);
  EXPECT_EQ(meter.peak(), peak);
  EXPECT_EQ(meter.reset_peak(), peak);
  EXPECT_LT(meter.peak(), peak);
}

TEST_F(BudgetOnAnAccelerator, RefusesAnOperatorThatItKnows) {
  auto generous = Budget::activations(share(1), fake_device());
  step(&generous);  // operators are measured
  auto budget = Budget::activations(share(0.02), fake_device());
  const int64_t largest = fake_memory().live();
  try {
    step(&budget);
    FAIL() << "no exception";
  } catch (const BudgetInfeasible& error) {
    EXPECT_EQ(error.limit(), base_ + share(0.02));
    EXPECT_GT(error.least(), error.limit());
    EXPECT_FALSE(error.op().empty()) << error.what();
  }
  EXPECT_EQ(budget.summary().overruns, 0);
  EXPECT_EQ(fake_memory().live(), largest);
  EXPECT_TRUE(testing::same_bits(step(nullptr), plain_));
}

TEST_F(BudgetOnAnAccelerator, ABudgetOfTheHostKeepsWhatTheDeviceSaves) {
  auto host = Budget::activations(1 << 20);
  const BudgetSummary before = host.summary();
  EXPECT_TRUE(testing::same_bits(step(&host), plain_));
  EXPECT_EQ(host.summary().drops, before.drops);
}

TEST_F(BudgetOnAnAccelerator, GivesWhenTheDeviceIsFull) {
  auto budget = Budget::activations(share(4), fake_device());
  step(&budget);
  EXPECT_EQ(budget.summary().drops, 0);
  // As CUDA's allocator does, which calls what is registered under its lock.
  fake_memory().set_capacity(base_ + share(0.6));
  fake_memory().set_free_callback(testing::call_free_memory_callbacks);
  EXPECT_TRUE(testing::same_bits(step(&budget), plain_));
  EXPECT_GT(budget.summary().drops, 0);
  EXPECT_EQ(budget.summary().overruns, 0);
}

TEST_F(BudgetOnAnAccelerator, FollowsPlansOfMeasuredSteps) {
  const Meter meter(fake_device());
  for (const double part : {1.0, 0.8, 0.6, 0.5}) {
    SCOPED_TRACE(part);
    auto budget = Budget::activations(share(part), fake_device());
    for (int i = 0; i < 8; ++i) {
      const PeakScope peak(meter);
      EXPECT_TRUE(testing::same_bits(step(&budget), plain_));
      EXPECT_EQ(meter.live(), base_);
      budget.finish_planning();
      if (i == 0) continue;
      EXPECT_LE(peak.peak_above_base(), share(part)) << "step " << i;
    }
    const BudgetSummary summary = budget.summary();
    EXPECT_GE(summary.planned_steps, 5) << summary;
    // The allocator gives whole blocks of 512 bytes, a few dozens of them at a time.
    EXPECT_NEAR(summary.plain_bytes, plain_peak_, 40 * 512) << summary;
    EXPECT_NEAR(summary.measured_peak, summary.predicted_peak, 40 * 512) << summary;
    EXPECT_LE(summary.measured_peak, share(part)) << summary;
  }
}

// What a step takes is read off a device that only says how much is live in all.
TEST_F(BudgetOnAnAccelerator, MeasuresAStepAsThePlainOneWhateverIsDropped) {
  auto ample = Budget::activations(share(4), fake_device());
  step(&ample);
  const auto plain = ample.trace();
  ASSERT_TRUE(plain.has_value());
  auto tight = Budget::activations(share(0.5), fake_device());
  tight.plan_with(PlanOptions{});
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(testing::same_bits(step(&tight), plain_));
    tight.finish_planning();
    const auto trace = tight.trace();
    ASSERT_TRUE(trace.has_value());
    ASSERT_EQ(key_of(*trace), key_of(*plain));
    for (std::size_t j = 0; j < plain->events.size(); ++j) {
      const BackwardEvent &got = trace->events[j], &expected = plain->events[j];
      EXPECT_NEAR(got.gradient_bytes, expected.gradient_bytes, 40 * 512) << j << expected.name;
      EXPECT_NEAR(got.gradient_bytes_before, expected.gradient_bytes_before, 40 * 512)
          << j << expected.name;
      EXPECT_NEAR(got.scratch_bytes, expected.scratch_bytes, 40 * 512) << j << expected.name;
    }
    for (std::size_t j = 0; j < plain->operators.size(); ++j) {
      EXPECT_NEAR(trace->operators[j].scratch_bytes, plain->operators[j].scratch_bytes, 40 * 512)
          << j << plain->operators[j].name;
    }
  }
  EXPECT_GT(tight.summary().drops + tight.summary().replays, 0);
}

TEST_F(BudgetOnAnAccelerator, TheTraceHasTheGradientsOfTheHost) {
  layers_ = torch::nn::Sequential(torch::nn::Linear(64, 64), torch::nn::GELU(),
                                  torch::nn::Linear(64, 64), torch::nn::Tanh());
  layers_->to(fake_device());
  auto there = Budget::activations(share(4), fake_device());
  step(&there);
  const auto device = there.trace();
  ASSERT_TRUE(device.has_value());
  layers_->to(torch::kCPU);
  input_ = input_.cpu();
  auto here = Budget::activations(int64_t{1} << 40);
  step(&here);
  const auto host = here.trace();
  ASSERT_TRUE(host.has_value());
  ASSERT_EQ(key_of(*device), key_of(*host));
  for (std::size_t j = 0; j < host->events.size(); ++j) {
    EXPECT_NEAR(device->events[j].gradient_bytes, host->events[j].gradient_bytes, 40 * 512)
        << j << host->events[j].name;
  }
}

TEST_F(BudgetOnAnAccelerator, MeasuresSettledPlansOnlyNowAndThen) {
  auto budget = Budget::activations(share(0.6), fake_device());
  for (int i = 0; i < 10; ++i) {
    step(&budget);
    budget.finish_planning();
  }
  int64_t measured = 0;
  for (int i = 0; i < 32; ++i) {
    const int64_t before = testing::fake_waits();
    EXPECT_TRUE(testing::same_bits(step(&budget), plain_));
    measured += testing::fake_waits() > before;
  }
  EXPECT_GE(measured, 1);
  EXPECT_LE(measured, 4);
  EXPECT_GE(budget.summary().planned_steps, 36) << budget.summary();
}

TEST_F(BudgetOnAnAccelerator, FollowsAPlanThatWasMadeBefore) {
  std::optional<Plan> plan;
  {
    auto budget = Budget::activations(share(0.6), fake_device());
    for (int i = 0; i < 4; ++i) {
      step(&budget);
      budget.finish_planning();
    }
    plan = budget.followed();
  }
  ASSERT_TRUE(plan.has_value());
  auto budget = Budget::activations(share(0.6), fake_device());
  budget.follow(*plan);
  step(&budget);  // which sequence this is, the first step shows
  EXPECT_TRUE(testing::same_bits(step(&budget), plain_));
  EXPECT_EQ(budget.summary().planned_steps, 1) << budget.summary();
  EXPECT_EQ(budget.summary().plans, 0) << budget.summary();
}

TEST_F(BudgetOnAnAccelerator, WhatTheHostHoldsIsNoPartOfAPlan) {
  const Tensor large = torch::ones({1 << 18}).requires_grad_();
  auto budget = Budget::activations(share(0.6), fake_device());
  for (int i = 0; i < 4; ++i) {
    const Tensor loss = budget.forward([&] {
      const Tensor host = (large * 2).sin().mean().to(fake_device());  // saved by the host
      return forward() * host;
    });
    loss.backward();
    budget.finish_planning();
  }
  EXPECT_GE(budget.summary().planned_steps, 1) << budget.summary();
  EXPECT_NEAR(budget.summary().plain_bytes, plain_peak_, 60 * 512) << budget.summary();
}

TEST_F(BudgetOnAnAccelerator, ADeviceThatIsNotThereIsAnError) {
  EXPECT_NE(testing::message_of<UsageError>([&] { Budget(1 << 20, c10::Device("cuda:0")); }), "");
  EXPECT_NE(testing::message_of<UsageError>(
                [&] { Budget(1 << 20, c10::Device(c10::DeviceType::PrivateUse1, 7)); }),
            "");
}

}  // namespace
}  // namespace reprise
