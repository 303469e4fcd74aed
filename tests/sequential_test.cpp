// SPDX-License-Identifier: BSD-3-Clause
#include <tuple>

#include "tests/support.h"

namespace reprise::testing {
namespace {

using torch::nn::Linear;
using torch::nn::Sequential;
using Layer = std::function<Tensor(const Tensor&)>;

/// `n` layers that count how often they are entered.
std::vector<Layer> counting_layers(int n, std::vector<int>& counts) {
  counts.assign(n, 0);
  std::vector<Layer> layers;
  for (int i = 0; i < n; ++i) {
    layers.push_back([i, &counts](const Tensor& x) {
      ++counts[i];
      return (x * (1.0 + i)).sin();
    });
  }
  return layers;
}

Sequential tanh_net(int layers, int width) {
  torch::manual_seed(3);
  Sequential net;
  for (int i = 0; i < layers; ++i) {
    net->push_back(Linear(width, width));
    net->push_back(torch::nn::Tanh());
  }
  return net;
}

TEST(Sequential, TenLayersInTwoSegmentsRunTheFirstFiveTwiceTheRestOnce) {
  std::vector<int> counts;
  const auto layers = counting_layers(10, counts);
  const Tensor x = leaf({4});
  const Tensor y = checkpoint_sequential(layers, 2, x);
  EXPECT_EQ(counts, std::vector<int>(10, 1));
  y.sum().backward();
  EXPECT_EQ(counts, (std::vector<int>{2, 2, 2, 2, 2, 1, 1, 1, 1, 1}));
}

TEST(Sequential, NineLayersInFiveSegmentsSplitTwoTwoTwoTwoOne) {
  std::vector<int> counts;
  const auto layers = counting_layers(9, counts);
  const Tensor x = leaf({4});
  const ReplayCounter counter;
  checkpoint_sequential(layers, 5, x).sum().backward();
  EXPECT_EQ(counts, (std::vector<int>{2, 2, 2, 2, 2, 2, 2, 2, 1}));
  EXPECT_EQ(counter.stats().replays, 4);
}

TEST(Sequential, LastSegmentIsCheckpointedWhenAsked) {
  std::vector<int> counts;
  const auto layers = counting_layers(6, counts);
  const Tensor x = leaf({4});
  checkpoint_sequential(SequentialOptions().checkpoint_last(true), layers, 3, x).sum().backward();
  EXPECT_EQ(counts, std::vector<int>(6, 2));
}

TEST(Sequential, OneSegmentRunsPlain) {
  std::vector<int> counts;
  const auto layers = counting_layers(4, counts);
  const Tensor x = leaf({4});
  checkpoint_sequential(layers, 1, x).sum().backward();
  EXPECT_EQ(counts, std::vector<int>(4, 1));
}

TEST(Sequential, OnlyTheOutputsOfTheGivenLayersAreKept) {
  std::vector<int> counts;
  const auto layers = counting_layers(8, counts);
  const Tensor x = leaf({1024});
  const Meter meter;
  const int64_t base = meter.live();
  const Tensor y = checkpoint_segments(layers, segments_at(8, {2, 5, 6}), x);
  // Three boundaries and the output; and one RNG state of 5056 bytes for each of four regions.
  EXPECT_EQ(meter.live() - base, 4 * 4096 + 4 * 5056);
  y.sum().backward();
  EXPECT_EQ(counts, std::vector<int>(8, 2));
}

TEST(Sequential, GradientsEqualPlainForEverySplitOfASequential) {
  Sequential net = tanh_net(4, 6);  // 8 modules
  const Tensor x = leaf({3, 6});
  std::vector<Tensor> leaves = net->parameters();
  leaves.push_back(x);
  const auto plain = loss_and_gradients(leaves, [&] { return net->forward(x).sum(); });
  for (int k = 1; k <= 8; ++k) {
    EXPECT_TRUE(same_bits(
        plain, loss_and_gradients(leaves, [&] { return checkpoint_sequential(net, k, x).sum(); })));
    EXPECT_TRUE(same_bits(plain, loss_and_gradients(leaves, [&] {
                            return checkpoint_segments(net, int64_t{k}, x).sum();
                          })));
  }
}

TEST(Sequential, TakesVectorsOfHoldersSharedModulesAndAnyModules) {
  torch::manual_seed(3);
  const std::vector<Linear> holders{Linear(5, 5), Linear(5, 5), Linear(5, 5)};
  std::vector<std::shared_ptr<torch::nn::LinearImpl>> shared;
  std::vector<torch::nn::AnyModule> any;
  std::vector<Tensor> leaves;
  for (const Linear& holder : holders) {
    shared.push_back(holder.ptr());
    any.emplace_back(holder);
    for (const Tensor& parameter : holder->parameters()) leaves.push_back(parameter);
  }
  const Tensor x = leaf({2, 5});
  const auto plain = loss_and_gradients(leaves, [&] {
    Tensor y = x;
    for (Linear holder : holders) y = holder(y);
    return y.sum();
  });
  const auto expect_plain = [&](const auto& layers) {
    EXPECT_TRUE(same_bits(plain, loss_and_gradients(leaves, [&] {
                            return checkpoint_sequential(layers, 2, x).sum();
                          })));
  };
  expect_plain(holders);
  expect_plain(shared);
  expect_plain(any);
}

TEST(Sequential, SeveralInputsAndTuplesChain) {
  using State = std::tuple<Tensor, Tensor>;
  const std::vector<std::function<State(Tensor, Tensor)>> pairs(
      4, [](Tensor a, Tensor b) { return State((a * b).sin(), a.exp()); });
  const std::vector<std::function<State(const State&)>> states(4, [](const State& s) {
    return State((std::get<0>(s) * std::get<1>(s)).sin(), std::get<0>(s).exp());
  });
  const Tensor a = leaf({4}, 1), b = leaf({4}, 2);
  const auto plain = loss_and_gradients({a, b}, [&] {
    State s(a, b);
    for (const auto& layer : states) s = layer(s);
    return std::get<0>(s).sum() + std::get<1>(s).cos().sum();
  });
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({a, b}, [&] {
                          const auto [u, v] = checkpoint_sequential(pairs, 3, a, b);
                          return u.sum() + v.cos().sum();
                        })));
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({a, b}, [&] {
                          const auto [u, v] = checkpoint_segments(states, 2, State(a, b));
                          return u.sum() + v.cos().sum();
                        })));
}

TEST(Sequential, LayersMayBeATemporary) {
  std::vector<int> counts;
  const Tensor x = leaf({4});
  const Tensor y = checkpoint_sequential(counting_layers(4, counts), 2, x);
  y.sum().backward();
  EXPECT_EQ(counts, (std::vector<int>{2, 2, 1, 1}));
}

TEST(Sequential, BadCountsAreUsageErrorsWithBothNumbersAndAHint) {
  std::vector<int> counts;
  const auto layers = counting_layers(3, counts);
  const Tensor x = leaf({4});
  for (const int64_t segments : {0, -3, 4}) {
    const auto message =
        message_of<UsageError>([&] { checkpoint_sequential(layers, segments, x); });
    EXPECT_NE(message.find("3 layers into " + std::to_string(segments)), std::string::npos)
        << message;
    EXPECT_NE(message.find("\nhint: "), std::string::npos);
  }
  EXPECT_THROW(checkpoint_segments(layers, 0, x), UsageError);
  EXPECT_THROW(checkpoint_segments(layers, std::vector<Segment>{{0, 2}}, x), UsageError);
  EXPECT_THROW(checkpoint_segments(layers, std::vector<Segment>{{0, 1}, {2, 3}}, x), UsageError);
  EXPECT_THROW(checkpoint_segments(std::vector<Layer>{}, 1, x), UsageError);
  EXPECT_EQ(counts, std::vector<int>(3, 0));
}

TEST(Sequential, RegionsAreNamedByTheirLayers) {
  const Tensor x = leaf({4});
  int calls = 0;
  const std::vector<Layer> layers{
      [](const Tensor& t) { return t.exp(); },
      [&](const Tensor& t) { return calls++ ? t.slice(0, 0, 2).sin() : t.sin(); },
      [](const Tensor& t) { return t.exp(); }};
  const Tensor y = checkpoint_sequential(
      SequentialOptions().region(CheckpointOptions().name("encoder")), layers, 2, x);
  const auto message = message_of<RecomputeMismatch>([&] { y.sum().backward(); });
  EXPECT_NE(message.find("'encoder, layers 0-1'"), std::string::npos) << message;
}

}  // namespace
}  // namespace reprise::testing
