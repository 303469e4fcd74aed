// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include <ATen/core/dispatch/Dispatcher.h>

#include "tests/support.h"

// Scopes and policies, as their users see them.

namespace reprise::testing {
namespace {

constexpr int64_t kWidth = 64;

/// Residual blocks with attention, dropout and a boundary after each part.
struct Blocks : torch::nn::Module {
  explicit Blocks(int64_t layers) {
    for (int64_t i = 0; i < layers; ++i) {
      up.push_back(
          register_module("up" + std::to_string(i), torch::nn::Linear(kWidth, 4 * kWidth)));
      down.push_back(
          register_module("down" + std::to_string(i), torch::nn::Linear(4 * kWidth, kWidth)));
      norm.push_back(register_module("norm" + std::to_string(i),
                                     torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}))));
    }
  }
  Tensor forward(Tensor x) {
    for (std::size_t i = 0; i < up.size(); ++i) {
      const ModuleScope block("blocks." + std::to_string(i));
      const Tensor q = norm[i](x).view({2, -1, 4, kWidth / 4}).transpose(1, 2);
      const Tensor mixed = at::scaled_dot_product_attention(q, q, q, {}, 0.0, true);
      x = boundary(x + mixed.transpose(1, 2).reshape(x.sizes()), "layer");
      const ModuleScope ffn("ffn");
      const Tensor hidden = named("hidden", at::gelu(up[i](norm[i](x))));
      x = boundary(x + at::dropout(down[i](hidden), 0.1, true));
    }
    return x;
  }
  std::vector<torch::nn::Linear> up, down;
  std::vector<torch::nn::LayerNorm> norm;
};

class ScopeTest : public ::testing::Test {
 protected:
  ScopeTest() {
    torch::manual_seed(1);
    net = std::make_shared<Blocks>(4);
    leaves = net->parameters();
    leaves.push_back(x);
    plain = loss_and_gradients(leaves, [&] { return net->forward(x).square().mean(); });
  }

  std::vector<Tensor> under(const Policy& policy, ScopeSummary* summary = nullptr) {
    return loss_and_gradients(leaves, [&] {
      Scope scope(policy);
      const Tensor loss = net->forward(x).square().mean();
      if (summary) *summary = scope.summary();
      return loss;
    });
  }

  /// Live bytes at the end of the forward pass.
  int64_t held(const Policy& policy) {
    torch::manual_seed(7);
    const Meter meter;
    const int64_t base = meter.live();
    Tensor loss;
    {
      const Scope scope(policy.audit(false));
      loss = net->forward(x).square().mean();
    }
    return meter.live() - base;
  }

  Tensor x = leaf({2, 32, kWidth});
  std::shared_ptr<Blocks> net;
  std::vector<Tensor> leaves, plain;
};

TEST_F(ScopeTest, EveryPresetGivesTheGradientsOfPlainAuditedAndNot) {
  for (const Policy& policy : {Policy::keep_matmuls(), Policy::full(), Policy::every_layer(),
                               Policy::keep_all(), Policy::keep_names({"none"})}) {
    EXPECT_TRUE(same_bits(plain, under(policy)));
    EXPECT_TRUE(same_bits(plain, under(policy)));
  }
}

TEST_F(ScopeTest, PresetsHoldAsMuchAsTheirNamesSay) {
  const int64_t all = held(Policy::keep_all());
  const int64_t products = held(Policy::keep_matmuls());
  const int64_t layers = held(Policy::every_layer());
  const int64_t blocks = held(Policy::full());
  EXPECT_LT(products, all * 8 / 10);
  EXPECT_LT(layers, products / 2);
  EXPECT_LT(blocks, layers);
  const int64_t residual = 2 * 32 * kWidth * 4;
  // The residual behind each block, four RNG states, and the loss.
  EXPECT_EQ(blocks, 4 * residual + 4 * 5056 + 4);
  EXPECT_EQ(layers, 8 * residual + 4 * 5056 + 4);
}

TEST_F(ScopeTest, RulesByOperatorNameModuleLayerAndPredicate) {
  for (const Policy& policy :
       {Policy::keep_ops({"aten::mm", "gelu"}), Policy::recompute_ops({"aten::gelu"}),
        Policy::recompute_names({"hidden"}), Policy::layers(0, 2, Action::recompute),
        Policy::every_nth_layer(2, Action::recompute), Policy::module("ffn", Action::recompute),
        Policy::module("blocks.1", Action::keep),
        Policy::where([](const ValueView& v) { return v.bytes > 40000; }, Action::recompute,
                      "large values"),
        Policy::encode_ops({"aten::bernoulli_", "aten::div_"}) |
            Policy::recompute_ops({"native_layer_norm"}) | Policy::keep_ops({"mul.Tensor"})}) {
    ScopeSummary summary;
    EXPECT_TRUE(same_bits(plain, under(policy.audit(false), &summary)));
    EXPECT_GT(summary.saved, 0);
  }
}

TEST_F(ScopeTest, OnlyTheNamedValueIsDropped) {
  ScopeSummary summary;
  EXPECT_TRUE(same_bits(plain, under(Policy::recompute_names({"hidden"}).audit(false), &summary)));
  EXPECT_EQ(summary.recomputed, 4);
  EXPECT_GT(summary.kept, 10);
}

TEST_F(ScopeTest, MasksAreKeptAsBits) {
  ScopeSummary summary;
  const Policy bits =
      Policy::where([](const ValueView& v) { return v.drawn; }, Action::encode, "draws")
          .otherwise(Action::keep)
          .audit(false);
  EXPECT_TRUE(same_bits(plain, under(bits, &summary)));
  EXPECT_EQ(summary.encoded, 4);
  const int64_t noise = 2 * 32 * kWidth * 4;
  EXPECT_LE(held(bits), held(Policy::keep_all()) - 4 * (noise - noise / 32));
}

TEST_F(ScopeTest, MustRulesWinAndCollisionsNameBoth) {
  const Policy must =
      Policy::recompute_ops({"aten::gelu"}) | Policy::keep_ops({"aten::gelu"}, Strength::must);
  ScopeSummary summary;
  EXPECT_TRUE(same_bits(plain, under(must.otherwise(Action::keep).audit(false), &summary)));
  EXPECT_EQ(summary.recomputed, 0);
  const Policy collision = Policy::recompute_ops({"aten::gelu"}, Strength::must) |
                           Policy::keep_ops({"aten::gelu"}, Strength::must);
  const auto message = message_of<UsageError>([&] { under(collision); });
  EXPECT_NE(message.find("keep_ops(aten::gelu)"), std::string::npos) << message;
  EXPECT_NE(message.find("recompute_ops(aten::gelu)"), std::string::npos) << message;
}

TEST_F(ScopeTest, UnusedRulesAreNamed) {
  ScopeSummary summary;
  under(Policy::keep_ops({"aten::conv2d"}) | Policy::keep_ops({"aten::mm"}), &summary);
  EXPECT_EQ(summary.unused_rules, (std::vector<std::string>{"keep_ops(aten::conv2d)"}));
}

TEST(Policies, UnknownOperatorsAreUsageErrorsThatNameTheNearest) {
  const auto message = message_of<UsageError>([] { Policy::keep_ops({"aten::admm"}); });
  EXPECT_NE(message.find("aten::addmm"), std::string::npos) << message;
  const auto overload = message_of<UsageError>([] { Policy::keep_ops({"aten::mul.Tenser"}); });
  EXPECT_NE(overload.find("Tensor"), std::string::npos) << overload;
  EXPECT_THROW(Policy::layers(3, 3, Action::keep), UsageError);
  EXPECT_THROW(Policy::every_nth_layer(0, Action::keep), UsageError);
  EXPECT_THROW(Policy::module("", Action::keep), UsageError);
  EXPECT_THROW(Policy::keep_ops({}), UsageError);
  EXPECT_THROW(Policy::recompute_names({}), UsageError);
}

TEST_F(ScopeTest, OperatorsByTheDispatchersHandleMeanOneOverload) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::gelu", "");
  ScopeSummary summary;
  const Policy policy = Policy::recompute_ops({handle}).otherwise(Action::keep);
  EXPECT_TRUE(same_bits(plain, under(policy.audit(false), &summary)));
  EXPECT_EQ(summary.recomputed, 4);
}

TEST_F(ScopeTest, NestedScopesEachRuleTheirPart) {
  const auto run = [&](bool scoped) {
    return loss_and_gradients(leaves, [&] {
      std::optional<Scope> outer;
      if (scoped) outer.emplace(Policy::full().audit(false));
      Tensor y = x.sin().exp();
      {
        std::optional<Scope> inner;
        if (scoped) inner.emplace(Policy::keep_all());
        y = net->forward(y);
      }
      return y.sin().tanh().square().mean();
    });
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST_F(ScopeTest, ScopesInSeveralThreadsAndBackwardOnAnother) {
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      const Tensor w = leaf({16, 16}, i);
      const auto f = [&] { return w.matmul(w).sin().exp().matmul(w).tanh().square().mean(); };
      const auto expected = torch::autograd::grad({f()}, {w});
      for (int k = 0; k < 10; ++k) {
        Tensor loss;
        {
          const Scope scope(Policy::keep_names({"none"}).audit(false));
          loss = f();
        }
        std::vector<Tensor> ours;
        std::thread([&] { ours = torch::autograd::grad({loss}, {w}); }).join();
        EXPECT_TRUE(same_bits(expected, ours));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Audit, KeepsAValueWhoseReplayDiffersAndWarns) {
  const Tensor x = leaf({8});
  const auto f = [&] {
    const Tensor y = x.exp();
    const Tensor z = y.detach() * 2;
    std::fill_n(z.data_ptr<float>(), 8, 3.0F);  // unseen: no operator, no version
    return (y * z).sin().sum();
  };
  const auto plain = loss_and_gradients({x}, f);
  const Policy policy = Policy::keep_names({"audit test"}).otherwise(Action::recompute);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(same_bits(plain, loss_and_gradients({x},
                                                    [&] {
                                                      const Scope scope(policy);
                                                      return f();
                                                    })))
        << step;
  }
}

TEST(Audit, KeepTellsTheTapeWhatItCannotSee) {
  const Tensor x = leaf({8});
  const auto f = [&] {
    const Tensor y = x.exp();
    const Tensor z = y.detach() * 2;
    std::fill_n(z.data_ptr<float>(), 8, 3.0F);
    return (y * keep(z)).sin().sum();
  };
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, f), loss_and_gradients({x}, [&] {
                          const Scope scope(Policy::keep_names({"keep test"}).audit(false));
                          return f();
                        })));
}

TEST(Scopes, ARuleThatThrowsLateDoesNotEndTheProcess) {
  const Tensor x = leaf({4});
  const Policy policy =
      Policy::keep_names({"a"}, Strength::must) | Policy::recompute_names({"a"}, Strength::must);
  Tensor y;
  EXPECT_THROW(
      {
        const Scope scope(policy);
        y = x.exp();
        named("a", y);
      },
      UsageError);
  EXPECT_NO_THROW(y.sum().backward());
}

TEST(Scopes, TheSummaryGoesOnCountingAfterTheEnd) {
  const Tensor x = leaf({4});
  Scope scope(Policy::keep_names({"none"}).audit(false));
  const Tensor y = x.exp().sin().cos().sum();
  scope.end();
  x.exp();  // not recorded
  EXPECT_EQ(scope.summary().operators, 4);
  EXPECT_EQ(scope.summary().replays, 0);
  y.backward();
  EXPECT_EQ(scope.summary().replays, 2);
}

TEST(Scopes, NamesDoNothingOutsideOfAScope) {
  const Tensor x = leaf({2});
  EXPECT_TRUE(named("a", x).is_same(x));
  EXPECT_TRUE(boundary(x).is_same(x));
  EXPECT_TRUE(keep(x).is_same(x));
}

}  // namespace
}  // namespace reprise::testing
