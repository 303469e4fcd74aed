// SPDX-License-Identifier: BSD-3-Clause
#include "tests/parity.h"

#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

// Gradients in every way of going backward. Numbers are those of the behaviours in the design's
// list of what PyTorch's own tests assert.

namespace reprise::testing {
namespace {

using torch::autograd::grad;

Tensor wave(const Tensor& x) { return x.sin().exp().mul(x).tanh(); }

class Gradients : public EveryWay {};

// 2, 34
TEST_P(Gradients, ThroughGradEqualThoseThroughBackwardAndPlain) {
  const Tensor x = leaf({8}), w = leaf({8}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) { return wave(a) * wave(b); };
  const auto plain = loss_and_gradients({x, w}, [&] { return f(x, w).sum(); });
  const auto run = [&] { return checkpoint(options(), f, x, w).sum(); };
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({x, w}, run)));
  EXPECT_TRUE(same_bits({plain[1], plain[2]}, grad({run()}, {x, w})));
}

// 2
TEST_P(Gradients, OfThirdOrderAndTheirBackwardEqualPlain) {
  const Tensor x = leaf({8}), w = leaf({8}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) { return (wave(a) * b.cos()).exp(); };
  const auto derive = [&](Tensor value) {
    for (int order = 0; order < 2; ++order) {
      const auto both = grad({value.sum()}, {x, w}, {}, true, /*create_graph=*/true);
      value = both[0].sin() + both[1];
    }
    return value.sum();
  };
  EXPECT_TRUE(same_bits(
      loss_and_gradients({x, w}, [&] { return derive(f(x, w)); }),
      loss_and_gradients({x, w}, [&] { return derive(checkpoint(options(), f, x, w)); })));
}

// 5
TEST_P(Gradients, WithDropoutBeforeInsideAndAfterEqualPlainFiveTimes) {
  const Tensor x = leaf({16, 16});
  const auto f = [](const Tensor& t) { return at::dropout(t.exp(), 0.4, true).sin(); };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto model = [&](const CheckpointOptions& options) {
      return [&x, &f, options] {
        const Tensor first = at::dropout(x, 0.2, true);
        return at::dropout(checkpoint(options, f, checkpoint(options, f, first)), 0.2, true).sum();
      };
    };
    EXPECT_TRUE(same_bits(loss_and_gradients({x}, model(CheckpointOptions().enabled(false)), seed),
                          loss_and_gradients({x}, model(options()), seed)));
  }
}

// 9
TEST_P(Gradients, ThreeRetainedBackwardsAccumulateAndTheFourthRaisesAutogradsError) {
  const Tensor x = leaf({8}), p = leaf({8});
  const Tensor ours = checkpoint(options(), wave, x).sum();
  const Tensor plain = wave(p).sum();
  for (int i = 0; i < 3; ++i) {
    ours.backward({}, /*retain_graph=*/i < 2);
    plain.backward({}, i < 2);
    EXPECT_TRUE(bit_equal(p.grad(), x.grad())) << i;
  }
  const std::string message = message_of_any([&] { ours.backward(); });
  EXPECT_NE(message.find("Trying to backward through the graph a second time"), std::string::npos)
      << message;
}

// 11
TEST_P(Gradients, PartialOnesLeaveTheOtherOutputsAndInputsUsable) {
  const Tensor x = leaf({8}), w = leaf({8}, 2), q = leaf({8}, 3).detach();
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return std::make_tuple(wave(a), wave(b) * c.sin(), c.exp());
  };
  const auto [a, b, c] = checkpoint(options(), f, x, w, q);
  const auto [pa, pb, pc] = f(x, w, q);
  EXPECT_FALSE(c.requires_grad());
  EXPECT_TRUE(bit_equal(pc, c));
  EXPECT_TRUE(same_bits(grad({pb.sum()}, {w}, {}, true), grad({b.sum()}, {w}, {}, true)));
  EXPECT_TRUE(same_bits(grad({pa.sum()}, {x}, {}, true), grad({a.sum()}, {x}, {}, true)));
  EXPECT_FALSE(grad({a.sum()}, {w}, {}, true, false, /*allow_unused=*/true)[0].defined());
  EXPECT_TRUE(same_bits(grad({(pa * pb * pc).sum()}, {x, w}), grad({(a * b * c).sum()}, {x, w})));
}

// 9, 11
TEST_P(Gradients, OfSeveralLossesAccumulateAsInPlain) {
  const Tensor w = leaf({8, 8});
  const auto layer = [&](const Tensor& t) { return wave(t.matmul(w)); };
  const auto train = [&](const CheckpointOptions& options) {
    Tensor(w).mutable_grad() = Tensor();
    for (uint64_t i = 1; i < 4; ++i) {
      const Tensor first = checkpoint(options, layer, leaf({4, 8}, i));
      const Tensor second = checkpoint(options, layer, first);
      first.sum().backward({}, /*retain_graph=*/true);
      second.square().sum().backward();
    }
    return w.grad().clone();
  };
  EXPECT_TRUE(bit_equal(train(CheckpointOptions().enabled(false)), train(options())));
}

// 19
TEST_P(Gradients, UnderAutocastEqualPlain) {
  const Tensor x = leaf({4, 8}), w = leaf({8, 8}, 2), b = leaf({8}, 3);
  const auto f = [&](const Tensor& t) {
    return at::linear(at::linear(t, w, b).sin(), w, b).to(at::kFloat).exp();
  };
  for (const bool on : {true, false}) {
    const auto run = [&](const CheckpointOptions& options) {
      return loss_and_gradients({x, w, b}, [&] {
        const Autocast autocast(at::kCPU, at::kBFloat16, on);
        return checkpoint(options, f, x).sum();
      });
    };
    EXPECT_TRUE(same_bits(run(CheckpointOptions().enabled(false)), run(options())));
  }
}

// A custom function that reads its saved tensors twice.
struct ReadsTwice : torch::autograd::Function<ReadsTwice> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x, x.exp()});
    return x.exp() * x;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    const auto once = context->get_saved_variables();
    const auto again = context->get_saved_variables();
    EXPECT_TRUE(same_bits(once, again));
    return {grads[0] * (once[1] + again[0] * again[1])};
  }
};

// 22: in Python, an error.
TEST_P(Gradients, OfAFunctionThatReadsItsSavedTensorsTwiceEqualPlain) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) { return ReadsTwice::apply(t.sin()).exp().mul(t); };
  EXPECT_TRUE(
      same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }),
                loss_and_gradients({x}, [&] { return checkpoint(options(), f, x).sum(); })));
}

// 30
TEST_P(Gradients, ASavedTensorReadOutsideOfBackwardIsReplayedEachTime) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) { return t.sin().exp().cos(); };
  const Tensor y = checkpoint(options(), f, x);
  const auto node = y.grad_fn();
  auto* cos = dynamic_cast<torch::autograd::generated::CosBackward0*>(node.get());
  ASSERT_NE(cos, nullptr);
  const ReplayCounter counter;
  for (int read = 1; read < 3; ++read) {
    EXPECT_TRUE(bit_equal(x.detach().sin().exp(), cos->self_.unpack(node).detach()));
    EXPECT_EQ(counter.stats().replays, read);
  }
  EXPECT_TRUE(same_bits(grad({f(x).sum()}, {x}), grad({y.sum()}, {x})));
  EXPECT_THROW((void)cos->self_.unpack(node), c10::Error);
}

// 32
TEST_P(Gradients, WithNoGradInsideEqualPlainThreeTimes) {
  const Tensor x = leaf({8}), w = leaf({8}, 2);
  const auto f = [&](const Tensor& t) {
    Tensor scale;
    {
      const torch::NoGradGuard no_grad;
      scale = wave(t * w);
    }
    return (t * scale).exp() * w;
  };
  const auto plain = loss_and_gradients({x, w}, [&] { return f(x).sum(); });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(
        plain, loss_and_gradients({x, w}, [&] { return checkpoint(options(), f, x).sum(); })));
  }
}

// 33
TEST_P(Gradients, ASavedTensorFromOutsideComesBackAsTheSameMemory) {
  const Tensor x = leaf({8}), y = leaf({8}, 2).detach();
  const Tensor z = checkpoint(
      options(), [](const Tensor& a, const Tensor& b) { return a * b; }, x, y);
  const auto node = z.grad_fn();
  auto* mul = dynamic_cast<torch::autograd::generated::MulBackward0*>(node.get());
  ASSERT_NE(mul, nullptr);
  EXPECT_TRUE(mul->other_.unpack(node).is_alias_of(y));
}

// 36
TEST_P(Gradients, AParameterUsedInsideAndOutsideCallsItsHookOnce) {
  const Tensor x = leaf({4, 4}), w = leaf({4, 4}, 2);
  const auto f = [&](const Tensor& t) { return wave(t.matmul(w)).matmul(w); };
  int calls = 0;
  const auto plain = loss_and_gradients({x, w}, [&] { return (f(x).matmul(w) * w).sum(); });
  Tensor(w).register_hook([&](const Tensor&) { ++calls; });
  const auto ours =
      loss_and_gradients({x, w}, [&] { return (checkpoint(options(), f, x).matmul(w) * w).sum(); });
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(same_bits(plain, ours));
}

// 44: the backward pass runs on the graph of the forward pass, not on one that a replay made.
TEST_P(Gradients, AHookOnANodeOfTheOriginalGraphFiresOnceInEachBackward) {
  const Tensor x = leaf({8});
  const Tensor y = checkpoint(
      options(), [](const Tensor& t) { return t.exp().sin().cos(); }, x);
  int calls = 0;
  const auto inner = y.grad_fn()->next_edge(0).function;
  EXPECT_EQ(inner->name(), "SinBackward0");
  using torch::autograd::variable_list;
  inner->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [&](const variable_list& outputs, const variable_list&) { return ++calls, outputs; }));
  y.sum().backward({}, /*retain_graph=*/true);
  EXPECT_EQ(calls, 1);
  y.sum().backward();
  EXPECT_EQ(calls, 2);
}

// 45
TEST_P(Gradients, OfABackwardThatAHookStartsInsideBackwardEqualPlain) {
  const Tensor x = leaf({8});
  const auto run = [&](const CheckpointOptions& options) {
    return loss_and_gradients({x}, [&] {
      const Tensor y = checkpoint(options, wave, x);
      const Tensor z = checkpoint(options, wave, y);
      const Tensor inner = (y * z.detach()).sum();
      z.register_hook([inner](const Tensor&) { inner.backward({}, /*retain_graph=*/true); });
      return checkpoint(options, wave, z).sum();
    });
  };
  EXPECT_TRUE(same_bits(run(CheckpointOptions().enabled(false)), run(options())));
}

// 47
TEST_P(Gradients, OnlyWhatIsNeededRunsAgain) {
  const Tensor x = leaf({8});
  int entered = 0;
  const ReplayCounter counter;
  checkpoint(
      options(), [&](const Tensor& t) { return ++entered, t.clone(); }, x)
      .sum()
      .backward();
  EXPECT_EQ(entered, 1);  // a copy saves nothing
  EXPECT_EQ(counter.stats().replays, 0);
  entered = 0;
  checkpoint(
      options(), [&](const Tensor& t) { return ++entered, t.sin(); }, x)
      .sum()
      .backward();
  EXPECT_EQ(entered, by_function() ? 2 : 1);
  EXPECT_EQ(counter.stats().operators, by_function() ? 1 : 0);
}

// 47: the sine saves its argument before it is computed, so its kernel need not run again.
TEST(EarlyStopping, AKernelWhoseResultIsNotNeededDoesNotRun) {
  const Tensor x = leaf({1 << 16});
  const Meter meter;
  const auto allocated = [&](Way way) {
    const Tensor y = checkpoint(
        options_of(way), [](const Tensor& t) { return t.sin(); }, x);
    const Tensor loss = y.sum();
    const int64_t before = meter.stats().allocated_total;
    (void)grad({loss}, {x});
    return meter.stats().allocated_total - before;
  };
  EXPECT_EQ(allocated(Way::functions) + x.numel() * 4, allocated(Way::whole_functions));
}

INSTANTIATE_IN_EVERY_WAY(Gradients);

}  // namespace
}  // namespace reprise::testing
