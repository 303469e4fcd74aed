// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <thread>

#include "tests/at_once.h"
#include "tests/support.h"

namespace reprise::testing {
namespace {

Tensor wave(const Tensor& x) { return x.sin().exp().mul(x).tanh(); }

TEST(Threads, ReplicasTrainAtOnceEachAsIfAlone) {
  constexpr int kThreads = 4;
  const auto train = [](uint64_t seed) {
    const Tensor w = leaf({16, 16}, seed);
    std::vector<Tensor> gradients;
    for (int step = 0; step < 20; ++step) {
      const auto layer = [&](const Tensor& t) { return checkpoint(wave, t.matmul(w)); };
      const Tensor y = checkpoint(layer, checkpoint(layer, leaf({4, 16}, seed + step)));
      gradients.push_back(torch::autograd::grad({y.sum()}, {w})[0]);
    }
    return gradients;
  };
  std::vector<std::vector<Tensor>> alone, together(kThreads);
  for (int i = 0; i < kThreads; ++i) alone.push_back(train(i));
  at_once(kThreads, [&](int i) { together[i] = train(i); });
  for (int i = 0; i < kThreads; ++i) EXPECT_TRUE(same_bits(alone[i], together[i]));
}

// All threads draw from LibTorch's one default generator at once, so what each draws is left to
// chance; but a replay must draw what its own forward pass drew.
void expect_own_masks(const std::function<Tensor(const Tensor&)>& forward) {
  std::atomic<int> wrong{0};
  at_once(4, [&](int) {
    const Tensor x = at::ones({64}).requires_grad_();
    for (int k = 0; k < 200; ++k) {
      const Tensor y = forward(x);
      const Tensor slope = torch::autograd::grad({y.sum()}, {x})[0];
      if (!at::equal(slope.ne(0), y.ne(0))) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, DropoutInRegionsOfManyThreadsIsReplayedAsDrawn) {
  const auto noisy = [](const Tensor& t) { return at::dropout(t.exp(), 0.5, true).sin(); };
  expect_own_masks([&](const Tensor& x) {
    return checkpoint([&](const Tensor& t) { return checkpoint(noisy, t).tanh(); }, x);
  });
}

TEST(Threads, DropoutUnderScopesOfManyThreadsIsReplayedAsDrawn) {
  const Policy policy = Policy::recompute_ops({"aten::bernoulli_", "aten::div_", "aten::mul"})
                            .otherwise(Action::recompute)
                            .audit(false);
  expect_own_masks([&](const Tensor& x) {
    const Scope scope(policy);
    return at::dropout(x.exp(), 0.5, true).sin();
  });
}

TEST(Threads, BackwardOnAnotherThread) {
  const Tensor x = leaf({8});
  const Tensor y = checkpoint(wave, x).sum();
  std::thread([&] { y.backward(); }).join();
  EXPECT_TRUE(same_bits({x.grad()}, torch::autograd::grad({wave(x).sum()}, {x})));
}

TEST(Threads, OneGraphWalkedByManyBackwardPassesAtOnce) {
  const Tensor x = leaf({64});
  const Tensor y = checkpoint([](const Tensor& t) { return checkpoint(wave, wave(t)); }, x).sum();
  const auto expected = torch::autograd::grad({wave(wave(x)).sum()}, {x});
  at_once(4, [&](int) {
    for (int k = 0; k < 20; ++k) {
      EXPECT_TRUE(same_bits(expected, torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true)));
    }
  });
}

TEST(Threads, ForwardInOneThreadWhileAnotherRunsBackward) {
  const Tensor x = leaf({64});
  const auto expected = torch::autograd::grad({wave(x).sum()}, {x});
  std::atomic<bool> stop{false};
  std::thread forward([&] {
    while (!stop) checkpoint(wave, leaf({64}));
  });
  for (int k = 0; k < 100; ++k) {
    EXPECT_TRUE(same_bits(expected, torch::autograd::grad({checkpoint(wave, x).sum()}, {x})));
  }
  stop = true;
  forward.join();
}

}  // namespace
}  // namespace reprise::testing
