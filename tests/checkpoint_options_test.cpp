// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <memory>
#include <sstream>
#include <thread>

#include <ATen/ThreadLocalState.h>

#include "tests/support.h"

// What the options and guards of checkpoint() promise, beyond those that every test uses.

namespace reprise::testing {
namespace {

Tensor wave(const Tensor& x) { return x.sin().exp().mul(x).tanh(); }

CheckpointOptions on_tape() {
  return CheckpointOptions().replay(Replay::operators).policy(Policy::recompute_all().audit(false));
}

// ---- determinism(values) and debug ----

TEST(Determinism, ValuesFindsWhatMetadataCannot) {
  const Tensor x = leaf({4});
  double factor = 2;
  const auto f = [&](const Tensor& t) { return (t * factor).sin().exp(); };
  const auto run = [&](Determinism check) {
    factor = 2;
    const Tensor y = checkpoint(CheckpointOptions().determinism(check).name("scaled"), f, x).sum();
    factor = 3;  // a captured setting that changed since
    y.backward();
  };
  EXPECT_NO_THROW(run(Determinism::metadata)) << "limits.md says that this is not seen";
  const std::string message = message_of<RecomputeMismatch>([&] { run(Determinism::values); });
  EXPECT_NE(message.find("'scaled'"), std::string::npos) << message;
  EXPECT_NE(message.find("other contents"), std::string::npos) << message;
}

TEST(Determinism, ValuesLetsEqualReplaysPass) {
  const Tensor x = leaf({4, 4});
  const auto f = [&](const Tensor& t) {
    const Tensor z = at::complex(t, t).conj();
    Tensor noise = at::zeros_like(t);  // saved before it is drawn
    const Tensor bent = at::rrelu_with_noise(t.sin(), noise, 0.1, 0.4, true);
    return at::real(z * z).sum() + at::dropout(bent, 0.5, true).transpose(0, 1).exp().sum();
  };
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return f(x); }), loss_and_gradients({x}, [&] {
                          return checkpoint(CheckpointOptions().determinism(Determinism::values), f,
                                            x);
                        })));
}

TEST(Debug, ShowsBothTracesFromALittleBeforeTheFirstDifference) {
  const Tensor x = leaf({4});
  bool first = true;
  const auto f = [&](const Tensor& t) {
    const Tensor y = t.sin().mul(2);
    return first ? y.exp().tanh() : y.cos().exp().tanh();
  };
  const Tensor y = checkpoint(CheckpointOptions().debug(true).name("branching"), f, x).sum();
  first = false;
  const std::string message = message_of<RecomputeMismatch>([&] { y.backward(); });
  EXPECT_NE(message.find("'branching'"), std::string::npos) << message;
  EXPECT_NE(message.find("aten::sin(Float[4])"), std::string::npos) << message;
  EXPECT_NE(message.find("> aten::exp(Float[4])"), std::string::npos) << message;
  EXPECT_NE(message.find("aten::cos(Float[4])\n"), std::string::npos) << message;
}

TEST(Debug, SaysSoWhenOnlyTheContentsDiffer) {
  const Tensor x = leaf({4});
  Tensor factor = at::ones({4});
  const auto f = [&](const Tensor& t) { return (t * factor).sin(); };
  const auto options = CheckpointOptions().debug(true).determinism(Determinism::values);
  const Tensor y = checkpoint(options, f, x).sum();
  factor = at::full({4}, 2.0);
  const std::string message = message_of<RecomputeMismatch>([&] { y.backward(); });
  EXPECT_NE(message.find("the same operators"), std::string::npos) << message;
}

TEST(Debug, CostsNothingInResults) {
  const Tensor x = leaf({4});
  const auto options = CheckpointOptions().debug(true);
  EXPECT_TRUE(same_bits(
      loss_and_gradients({x}, [&] { return wave(wave(x)).sum(); }), loss_and_gradients({x}, [&] {
        return checkpoint(
                   options, [&](const Tensor& t) { return checkpoint(options, wave, t); }, wave(x))
            .sum();
      })));
}

// ---- buffers ----

struct Norms : torch::nn::Module {
  Norms()
      : batch(register_module("batch", torch::nn::BatchNorm1d(4))),
        cumulative(register_module(
            "cumulative",
            torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(4).momentum(std::nullopt)))),
        instance(register_module(
            "instance",
            torch::nn::InstanceNorm1d(
                torch::nn::InstanceNorm1dOptions(4).affine(true).track_running_stats(true)))),
        average(register_buffer("average", at::zeros({4}))) {}
  Tensor forward(const Tensor& x) {
    const Tensor y = cumulative(batch(x).relu_());
    const Tensor z = instance(y.unsqueeze(0).transpose(1, 2)).transpose(1, 2).squeeze(0);
    average.mul_(0.9).add_(z.detach().mean(0), 0.1);
    return reads_average ? z * average.sin() : z;
  }
  torch::nn::BatchNorm1d batch, cumulative;
  torch::nn::InstanceNorm1d instance;
  Tensor average;
  bool reads_average = false;
};

std::vector<Tensor> train_norms(const std::function<Tensor(Norms&, const Tensor&)>& forward) {
  torch::manual_seed(3);
  Norms net;
  std::vector<Tensor> all;
  torch::optim::SGD sgd(net.parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    const Tensor x = at::randn({8, 4});
    sgd.zero_grad();
    forward(net, x).square().sum().backward();
    for (const Tensor& p : net.parameters()) all.push_back(p.grad().clone());
    for (const Tensor& b : net.buffers()) all.push_back(b.clone());
    sgd.step();
  }
  return all;
}

TEST(Buffers, StatisticsCountersAndAveragesChangeOnceInAStepAsInPlain) {
  const auto plain = train_norms([](Norms& net, const Tensor& x) { return net.forward(x); });
  for (const CheckpointOptions& options :
       {CheckpointOptions(), CheckpointOptions().determinism(Determinism::values), on_tape()}) {
    EXPECT_TRUE(same_bits(plain, train_norms([&](Norms& net, const Tensor& x) {
                            return checkpoint(options, std::ref(net), x);
                          })));
    EXPECT_TRUE(same_bits(
        plain, train_norms([&](Norms& net, const Tensor& x) {
          return checkpoint(
              options, [&](const Tensor& t) { return checkpoint(options, std::ref(net), t); }, x);
        })));
  }
}

// A function that reads what it changes does other work when it is run again; the tape does not.
TEST(Buffers, StateThatTheFunctionReadsBackIsForTheTape) {
  const auto reading = [](const std::optional<CheckpointOptions>& options) {
    return train_norms([&](Norms& net, const Tensor& x) {
      net.reads_average = true;
      return options ? checkpoint(*options, std::ref(net), x) : net.forward(x);
    });
  };
  EXPECT_TRUE(same_bits(reading(std::nullopt), reading(on_tape())));
  EXPECT_THROW(reading(CheckpointOptions().determinism(Determinism::values)), RecomputeMismatch);
}

TEST(Buffers, ChangeTwiceWhereTheUserSaysSo) {
  torch::nn::BatchNorm1d norm(4);
  const auto options = CheckpointOptions().restore_buffers(false);
  checkpoint(options, norm, leaf({8, 4})).sum().backward();
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 2);
}

// No allocator made the storages that come from a file.
TEST(Buffers, OfALoadedModuleChangeOnce) {
  std::stringstream file;
  torch::save(torch::nn::BatchNorm1d(4), file);
  torch::nn::BatchNorm1d norm(4);
  torch::load(norm, file);
  ASSERT_EQ(norm->num_batches_tracked.storage().allocator(), nullptr);
  checkpoint(norm, leaf({8, 4})).sum().backward();
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
}

TEST(Buffers, InMemoryThatIsGoneAreLeftAlone) {
  int calls = 0;
  const auto f = [&](const Tensor& x) {
    const auto memory = std::make_unique<std::array<float, 4>>();
    const Tensor scratch = torch::from_blob(memory->data(), {4});
    scratch.copy_(x.detach());
    ++calls;
    return (x * scratch.clone()).sin();
  };
  const Tensor x = leaf({4});
  const auto plain = loss_and_gradients({x}, [&] { return f(x).sum(); });
  const auto ours = loss_and_gradients({x}, [&] { return checkpoint(f, x).sum(); });
  EXPECT_TRUE(same_bits(plain, ours));
  EXPECT_EQ(calls, 3);
}

TEST(Buffers, VersionsAreAsIfTheReplayHadNotBeen) {
  torch::nn::BatchNorm1d norm(4);
  const auto counter = norm->num_batches_tracked.unsafeGetTensorImpl()->version_counter();
  const Tensor y = checkpoint(norm, leaf({8, 4})).sum();
  const uint32_t version = counter.current_version();
  y.backward();
  EXPECT_EQ(counter.current_version(), version);
}

TEST(Buffers, ACacheThatEveryCallWritesIsLeftAsTheForwardPassLeftIt) {
  const Tensor w = leaf({4, 4});
  Tensor cache = at::zeros({2, 4});
  const auto f = [&](const Tensor& x) {
    cache[0].copy_(x.detach());
    cache[1].add_(1);
    return (x.matmul(w) * cache.sum(0)).sin();
  };
  const Tensor x = leaf({4}, 2);
  const auto run = [&](bool checkpointed) {
    cache.zero_();
    auto all =
        loss_and_gradients({x, w}, [&] { return (checkpointed ? checkpoint(f, x) : f(x)).sum(); });
    all.push_back(cache.clone());
    return all;
  };
  const auto plain = run(false);
  const auto ours = run(true);
  EXPECT_TRUE(bit_equal(plain.back(), ours.back()));
}

// ---- guards and callbacks ----

TEST(Contexts, OneGuardForTheForwardRunAndOneForEachReplay) {
  std::string log;
  struct Note {
    std::string& log;
    std::string end;
    ~Note() { log += end; }
  };
  const Tensor x = leaf({4});
  const auto options = CheckpointOptions().contexts(
      [&] {
        return log += "(f", Note{log, "f)"};
      },
      [&] {
        return log += "(r", Note{log, "r)"};
      });
  const auto f = [&](const Tensor& t) { return log += "*", wave(t); };
  const Tensor y = checkpoint(options, f, x).sum();
  EXPECT_EQ(log, "(f*f)");
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_EQ(log, "(f*f)(r*r)(r*r)");
  log.clear();
  checkpoint(CheckpointOptions().contexts(nullptr,
                                          [&] {
                                            return Note{log, "r"};
                                          }),
             wave, x)
      .sum()
      .backward();
  EXPECT_EQ(log, "r");
  const torch::NoGradGuard no_grad;
  log.clear();
  checkpoint(options, f, x);
  EXPECT_EQ(log, "*");
}

TEST(Contexts, RestoreASettingThatIsNotCaptured) {
  static thread_local int setting = 0;
  struct Set {
    explicit Set(int value) : before(std::exchange(setting, value)) {}
    ~Set() { setting = before; }
    Set(const Set&) = delete;
    Set& operator=(const Set&) = delete;
    int before;
  };
  const auto guard = [] { return Set(3); };
  const Tensor x = leaf({4});
  checkpoint(
      CheckpointOptions().contexts(guard, guard).determinism(Determinism::values),
      [](const Tensor& t) { return (t * setting).sin(); }, x)
      .sum()
      .backward();
  EXPECT_TRUE(bit_equal(x.grad(), (x.detach() * 3).cos() * 3));
}

TEST(EarlyStop, TheInnermostGuardWinsOverOuterOnesAndOverTheOption) {
  const Tensor x = leaf({4});
  int ends = 0;
  const auto f = [&](const Tensor& t) {
    const Tensor y = t.sin();
    ++ends;
    return y;  // sin saves its argument: with early stop, the replay does not come here
  };
  const auto ends_of = [&](bool option) {
    const Tensor y = checkpoint(CheckpointOptions().early_stop(option), f, x).sum();
    ends = 0;
    const EarlyStopGuard too_late(!option);  // only the forward pass counts
    y.backward();
    return ends;
  };
  EXPECT_EQ(ends_of(true), 0);
  EXPECT_EQ(ends_of(false), 1);
  const EarlyStopGuard off(false);
  EXPECT_EQ(ends_of(true), 1);
  {
    const EarlyStopGuard on(true);
    EXPECT_EQ(ends_of(false), 0);
  }
  EXPECT_EQ(ends_of(true), 1);
}

TEST(IsRecomputing, IsTrueInReplaysOnly) {
  const Tensor x = leaf({4});
  std::vector<bool> seen;
  const auto f = [&](const Tensor& t) { return seen.push_back(is_recomputing()), wave(t); };
  const Tensor y = checkpoint(f, x).sum();
  EXPECT_FALSE(is_recomputing());
  y.backward();
  EXPECT_FALSE(is_recomputing());
  EXPECT_EQ(seen, (std::vector<bool>{false, true}));
}

TEST(ReplayCallbacks, TellBeginAndEndOfTheRegionsRecordedUnderThem) {
  const Tensor x = leaf({4});
  std::string log;
  const auto note = [&](const std::string& who) {
    return [&log, who](const ReplayEvent& event) {
      log += who + (event.begins ? "+" : "-") + std::string(event.region) + ";";
    };
  };
  Tensor y, z;
  {
    const ReplayCallback outer(note("a"));
    y = checkpoint(CheckpointOptions().name("one"), wave, x);
    const ReplayCallback inner(note("b"));
    z = checkpoint(CheckpointOptions().name("two"), wave, y).sum();
  }
  EXPECT_EQ(log, "");
  z.backward();
  const std::string one = "checkpointed region 'one';", two = "checkpointed region 'two';";
  EXPECT_EQ(log, "a+" + two + "b+" + two + "b-" + two + "a-" + two + "a+" + one + "a-" + one);
}

TEST(ReplayCallbacks, AnExceptionAtTheBeginningEndsTheReplay) {
  const Tensor x = leaf({4});
  Tensor y;
  {
    const ReplayCallback refuse([](const ReplayEvent& event) {
      if (event.begins) throw std::runtime_error("not now");
    });
    y = checkpoint(wave, x).sum();
  }
  EXPECT_THROW(y.backward(), std::runtime_error);
}

// ---- groups of backward passes ----

class Groups : public ::testing::TestWithParam<Replay> {
 protected:
  CheckpointOptions options() const {
    return GetParam() == Replay::operators ? on_tape() : CheckpointOptions();
  }
};

TEST_P(Groups, TwoPartialGradientsShareOneReplay) {
  const Tensor x = leaf({4}, 1), w = leaf({4}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) { return a.exp().sin() * b.exp().sin(); };
  const Tensor plain = f(x, w).sum();
  const auto dx = torch::autograd::grad({plain}, {x}, {}, true)[0];
  const auto dw = torch::autograd::grad({plain}, {w}, {}, true)[0];
  // The two factors are one region each way: what the passes want does not overlap.
  const auto split = [](const Tensor& a, const Tensor& b) {
    return std::pair(a.exp().sin().exp(), b.exp().sin().exp());
  };
  const auto [p, q] = checkpoint(options(), split, x, w);
  const auto [pp, qq] = split(x, w);
  const auto replays = [&](bool grouped) {
    const ReplayCounter counter;
    std::optional<ExecutionGroup> group;
    if (grouped) group.emplace();
    const auto one = torch::autograd::grad({p.sum()}, {x}, {}, /*retain_graph=*/true);
    const auto two = torch::autograd::grad({q.sum()}, {w}, {}, /*retain_graph=*/true);
    EXPECT_TRUE(same_bits({torch::autograd::grad({pp.sum()}, {x}, {}, true)[0],
                           torch::autograd::grad({qq.sum()}, {w}, {}, true)[0]},
                          {one[0], two[0]}));
    return counter.stats();
  };
  const auto apart = replays(false);
  const auto together = replays(true);
  if (GetParam() == Replay::functions) {
    EXPECT_EQ(apart.replays, 2);
    EXPECT_EQ(together.replays, 1);
  } else {
    EXPECT_LE(together.operators, apart.operators);
  }
}

TEST_P(Groups, PassesThatOverlapAreAnError) {
  const Tensor x = leaf({4});
  const Tensor y = checkpoint(options(), wave, x).sum();
  const ExecutionGroup group;
  (void)torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true);
  const std::string message =
      message_of<Error>([&] { (void)torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true); });
  EXPECT_NE(message.find("execution group"), std::string::npos) << message;
}

TEST_P(Groups, WhatNobodyAskedForIsFreedAtTheEnd) {
  const Tensor x = leaf({1 << 14}, 1), w = leaf({1 << 14}, 2);
  const Tensor y = checkpoint(
      options(), [](const Tensor& a, const Tensor& b) { return a.exp().sin() * b.exp().sin(); }, x,
      w);
  const Tensor loss = y.sum();
  const Meter meter;
  const int64_t before = meter.live();
  {
    const ExecutionGroup group;
    (void)torch::autograd::grad({loss}, {w}, {}, /*retain_graph=*/true);
  }
  EXPECT_EQ(meter.live(), before);
}

INSTANTIATE_TEST_SUITE_P(Both, Groups, ::testing::Values(Replay::functions, Replay::operators));

TEST(ExecutionGroups, DoNotNestAndEndWithTheirScope) {
  {
    const ExecutionGroup group;
    EXPECT_THROW(ExecutionGroup(), UsageError);
  }
  EXPECT_NO_THROW(ExecutionGroup());
}

TEST(ExecutionGroups, ReachTheThreadsOfABackwardPass) {
  const Tensor x = leaf({4});
  const auto pair =
      checkpoint([](const Tensor& t) { return std::pair(t.sin().exp(), t.cos().exp()); }, x);
  const ReplayCounter counter;
  const ExecutionGroup group;
  const at::ThreadLocalState state;
  for (const Tensor& part : {pair.first, pair.second}) {
    std::thread([&] {
      const at::ThreadLocalStateGuard guard(state);
      (void)torch::autograd::grad({part.sum()}, {x}, {}, /*retain_graph=*/true);
    }).join();
  }
  EXPECT_EQ(counter.stats().replays, 1);
}

// ---- hooks around ----

TEST(OuterHooks, SeeTheArgumentsUnlessToldNotTo) {
  const Tensor x = leaf({4});
  for (const bool respect : {true, false}) {
    int seen = 0;
    Tensor y;
    {
      const SavedTensorHooks hooks([&](const Tensor& t) { return ++seen, t.clone(); },
                                   [](const Tensor& t) { return t; });
      y = checkpoint(CheckpointOptions().respect_outer_hooks(respect), wave, x);
    }
    EXPECT_EQ(seen, respect ? 1 : 0);
    EXPECT_TRUE(same_bits({torch::autograd::grad({wave(x).sum()}, {x})[0]},
                          {torch::autograd::grad({y.sum()}, {x})[0]}));
  }
}

// ---- report ----

TEST(RegionReports, SayWhatEachNameDid) {
  const Tensor x = leaf({1 << 12});
  const RegionReport report;
  for (int step = 0; step < 2; ++step) {
    const Tensor h = checkpoint(CheckpointOptions().name("first"), wave, x);
    checkpoint(on_tape().name("second"), wave, h).sum().backward();
  }
  checkpoint(
      CheckpointOptions().preserve_rng(false), [](const Tensor& t) { return t * 2; }, x);
  const std::vector<RegionStats> regions = report.regions();
  ASSERT_EQ(regions.size(), 3U);
  EXPECT_EQ(regions[0].name, "first");
  EXPECT_EQ(regions[2].name, "");
  EXPECT_FALSE(regions[2].preserves_rng);
  EXPECT_EQ(regions[2].dropped_bytes, 0);
  for (const RegionStats& stats : {regions[0], regions[1]}) {
    EXPECT_EQ(stats.runs, 2);
    EXPECT_GE(stats.replays, 2);
    EXPECT_GT(stats.milliseconds, 0);
    EXPECT_GE(stats.dropped_bytes, 2 * x.numel() * 4);
    EXPECT_TRUE(stats.preserves_rng);
  }
  const std::string text = report.str();
  EXPECT_NE(text.find("first"), std::string::npos);
  EXPECT_NE(text.find("do not preserve their random draws"), std::string::npos) << text;
  EXPECT_NE(text.find("keep as much as a plain run"), std::string::npos) << text;
}

}  // namespace
}  // namespace reprise::testing
