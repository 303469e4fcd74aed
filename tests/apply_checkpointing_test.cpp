// SPDX-License-Identifier: BSD-3-Clause
#include <sstream>
#include <tuple>

#include "tests/support.h"
#include "tests/warnings.h"

// apply_checkpointing(): layers of a whole model, wrapped from outside.

namespace reprise::testing {
namespace {

namespace nn = torch::nn;
using nn::Linear;
using nn::Sequential;

struct BlockImpl : nn::Cloneable<BlockImpl> {
  explicit BlockImpl(int64_t width) : width(width) { reset(); }
  void reset() override {
    ffn = register_module("ffn", Sequential({{"up", nn::AnyModule(Linear(width, 4 * width))},
                                             {"act", nn::AnyModule(nn::GELU())},
                                             {"dropout", nn::AnyModule(nn::Dropout(0.25))},
                                             {"down", nn::AnyModule(Linear(4 * width, width))}}));
  }
  Tensor forward(const Tensor& x) { return x + ffn->forward(x); }
  int64_t width;
  Sequential ffn{nullptr};
};
TORCH_MODULE(Block);

struct ModelImpl : nn::Cloneable<ModelImpl> {
  explicit ModelImpl(int64_t depth = 4, int64_t width = 8) : depth(depth), width(width) { reset(); }
  void reset() override {
    stem = register_module("stem", Linear(width, width));
    blocks = register_module("blocks", Sequential());
    for (int64_t i = 0; i < depth; ++i) blocks->push_back(Block(width));
  }
  Tensor forward(const Tensor& x) { return blocks->forward(stem(x)); }
  int64_t depth, width;
  Linear stem{nullptr};
  Sequential blocks{nullptr};
};
TORCH_MODULE(Model);

Model model(int64_t depth = 4, int64_t width = 8) {
  torch::manual_seed(3);
  return Model(depth, width);
}

/// How many regions one forward pass makes.
int64_t regions(Model& net) {
  const ReplayCounter counter;
  net->forward(leaf({2, net->width}));
  return counter.stats().regions;
}

LayerSelection named(const std::string& part) {
  return LayerSelection::where(
      [part](const std::string& path, const nn::Module&) {
        return path.find(part) != std::string::npos;
      },
      part);
}

std::vector<Tensor> train(Model& net, int steps = 6) {
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<Tensor> result;
  torch::manual_seed(11);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor loss = net->forward(torch::randn({5, 8})).square().mean();
    loss.backward();
    optimizer.step();
    result.push_back(loss.detach());
  }
  for (const Tensor& parameter : net->parameters()) result.push_back(parameter.detach());
  return result;
}

std::string text_of(const nn::Module& module) {
  std::stringstream text;
  text << module;
  return text.str();
}

class Apply : public ::testing::TestWithParam<Replay> {
 protected:
  CheckpointOptions options() const { return CheckpointOptions().replay(GetParam()); }
};

TEST_P(Apply, StepsOfSgdWithDropoutEqualPlainBitByBit) {
  Model plain = model();
  const auto expected = train(plain);
  for (const auto& [selection, count] :
       {std::pair(LayerSelection::all(), 4), std::pair(LayerSelection::every_nth(2), 2),
        std::pair(named("ffn.dropout"), 4), std::pair(named("ffn"), 16)}) {
    Model ours = model();
    EXPECT_EQ(apply_checkpointing(*ours, selection, options()), count);
    const ReplayCounter counter;
    EXPECT_TRUE(same_bits(expected, train(ours))) << selection.label();
    EXPECT_EQ(counter.stats().regions, 6 * count);
  }
}

TEST_P(Apply, HoldsAsLittleAsCheckpointItself) {
  Model net = model(4, 64);
  const Tensor x = leaf({32, 64});
  const auto held = [&](const std::function<Tensor()>& forward) {
    forward();  // what is made once
    const Meter meter;
    const int64_t base = meter.live();
    const Tensor y = forward();
    return meter.live() - base;
  };
  const int64_t plain = held([&] { return net->forward(x); });
  const int64_t direct = held([&] {
    Tensor y = net->stem(x);
    for (auto& block : *net->blocks) y = checkpoint(options().name("block"), block, y);
    return y;
  });
  apply_checkpointing(*net, LayerSelection::all(), options());
  EXPECT_EQ(held([&] { return net->forward(x); }), direct);
  EXPECT_LT(direct, plain / 4);
}

TEST_P(Apply, TheModelMayBeGoneBeforeTheBackwardPass) {
  const Tensor x = leaf({3, 8});
  const auto loss = [&](bool wrap) {
    Model net = model();
    if (wrap) apply_checkpointing(*net, LayerSelection::all(), options());
    torch::manual_seed(5);
    const Tensor y = net->forward(x).sin().sum();
    return std::make_pair(y, std::weak_ptr<nn::Module>(net->blocks->ptr(0)));
  };
  auto [y, block] = loss(true);
  EXPECT_TRUE(
      same_bits(torch::autograd::grad({loss(false).first}, {x}), torch::autograd::grad({y}, {x})));
  y = Tensor();
  EXPECT_TRUE(block.expired());
}

INSTANTIATE_TEST_SUITE_P(Both, Apply, ::testing::Values(Replay::functions, Replay::operators));

TEST(ApplyCheckpointing, WrapsExactlyTheLayersThatMatch) {
  Model net = model();
  std::vector<std::string> asked;
  const auto second = LayerSelection::where(
      [&](const std::string& path, const nn::Module& module) {
        asked.push_back(path);
        return module.as<Block>() != nullptr && path == "blocks.2";
      },
      "the third block");
  EXPECT_EQ(apply_checkpointing(*net, second), 1);
  EXPECT_EQ(asked.size(), 4 + 3 * 4)
      << "not what is in the wrapped block, nor 'stem', nor the root";
  EXPECT_EQ(std::count(asked.begin(), asked.end(), "blocks.0.ffn.up"), 1);
  EXPECT_EQ(std::count(asked.begin(), asked.end(), ""), 0);
  EXPECT_EQ(std::count(asked.begin(), asked.end(), "stem"), 0);
  EXPECT_EQ(regions(net), 1);
}

TEST(ApplyCheckpointing, AppliedAgainWrapsOnceAndGivesTheNewOptions) {
  Model net = model();
  EXPECT_EQ(apply_checkpointing(*net), 4);
  EXPECT_EQ(apply_checkpointing(*net), 4);
  EXPECT_EQ(regions(net), 4);
  const Warnings warnings;
  EXPECT_EQ(apply_checkpointing(*net, named("ffn")), 0) << "not inside what is wrapped";
  EXPECT_EQ(regions(net), 4);
  EXPECT_EQ(apply_checkpointing(*net, named("blocks.1"), CheckpointOptions().enabled(false)), 1);
  EXPECT_EQ(regions(net), 3);
  Model other = model();
  EXPECT_EQ(apply_checkpointing(*other, named("ffn")), 16);
  EXPECT_EQ(apply_checkpointing(*other, LayerSelection::every_nth(2)), 2);
  EXPECT_EQ(regions(other), 2 + 2 * 4) << "wrapping a block unwraps what is in it";
}

TEST(ApplyCheckpointing, EveryNthAndTheFirstAndLastLayersLeftAlone) {
  const auto count = [](const LayerSelection& selection) {
    const Warnings ignored;
    Model net = model(6);
    const int64_t wrapped = apply_checkpointing(*net, selection);
    EXPECT_EQ(regions(net), wrapped);
    return wrapped;
  };
  EXPECT_EQ(count(LayerSelection::all()), 6);
  EXPECT_EQ(count(LayerSelection::every_nth(4)), 1);
  EXPECT_EQ(count(LayerSelection::every_nth(7)), 0);
  EXPECT_EQ(count(LayerSelection::all().leave_first(1).leave_last(2)), 3);
  EXPECT_EQ(count(LayerSelection::all().leave_first(3).leave_last(3)), 0);
  EXPECT_EQ(count(LayerSelection::every_nth(2).leave_last(1)), 2);
  EXPECT_EQ(count(named("ffn.up").leave_first(1)), 0) << "the first in each ffn";
  EXPECT_EQ(count(named("ffn.act").leave_first(1)), 5) << "all but that of the first block";
  EXPECT_THROW(LayerSelection::every_nth(0), UsageError);
  EXPECT_THROW(LayerSelection::all().leave_first(-1), UsageError);
  EXPECT_THROW(LayerSelection::where(nullptr, "nothing"), UsageError);
}

TEST(ApplyCheckpointing, TheRootIsNeverWrappedItsElementsAre) {
  Sequential root(Linear(4, 4), nn::Tanh());
  EXPECT_EQ(apply_checkpointing(*root), 2);
  const ReplayCounter counter;
  root->forward(leaf({2, 4}));
  EXPECT_EQ(counter.stats().regions, 2);
}

/// A Sequential that can be an element of another.
struct RowImpl : nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  Tensor forward(Tensor x) { return SequentialImpl::forward(x); }
};
TORCH_MODULE(Row);

TEST(ApplyCheckpointing, ANestedSequentialIsWrappedAsAWholeOrLookedInto) {
  const auto make = [] {
    torch::manual_seed(3);
    return Sequential(Row(Linear(4, 4), nn::Tanh()), Row(Linear(4, 4), nn::Tanh()));
  };
  Sequential plain = make(), whole = make(), inside = make();
  EXPECT_EQ(apply_checkpointing(*whole), 2);
  EXPECT_EQ(apply_checkpointing(*inside, LayerSelection::where(
                                             [](const std::string&, const nn::Module& module) {
                                               return module.as<nn::Tanh>() != nullptr;
                                             },
                                             "tanh")),
            2);
  const Tensor x = leaf({3, 4});
  const auto run = [&](Sequential& net) {
    std::vector<Tensor> leaves = net->parameters();
    leaves.push_back(x);
    return loss_and_gradients(leaves, [&] { return net->forward(x).sum(); });
  };
  const auto expected = run(plain);
  const ReplayCounter counter;
  EXPECT_TRUE(same_bits(expected, run(whole)));
  EXPECT_TRUE(same_bits(expected, run(inside)));
  EXPECT_EQ(counter.stats().regions, 4);
  EXPECT_EQ(remove_checkpointing(*inside), 2);
}

TEST(ApplyCheckpointing, ASelectionThatChoosesNothingIsWarnedOfByName) {
  Model net = model();
  const Warnings warnings;
  EXPECT_EQ(apply_checkpointing(*net, named("attention")), 0);
  EXPECT_TRUE(warnings.mention("'attention'")) << warnings.text();
  EXPECT_TRUE(warnings.mention("20 layers")) << warnings.text();
  const Warnings others;
  apply_checkpointing(*net);
  EXPECT_EQ(others.text(), "");
  Linear alone(2, 2);
  EXPECT_EQ(apply_checkpointing(*alone), 0);
  EXPECT_TRUE(others.mention("'all' chose none of 0 layers")) << others.text();
}

TEST(ApplyCheckpointing, RemoveRestoresTheModel) {
  Model net = model();
  EXPECT_EQ(remove_checkpointing(*net), 0);
  apply_checkpointing(*net, LayerSelection::every_nth(2));
  apply_checkpointing(*net, named("ffn.up"));
  EXPECT_EQ(regions(net), 4) << "two blocks, and one layer in each of the others";
  const Tensor x = leaf({2, 8});
  torch::manual_seed(5);
  const Tensor y = net->forward(x).sum();
  EXPECT_EQ(remove_checkpointing(*net), 4);
  EXPECT_EQ(regions(net), 0);
  EXPECT_NE(net->blocks->at<BlockImpl>(1).ffn.get(), nullptr);
  torch::manual_seed(5);
  EXPECT_TRUE(same_bits(torch::autograd::grad({net->forward(x).sum()}, {x}),
                        torch::autograd::grad({y}, {x})))
      << "the graph that exists replays as before";
}

TEST(ApplyCheckpointing, TheRegisteredModulesStayWhatTheyAre) {
  Model net = model(), plain = model();
  const auto modules = net->modules();
  apply_checkpointing(*net);
  EXPECT_EQ(net->modules(), modules);
  EXPECT_EQ(net->named_parameters().keys(), plain->named_parameters().keys());
  EXPECT_EQ(text_of(*net), text_of(*plain));
  EXPECT_NE(net->blocks->ptr(0)->as<Block>(), nullptr);
  EXPECT_THROW(net->blocks->at<BlockImpl>(0), c10::Error);
  train(plain, 1);
  std::stringstream file;
  torch::save(plain, file);
  torch::load(net, file);
  EXPECT_TRUE(same_bits(net->parameters(), plain->parameters()));
  std::stringstream back;
  torch::save(net, back);
  Model other = model();
  torch::load(other, back);
  EXPECT_TRUE(same_bits(other->parameters(), plain->parameters()));
  net->to(torch::kDouble);
  net->eval();
  plain->to(torch::kDouble);
  plain->eval();
  const Tensor x = torch::ones({2, 8}, torch::kDouble);
  EXPECT_TRUE(bit_equal(net->forward(x), plain->forward(x)));
}

TEST(ApplyCheckpointing, ClonesAreWrappedAlikeAndShareNothing) {
  Model net = model();
  apply_checkpointing(*net, LayerSelection::every_nth(2));
  Model copy(std::dynamic_pointer_cast<ModelImpl>(net->clone()));
  EXPECT_EQ(regions(copy), 2);
  EXPECT_NE(copy->blocks->ptr(1), net->blocks->ptr(1));
  EXPECT_TRUE(same_bits(train(net, 2), train(copy, 2)));
  EXPECT_EQ(remove_checkpointing(*copy), 2);
  EXPECT_EQ(regions(net), 2);
}

TEST(ApplyCheckpointing, ElementsThatAreCheckpointedThemselvesAreLeftAlone) {
  Sequential net(Checkpointed<Linear>(4, 4), Linear(4, 4));
  EXPECT_EQ(apply_checkpointing(*net), 1);
  const ReplayCounter counter;
  net->forward(leaf({2, 4}));
  EXPECT_EQ(counter.stats().regions, 2);
  EXPECT_EQ(remove_checkpointing(*net), 1);
}

TEST(ApplyCheckpointing, NamesOfRegionsHoldTheOptionsNameAndThePath) {
  struct DriftingImpl : nn::Module {
    Tensor forward(const Tensor& x) { return ++calls == 1 ? x.sin() : x; }
    int calls = 0;
  };
  for (const auto& [given, expected] : {std::pair("", "'0'"), std::pair("net", "'net, 0'")}) {
    Sequential net;
    net->push_back(std::make_shared<DriftingImpl>());
    apply_checkpointing(*net, LayerSelection::all(), CheckpointOptions().name(given));
    const Tensor y = net->forward(leaf({2})).sum();
    const std::string message = message_of<RecomputeMismatch>([&] { y.backward(); });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

struct SplitImpl : nn::Module {
  std::tuple<Tensor, Tensor> forward(const Tensor& x, Tensor y, double factor) {
    return {(x * factor).sin(), (x * y).exp()};
  }
};
struct JoinImpl : nn::Module {
  Tensor forward(const std::tuple<Tensor, Tensor>& pair) {
    return (std::get<0>(pair) * std::get<1>(pair)).tanh();
  }
};

TEST(ApplyCheckpointing, LayersTakeAndReturnWhatSequentialPasses) {
  Sequential net;
  net->push_back(std::make_shared<SplitImpl>());
  net->push_back(std::make_shared<JoinImpl>());
  net->push_back(nn::ConvTranspose1d(3, 3, 3));  // has default arguments
  net->push_back(nn::GRU(nn::GRUOptions(7, 4)));
  const Tensor x = leaf({2, 3, 5}, 1), y = leaf({2, 3, 5}, 2);
  std::vector<Tensor> leaves = net->parameters();
  leaves.insert(leaves.end(), {x, y});
  const auto run = [&] {
    return loss_and_gradients(leaves, [&] {
      const auto [output, hidden] = net->forward<std::tuple<Tensor, Tensor>>(x, Tensor(y), 0.5);
      return output.sum() + hidden.square().sum();
    });
  };
  const auto expected = run();
  for (const Replay replay : {Replay::functions, Replay::operators}) {
    EXPECT_EQ(apply_checkpointing(*net, LayerSelection::all(), CheckpointOptions().replay(replay)),
              4);
    const ReplayCounter counter;
    EXPECT_TRUE(same_bits(expected, run()));
    EXPECT_EQ(counter.stats().regions, 4);
  }
  EXPECT_THROW(net->forward(x, Tensor(y), 1), c10::Error) << "an int is no double, as before";
}

TEST(ApplyCheckpointing, AnInputChangedInPlaceIsNoticed) {
  Sequential net(nn::Tanh{}, nn::Tanh{});
  apply_checkpointing(*net);
  const Tensor x = leaf({4}) * 1;
  const Tensor y = net->forward(x).sum();
  x.mul_(2);
  EXPECT_NE(message_of<c10::Error>([&] { y.backward(); }).find("modified by an inplace"),
            std::string::npos);
  struct OfPairImpl : nn::Module {
    Tensor forward(std::tuple<Tensor, Tensor> pair) {
      return std::get<0>(pair).sin() * std::get<1>(pair);
    }
  };
  Sequential pairs;
  pairs->push_back(std::make_shared<OfPairImpl>());
  apply_checkpointing(*pairs);
  const Tensor b = leaf({4}) * 1;
  const Tensor z = pairs->forward(std::make_tuple(b, b)).sum();
  b.mul_(2);
  EXPECT_THROW(z.backward(), c10::Error);
}

struct ElevenImpl : nn::Module {
  Tensor forward(Tensor a, int, int, int, int, int, int, int, int, int, int) { return a; }
};

TEST(ApplyCheckpointing, TooManyArgumentsAreAnErrorThatNamesThePath) {
  Sequential net;
  net->push_back("wide", std::make_shared<ElevenImpl>());
  const Tensor x = leaf({2});
  const auto run = [&] { net->forward(Tensor(x), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10); };
  run();
  apply_checkpointing(*net);
  EXPECT_NE(message_of<UsageError>(run).find("'wide'"), std::string::npos);
}

TEST(ApplyCheckpointing, ALayerThatStandsInTwoPlacesIsWrappedInBoth) {
  Linear shared(4, 4);
  Sequential first(shared, shared), second(shared);
  nn::ModuleList list(first, second, first);
  EXPECT_EQ(apply_checkpointing(*list), 3);
  const ReplayCounter counter;
  first->forward(leaf({2, 4}));
  second->forward(leaf({2, 4}));
  EXPECT_EQ(counter.stats().regions, 3);
  EXPECT_EQ(remove_checkpointing(*list), 3);
}

}  // namespace
}  // namespace reprise::testing
