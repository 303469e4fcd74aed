// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support.h"

// checkpoint() with Replay::operators.

namespace reprise::testing {
namespace {

CheckpointOptions on_tape() {
  return CheckpointOptions().replay(Replay::operators).policy(Policy::recompute_all().audit(false));
}

Tensor wave(const Tensor& x) { return x.sin().exp().mul(x).tanh(); }

TEST(OperatorReplay, GradientsEqualPlainAndTheFunctionRunsOnce) {
  const Tensor x = leaf({8, 16}), w = leaf({16, 16}, 2);
  int calls = 0;
  const auto f = [&](const Tensor& t) {
    ++calls;
    return at::dropout(wave(t.matmul(w)), 0.3, true);
  };
  const auto plain = loss_and_gradients({x, w}, [&] { return f(x).square().sum(); });
  calls = 0;
  const ReplayCounter counter;
  const auto ours =
      loss_and_gradients({x, w}, [&] { return checkpoint(on_tape(), f, x).square().sum(); });
  EXPECT_TRUE(same_bits(plain, ours));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(counter.stats().regions, 1);
  EXPECT_GT(counter.stats().operators, 3);
}

TEST(OperatorReplay, OnlyWhatFlowsInIsKept) {
  const Tensor x = leaf({1 << 12});
  const Meter meter;
  const int64_t base = meter.live();
  const Tensor y = checkpoint(on_tape(), wave, x);
  EXPECT_EQ(meter.live() - base, y.numel() * 4);
}

TEST(OperatorReplay, ThePolicyOfTheRegionDecides) {
  const Tensor x = leaf({1 << 12});
  const Meter meter;
  const int64_t base = meter.live();
  const Tensor y = checkpoint(
      on_tape().policy(Policy::keep_ops({"aten::exp"}).audit(false)),
      [](const Tensor& t) { return named("hidden", wave(t)); }, x);
  EXPECT_EQ(meter.live() - base, 2 * y.numel() * 4);
}

TEST(OperatorReplay, WithoutAPolicyTheFirstRunOfEachNamedRegionIsAudited) {
  const Tensor x = leaf({1 << 12});
  const Meter meter;
  for (const std::string name : {"audited a", "audited b"}) {
    for (const bool first : {true, false}) {
      const int64_t base = meter.live();
      const auto options = CheckpointOptions().replay(Replay::operators).name(name);
      const Tensor y = checkpoint(options, wave, x);
      EXPECT_EQ(meter.live() - base, (first ? 2 : 1) * y.numel() * 4) << name;
      y.sum().backward();
      x.mutable_grad() = Tensor();
    }
  }
}

TEST(OperatorReplay, RegionsOfBothKindsNestInEachOther) {
  const Tensor x = leaf({32});
  const auto plain = loss_and_gradients({x}, [&] { return wave(wave(wave(x))).sum(); });
  const auto functions = CheckpointOptions();
  for (const auto& [outer, inner] :
       {std::pair{on_tape(), functions}, {functions, on_tape()}, {on_tape(), on_tape()}}) {
    const auto nested = [&, inner = inner](const Tensor& t) {
      return wave(checkpoint(inner, wave, wave(t)));
    };
    EXPECT_TRUE(same_bits(
        plain, loss_and_gradients({x}, [&] { return checkpoint(outer, nested, x).sum(); })));
  }
}

TEST(OperatorReplay, SequencesTakeItToo) {
  torch::nn::Sequential layers(torch::nn::Linear(8, 8), torch::nn::ReLU(), torch::nn::Linear(8, 8),
                               torch::nn::Dropout(0.5), torch::nn::Linear(8, 8));
  const Tensor x = leaf({4, 8});
  std::vector<Tensor> leaves = layers->parameters();
  leaves.push_back(x);
  EXPECT_TRUE(same_bits(
      loss_and_gradients(leaves, [&] { return layers->forward(x).square().sum(); }),
      loss_and_gradients(leaves, [&] {
        return checkpoint_segments(on_tape(), layers, /*segment_size=*/2, x).square().sum();
      })));
}

TEST(OperatorReplay, OptionsThatCannotApplyAreErrorsThatNameThem) {
  const Tensor x = leaf({2});
  const auto message = [&](const CheckpointOptions& options) {
    return message_of<UsageError>([&] { checkpoint(options, wave, x); });
  };
  EXPECT_NE(message(on_tape().preserve_rng(false)).find("preserve_rng"), std::string::npos);
  EXPECT_NE(message(on_tape().early_stop(false)).find("early_stop"), std::string::npos);
  EXPECT_NE(message(on_tape().determinism(Determinism::none)).find("none"), std::string::npos);
  EXPECT_NE(message(on_tape().replay(Replay::functions)).find("a policy"), std::string::npos);
}

TEST(OperatorReplay, SwitchesMakeItAPlainCall) {
  const Tensor x = leaf({4});
  const ReplayCounter counter;
  checkpoint(on_tape().enabled(false), wave, x).sum().backward();
  {
    const NoCheckpointGuard guard;
    checkpoint(on_tape(), wave, x).sum().backward();
  }
  const torch::NoGradGuard no_grad;
  checkpoint(on_tape(), wave, x);
  EXPECT_EQ(counter.stats().regions, 0);
}

TEST(OperatorReplay, AnArgumentChangedInPlaceIsAnError) {
  const Tensor x = leaf({4});
  const Tensor a = x * 1, b = at::ones({4});
  const Tensor y = checkpoint(
                       on_tape(), [&](const Tensor& t) { return (t + b).sin(); }, a)
                       .sum();
  b.mul_(2);
  const std::string message = message_of<Error>([&] { y.backward(); });
  EXPECT_NE(message.find("changed in place"), std::string::npos) << message;
}

TEST(OperatorReplay, AnExceptionInTheFunctionPropagatesAndTheNextCallWorks) {
  const Tensor x = leaf({1 << 12});
  const Meter meter;
  const int64_t base = meter.live();
  EXPECT_THROW(checkpoint(
                   on_tape(),
                   [](const Tensor& t) -> Tensor {
                     wave(t);
                     throw std::runtime_error("no");
                   },
                   x),
               std::runtime_error);
  EXPECT_EQ(meter.live(), base);
  EXPECT_NO_THROW(checkpoint(on_tape(), wave, x).sum().backward());
}

}  // namespace
}  // namespace reprise::testing
