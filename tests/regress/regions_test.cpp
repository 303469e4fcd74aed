// SPDX-License-Identifier: BSD-3-Clause
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "tests/parity.h"

// Public reports of checkpointing elsewhere that a C++ program could meet, and that go right here.
// docs/regressions.md has a line for each report; P#n is number n of pytorch/pytorch.

namespace reprise::testing {
namespace {

using torch::autograd::grad;
using torch::nn::Linear;

Tensor wave(const Tensor& x) { return x.sin().exp().mul(x).tanh(); }

class Reports : public EveryWay {};

// fairscale#1035
TEST_P(Reports, BatchNormStatisticsChangeInAForwardPassWithoutGradientsToo) {
  const Tensor x = leaf({8, 4});
  torch::nn::BatchNorm1d plain(4), ours(4);
  {
    const torch::NoGradGuard no_grad;
    plain(x);
    checkpoint(options(), ours, x);
  }
  plain(x);
  checkpoint(options(), ours, x);  // never goes backward
  EXPECT_TRUE(same_bits(plain->buffers(), ours->buffers()));
}

// P#36383, P#26546
TEST_P(Reports, ARegionThatEndsInAnInPlaceOperatorOnAViewKeepsItsGradients) {
  const Tensor x = leaf({4, 6});
  const auto base = [](const Tensor& t) {
    Tensor y = t.sin();
    y.view({-1}).mul_(2).relu_();
    return y;
  };
  const auto view = [](const Tensor& t) { return t.cos().t().select(0, 1).mul_(3); };
  expect_equal({x}, [&](const CheckpointOptions& options) {
    const Tensor y = checkpoint(options, base, x);
    return checkpoint(options, view, y) * y.select(1, 2);
  });
}

// P#7617
TEST_P(Reports, ResultsRequireGradExactlyWhereThoseOfTheFunctionDo) {
  const Tensor x = leaf({4, 6});
  const auto f = [](const Tensor& t) {
    return std::make_tuple(t.exp(), t.exp().detach(), t.argmax(), t, t.detach().clone());
  };
  const auto flags = [](const auto& results) {
    return std::apply(
        [](const auto&... result) { return std::vector<bool>{result.requires_grad()...}; },
        results);
  };
  EXPECT_EQ(flags(f(x)), flags(checkpoint(options(), f, x)));
  const Tensor fixed = x.detach();
  EXPECT_EQ(flags(f(fixed)), flags(checkpoint(options(), f, fixed)));
}

// transformers#21381, #23170, #26221, peft#1142
TEST_P(Reports, FrozenFirstLayersDoNotCutOffTheLaterOnes) {
  torch::manual_seed(3);
  Linear frozen(4, 8), first(8, 8), second(8, 8);
  for (Tensor p : frozen->parameters()) p.set_requires_grad(false);
  const Tensor x = leaf({5, 4}).detach();
  std::vector<Tensor> leaves = first->parameters();
  for (const Tensor& p : second->parameters()) leaves.push_back(p);
  const auto whole = [&](const Tensor& t) { return second(first(frozen(t).tanh()).tanh()).sin(); };
  expect_equal(leaves,
               [&](const CheckpointOptions& options) { return checkpoint(options, whole, x); });
  expect_equal(leaves, [&](const CheckpointOptions& options) {
    const Tensor h = checkpoint(
        options, [&](const Tensor& t) { return frozen(t).tanh(); }, x);
    EXPECT_FALSE(h.requires_grad());
    return checkpoint(
        options, [&](const Tensor& t) { return second(first(t).tanh()).sin(); }, h);
  });
}

// P#141896, P#193338: whether a weight is in autocast's cache when a region begins differs between
// the forward pass and the replay, and between sibling regions.
TEST_P(Reports, AutocastsCacheOfWeightsMayDifferInTheReplay) {
  torch::manual_seed(3);
  Linear shared(8, 8);
  std::vector<Tensor> leaves = shared->parameters();
  leaves.push_back(leaf({4, 8}));
  const auto part = [&](const Tensor& t) { return shared(shared(t).tanh()).sin(); };
  for (const bool cached_before : {false, true}) {
    for (const bool backward_inside : {false, true}) {
      const auto model = [&](const CheckpointOptions& options) {
        return [&, options] {
          const Autocast autocast(at::kCPU);
          Tensor h = leaves.back();
          if (cached_before) h = shared(h);
          h = checkpoint(options, part, h);
          h = checkpoint(options, part, h).to(at::kFloat).sum();
          if (!backward_inside) return h;
          return h + grad({h}, {leaves.back()}, {}, true, /*create_graph=*/true)[0].sum();
        };
      };
      EXPECT_TRUE(same_bits(loss_and_gradients(leaves, model(CheckpointOptions().enabled(false))),
                            loss_and_gradients(leaves, model(options()))))
          << cached_before << backward_inside;
    }
  }
}

// P#115255: identity hooks leak. Here, those around a region see its arguments only, which makes no
// cycle; those inside see results, too, and must return detached tensors, as hooks.h says.
TEST_P(Reports, IdentityHooksAroundAndDetachingHooksInsideLeakNothing) {
  const Tensor x = leaf({1 << 12});
  const auto same = [](const Tensor& t) { return t; };
  const auto detached = [](const Tensor& t) { return t.detach(); };
  const auto f = [&](const Tensor& t) {
    const SavedTensorHooks hooks(detached, same);
    return wave(t);
  };
  const Meter meter;
  for (const bool backward : {true, false}) {
    const int64_t base = meter.live();
    {
      const SavedTensorHooks hooks(same, same);
      const Tensor y = checkpoint(options(), f, checkpoint(options(), wave, x * 2)).sum();
      if (backward) y.backward();
    }
    Tensor(x).mutable_grad() = Tensor();
    EXPECT_EQ(meter.live(), base) << backward;
  }
}

// P#147565, P#190581, P#84907: hooks around a region that moves tensors elsewhere.
TEST_P(Reports, HooksAroundARegionThatStoreElsewhereGiveTheSameGradients) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  const auto f = [&](const Tensor& t) { return wave(t.mm(w)).mm(w); };
  int stored = 0;
  expect_equal({x, w}, [&](const CheckpointOptions& options) {
    const SavedTensorHooks hooks([&](const Tensor& t) { return ++stored, t.to(at::kDouble); },
                                 [](const Tensor& t) { return t.to(at::kFloat); });
    return checkpoint(options, f, x * 2).cos();
  });
  EXPECT_GT(stored, 0);
}

// P#155171: keys and values of a cache that grows at each call.
TEST(ReportsByOperators, ACacheThatGrowsInARegionGrowsOnce) {
  const Tensor x = leaf({3, 4}), w = leaf({4, 4}, 2);
  const auto run = [&](const CheckpointOptions& options) {
    Tensor cache = leaf({2, 4}, 3).detach();
    const auto attend = [&](const Tensor& t) {
      cache = at::cat({cache, t.mm(w)});
      return at::softmax(t.mm(cache.t()), -1).mm(cache).sin();
    };
    auto result = loss_and_gradients({x, w}, [&] { return checkpoint(options, attend, x).sum(); });
    result.push_back(cache.detach());
    return result;
  };
  EXPECT_TRUE(same_bits(run(CheckpointOptions().enabled(false)), run(options_of(Way::operators))));
  // Run again, the function finds a longer cache: an error, and no wrong gradient.
  const std::string message =
      message_of<RecomputeMismatch>([&] { run(CheckpointOptions().name("attention")); });
  EXPECT_NE(message.find("attention"), std::string::npos) << message;
}

// P#24005, openfold#40, FocalNet#4: what averages gradients over replicas counts on it.
TEST_P(Reports, AParameterSharedByRegionsIsReadyOnce) {
  const Tensor x = leaf({4, 4}), w = leaf({4, 4}, 2);
  const auto f = [&](const Tensor& t) { return wave(t.mm(w)); };
  int ready = 0;
  using torch::autograd::variable_list;
  const auto accumulator = torch::autograd::impl::grad_accumulator(w);
  accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [&](const variable_list& outputs, const variable_list&) { return ++ready, outputs; }));
  const Tensor y = checkpoint(options(), f, checkpoint(options(), f, x.mm(w)));
  (y.mm(w)).sum().backward();
  EXPECT_EQ(ready, 1);
}

// P#79171
TEST_P(Reports, AParameterThatARegionDoesNotUseGetsNoGradient) {
  const Tensor x = leaf({4}), used = leaf({4}, 2), unused = leaf({4}, 3);
  const auto f = [](const Tensor& t, const Tensor& a, const Tensor&) { return wave(t * a); };
  checkpoint(options(), f, x, used, unused).sum().backward();
  EXPECT_TRUE(used.grad().defined());
  EXPECT_FALSE(unused.grad().defined());
}

// fairseq2 PR#474
TEST(ReportsByFunctions, DebugLeavesNothingBehind) {
  const Tensor x = leaf({1 << 12});
  auto token = std::make_shared<int>(0);
  const auto f = [token](const Tensor& t) { return wave(t); };
  const auto options = CheckpointOptions().debug(true);
  const Meter meter;
  const int64_t base = meter.live();
  for (const bool backward : {true, false}) {
    {
      const Tensor y = checkpoint(options, f, x * 2).sum();
      if (backward) y.backward();
    }
    Tensor(x).mutable_grad() = Tensor();
    EXPECT_EQ(meter.live(), base);
    EXPECT_EQ(token.use_count(), 2);  // ours, and f's
  }
}

// ms-swift PR#10157: told apart by address and dtype alone, these would be one tensor.
TEST_P(Reports, ASquareMatrixAndItsTransposeAreTwoSavedTensors) {
  const Tensor x = leaf({6, 6});
  const auto f = [](const Tensor& t) {
    const Tensor y = t.exp();
    return y.mm(y.t()).sin().mm(y.t().contiguous()).mul(y.view({6, 6}).t());
  };
  expect_equal({x}, [&](const CheckpointOptions& options) { return checkpoint(options, f, x); });
}

// TE PR#1026: a weight comes back as it was, gradient and all.
TEST_P(Reports, ASavedParameterComesBackAsItselfAndGoesOnRequiringGrad) {
  const Tensor x = leaf({4, 4}), w = leaf({4, 4}, 2);
  for (int step = 0; step < 2; ++step) {
    checkpoint(
        options(), [&](const Tensor& t) { return wave(t.mm(w)); }, x)
        .sum()
        .backward();
    EXPECT_TRUE(w.requires_grad());
    EXPECT_TRUE(w.is_leaf());
    EXPECT_TRUE(w.grad().defined());
  }
  expect_equal({x, w}, [&](const CheckpointOptions& options) {
    return checkpoint(
        options, [&](const Tensor& t) { return wave(t.mm(w)).mm(w.t()); }, x);
  });
}

// Seen with PyTorch 2.15: a generator of the user's own draws another mask in the replay, silently.
TEST_P(Reports, AGeneratorOfOnesOwnDrawsTheSameAgainAndGoesOnWhereItWas) {
  const Tensor x = leaf({64});
  const auto f = [](const Tensor& t, at::Generator generator) {
    const Tensor mask = at::bernoulli(at::full_like(t, 0.5), std::move(generator));
    return (t * mask).exp().sin() * mask;
  };
  std::vector<Tensor> after;
  expect_equal({x}, [&](const CheckpointOptions& options) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    const Tensor y = checkpoint(options, f, checkpoint(options, f, x, generator), generator);
    after.push_back(at::rand({4}, generator));
    return y;
  });
  ASSERT_EQ(after.size(), 2U);
  EXPECT_TRUE(bit_equal(after[0], after[1]));
}

// The same where the function reaches it without being given it: the record has it; run again, the
// function draws anew, which the comparison of values finds.
TEST(ReportsByOperators, ACapturedGeneratorDrawsTheSameAgain) {
  const Tensor x = leaf({64});
  const auto run = [&](const CheckpointOptions& options) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    const auto f = [generator](const Tensor& t) {
      const Tensor mask = at::bernoulli(at::full_like(t, 0.5), generator);
      return (t * mask).exp().sin() * mask;
    };
    return loss_and_gradients({x}, [&] { return checkpoint(options, f, x).sum(); });
  };
  EXPECT_TRUE(same_bits(run(CheckpointOptions().enabled(false)), run(options_of(Way::operators))));
  EXPECT_THROW(run(CheckpointOptions().determinism(Determinism::values)), RecomputeMismatch);
}

// The replay must not register it on the argument's own node once more.
TEST_P(Reports, AHookThatTheFunctionPutsOnItsArgumentIsAppliedOnce) {
  const Tensor x = leaf({3});
  const auto part = [](const Tensor& a) {
    a.register_hook([](const Tensor& gradient) { return gradient * 2; });
    return a.sin() * a;
  };
  expect_equal({x}, [&](const CheckpointOptions& options) {
    return checkpoint(options, part, checkpoint(options, part, x * 1.5));
  });
}

INSTANTIATE_IN_EVERY_WAY(Reports);

}  // namespace
}  // namespace reprise::testing
