// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include "tests/parity.h"
#include "tests/warnings.h"

// Variant::reentrant: what it does, and that each of its limits is an error with a hint.

namespace reprise::testing {
namespace {

using torch::autograd::grad;

CheckpointOptions reentrant() { return CheckpointOptions().variant(Variant::reentrant); }

Tensor chain(const Tensor& x) { return x.sin().exp(); }

Tensor nested(const CheckpointOptions& options, const Tensor& x, int depth) {
  if (depth == 0) return x.sin();
  return checkpoint(
      options, [options, depth](const Tensor& a) { return nested(options, a * 1.01, depth - 1); },
      x);
}

void expect_plain(const std::vector<Tensor>& leaves,
                  const std::function<Tensor(const CheckpointOptions&)>& model) {
  const auto plain =
      loss_and_gradients(leaves, [&] { return model(CheckpointOptions().enabled(false)).sum(); });
  EXPECT_TRUE(
      same_bits(plain, loss_and_gradients(leaves, [&] { return model(reentrant()).sum(); })));
}

void expect_message(const std::string& message, const std::string& words) {
  EXPECT_NE(message.find(words), std::string::npos) << message;
  EXPECT_NE(message.find("hint: "), std::string::npos) << message;
}

TEST(Reentrant, GivesTheGradientsOfArgumentsAndOfWhatIsCaptured) {
  const Tensor x = leaf({3, 4}), w = leaf({4, 4}, 2), frozen = leaf({4, 4}, 3).detach();
  expect_plain({x, w}, [&](const CheckpointOptions& options) {
    const auto part = [&](const Tensor& a, const Tensor& b) {
      return a.matmul(w).tanh() + a.mm(b);
    };
    return checkpoint(options, part, checkpoint(options, part, x, frozen), frozen);
  });
}

TEST(Reentrant, RunsTheFunctionOnceInEachPassAndWithoutAGraphInTheFirst) {
  std::vector<bool> with_graph, recomputing;
  const Tensor x = leaf({4});
  const auto part = [&](const Tensor& a) {
    const Tensor y = a.sin();
    with_graph.push_back(y.requires_grad());
    recomputing.push_back(is_recomputing());
    return y;
  };
  const Tensor y = checkpoint(reentrant(), part, x);
  EXPECT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_EQ(with_graph, (std::vector<bool>{false, true}));
  EXPECT_EQ(recomputing, (std::vector<bool>{false, true}));
}

TEST(Reentrant, KeepsNothingButItsArguments) {
  const Meter meter;
  const Tensor x = leaf({1 << 16});
  const int64_t base = meter.live();
  Tensor y = checkpoint(
      reentrant(), [](const Tensor& a) { return a.sin().exp().cos().exp(); }, x);
  EXPECT_LT(meter.live() - base, int64_t{5} << 16);  // the result and random states
  y.sum().backward();
  y = Tensor();
  EXPECT_EQ(meter.live() - base, int64_t{4} << 16);  // the gradient
}

TEST(Reentrant, ArgumentsAndResultsMayBeNested) {
  const Tensor a = leaf({3}), b = leaf({3}, 2);
  expect_plain({a, b}, [&](const CheckpointOptions& options) {
    const auto part = [](const std::vector<Tensor>& in, double scale) {
      return std::make_tuple(in[0] * in[1] * scale, std::vector<Tensor>{in[0].sin(), Tensor()},
                             in[1].argmax(), 7);
    };
    const auto [product, rest, index, number] =
        checkpoint(options, part, std::vector<Tensor>{a, b}, 0.5);
    EXPECT_FALSE(index.requires_grad());
    EXPECT_FALSE(rest[1].defined());
    EXPECT_EQ(number, 7);
    return product + rest[0].exp();
  });
}

TEST(Reentrant, MayReturnAnArgumentOrAViewOfOne) {
  const Tensor x = leaf({2, 3});
  for (const auto& part : std::vector<std::function<Tensor(const Tensor&)>>{
           [](const Tensor& a) { return a; }, [](const Tensor& a) { return a.t(); },
           [](const Tensor& a) { return a.select(0, 1); }}) {
    expect_plain({x}, [&](const CheckpointOptions& options) {
      return checkpoint(options, part, x.sin()).exp();
    });
  }
}

TEST(Reentrant, MayEndInAnInPlaceOperatorOnAView) {
  const Tensor x = leaf({2, 3});
  for (const bool whole : {false, true}) {
    expect_plain({x}, [&](const CheckpointOptions& options) {
      const auto part = [whole](const Tensor& a) {
        const Tensor y = a.clone();
        const Tensor view = y.select(0, 1).mul_(3);
        return whole ? y : view;
      };
      return checkpoint(options, part, x.sin()).exp();
    });
  }
}

TEST(Reentrant, WhatOthersHaveTooIsReturnedAsACopyOfTheTensorNotTurnedIntoAResult) {
  const Tensor x = leaf({3}), w = leaf({3}, 2), buffer = at::ones({3});
  expect_plain({x, w}, [&](const CheckpointOptions& options) {
    const auto part = [w, buffer](const Tensor& a) {
      const Tensor y = a.exp();
      return std::vector<Tensor>{y, w, buffer, y, y.view({3, 1})};
    };
    const std::vector<Tensor> results = checkpoint(options, part, x.sin());
    EXPECT_TRUE(w.is_leaf());
    EXPECT_FALSE(buffer.requires_grad());
    return results[0] * results[1] * results[2] * results[3] * results[4].view({3});
  });
}

TEST(Reentrant, CapturedParametersGetTheirGradientsAndHooksOnce) {
  const Tensor x = leaf({3, 3}), w = leaf({3, 3}, 2);
  int hooks = 0;
  w.register_hook([&](const Tensor& gradient) { return ++hooks, gradient * 2; });
  expect_plain({x, w}, [&](const CheckpointOptions& options) {
    return checkpoint(
        options, [w](const Tensor& a) { return a.mm(w).mm(w); }, x.cos());
  });
  EXPECT_EQ(hooks, 2);  // plain's and ours
}

TEST(Reentrant, GradientsArriveAsTheyWereNotLaidOutAsTheArgument) {
  const Tensor x = leaf({37, 129}), b = leaf({129}, 2), k = leaf({129, 37}, 5).detach();
  expect_plain({x, b}, [&](const CheckpointOptions& options) {
    return checkpoint(
        options, [k](const Tensor& a) { return a.t() * k; }, x + b);
  });
}

TEST(Reentrant, AHookThatTheFunctionPutsOnItsArgumentIsAppliedOnce) {
  const Tensor x = leaf({3});
  const auto part = [](const Tensor& a) {
    a.register_hook([](const Tensor& gradient) { return gradient * 2; });
    return a.sin();
  };
  expect_plain(
      {x}, [&](const CheckpointOptions& options) { return checkpoint(options, part, x * 1.5); });
}

TEST(Reentrant, LayersOfASequentialMayBeReentrant) {
  torch::manual_seed(3);
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Tanh(), torch::nn::Linear(4, 4));
  const Tensor x = leaf({2, 4});
  std::vector<Tensor> leaves = model->parameters();
  leaves.push_back(x);
  const auto loss = [&] { return model->forward(x.sin()).sum(); };
  const auto plain = loss_and_gradients(leaves, loss);
  apply_checkpointing(*model, LayerSelection::all(), reentrant());
  EXPECT_TRUE(same_bits(plain, loss_and_gradients(leaves, loss)));
}

TEST(Reentrant, DropoutAndGeneratorsFallAsTheyDid) {
  const Tensor x = leaf({32, 32});
  const auto run = [&](const CheckpointOptions& options) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    const auto part = [](const Tensor& a, at::Generator own) {
      return at::dropout(a, 0.5, true) * at::rand(a.sizes(), own);
    };
    const Tensor y = checkpoint(options, part, x, generator);
    return y * at::rand_like(y);
  };
  expect_plain({x}, run);
  torch::manual_seed(1);
  run(reentrant()).sum().backward();
  const Tensor after = at::rand({4});
  torch::manual_seed(1);
  run(CheckpointOptions().enabled(false)).sum().backward();
  EXPECT_TRUE(bit_equal(after, at::rand({4})));
}

TEST(Reentrant, BatchNormStatisticsChangeOnceInAStep) {
  const auto run = [](const CheckpointOptions& options) {
    torch::manual_seed(3);
    torch::nn::BatchNorm1d norm(4);
    const Tensor x = leaf({8, 4});
    checkpoint(options, norm, x).square().sum().backward();
    std::vector<Tensor> all = norm->buffers();
    all.push_back(x.grad());
    all.push_back(norm->weight.grad());
    return all;
  };
  EXPECT_TRUE(same_bits(run(CheckpointOptions().enabled(false)), run(reentrant())));
}

TEST(Reentrant, NestsInItselfAndInRegionsOfTheOtherKinds) {
  const Tensor x = leaf({4, 4}), w = leaf({4, 4}, 2);
  const auto inner = [w](const Tensor& a) { return at::dropout(a.matmul(w), 0.3, true).tanh(); };
  for (const CheckpointOptions& other :
       {reentrant(), options_of(Way::functions), options_of(Way::operators)}) {
    expect_plain({x, w}, [&](const CheckpointOptions& options) {
      const CheckpointOptions outer = options.enabled() ? other : options;
      const Tensor y = checkpoint(
          outer, [=](const Tensor& a) { return checkpoint(options, inner, a.sin()).exp(); }, x);
      return checkpoint(
          options, [=](const Tensor& a) { return checkpoint(outer, inner, a.sin()).exp(); }, y);
    });
  }
}

TEST(Reentrant, TwoThousandInARowAndSixtyFourInsideEachOther) {
  const Tensor x = leaf({2});
  expect_plain({x}, [&](const CheckpointOptions& options) {
    Tensor y = x;
    for (int i = 0; i < 2000; ++i) {
      y = checkpoint(
          options, [](const Tensor& a) { return a.sin() + a; }, y);
    }
    return y;
  });
  expect_plain({x}, [&](const CheckpointOptions& options) { return nested(options, x, 64); });
}

TEST(Reentrant, BackwardMayBeRunTwiceAndAccumulates) {
  const Tensor x = leaf({4});
  const Tensor y = checkpoint(reentrant(), chain, x).sum();
  y.backward({}, /*retain_graph=*/true);
  const Tensor once = x.grad().clone();
  y.backward();
  EXPECT_TRUE(bit_equal(x.grad(), once + once));
  EXPECT_THROW(y.backward(), c10::Error);
}

TEST(Reentrant, AutocastHoldsInTheReplay) {
  const Tensor x = leaf({4, 4}), w = leaf({4, 4}, 2);
  const auto run = [&](const CheckpointOptions& options) {
    Tensor y;
    {
      const Autocast autocast(at::kCPU);
      y = checkpoint(
          options, [w](const Tensor& a) { return a.matmul(w); }, x);
    }
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    return y.to(at::kFloat);
  };
  expect_plain({x, w}, run);
}

TEST(Reentrant, WithGradientsOffItIsAPlainCall) {
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(checkpoint(reentrant(), chain, at::ones({2})).requires_grad());
}

TEST(Reentrant, ContextsStandAroundBothRuns) {
  std::string log;
  const auto make = [&log](char c) {
    return [&log, c] { return std::shared_ptr<void>(nullptr, [&log, c](void*) { log += c; }); };
  };
  const Tensor x = leaf({2});
  checkpoint(reentrant().contexts(make('f'), make('r')), chain, x).sum().backward();
  EXPECT_EQ(log, "fr");
}

TEST(Reentrant, TheReportCountsItButNotItsBytes) {
  const RegionReport report;
  const Tensor x = leaf({2});
  checkpoint(reentrant().name("one node").preserve_rng(false), chain, x).sum().backward();
  const std::vector<RegionStats> regions = report.regions();
  ASSERT_EQ(regions.size(), 1U);
  EXPECT_EQ(regions[0].runs, 1);
  EXPECT_EQ(regions[0].replays, 1);
  EXPECT_FALSE(regions[0].dropped_known);
  EXPECT_FALSE(regions[0].preserves_rng);
  EXPECT_NE(report.str().find("unknown"), std::string::npos);
  EXPECT_EQ(report.str().find("keeps as much"), std::string::npos);
}

// Limits.

TEST(ReentrantLimits, GradIsAnErrorAndTheNextBackwardWorks) {
  const Tensor x = leaf({4});
  const auto run = [&] { return checkpoint(reentrant().name("part"), chain, x).sum(); };
  const std::string message = message_of<UsageError>([&] { grad({run()}, {x}); });
  expect_message(message, "'part'");
  expect_message(message, "backward() only");
  EXPECT_THROW(run().backward({}, false, false, at::TensorList({x})), UsageError);
  run().backward();
  EXPECT_TRUE(bit_equal(x.grad(), grad({chain(x).sum()}, {x})[0]));
}

TEST(ReentrantLimits, SecondDerivativesAreAnError) {
  const Tensor x = leaf({4});
  const Tensor y = checkpoint(reentrant(), chain, x).sum();
  expect_message(message_of<UsageError>([&] { y.backward({}, true, /*create_graph=*/true); }),
                 "second derivatives");
}

TEST(ReentrantLimits, AnArgumentThatRequiresAGradientIsNeeded) {
  const Tensor w = leaf({2, 2}), x = at::ones({2, 2});
  const auto part = [w](const Tensor& a) { return a.matmul(w); };
  expect_message(message_of<UsageError>([&] { checkpoint(reentrant(), part, x); }),
                 "requires a gradient");
  EXPECT_EQ(checkpoint(part, x).requires_grad(), true);
}

TEST(ReentrantLimits, AReplayWhoseResultsNeedNoGradientIsAnErrorTimeAfterTime) {
  const Tensor x = leaf({2});
  const auto part = [](const Tensor& a) {
    const torch::NoGradGuard no_grad;
    return a.sin();
  };
  for (int i = 0; i < 3; ++i) {
    const Tensor y = checkpoint(reentrant(), part, x);
    expect_message(message_of<UsageError>([&] { y.sum().backward(); }),
                   "no result that a gradient comes in for");
  }
}

TEST(ReentrantLimits, AnArgumentChangedInPlaceIsAnErrorInTheForwardPassOrAutogradsLater) {
  const Tensor x = leaf({2});
  expect_message(message_of<UsageError>([&] {
                   checkpoint(
                       reentrant(), [](Tensor a) { return a.mul_(2).sin(); }, x.sin());
                 }),
                 "changes its argument tensor 0 in place");
  Tensor h = x.sin();
  const Tensor y = checkpoint(reentrant(), chain, h);
  h.mul_(2);
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

TEST(ReentrantLimits, AResultThatSharesItsMemoryRefusesToBeChangedInPlace) {
  const Tensor x = leaf({2, 2});
  for (const auto& part : std::vector<std::function<std::vector<Tensor>(const Tensor&)>>{
           [](const Tensor& a) { return std::vector<Tensor>{a}; },
           [](const Tensor& a) { return std::vector<Tensor>{a.t()}; },
           [](const Tensor& a) {
             const Tensor y = a.exp();
             return std::vector<Tensor>{y, y.t()};
           },
           [](const Tensor& a) {
             const Tensor y = a.exp();
             return std::vector<Tensor>{y, y.detach()};
           }}) {
    for (Tensor result : checkpoint(reentrant(), part, x.sin())) {
      EXPECT_THROW(result.mul_(2), c10::Error);
    }
  }
}

TEST(ReentrantLimits, WhatWasComputedMustBePassedAsAnArgument) {
  const Tensor x = leaf({2}), h = x.sin();
  for (int i = 0; i < 2; ++i) {
    expect_message(message_of<UsageError>([&] {
                     checkpoint(
                         reentrant(), [h](const Tensor& a) { return a * h.exp(); }, x);
                   }),
                   "none of its arguments");
  }
  expect_plain({x}, [](const CheckpointOptions& options) {
    const Tensor x = leaf({2}), h = x.sin();
    const auto part = [](const Tensor& a, const Tensor& b) { return a * b.exp(); };
    return checkpoint(options, part, x, h) * h;
  });
}

// In the replay, a variable that was captured by reference is a result. LibTorch would wait for
// itself for ever.
TEST(ReentrantLimits, AFunctionThatUsesItsOwnResultIsAnError) {
  const Tensor x = leaf({2});
  Tensor h = at::ones({2});
  h = checkpoint(
      reentrant(), [&h](const Tensor& a) { return a * h; }, x);
  expect_message(message_of<UsageError>([&] { h.sum().backward(); }), "its own result");

  Tensor u = at::ones({2}), v = at::ones({2});
  u = checkpoint(
      reentrant(), [&v](const Tensor& a) { return a * v; }, x);
  const auto part = [&](const Tensor& a) { return a * (is_recomputing() ? u : v); };
  v = checkpoint(reentrant(), part, x);
  expect_message(message_of<UsageError>([&] { (u + v).sum().backward(); }), "its own result");
}

TEST(ReentrantLimits, AParameterThatChangedMeanwhileIsAutogradsError) {
  const Tensor x = leaf({2}), w = leaf({2}, 2);
  const Tensor y = checkpoint(
      reentrant(), [w](const Tensor& a) { return a * w; }, x);
  {
    const torch::NoGradGuard no_grad;
    Tensor(w).mul_(3);
  }
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

struct Opaque {
  Tensor hidden;
};

TEST(ReentrantLimits, AResultThatMayHoldTensorsUnseenIsAnError) {
  const Tensor x = leaf({2});
  const auto part = [](const Tensor& a) { return std::make_pair(a.sin(), Opaque{a.cos()}); };
  expect_message(message_of<UsageError>([&] { checkpoint(reentrant(), part, x); }),
                 "there may be others");
  const auto indices = [](const Tensor& a) { return a.argmax(); };
  expect_message(message_of<UsageError>([&] { checkpoint(reentrant(), indices, x); }),
                 "no tensor that could have a gradient");
}

TEST(ReentrantLimits, ResultsMustHoldTensorsByValue) {
  const Tensor x = leaf({2});
  Tensor sink;
  const auto nothing = [&](const Tensor& a) { sink = a.sin(); };
  const auto reference = [&](const Tensor& a) -> Tensor& { return sink = a.sin(); };
  expect_message(message_of<UsageError>([&] { checkpoint(reentrant(), nothing, x); }), "by value");
  expect_message(message_of<UsageError>([&] { checkpoint(reentrant(), reference, x); }),
                 "by value");
}

TEST(ReentrantLimits, OptionsThatItCannotHonourAreErrors) {
  const Tensor x = leaf({2});
  for (const CheckpointOptions& options :
       {reentrant().debug(true), reentrant().respect_outer_hooks(false),
        reentrant().replay(Replay::operators), reentrant().policy(Policy::full())}) {
    expect_message(message_of<UsageError>([&] { checkpoint(options, chain, x); }), "does not go");
  }
}

TEST(ReentrantLimits, AReplayThatDiffersIsAMismatch) {
  const Tensor x = leaf({4});
  int runs = 0;
  const auto shape = [&](const Tensor& a) {
    return runs++ == 0 ? a.sin() : a.sin().slice(0, 0, 2);
  };
  const Tensor y = checkpoint(reentrant(), shape, x);
  expect_message(message_of<RecomputeMismatch>([&] { y.sum().backward(); }), "other tensors");

  double factor = 2;
  const auto value = [&](const Tensor& a) { return a.sin() * factor; };
  const Tensor z = checkpoint(reentrant().determinism(Determinism::values), value, x);
  factor = 3;
  expect_message(message_of<RecomputeMismatch>([&] { z.sum().backward(); }), "other tensors");

  bool draws = false;
  const auto random = [&](const Tensor& a) { return draws ? at::dropout(a, 0.5, true) : a.sin(); };
  const Tensor u = checkpoint(reentrant(), random, x);
  draws = true;
  expect_message(message_of<RecomputeMismatch>([&] { u.sum().backward(); }), "random numbers");
}

// The value that was saved has been replaced by the one of the forward pass: autograd notices.
TEST(ReentrantLimits, ABufferThatItWritesAndSavesIsAutogradsError) {
  const Tensor x = leaf({4});
  const Tensor buffer = at::ones({4});
  const auto part = [buffer](const Tensor& a) {
    {
      const torch::NoGradGuard no_grad;
      Tensor(buffer).mul_(0.5).add_(a);
    }
    return a * buffer;
  };
  const Tensor y = checkpoint(reentrant(), part, x);
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

TEST(ReentrantLimits, AnExceptionInTheFunctionPassesInEitherRun) {
  const Tensor x = leaf({2});
  bool fails = true;
  const auto part = [&](const Tensor& a) {
    if (fails) throw std::runtime_error("mine");
    return a.sin();
  };
  EXPECT_EQ(message_of<std::runtime_error>([&] { checkpoint(reentrant(), part, x); }), "mine");
  fails = false;
  const Tensor y = checkpoint(reentrant(), part, x);
  fails = true;
  EXPECT_EQ(message_of<std::runtime_error>([&] { y.sum().backward({}, true); }), "mine");
  fails = false;
  y.sum().backward();
  EXPECT_TRUE(bit_equal(x.grad(), x.cos()));
}

TEST(Reentrant, BackwardPassesOnSeveralThreads) {
  const Tensor w = leaf({8, 8}, 9);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, w = w.detach()] {
      const Tensor x = leaf({8, 8}, 10 + t), own = w.clone().requires_grad_();
      for (int step = 0; step < 10; ++step) {
        expect_plain({x, own}, [&](const CheckpointOptions& options) {
          return checkpoint(
              options, [own](const Tensor& a) { return a.matmul(own).tanh(); }, x);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace reprise::testing
