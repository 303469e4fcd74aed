// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include <torch/script.h>

#include "tests/support.h"
#include "tests/warnings.h"

// Rules by module, for models that know nothing of Reprise.

namespace reprise::testing {
namespace {

constexpr int64_t kWidth = 16;

struct FfnImpl : torch::nn::Module {
  FfnImpl()
      : up(register_module("up", torch::nn::Linear(kWidth, 4 * kWidth))),
        down(register_module("down", torch::nn::Linear(4 * kWidth, kWidth))) {}
  Tensor forward(const Tensor& x) { return down(at::gelu(up(x))); }
  torch::nn::Linear up, down;
};
TORCH_MODULE(Ffn);

struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})))),
        self_attn(register_module("self_attn", torch::nn::Linear(kWidth, kWidth))),
        ffn(register_module("ffn", Ffn())) {}
  Tensor forward(const Tensor& x) {
    const Tensor mixed = x + self_attn(norm(x)).tanh();
    return boundary(mixed + ffn(mixed));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear self_attn;
  Ffn ffn;
};
TORCH_MODULE(Block);

struct Model : torch::nn::Module {
  Model() : blocks(register_module("blocks", torch::nn::ModuleList())) {
    for (int i = 0; i < 4; ++i) blocks->push_back(Block());
  }
  Tensor forward(Tensor x) {
    for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x);
    return x;
  }
  torch::nn::ModuleList blocks;
};

class ModulePathsTest : public ::testing::Test {
 protected:
  ModulePathsTest() {
    torch::manual_seed(1);
    model = std::make_shared<Model>();
    leaves = model->parameters();
    leaves.push_back(x);
    plain = loss_and_gradients(leaves, [&] { return model->forward(x).square().mean(); });
  }

  ScopeSummary under(const Policy& policy, ScopeOptions options) {
    ScopeSummary summary;
    const auto ours = loss_and_gradients(leaves, [&] {
      Scope scope(policy.audit(false), options);
      const Tensor loss = model->forward(x).square().mean();
      scope.end();
      summary = scope.summary();
      return loss;
    });
    EXPECT_TRUE(same_bits(plain, ours));
    return summary;
  }
  ScopeSummary under(const Policy& policy) {
    return under(policy, ScopeOptions().modules(ModulePaths(*model, "net")));
  }

  /// The modules of the values that a policy is asked about.
  std::set<std::string> modules_seen(const ScopeOptions& options) {
    std::set<std::string> seen;
    under(Policy::where(
              [&](const ValueView& value) {
                seen.insert(std::string(value.module) + " " + std::string(value.op));
                return false;
              },
              Action::recompute, "look"),
          options);
    return seen;
  }

  std::shared_ptr<Model> model;
  Tensor x = leaf({8, kWidth});
  std::vector<Tensor> leaves, plain;
};

TEST_F(ModulePathsTest, AValueBelongsToTheModuleWhoseParameterWasReadLast) {
  const auto seen = modules_seen(ScopeOptions().modules(ModulePaths(*model, "net")));
  for (const char* value :
       {"net.blocks.0.norm aten::native_layer_norm", "net.blocks.0.self_attn aten::addmm",
        "net.blocks.0.self_attn aten::tanh", "net.blocks.3.ffn.up aten::gelu",
        "net.blocks.3.ffn.down aten::addmm"}) {
    EXPECT_TRUE(seen.count(value)) << value;
  }
  EXPECT_FALSE(seen.count("net.blocks.0.ffn.down aten::gelu"));
}

TEST_F(ModulePathsTest, AnOpenModuleScopeDecidesInstead) {
  const ModulePaths paths(*model);
  const ModuleScope outer("mine");
  for (const std::string& value : modules_seen(ScopeOptions().modules(paths))) {
    EXPECT_TRUE(value.starts_with("mine ")) << value;
  }
}

TEST_F(ModulePathsTest, FollowParametersThatMoveToOtherStorage) {
  const ModulePaths paths(*model, "net");
  for (Tensor parameter : model->parameters()) parameter.set_data(parameter.detach().clone());
  EXPECT_TRUE(modules_seen(ScopeOptions().modules(paths)).count("net.blocks.1.ffn.up aten::gelu"));
}

TEST_F(ModulePathsTest, RulesByLayerAndPart) {
  // In each block, autograd saves three results of the norm; tanh and a sum, of attention; a
  // product, gelu and the last sum, of the ffn.
  const auto dropped = [&](const Policy& policy) { return under(policy).recomputed; };
  const int64_t all = dropped(Policy::recompute_all());
  EXPECT_EQ(dropped(Policy::layers(0, 2, Action::recompute)) * 2, all);
  EXPECT_EQ(dropped(Policy::every_nth_layer(2, Action::recompute)) * 2, all);
  EXPECT_EQ(dropped(Policy::ffn(Action::recompute)), 4 * 3);
  EXPECT_EQ(dropped(Policy::attention(Action::recompute)), 4 * 2);
  EXPECT_EQ(dropped(Policy::module("blocks.2.ffn", Action::recompute)), 3);
}

TEST_F(ModulePathsTest, ABoundaryEveryNLayers) {
  const auto held = [&](const Policy& policy) {
    const Meter meter;
    const int64_t base = meter.live();
    Tensor loss;
    {
      const Scope scope(policy.audit(false), ScopeOptions().modules(ModulePaths(*model)));
      loss = model->forward(x).square().mean();
    }
    return meter.live() - base - loss.numel() * 4;
  };
  const int64_t boundary_bytes = x.numel() * 4;
  EXPECT_EQ(held(Policy::boundary_every(1)), 4 * boundary_bytes);
  EXPECT_EQ(held(Policy::boundary_every(2)), 2 * boundary_bytes);
  EXPECT_EQ(held(Policy::boundary_every(4)), boundary_bytes);
  under(Policy::boundary_every(3));
  EXPECT_THROW(Policy::boundary_every(0), UsageError);
}

TEST_F(ModulePathsTest, TheAdviceLeavesTheFirstAndTheLastLayerAlone) {
  const ScopeSummary summary = under(Policy::advised(4));
  // Of the two layers between, all but what flows to the next.
  EXPECT_EQ(summary.recomputed, 2 * 7);
  EXPECT_GT(summary.kept, 0);
  EXPECT_THROW(Policy::advised(2), UsageError);
}

TEST_F(ModulePathsTest, MeasuredModulesHaveClassesThatRulesCanUse) {
  const ModulePaths paths(*model);
  const ScopeSummary measured =
      under(Policy::keep_all(), ScopeOptions().modules(paths).measure(true));
  std::map<std::string, ModuleCost> costs;
  int64_t operators = 0;
  for (const ModuleCost& cost : measured.modules) {
    costs[cost.module] = cost;
    operators += cost.operators;
  }
  EXPECT_GE(operators, measured.operators);
  EXPECT_EQ(costs.at("blocks.1.ffn.up").saved_bytes, 2 * 8 * 4 * kWidth * 4);
  EXPECT_GT(costs.at("blocks.1.ffn.up").milliseconds, 0);
  EXPECT_TRUE(under(Policy::keep_all()).modules.empty());

  const LayerClasses classes{{"blocks.0.ffn.up", LayerClass::activation_heavy},
                             {"blocks.1.ffn.up", LayerClass::compute_heavy}};
  EXPECT_EQ(under(Policy::layer_class(classes, LayerClass::activation_heavy, Action::recompute),
                  ScopeOptions().modules(paths))
                .recomputed,
            2);
}

TEST_F(ModulePathsTest, MessagesNameTheScopeAndTheModule) {
  const Tensor w = leaf({kWidth});
  const Warnings warnings;
  for (int step = 0; step < 2; ++step) {
    const Scope scope(Policy::recompute_all(),
                      ScopeOptions().name("decoder").modules(ModulePaths(*model)));
    const Tensor y = model->forward(x);
    const Tensor factor = y.detach() * 2;
    factor.data_ptr<float>()[0] = 3;  // unseen
    (factor * w).sum().backward();
  }
  EXPECT_TRUE(
      warnings.mention("aten::mul.Scalar, call 1 in 'decoder', in module blocks.3.ffn.down"))
      << warnings.text();
}

TEST(ModulePaths, OfATorchScriptModule) {
  torch::jit::Module inner("inner");
  inner.register_parameter("weight", leaf({4, 4}), false);
  inner.define("def forward(self, x):\n    return torch.mm(x, self.weight).sin()\n");
  torch::jit::Module outer("outer");
  outer.register_module("proj", inner);
  outer.define("def forward(self, x):\n    return self.proj.forward(x).exp()\n");
  const Tensor x = at::ones({2, 4});
  std::set<std::string> modules;
  Scope scope(Policy::where(
                  [&](const ValueView& value) {
                    modules.insert(std::string(value.module));
                    return false;
                  },
                  Action::recompute, "look")
                  .audit(false),
              ScopeOptions().modules(ModulePaths(outer, "net")));
  outer.forward({x});
  EXPECT_EQ(modules, (std::set<std::string>{"net.proj"}));
}

TEST(LayerClasses, ByTheSharesOfTimeAndBytes) {
  const LayerClasses classes = classify_layers(
      {{"", 5, 100, 100}, {"mm", 1, 80, 10}, {"gelu", 1, 15, 80}, {"tiny", 1, 1, 1}});
  EXPECT_EQ(classes, (LayerClasses{{"mm", LayerClass::compute_heavy},
                                   {"gelu", LayerClass::activation_heavy},
                                   {"tiny", LayerClass::light}}));
  EXPECT_TRUE(classify_layers({}).empty());
}

}  // namespace
}  // namespace reprise::testing
