// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <memory>
#include <string>

#include "tests/parity.h"

// Regions that keep some values by a policy, and what they hold. Numbers are those of the
// behaviours in the design's list of what PyTorch's own tests assert.

namespace reprise::testing {
namespace {

using torch::autograd::grad;

constexpr int64_t kMiB = 1 << 20;

CheckpointOptions under(const Policy& policy) {
  return CheckpointOptions().replay(Replay::operators).policy(policy.audit(false));
}

/// Keeps the results of the first `calls` calls of an operator.
Policy keep_first(const std::string& op, int64_t calls) {
  return Policy::where(
      [=](const ValueView& value) { return value.op == op && value.invocation < calls; },
      Action::keep, "first " + std::to_string(calls) + " of " + op);
}

// 48
TEST(Selective, ActivationBytesAndOperatorsRunAgainAreAsThePolicySays) {
  const Tensor x = leaf({512, 512}), y = leaf({512, 512}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) { return at::mm(a.cos(), b).sin().sum(); };
  const Meter meter;
  const auto expect = [&](const CheckpointOptions& options, int64_t bytes, int64_t again) {
    const int64_t base = meter.live();
    const ReplayCounter counter;
    const Tensor loss = checkpoint(options, f, x, y);
    EXPECT_EQ(meter.live() - base - 4, bytes);  // without the sum
    EXPECT_TRUE(same_bits(grad({f(x, y)}, {x, y}), grad({loss}, {x, y})));
    EXPECT_EQ(counter.stats().operators, again);
  };
  expect(CheckpointOptions().enabled(false), 2 * kMiB, 0);
  expect(CheckpointOptions().preserve_rng(false), 0, 3);  // cos, mm, and sin, which ends it
  expect(under(Policy::recompute_all()), 0, 2);
  expect(under(Policy::keep_ops({"aten::mm"})), kMiB, 1);  // cos
  expect(under(keep_first("aten::mm", 1)), kMiB, 1);
  expect(under(keep_first("aten::mm", 0)), 0, 2);
  expect(under(Policy::keep_ops({"aten::cos"})), kMiB, 1);  // mm
  // A value that no backward formula needs is not kept for being of a kind that is.
  expect(under(Policy::keep_ops({"aten::cos", "aten::mm"})), 2 * kMiB, 0);
}

// 48, doc of Python: there, to keep every result holds more than no region at all.
TEST(Selective, KeepingEverythingHoldsNoMoreThanPlainAndReplaysNothing) {
  const Tensor x = leaf({1 << 14});
  const auto f = [](const Tensor& t) { return t.sin().add(1).exp().mul(2).tanh().sum(); };
  const Meter meter;
  const auto held = [&](const CheckpointOptions& options) {
    const int64_t base = meter.live();
    const ReplayCounter counter;
    const Tensor loss = checkpoint(options, f, x);
    const int64_t bytes = meter.live() - base;
    (void)grad({loss}, {x});
    EXPECT_EQ(counter.stats().operators, 0);
    return bytes;
  };
  EXPECT_EQ(held(CheckpointOptions().enabled(false)), held(under(Policy::keep_all())));
}

// 49
TEST(Selective, AKeptViewOfIntegersIsNoError) {
  const Tensor x = leaf({8, 8}), index = at::arange(16).remainder(8);
  const auto f = [&](const Tensor& t) {
    const Tensor rows = (index + 0).view({2, 8}).select(0, 1);
    return t.index_select(0, rows).exp().sin();
  };
  for (const Policy& policy : {Policy::keep_ops({"aten::view", "aten::select", "aten::add"}),
                               Policy::recompute_all(), Policy::keep_all()}) {
    EXPECT_TRUE(
        same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }),
                  loss_and_gradients({x}, [&] { return checkpoint(under(policy), f, x).sum(); })));
  }
}

// 52: a predicate is asked in the forward pass only, about each value once.
TEST(Selective, APredicateWithStateIsAskedInTheForwardPassOnly) {
  const Tensor x = leaf({1 << 10});
  const auto f = [](const Tensor& t) { return t.sin().exp().sin().exp().sin().exp().sum(); };
  std::atomic<int> asked{0};
  const Policy every_second = Policy::where(
      [&](const ValueView& value) {
        return value.op == "aten::exp" || value.op == "aten::sin" ? asked++ % 2 == 0 : false;
      },
      Action::keep, "every second");
  const Tensor plain = grad({f(x)}, {x})[0];
  for (int step = 0; step < 2; ++step) {
    asked = 0;
    const Tensor loss = checkpoint(under(every_second), f, x);
    const int in_forward = asked;
    EXPECT_GT(in_forward, 0);
    EXPECT_TRUE(bit_equal(plain, grad({loss}, {x}, {}, /*retain_graph=*/true)[0]));
    EXPECT_TRUE(bit_equal(plain, grad({loss}, {x})[0]));
    EXPECT_EQ(asked, in_forward);
  }
}

// 53
TEST(Selective, AKeptValueIsFreedWithTheGraphAndByABackwardThatDoesNotRetainIt) {
  const Tensor x = leaf({1 << 14});
  const auto f = [](const Tensor& t) { return t.sin().exp().tanh(); };
  const auto options = under(Policy::keep_ops({"aten::sin", "aten::exp"}));
  const Meter meter;
  const int64_t base = meter.live();
  {
    const Tensor y = checkpoint(options, f, x);
    EXPECT_GT(meter.live(), base + y.numel() * 4);
  }
  EXPECT_EQ(meter.live(), base);
  Tensor y = checkpoint(options, f, x);
  const int64_t bytes = y.numel() * 4;
  (void)grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
  EXPECT_GT(meter.live(), base + bytes);  // as plain: the next backward needs it
  (void)grad({y.sum()}, {x});
  EXPECT_EQ(meter.live(), base + bytes);
}

// 54: where plain raises, so does a region that keeps the value, and one that drops it.
TEST(Selective, AKeptValueThatIsChangedInPlaceIsAnError) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) {
    const Tensor y = t.sin();
    const Tensor z = y.cos();  // saves y
    return std::make_pair(y, z);
  };
  for (const bool inside : {true, false}) {
    for (const Policy& policy : {Policy::keep_ops({"aten::sin"}), Policy::recompute_all()}) {
      const auto g = [&](const Tensor& t) {
        auto result = f(t);
        if (inside) result.first.mul_(2);
        return result;
      };
      auto [y, z] = checkpoint(under(policy), g, x);
      if (!inside) y.mul_(2);
      const std::string message = message_of_any([&] { z.sum().backward(); });
      EXPECT_NE(message.find("place"), std::string::npos) << message;
    }
  }
}

// 54: where plain does not mind, the gradient is plain's, or there is an error, but no other
// gradient.
TEST(Selective, AKeptValueThatNoFormulaNeedsMayChangeButNeverUnnoticed) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) {
    const Tensor y = t.sin();
    return std::make_pair(y, (y * 2).exp());
  };
  const Tensor plain = grad({f(x).second.sum()}, {x})[0];
  for (const Policy& policy : {Policy::keep_ops({"aten::sin"}), Policy::recompute_all()}) {
    auto [y, z] = checkpoint(under(policy), f, x);
    y.mul_(3);
    try {
      EXPECT_TRUE(bit_equal(plain, grad({z.sum()}, {x})[0]));
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("in place"), std::string::npos) << error.what();
    }
  }
}

// 54: a write inside, after the value was kept; Python allows it on request only.
TEST(Selective, AKeptValueThatIsOverwrittenInsideServesAsItWas) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) {
    const Tensor y = t.sin();
    const Tensor z = y + 1;
    y.mul_(t.exp());
    return (z.exp() * y).sum();
  };
  for (const Policy& policy :
       {Policy::keep_ops({"aten::sin"}), Policy::keep_ops({"aten::add", "aten::mul_"}),
        Policy::recompute_all(), Policy::keep_all()}) {
    EXPECT_TRUE(
        same_bits(loss_and_gradients({x}, [&] { return f(x); }),
                  loss_and_gradients({x}, [&] { return checkpoint(under(policy), f, x); })));
  }
}

// 55
TEST(Selective, AnOperatorWithTwoResultsIsKeptOrReplayedWhole) {
  const Tensor x = leaf({8, 8});
  const auto f = [](const Tensor& t) {
    const auto [variance, mean] = at::var_mean(t.sin(), 1);
    return (variance.exp() * mean.cos()).sin().sum();
  };
  for (const Policy& policy :
       {Policy::keep_ops({"aten::var_mean"}), Policy::recompute_ops({"aten::var_mean"}),
        Policy::where([](const ValueView& v) { return v.op == "aten::var_mean" && v.output == 0; },
                      Action::keep, "variance only"),
        Policy::recompute_all()}) {
    EXPECT_TRUE(
        same_bits(loss_and_gradients({x}, [&] { return f(x); }),
                  loss_and_gradients({x}, [&] { return checkpoint(under(policy), f, x); })));
  }
}

// 57: in Python, an error.
TEST(Selective, ASecondBackwardThroughARetainedGraphEqualsPlain) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) {
    return at::dropout(a.mm(b).sin().mm(b).exp(), 0.3, true).tanh().sum();
  };
  for (const Policy& policy : {Policy::keep_ops({"aten::mm"}), Policy::keep_matmuls()}) {
    torch::manual_seed(7);
    const Tensor plain = f(x, w);
    torch::manual_seed(7);
    const Tensor ours = checkpoint(under(policy), f, x, w);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(same_bits(grad({plain}, {x, w}, {}, /*retain_graph=*/i < 2),
                            grad({ours}, {x, w}, {}, i < 2)));
    }
  }
}

// Nested regions of different plans; in Python, not supported (P#136433).
TEST(Selective, RegionsOfDifferentPoliciesNestInEachOther) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  const auto part = [&](const Tensor& t) { return t.mm(w).sin().exp().mm(w).tanh(); };
  const std::vector<Policy> policies{Policy::keep_ops({"aten::mm"}),
                                     Policy::keep_ops({"aten::exp"}), Policy::recompute_all()};
  const auto plain = loss_and_gradients({x, w}, [&] { return part(part(part(x))).sum(); });
  for (const Policy& outer : policies) {
    for (const Policy& inner : policies) {
      const auto nest = [&](const Tensor& t) {
        return part(checkpoint(under(inner), part, part(t)));
      };
      EXPECT_TRUE(same_bits(plain, loss_and_gradients({x, w}, [&] {
                              return checkpoint(under(outer), nest, x).sum();
                            })));
    }
  }
}

class Memory : public EveryWay {};

// 12, 21
TEST_P(Memory, PeakIsLowerAndFallsStepByStepInBackwardWithRetainGraphToo) {
  constexpr int64_t kBytes = 4 << 16;
  const Tensor x = leaf({1 << 16});
  const auto f = [](const Tensor& t) { return t.sin().exp().tanh().cos().sigmoid(); };
  const Meter meter;
  const auto run = [&](const CheckpointOptions& options, bool retain) {
    const PeakScope peak;
    std::vector<int64_t> live;
    Tensor y = x;
    for (int i = 0; i < 8; ++i) {
      y = checkpoint(options, f, y);
      y.register_hook([&](const Tensor&) { live.push_back(meter.live()); });
    }
    const Tensor loss = y.sum();
    y = Tensor();
    loss.backward({}, retain);
    Tensor(x).mutable_grad() = Tensor();
    for (std::size_t i = 2; i < live.size(); ++i) {
      EXPECT_LE(live[i], live[i - 1] + (retain ? 0 : -kBytes) + 4096) << i;
    }
    return peak.peak_above_base();
  };
  const int64_t plain = run(CheckpointOptions().enabled(false), false);
  for (const bool retain : {false, true}) EXPECT_LT(run(options(), retain), plain / 2);
}

INSTANTIATE_IN_EVERY_WAY(Memory);

}  // namespace
}  // namespace reprise::testing
