// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/autocast_mode.h>

#include "tests/support.h"

// The replay finds the state that the forward pass ran in, and leaves what it found.

namespace reprise::testing {
namespace {

at::Tensor rng_state() {
  auto generator = at::globalContext().defaultGenerator(c10::kCPU);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

TEST(ReplayState, DropoutBeforeInsideAndAfterARegionEqualsPlainFiveTimes) {
  const Tensor x = leaf({32, 32});
  const auto noisy = [](const Tensor& t) { return at::dropout(t.sin(), 0.5, true).exp(); };
  const auto model = [&](bool on) {
    const auto options = CheckpointOptions().enabled(on);
    const Tensor first = at::dropout(x, 0.3, true);
    return at::dropout(checkpoint(options, noisy, checkpoint(options, noisy, first)), 0.2, true)
        .sum();
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto plain = loss_and_gradients(
        {x}, [&] { return model(false); }, seed);
    const Tensor plain_state = rng_state();
    const auto ours = loss_and_gradients(
        {x}, [&] { return model(true); }, seed);
    EXPECT_TRUE(same_bits(plain, ours));
    EXPECT_TRUE(bit_equal(plain_state, rng_state()));
  }
}

TEST(ReplayState, RngStreamGoesOnAfterTheReplayWhereItWas) {
  const Tensor x = leaf({16});
  torch::manual_seed(1);
  const Tensor y = checkpoint([](const Tensor& t) { return at::dropout(t, 0.5, true).exp(); }, x);
  at::rand({3});
  const Tensor before = rng_state();
  y.sum().backward();
  EXPECT_TRUE(bit_equal(before, rng_state()));
}

TEST(ReplayState, RngIsPutBackWhenTheReplayThrows) {
  const Tensor x = leaf({16});
  bool fail = false;
  const Tensor y = checkpoint(
      [&](const Tensor& t) {
        const Tensor z = at::dropout(t, 0.5, true).exp();
        if (fail) throw std::domain_error("no");
        return z.sin();
      },
      x);
  fail = true;
  const Tensor before = rng_state();
  EXPECT_THROW(y.sum().backward(), std::domain_error);
  EXPECT_TRUE(bit_equal(before, rng_state()));
}

TEST(ReplayState, PreserveRngOffDrawsAnew) {
  const Tensor x = leaf({256});
  torch::manual_seed(1);
  const Tensor y = checkpoint(
      CheckpointOptions().preserve_rng(false),
      [](const Tensor& t) { return at::dropout(t.exp(), 0.5, true); }, x);
  const Tensor before = rng_state();
  const Tensor grad = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_FALSE(bit_equal(before, rng_state()));
  EXPECT_FALSE(at::equal(grad.ne(0), y.ne(0)));  // another mask
}

TEST(ReplayState, GeneratorsAmongTheArgumentsAreReplayedAtAnyDepth) {
  const Tensor x = leaf({64});
  const auto run = [&](bool on) {
    auto one = at::make_generator<at::CPUGeneratorImpl>(5);
    auto two = at::make_generator<at::CPUGeneratorImpl>(6);
    return loss_and_gradients({x}, [&] {
      const Tensor y = checkpoint(
          CheckpointOptions().enabled(on),
          [](const Tensor& t, at::Generator g, std::vector<std::optional<at::Generator>> more) {
            const Tensor mask = at::bernoulli(at::full_like(t, 0.5), g);
            return (t * mask).exp() * (t * at::rand(t.sizes(), *more[1])).sin();
          },
          x, one, std::vector<std::optional<at::Generator>>{std::nullopt, two});
      return (y * at::rand(x.sizes(), one)).sum();
    });
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST(ReplayState, AutocastIsAsInForwardWhereverTheBackwardRuns) {
  torch::manual_seed(3);
  torch::nn::Linear linear(8, 8);
  const Tensor x = leaf({4, 8});
  std::vector<at::ScalarType> seen;
  const auto f = [&](const Tensor& t) {
    const Tensor y = linear(linear(t).tanh());  // one weight, cast once, used twice
    seen.push_back(y.scalar_type());
    return y.sin();
  };
  for (const bool forward : {true, false}) {
    for (const bool backward : {true, false}) {
      std::vector<std::vector<Tensor>> results;
      for (const bool on : {false, true}) {
        seen.clear();
        Tensor y;
        {
          const Autocast autocast(at::kCPU, at::kBFloat16, forward);
          y = checkpoint(CheckpointOptions().enabled(on).early_stop(false), f, x);
        }
        const Autocast autocast(at::kCPU, at::kBFloat16, backward);
        results.push_back(
            torch::autograd::grad({y.to(at::kFloat).sum()}, {x, linear->weight, linear->bias}));
        for (const auto dtype : seen) EXPECT_EQ(dtype, forward ? at::kBFloat16 : at::kFloat);
        EXPECT_EQ(at::autocast::is_autocast_enabled(at::kCPU), backward);
        EXPECT_EQ(seen.size(), on ? 2U : 1U);
      }
      EXPECT_TRUE(same_bits(results[0], results[1]));
    }
  }
}

TEST(ReplayState, DefaultDtypeAndThreadCountAreAsInForward) {
  const Tensor x = leaf({1 << 16});
  std::vector<std::pair<at::ScalarType, int>> seen;
  const int threads = at::get_num_threads();
  const Tensor y = checkpoint(
      CheckpointOptions().early_stop(false),
      [&](const Tensor& t) {
        seen.emplace_back(c10::get_default_dtype_as_scalartype(), at::get_num_threads());
        return (t * at::ones({1})).exp().sum().sin();
      },
      x);
  at::set_num_threads(threads + 1);
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  y.backward();
  const auto dtype_after = c10::get_default_dtype_as_scalartype();
  torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
  EXPECT_EQ(at::get_num_threads(), threads + 1);
  at::set_num_threads(threads);
  EXPECT_EQ(dtype_after, at::kDouble);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(ReplayState, DenormalNumbersAreFlushedOrNotAsInForward) {
  const Tensor x = at::full({8}, 2e-38F).requires_grad_();
  const auto f = [](const Tensor& t) { return (t * 0.01).mul(t * 1e20).sum(); };
  const Tensor plain = torch::autograd::grad({f(x)}, {x})[0];
  for (const bool function : {true, false}) {
    Tensor y;
    if (function) {
      y = checkpoint(f, x);
    } else {
      const Scope scope(Policy::keep_names({"none"}).audit(false));
      y = f(x);
    }
    at::globalContext().setFlushDenormal(true);
    const Tensor ours = torch::autograd::grad({y}, {x})[0];
    at::globalContext().setFlushDenormal(false);
    // The backward pass itself flushes; what it multiplies with must not have been.
    EXPECT_TRUE(at::equal(ours.ne(0), plain.ne(0)));
  }
}

}  // namespace
}  // namespace reprise::testing
