// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

#include "tests/support.h"

namespace reprise::testing {
namespace {

using torch::nn::Linear;

Tensor wave(const Tensor& x) { return x.sin().exp().mul(x).tanh(); }

TEST(Checkpoint, GradientsAndValueEqualPlainBitByBit) {
  const Tensor x = leaf({8, 16});
  const auto plain = loss_and_gradients({x}, [&] { return wave(x).sum(); });
  const auto ours = loss_and_gradients({x}, [&] { return checkpoint(wave, x).sum(); });
  EXPECT_TRUE(same_bits(plain, ours));
}

TEST(Checkpoint, RunsTheFunctionOnceForwardAndOnceForEachBackward) {
  const Tensor x = leaf({4});
  int calls = 0;
  const Tensor y = checkpoint(
                       [&](const Tensor& t) {
                         ++calls;
                         return wave(t);
                       },
                       x)
                       .sum();
  EXPECT_EQ(calls, 1);
  y.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(calls, 2);
  y.backward();
  EXPECT_EQ(calls, 3);
}

TEST(Checkpoint, TakesLambdasFunctionsHoldersSharedModulesAndMembers) {
  torch::manual_seed(3);
  Linear linear(5, 5);
  struct Net {
    Linear inner;
    Tensor forward(const Tensor& x) { return inner(x).relu(); }
  } net{linear};
  torch::nn::AnyModule any(linear);
  const std::function<Tensor(Tensor)> function = [&](Tensor x) { return linear(x); };
  const Tensor x = leaf({3, 5});
  const std::vector<Tensor> leaves{x, linear->weight, linear->bias};
  const auto expect = [&](const std::function<Tensor()>& plain,
                          const std::function<Tensor()>& ours) {
    EXPECT_TRUE(same_bits(loss_and_gradients(leaves, plain), loss_and_gradients(leaves, ours)));
  };
  const auto plain = [&] { return linear(x).sin().sum(); };
  expect(plain, [&] { return checkpoint(linear, x).sin().sum(); });
  expect(plain, [&] { return checkpoint(linear.ptr(), x).sin().sum(); });
  expect(plain, [&] { return checkpoint(any, x).sin().sum(); });
  expect(plain, [&] { return checkpoint(function, x).sin().sum(); });
  expect(plain, [&] { return checkpoint(std::ref(*linear), x).sin().sum(); });
  expect(plain,
         [&] { return checkpoint(&torch::nn::LinearImpl::forward, linear.get(), x).sin().sum(); });
  const auto net_plain = [&] { return net.forward(x).sin().sum(); };
  expect(net_plain, [&] { return checkpoint(&Net::forward, &net, x).sin().sum(); });
  expect(net_plain, [&] {
    return checkpoint([&](const Tensor& t) { return net.forward(t); }, x).sin().sum();
  });
}

TEST(Checkpoint, SameTensorThreeTimesAsAttentionTakesItAndATupleResult) {
  const Tensor x = leaf({2, 4, 6, 8});
  const auto attention = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor weights = at::softmax(q.matmul(k.transpose(-2, -1)) / 2.8, -1);
    return std::make_tuple(weights.matmul(v), weights);
  };
  const auto plain = loss_and_gradients({x}, [&] {
    const auto result = attention(x, x, x);
    return std::get<0>(result).sin().sum() + std::get<1>(result).pow(3).sum();
  });
  const auto ours = loss_and_gradients({x}, [&] {
    const auto result = checkpoint(attention, x, x, x);
    return std::get<0>(result).sin().sum() + std::get<1>(result).pow(3).sum();
  });
  EXPECT_TRUE(same_bits(plain, ours));
}

struct Batch {
  Tensor tokens, mask;
  int64_t length = 0;
};
auto reprise_fields(Batch& batch) { return std::tie(batch.tokens, batch.mask); }

struct Opaque {
  Tensor tensor;
};

TEST(Checkpoint, TakesTensorsInAnyContainerAndGivesThemGradients) {
  const Tensor a = leaf({3}, 1), b = leaf({3}, 2), c = leaf({3}, 3), d = leaf({3}, 4);
  const auto run = [&](bool on) {
    return loss_and_gradients({a, b, c, d}, [&] {
      const auto options = CheckpointOptions().enabled(on);
      const auto f = [](const std::vector<Tensor>& list, const std::map<std::string, Tensor>& map,
                        std::optional<Tensor> maybe, const std::pair<int, Tensor>& pair,
                        const Batch& batch, const Opaque& opaque, at::TensorList view,
                        std::nullopt_t, const char* word, std::string_view text, double factor,
                        Tensor undefined) {
        EXPECT_FALSE(undefined.defined());
        EXPECT_EQ(std::string(word) + std::string(text), "word and text");
        return (list[0] * list[1]).exp() * map.at("c").sin() * maybe->cos() * pair.second.tanh() *
               (batch.tokens * batch.mask * static_cast<double>(batch.length)).sin() *
               opaque.tensor.exp() * view[1].cos() * factor;
      };
      return checkpoint(options, f, std::vector<Tensor>{a, b},
                        std::map<std::string, Tensor>{{"c", c}}, std::optional<Tensor>(d),
                        std::pair<int, Tensor>{1, a}, Batch{b, c, 3}, Opaque{d},
                        at::TensorList({a, b}), std::nullopt, "word", std::string(" and text"), 0.5,
                        Tensor())
          .sum();
    });
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST(Checkpoint, ViewsAmongTheArgumentsAreKeptAsWhatTheyShow) {
  const Tensor a = leaf({3}, 1), b = leaf({3}, 2);
  Tensor y;
  {
    const std::vector<Tensor> temporary{a, b};
    const std::string text = "long enough not to be stored inside the object itself";
    y = checkpoint(
        [](at::TensorList list, std::string_view word) {
          return list[0].sin().mul(list[1]).exp() * static_cast<double>(word.size());
        },
        at::TensorList(temporary), std::string_view(text));
  }
  const auto grads = torch::autograd::grad({y.sum()}, {a, b});
  const auto plain = torch::autograd::grad({(a.sin().mul(b).exp() * 53.0).sum()}, {a, b});
  EXPECT_TRUE(same_bits(grads, plain));
}

TEST(Checkpoint, SpansOptionalReferencesAndArraysAreCopiedWithWhatTheyShow) {
  const Tensor a = leaf({2, 3}, 1), b = leaf({2, 3}, 2);
  const auto f = [](std::span<const double> factors, at::OptionalIntArrayRef sizes,
                    std::optional<at::IntArrayRef> none, const Tensor(&pair)[2],
                    const char(&word)[4]) {
    EXPECT_FALSE(none.has_value());
    EXPECT_EQ(std::string(word), "abc");
    return ((pair[0] * factors[0]).exp() * pair[1]).sin().sum(sizes) * factors[1];
  };
  const std::vector<double> factors{0.5, 2.0};
  const Tensor kept[2] = {a, b};
  const std::vector<int64_t> sizes{1};
  const auto plain = torch::autograd::grad(
      {f(factors, at::IntArrayRef(sizes), std::nullopt, kept, "abc").sum()}, {a, b});
  Tensor y;
  {
    std::vector<double> own_factors = factors;
    std::vector<int64_t> own_sizes = sizes;
    Tensor own[2] = {a, b};
    y = checkpoint(f, std::span<const double>(own_factors),
                   at::OptionalIntArrayRef(at::IntArrayRef(own_sizes)),
                   std::optional<at::IntArrayRef>(), own, "abc");
    own_factors.assign({9, 9});
    own_sizes.assign({0});
    own[0] = Tensor();
  }
  EXPECT_TRUE(same_bits(torch::autograd::grad({y.sum()}, {a, b}), plain));
}

TEST(Checkpoint, AFunctionThatChangesItsArgumentInPlaceIsNamedAndDoesNotLeak) {
  const Tensor x = leaf({1024});
  const auto f = [](Tensor t) {
    t.relu_();
    return t.sin();
  };
  const Meter meter;
  const int64_t base = meter.live();
  for (const bool backward : {false, true, false}) {
    const Tensor y = checkpoint(CheckpointOptions().name("in place"), f, x * 2).sum();
    if (!backward) continue;
    const auto message = message_of<Error>([&] { y.backward(); });
    EXPECT_NE(message.find("'in place': its function changes its argument tensor 0 in place"),
              std::string::npos)
        << message;
  }
  EXPECT_EQ(meter.live(), base);
}

TEST(Checkpoint, ReturnsAnyTypeUntouched) {
  const Tensor x = leaf({3});
  struct Result {
    Tensor value;
    std::string note;
  };
  const auto [pair, array, maybe, result] = checkpoint(
      [](const Tensor& t) {
        return std::make_tuple(std::make_pair(t.sin(), 3), std::array<Tensor, 2>{t.cos(), t.exp()},
                               std::optional<Tensor>(t.tanh()), Result{t.exp().sin(), "note"});
      },
      x);
  EXPECT_EQ(pair.second, 3);
  EXPECT_EQ(result.note, "note");
  const Tensor ours = pair.first * array[0] * array[1] * *maybe * result.value;
  const Tensor plain = x.sin() * x.cos() * x.exp() * x.tanh() * x.exp().sin();
  EXPECT_TRUE(same_bits(torch::autograd::grad({ours.sum()}, {x}),
                        torch::autograd::grad({plain.sum()}, {x})));
  EXPECT_EQ(checkpoint([](int a, int b) { return a + b; }, 2, 3), 5);
  checkpoint([] {});
  static_assert(std::is_same_v<decltype(checkpoint([](Tensor& t) -> Tensor& { return t; },
                                                   std::declval<Tensor&>())),
                               Tensor&>);
}

TEST(Checkpoint, ArgumentsReturnedAsOutputs) {
  const Tensor x = leaf({3});
  const Tensor h = x * 2;
  const auto [same, other] =
      checkpoint([](const Tensor& t) { return std::make_pair(t, t.sin().exp()); }, h);
  EXPECT_TRUE(same.is_same(h));
  EXPECT_TRUE(same_bits(torch::autograd::grad({(same * other).sum()}, {x}),
                        torch::autograd::grad({(x * 2 * (x * 2).sin().exp()).sum()}, {x})));
}

TEST(Checkpoint, MoveOnlyArgumentsAndFunctions) {
  const Tensor x = leaf({3});
  auto factor = std::make_unique<Tensor>(at::full({3}, 2.0));
  const Tensor y = checkpoint(
      [own = std::make_unique<int>(3)](const Tensor& t, const std::unique_ptr<Tensor>& f) {
        return (t * *f).sin().exp() * *own;
      },
      x, std::move(factor));
  EXPECT_TRUE(same_bits(torch::autograd::grad({y.sum()}, {x}),
                        torch::autograd::grad({((x * 2.0).sin().exp() * 3).sum()}, {x})));
}

TEST(Checkpoint, ReferenceWrappersReachTheOriginal) {
  const Tensor x = leaf({3});
  int calls = 0;
  const auto count = [](const Tensor& t, int& n) {
    ++n;
    return t.sin().exp();
  };
  checkpoint(count, x, std::ref(calls)).sum().backward();
  EXPECT_EQ(calls, 2);
}

TEST(Checkpoint, StateOfAMutableFunctionIsReplayedAsItWas) {
  const Tensor x = leaf({3});
  const auto run = [&](bool on) {
    return loss_and_gradients({x}, [&] {
      auto step = [factor = 1.0](const Tensor& t) mutable {
        factor += 1.0;
        return (t * factor).sin().exp();
      };
      const auto options = CheckpointOptions().enabled(on);
      const Tensor first = checkpoint(options, step, x);
      return (first * checkpoint(options, step, x)).sum();
    });
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST(Checkpoint, ArgumentsThatTheFunctionRebindsAreReplayedAsTheyWere) {
  const Tensor x = leaf({3});
  const auto f = [](std::vector<Tensor>& list) {
    list[0] = list[0].sin();
    list.push_back(list[0].exp());
    return list[0] * list[1];
  };
  std::vector<Tensor> plain_list{x}, our_list{x};
  const Tensor plain = f(plain_list).sum();
  const Tensor ours = checkpoint(f, our_list).sum();
  EXPECT_EQ(our_list.size(), 2U);
  EXPECT_TRUE(same_bits(torch::autograd::grad({ours}, {x}), torch::autograd::grad({plain}, {x})));
}

TEST(Checkpoint, CapturedParametersGetGradientsThoughNoArgumentRequiresGrad) {
  torch::manual_seed(3);
  torch::nn::Sequential net(Linear(4, 8), torch::nn::Tanh(), Linear(8, 2));
  const Tensor x = leaf({5, 4}).detach();
  const auto parameters = net->parameters();
  EXPECT_TRUE(same_bits(
      loss_and_gradients(parameters, [&] { return net->forward(x).sin().sum(); }),
      loss_and_gradients(parameters, [&] {
        return checkpoint([&](const Tensor& t) { return net->forward(t); }, x).sin().sum();
      })));
}

TEST(Checkpoint, EarlyStopSkipsWhatTheBackwardPassDoesNotNeed) {
  const Tensor x = leaf({4});
  int after = 0;
  const auto run = [&](bool early_stop) {
    after = 0;
    checkpoint(
        CheckpointOptions().early_stop(early_stop),
        [&](const Tensor& t) {
          const Tensor y = t.exp();
          ++after;
          return y + 1;
        },
        x)
        .sum()
        .backward();
    return after;
  };
  EXPECT_EQ(run(true), 1);
  EXPECT_EQ(run(false), 2);
}

TEST(Checkpoint, EarlyStopReachesOnlyTheLastTensorThatIsStillWanted) {
  const Tensor a = leaf({4}, 1), b = leaf({4}, 2);
  int after = 0;
  const auto both = checkpoint(
      [&](const Tensor& s, const Tensor& t) {
        const Tensor first = s.exp();
        ++after;
        return std::make_pair(first, t.exp().sin());
      },
      a, b);
  const Tensor first = both.first;
  first.sum().backward({}, /*retain_graph=*/true);
  EXPECT_EQ(after, 2);  // the other half of the graph is alive
  after = 0;
  const auto alone = [&] {
    return checkpoint(
               [&](const Tensor& s, const Tensor& t) {
                 const Tensor one = s.exp();
                 ++after;
                 return std::make_pair(one, t.exp().sin());
               },
               a, b)
        .first;
  }();
  alone.sum().backward();
  EXPECT_EQ(after, 1);  // the other half is gone
}

TEST(Checkpoint, NoexceptFunctionsAreRunToTheirEnd) {
  const Tensor x = leaf({4});
  checkpoint([](const Tensor& t) noexcept { return t.exp() + 1; }, x).sum().backward();
  EXPECT_TRUE(bit_equal(x.grad(), x.detach().exp()));
}

TEST(Checkpoint, ArgumentsThatAnOperatorFillsAreNotTakenTooEarly) {
  // rrelu_with_noise saves its noise before it draws it: an early stop there would lose it.
  const Tensor x = leaf({64});
  const auto noisy = [](const Tensor& t) { return at::rrelu(t, 0.1, 0.9, /*training=*/true); };
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return noisy(x).sum(); }),
                        loss_and_gradients({x}, [&] { return checkpoint(noisy, x).sum(); })));
}

TEST(Checkpoint, CodeThatSwallowsTheEarlyStopDoesNoHarm) {
  const Tensor x = leaf({4});
  const auto swallow = [](const Tensor& t) {
    try {
      return t.exp().sin();
    } catch (const std::exception&) {
      return t * 2;
    }
  };
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return x.exp().sin().sum(); }),
                        loss_and_gradients({x}, [&] { return checkpoint(swallow, x).sum(); })));
}

TEST(Checkpoint, GradModeOffIsAPlainCall) {
  const Tensor x = leaf({4});
  const ReplayCounter counter;
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(checkpoint(wave, x).requires_grad());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(checkpoint(wave, x).is_inference());
  }
  EXPECT_EQ(counter.stats().regions, 0);
}

TEST(Checkpoint, OffSwitchesMakeItAPlainCall) {
  const Tensor x = leaf({4});
  const ReplayCounter counter;
  checkpoint(CheckpointOptions().enabled(false), wave, x).sum().backward();
  {
    const NoCheckpointGuard outer;
    {
      const NoCheckpointGuard inner;
      checkpoint(wave, x).sum().backward();
    }
    checkpoint(wave, x).sum().backward();
  }
  EXPECT_EQ(counter.stats().regions, 0);
  EXPECT_EQ(counter.stats().replays, 0);
  checkpoint(wave, x).sum().backward();
  EXPECT_EQ(counter.stats().regions, 1);
  EXPECT_EQ(counter.stats().replays, 1);
  EXPECT_EQ(counter.stats().operators, 4);
  EXPECT_GT(counter.stats().milliseconds, 0.0);
}

TEST(Checkpoint, ExceptionInForwardPropagatesAndTheNextCallWorks) {
  const Tensor x = leaf({4});
  const auto fails = [](const Tensor& t) -> Tensor {
    const Tensor y = t.exp();
    throw std::domain_error("no");
    return y;
  };
  EXPECT_THROW(checkpoint(fails, x), std::domain_error);
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return wave(x).sum(); }),
                        loss_and_gradients({x}, [&] { return checkpoint(wave, x).sum(); })));
}

TEST(Checkpoint, ExceptionInReplayPropagatesWithItsTypeAndTheNextBackwardWorks) {
  const Tensor x = leaf({4});
  bool fail = false;
  const Tensor y = checkpoint(
                       [&](const Tensor& t) {
                         const Tensor first = t.exp();
                         if (fail) throw std::domain_error("no");
                         return first.sin();
                       },
                       x)
                       .sum();
  fail = true;
  EXPECT_THROW(y.backward({}, /*retain_graph=*/true), std::domain_error);
  fail = false;
  x.mutable_grad() = Tensor();
  y.backward();
  EXPECT_TRUE(same_bits({x.grad()}, torch::autograd::grad({x.exp().sin().sum()}, {x})));
}

TEST(Checkpoint, ArgumentChangedInPlaceBeforeBackwardRaisesAutogradsError) {
  const Tensor x = leaf({4});
  const Tensor h = x * 2;
  const Tensor y = checkpoint(wave, h).sum();
  h.mul_(2);
  EXPECT_NE(message_of<c10::Error>([&] { y.backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(Checkpoint, ParameterChangedInPlaceBeforeBackwardRaisesAutogradsError) {
  torch::manual_seed(3);
  Linear linear(4, 4);
  const Tensor x = leaf({2, 4});
  const Tensor y = checkpoint(linear, x).sum();
  {
    const torch::NoGradGuard no_grad;
    linear->weight.add_(1);
  }
  EXPECT_NE(message_of<c10::Error>([&] { y.backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(Checkpoint, DoubleBackwardEqualsPlain) {
  const Tensor x = leaf({4});
  const auto third = [&](const Tensor& y) {
    Tensor g = y.sum();
    for (int i = 0; i < 3; ++i) {
      g = torch::autograd::grad({g}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0]
              .sum();
    }
    return g.detach();
  };
  EXPECT_TRUE(bit_equal(third(wave(x)), third(checkpoint(wave, x))));
}

TEST(Checkpoint, NestedRegionsEqualPlain) {
  const Tensor x = leaf({4});
  const auto once = [](const Tensor& t) { return checkpoint(wave, t).cos(); };
  const auto twice = [&](const Tensor& t) { return checkpoint(once, t).exp(); };
  EXPECT_TRUE(same_bits(
      loss_and_gradients({x}, [&] { return wave(wave(x).cos().exp()).sum(); }),
      loss_and_gradients({x}, [&] { return checkpoint(wave, checkpoint(twice, x)).sum(); })));
}

TEST(Checkpoint, BackwardInsideTheFunctionEqualsPlain) {
  const Tensor x = leaf({4});
  for (const bool early_stop : {true, false}) {
    const auto f = [](const Tensor& t) {
      const Tensor y = t.sin().exp();
      const Tensor slope = torch::autograd::grad({y.sum()}, {t}, {}, /*retain_graph=*/true,
                                                 /*create_graph=*/true)[0];
      return y * slope.tanh();
    };
    EXPECT_TRUE(
        same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }), loss_and_gradients({x}, [&] {
                    const auto options = CheckpointOptions().early_stop(early_stop);
                    return checkpoint(options, f, x).sum();
                  })));
  }
}

struct ReadsTwice : torch::autograd::Function<ReadsTwice> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return x.exp();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    const Tensor once = context->get_saved_variables()[0];
    const Tensor again = context->get_saved_variables()[0];
    EXPECT_TRUE(bit_equal(once, again));
    return {grads[0] * again.exp()};
  }
};

TEST(Checkpoint, SavedTensorReadTwiceInOneBackwardIsReplayedAgain) {
  const Tensor x = leaf({4});
  const auto f = [](const Tensor& t) { return ReadsTwice::apply(t.sin()).mul(t); };
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }),
                        loss_and_gradients({x}, [&] { return checkpoint(f, x).sum(); })));
}

}  // namespace
}  // namespace reprise::testing
