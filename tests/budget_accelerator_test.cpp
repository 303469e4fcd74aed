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

TEST_F(BudgetOnAnAccelerator, PlansAreRefused) {
  auto budget = Budget::activations(share(1), fake_device());
  EXPECT_NE(testing::message_of<UsageError>([&] { budget.follow(Plan{}); }).find("fake:0"),
            std::string::npos);
  step(&budget);
  budget.finish_planning();
  EXPECT_FALSE(budget.trace().has_value());
  EXPECT_FALSE(budget.followed().has_value());
}

TEST_F(BudgetOnAnAccelerator, ADeviceThatIsNotThereIsAnError) {
  EXPECT_NE(testing::message_of<UsageError>([&] { Budget(1 << 20, c10::Device("cuda:0")); }), "");
  EXPECT_NE(testing::message_of<UsageError>(
                [&] { Budget(1 << 20, c10::Device(c10::DeviceType::PrivateUse1, 7)); }),
            "");
}

}  // namespace
}  // namespace reprise
