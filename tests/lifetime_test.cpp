// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support.h"

// What a region keeps, and that it lets go of it.

namespace reprise::testing {
namespace {

constexpr int64_t kKiB = 1024;

Tensor deep(const Tensor& x) { return x.sin().exp().tanh().cos().sigmoid(); }

/// Live bytes after `work`, above those before, with gradients dropped.
int64_t left_behind(const Tensor& x, const std::function<void()>& work) {
  const Meter meter;
  const int64_t base = meter.live();
  work();
  Tensor(x).mutable_grad() = Tensor();
  return meter.live() - base;
}

TEST(Lifetime, OnlyTheArgumentsAreKept) {
  const Tensor x = leaf({64 * kKiB});  // 256 KiB
  const Meter meter;
  const int64_t base = meter.live();
  const Tensor h = x * 2;
  const Tensor y = checkpoint(deep, h);
  EXPECT_EQ(meter.live() - base, 2 * 256 * kKiB + 5056);  // h, y and one RNG state
  const Tensor plain = deep(h);
  EXPECT_EQ(meter.live() - base, 5 * 256 * kKiB + 5056);  // and exp, tanh and sigmoid of h
}

TEST(Lifetime, ArgumentsThatNothingNeedsAreNotKept) {
  const Tensor x = leaf({64 * kKiB});
  const Meter meter;
  const int64_t base = meter.live();
  const Tensor y = checkpoint([](const Tensor& t) { return t + 1; }, x * 2);
  EXPECT_EQ(meter.live() - base, 256 * kKiB);
}

TEST(Lifetime, LiveBytesReturnToTheBase) {
  const Tensor x = leaf({kKiB});
  bool fail = false;
  const auto f = [&](const Tensor& t) {
    const Tensor y = checkpoint(deep, deep(t));
    if (fail) throw std::domain_error("no");
    return deep(y);
  };
  const auto step = [&] { checkpoint(f, x * 2).sum().backward(); };
  step();  // whatever LibTorch allocates once
  Tensor(x).mutable_grad() = Tensor();
  EXPECT_EQ(left_behind(x, step), 0) << "after backward";
  EXPECT_EQ(left_behind(x, [&] { checkpoint(f, x * 2); }), 0) << "graph dropped";
  EXPECT_EQ(left_behind(x, [&] { (void)torch::autograd::grad({checkpoint(f, x * 2).sum()}, {x}); }),
            0)
      << "grad()";
  fail = true;
  EXPECT_EQ(left_behind(x, [&] { EXPECT_THROW(checkpoint(f, x * 2), std::domain_error); }), 0)
      << "exception in forward";
  fail = false;
  EXPECT_EQ(left_behind(x,
                        [&] {
                          const Tensor y = checkpoint(f, x * 2).sum();
                          fail = true;
                          EXPECT_THROW(y.backward(), std::domain_error);
                          fail = false;
                        }),
            0)
      << "exception in replay";
  EXPECT_EQ(left_behind(x,
                        [&] {
                          const Tensor y = checkpoint(f, x * 2);
                          y.register_hook([](Tensor) -> Tensor { throw std::domain_error("no"); });
                          EXPECT_THROW(y.sum().backward(), std::domain_error);
                        }),
            0)
      << "exception in backward";
}

TEST(Lifetime, MemoryFallsStepByStepInBackwardWithRetainGraphToo) {
  const Tensor x = leaf({64 * kKiB});
  const Meter meter;
  for (const bool retain : {false, true}) {
    Tensor y = x;
    std::vector<int64_t> live;
    for (int i = 0; i < 8; ++i) {
      y = checkpoint(deep, y);
      y.register_hook([&](const Tensor&) { live.push_back(meter.live()); });
    }
    const Tensor loss = y.sum();
    y = Tensor();
    loss.backward({}, retain);
    ASSERT_EQ(live.size(), 8U);
    for (std::size_t i = 2; i < live.size(); ++i) {  // the first gradient has just come up
      // Nothing of an earlier region's replay is left; without retain_graph its input goes, too.
      EXPECT_LE(live[i], live[i - 1] + (retain ? 0 : -256 * kKiB) + 4 * kKiB) << i << retain;
    }
    Tensor(x).mutable_grad() = Tensor();
  }
}

TEST(Lifetime, APartialBackwardLeavesNoReplayedTensorsBehind) {
  const Tensor x = leaf({64 * kKiB}, 1), w = leaf({64 * kKiB}, 2);
  const Meter meter;
  const Tensor y = checkpoint(
      [&](const Tensor& t) {
        const Tensor a = t.exp();       // only needed for the gradient of x
        return (a.detach() * w).sin();  // only this is needed for that of w
      },
      x);
  const Tensor z =
      checkpoint([&](const Tensor& t, const Tensor& u) { return t.exp() * u.sin(); }, x, w);
  const int64_t before = meter.live();
  (void)torch::autograd::grad({y.sum()}, {w}, {}, /*retain_graph=*/true);
  (void)torch::autograd::grad({z.sum()}, {w}, {}, /*retain_graph=*/true);
  EXPECT_EQ(meter.live(), before);
}

TEST(Lifetime, TheFunctionAndItsCapturesDieWithTheGraph) {
  const Tensor x = leaf({4});
  auto token = std::make_shared<int>(0);
  Tensor y = checkpoint([token](const Tensor& t) { return t.exp().sin(); }, x);
  EXPECT_EQ(token.use_count(), 2);
  y.sum().backward();
  EXPECT_EQ(token.use_count(), 1);
  y = checkpoint([token](const Tensor& t) { return t.exp().sin(); }, x);
  y = Tensor();
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Lifetime, TwentyThousandChainedRegionsRunAndDieWithoutStackOverflow) {
  const Tensor x = leaf({2});
  const auto f = [](const Tensor& t) { return t.sin().mul(1.01); };
  for (const bool backward : {true, false}) {
    Tensor y = x;
    for (int i = 0; i < 20000; ++i) {
      y = checkpoint(CheckpointOptions().preserve_rng(false), f, y);
    }
    if (backward) y.sum().backward();
  }
}

}  // namespace
}  // namespace reprise::testing
