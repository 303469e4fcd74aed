// SPDX-License-Identifier: BSD-3-Clause
#include <limits>
#include <set>
#include <sstream>

#include "tests/parity.h"

// Autocast scopes and the scaling of gradients.

namespace reprise::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

GradScalerOptions small_scale() {
  return GradScalerOptions().init_scale(16).growth_factor(2).backoff_factor(0.25).growth_interval(
      3);
}

/// Steps of one parameter; the loss of those in `bad` is infinite.
struct Training {
  Tensor w = at::tensor({1.0F, 2.0F, -3.0F}).requires_grad_();
  torch::optim::SGD sgd{{w}, torch::optim::SGDOptions(0.1)};
  std::set<int> bad;

  Tensor loss(int step) const {
    const Tensor x = at::tensor({0.3F, -0.7F, 1.1F}) * (step + 1);
    const Tensor loss = (w * x).sin().sum();
    return bad.count(step) > 0 ? loss * kInf : loss;
  }
  bool run(GradScaler& scaler, int step) {
    sgd.zero_grad();
    scaler.scale(loss(step)).backward();
    const bool stepped = scaler.step(sgd);
    scaler.update();
    return stepped;
  }
};

// The figures are those of torch.amp.GradScaler('cpu', 16., 2., 0.25, 3) in PyTorch 2.15.
TEST(GradScaler, GrowsAndBacksOffAsPyTorchsDoesAndGivesItsWeights) {
  const std::vector<double> scales = {16,  16,  4, 4, 4, 8,    8,    2,    0.5,
                                      0.5, 0.5, 1, 1, 1, 0.25, 0.25, 0.25, 0.5};
  const std::vector<int64_t> good = {1, 2, 0, 1, 2, 0, 1, 0, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
  Training training;
  training.bad = {2, 7, 8, 14};
  GradScaler scaler(small_scale());
  for (int step = 0; step < 18; ++step) {
    EXPECT_EQ(training.run(scaler, step), training.bad.count(step) == 0) << step;
    EXPECT_EQ(scaler.scale_factor(), scales[step]) << step;
    EXPECT_EQ(scaler.good_steps(), good[step]) << step;
  }
  EXPECT_TRUE(bit_equal(training.w.detach(),
                        at::tensor({0x1.3f4548p-1F, -0x1.f347d6p+0F, -0x1.b76ba2p+0F})));
}

TEST(GradScaler, AScaleThatIsAPowerOfTwoChangesNoBit) {
  Training plain, scaled;
  GradScaler scaler;
  for (int step = 0; step < 5; ++step) {
    plain.sgd.zero_grad();
    plain.loss(step).backward();
    plain.sgd.step();
    scaled.run(scaler, step);
  }
  EXPECT_TRUE(bit_equal(plain.w, scaled.w));
}

TEST(GradScaler, UnscaledGradientsCanBeClippedBeforeTheStep) {
  Training training;
  GradScaler scaler;
  scaler.scale(training.loss(0)).backward();
  scaler.unscale(training.sgd);
  const Tensor expected = torch::autograd::grad({training.loss(0)}, {training.w})[0];
  EXPECT_TRUE(bit_equal(training.w.grad(), expected));
  torch::nn::utils::clip_grad_norm_({training.w}, 0.01);
  const Tensor before = training.w.detach().clone(), clipped = training.w.grad().clone();
  EXPECT_TRUE(scaler.step(training.sgd));
  EXPECT_TRUE(bit_equal(training.w.detach(), before - 0.1 * clipped));
}

TEST(GradScaler, AccumulatesAtOneScaleOverRegions) {
  const auto run = [](const CheckpointOptions& options) {
    torch::manual_seed(3);
    const Tensor x = leaf({4, 4}).detach(), w = leaf({4, 4}, 2);
    torch::optim::SGD sgd({w}, torch::optim::SGDOptions(0.1));
    GradScaler scaler;
    for (int micro = 0; micro < 3; ++micro) {
      const auto part = [w](const Tensor& a) { return at::dropout(a.matmul(w), 0.5, true).tanh(); };
      scaler.scale(checkpoint(options, part, x).sum() / 3).backward();
    }
    scaler.step(sgd);
    scaler.update();
    return std::vector<Tensor>{w.detach(), w.grad()};
  };
  for (const Way way : {Way::functions, Way::operators}) {
    EXPECT_TRUE(same_bits(run(CheckpointOptions().enabled(false)), run(options_of(way))));
  }
}

TEST(GradScaler, OneOptimizersInfinityHoldsOnlyThatOneBack) {
  Training good, bad;
  bad.bad = {0};
  GradScaler scaler(small_scale());
  (scaler.scale(good.loss(0)) + scaler.scale(bad.loss(0))).backward();
  EXPECT_TRUE(scaler.step(good.sgd));
  EXPECT_FALSE(scaler.step(bad.sgd));
  scaler.update();
  EXPECT_EQ(scaler.scale_factor(), 4);
}

TEST(GradScaler, SparseGradientsAreUnscaledToo) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(5, 3).sparse(true));
  torch::optim::SGD sgd(embedding->parameters(), torch::optim::SGDOptions(0.1));
  const Tensor indices = at::tensor({1, 1, 4});
  const Tensor expected =
      torch::autograd::grad({embedding(indices).sin().sum()}, {embedding->weight})[0].to_dense();
  GradScaler scaler;
  scaler.scale(embedding(indices).sin().sum()).backward();
  scaler.unscale(sgd);
  EXPECT_TRUE(bit_equal(embedding->weight.grad().to_dense(), expected));
}

TEST(GradScaler, GoesOnFromAFileAsIfItHadNotStopped) {
  Training one, two;
  one.bad = two.bad = {1, 6};
  GradScaler whole(small_scale()), first(small_scale()), second;
  std::stringstream file;
  for (int step = 0; step < 10; ++step) {
    one.run(whole, step);
    two.run(step < 5 ? first : second, step);
    if (step == 4) {
      torch::serialize::OutputArchive out;
      first.save(out);
      out.save_to(file);
      torch::serialize::InputArchive in;
      in.load_from(file);
      second.load(in);
    }
  }
  EXPECT_EQ(second.scale_factor(), whole.scale_factor());
  EXPECT_EQ(second.good_steps(), whole.good_steps());
  EXPECT_TRUE(bit_equal(one.w, two.w));
}

TEST(GradScaler, SwitchedOffItIsNotThere) {
  Training training;
  training.bad = {0};
  GradScaler scaler(GradScalerOptions().enabled(false));
  const Tensor loss = training.loss(1);
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  EXPECT_TRUE(training.run(scaler, 0));
  EXPECT_EQ(scaler.scale_factor(), 1);
}

void expect_usage_error(const std::function<void()>& work, const std::string& words) {
  const std::string message = message_of<UsageError>(work);
  EXPECT_NE(message.find(words), std::string::npos) << message;
  EXPECT_NE(message.find("hint: "), std::string::npos) << message;
}

TEST(GradScaler, CallsOutOfOrderAreErrors) {
  Training training;
  GradScaler scaler;
  expect_usage_error([&] { scaler.update(); }, "update() without");
  expect_usage_error([&] { scaler.step(training.sgd); }, "no parameter");
  scaler.update(8);
  EXPECT_EQ(scaler.scale_factor(), 8);
  scaler.scale(training.loss(0)).backward();
  scaler.unscale(training.sgd);
  expect_usage_error([&] { scaler.unscale(training.sgd); }, "a second time");
  scaler.step(training.sgd);
  expect_usage_error([&] { scaler.unscale(training.sgd); }, "after step()");
  expect_usage_error([&] { scaler.step(training.sgd); }, "twice");
  scaler.update();
}

TEST(GradScaler, BadNumbersAndHalfPrecisionGradientsAreErrors) {
  expect_usage_error([] { GradScaler(GradScalerOptions().init_scale(0)); }, "a scale of");
  expect_usage_error([] { GradScaler(GradScalerOptions().init_scale(kInf)); }, "a scale of");
  expect_usage_error([] { GradScaler(GradScalerOptions().growth_factor(1)); }, "growth factor");
  expect_usage_error([] { GradScaler(GradScalerOptions().backoff_factor(1)); }, "back-off");
  expect_usage_error([] { GradScaler(GradScalerOptions().growth_interval(0)); }, "interval");
  GradScaler scaler;
  expect_usage_error([&] { scaler.update(-1); }, "a scale of");
  const Tensor half = at::ones({2}, at::kHalf).requires_grad_();
  torch::optim::SGD sgd({half}, torch::optim::SGDOptions(0.1));
  half.sum().backward();
  expect_usage_error([&] { scaler.step(sgd); }, "float16");
}

TEST(GradScaler, AnArchiveOfSomethingElseIsRefusedAndChangesNothing) {
  std::stringstream file;
  torch::serialize::OutputArchive out;
  out.write("scale", at::ones({}));
  out.save_to(file);
  torch::serialize::InputArchive in;
  in.load_from(file);
  GradScaler scaler(small_scale());
  EXPECT_THROW(scaler.load(in), c10::Error);
  EXPECT_EQ(scaler.scale_factor(), 16);
}

TEST(Autocast, HoldsInsideNestsAndIsGoneAfterwards) {
  const Tensor a = at::ones({2, 2});
  const auto dtype = [&] { return a.matmul(a).scalar_type(); };
  {
    const Autocast outer(at::kCPU);
    EXPECT_EQ(dtype(), at::kBFloat16);
    {
      const Autocast inner(at::kCPU, at::kBFloat16, /*enabled=*/false);
      EXPECT_EQ(dtype(), at::kFloat);
      const Autocast half(at::kCPU, at::kHalf);
      EXPECT_EQ(dtype(), at::kHalf);
    }
    EXPECT_EQ(dtype(), at::kBFloat16);
  }
  EXPECT_EQ(dtype(), at::kFloat);
}

TEST(Autocast, RegionsInsideReplayUnderIt) {
  const Tensor x = leaf({4, 4}), w = leaf({4, 4}, 2);
  for (const Way way : {Way::functions, Way::operators}) {
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      const auto run = [&](const CheckpointOptions& options) {
        Tensor y;
        {
          const Autocast autocast(at::kCPU, dtype);
          y = checkpoint(
              options, [w](const Tensor& a) { return a.matmul(w).sin().matmul(w); }, x);
        }
        return y.to(at::kFloat).sum();
      };
      const auto plain =
          loss_and_gradients({x, w}, [&] { return run(CheckpointOptions().enabled(false)); });
      EXPECT_TRUE(
          same_bits(plain, loss_and_gradients({x, w}, [&] { return run(options_of(way)); })));
    }
  }
}

TEST(Autocast, BadDevicesAndDtypesAreErrors) {
  expect_usage_error([] { Autocast(at::kMeta); }, "LibTorch has none for meta");
  expect_usage_error([] { Autocast(at::kCPU, at::kFloat); }, "Float is no lower precision");
}

}  // namespace
}  // namespace reprise::testing
