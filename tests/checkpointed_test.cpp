// SPDX-License-Identifier: BSD-3-Clause
#include <sstream>
#include <tuple>

#include "tests/support.h"

// Checkpointed<M>: the module M with a forward() that is a checkpoint().

namespace reprise::testing {
namespace {

namespace nn = torch::nn;

struct BlockImpl : nn::Cloneable<BlockImpl> {
  explicit BlockImpl(int64_t width) : width(width) { reset(); }

  void reset() override {
    up = register_module("up", nn::Linear(width, 4 * width));
    dropout = register_module("dropout", nn::Dropout(0.25));
    down = register_module("down", nn::Linear(4 * width, width));
    scale = register_parameter("scale", torch::ones({width}));
    shift = register_buffer("shift", torch::zeros({width}));
  }

  Tensor forward(const Tensor& x) {
    ++calls;
    return x + down(dropout(torch::gelu(up(x)))) * scale + shift;
  }

  int64_t width, calls = 0;
  nn::Linear up{nullptr}, down{nullptr};
  nn::Dropout dropout{nullptr};
  Tensor scale, shift;
};
TORCH_MODULE(Block);

/// The same model with plain and with checkpointed blocks.
template <class B>
struct NetImpl : nn::Cloneable<NetImpl<B>> {
  explicit NetImpl(const CheckpointOptions& options = {}) : options(options) { reset(); }

  void reset() override {
    member = this->register_module("member", make());
    list = this->register_module("list", nn::ModuleList(make(), make()));
    row = this->register_module("row", nn::Sequential(nn::Linear(8, 8), make(), nn::Tanh()));
  }

  B make() {
    if constexpr (std::is_same_v<B, Block>) {
      return B(8);
    } else {
      return B(options, 8);
    }
  }

  Tensor forward(Tensor x) {
    x = member(x);
    for (const auto& block : *list) x = block->template as<typename B::ContainedType>()->forward(x);
    return row->forward(x);
  }

  CheckpointOptions options;
  B member{nullptr};
  nn::ModuleList list{nullptr};
  nn::Sequential row{nullptr};
};

template <class B>
std::shared_ptr<NetImpl<B>> net(const CheckpointOptions& options = {}) {
  torch::manual_seed(3);
  return std::make_shared<NetImpl<B>>(options);
}

std::string text_of(const nn::Module& module) {
  std::stringstream text;
  text << module;
  return text.str();
}

/// Losses of some steps of SGD, and the parameters after them.
template <class Net>
std::vector<Tensor> train(Net& model, int steps = 4) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<Tensor> result;
  torch::manual_seed(11);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor loss = model->forward(torch::randn({5, 8})).square().mean();
    loss.backward();
    optimizer.step();
    result.push_back(loss.detach());
  }
  for (const Tensor& parameter : model->parameters()) result.push_back(parameter.detach());
  return result;
}

TEST(Checkpointed, NamesParametersBuffersAndTextAreThoseOfTheModule) {
  const auto plain = net<Block>();
  const auto ours = net<Checkpointed<Block>>();
  EXPECT_EQ(plain->named_parameters().keys(), ours->named_parameters().keys());
  EXPECT_EQ(plain->named_buffers().keys(), ours->named_buffers().keys());
  EXPECT_EQ(plain->named_modules("model").keys(), ours->named_modules("model").keys());
  EXPECT_TRUE(same_bits(plain->parameters(), ours->parameters()));
  Checkpointed<nn::Linear> linear(3, 4);
  EXPECT_EQ(text_of(*linear), text_of(*nn::Linear(3, 4)));
  EXPECT_EQ(linear->options.out_features(), 4);
  EXPECT_EQ(linear->as<nn::Linear>(), linear.get());
}

TEST(Checkpointed, FilesOfTheWrappedModelLoadWithoutTheWrapperAndTheOtherWayRound) {
  torch::manual_seed(1);
  const auto plain = std::make_shared<NetImpl<Block>>();
  const auto ours = std::make_shared<NetImpl<Checkpointed<Block>>>();
  const auto carry = [](const auto& from, const auto& to) {
    EXPECT_FALSE(same_bits(from->parameters(), to->parameters()));
    std::stringstream file;
    torch::save(from, file);
    auto target = to;
    torch::load(target, file);
    EXPECT_TRUE(same_bits(from->parameters(), to->parameters()));
  };
  carry(plain, ours);
  train(plain, 1);
  carry(ours, plain);

  Checkpointed<nn::Linear> holder(3, 4);
  nn::Linear linear(3, 4);
  std::stringstream file;
  torch::save(holder, file);
  torch::load(linear, file);
  EXPECT_TRUE(same_bits(holder->parameters(), linear->parameters()));
}

class CheckpointedReplay : public ::testing::TestWithParam<Replay> {
 protected:
  CheckpointOptions options() const { return CheckpointOptions().replay(GetParam()); }
};

TEST_P(CheckpointedReplay, StepsOfSgdWithDropoutEqualPlainBitByBit) {
  const auto plain = net<Block>();
  const auto ours = net<Checkpointed<Block>>(options());
  const auto expected = train(plain);
  const ReplayCounter counter;
  EXPECT_TRUE(same_bits(expected, train(ours)));
  EXPECT_EQ(counter.stats().regions, 4 * 4) << "four blocks, four steps";
  EXPECT_GT(counter.stats().operators, 0);
  const bool again = GetParam() == Replay::functions;
  EXPECT_EQ(ours->member->calls, again ? 8 : 4);
}

TEST_P(CheckpointedReplay, HoldsAsLittleAsCheckpointItself) {
  Block plain(64);
  Checkpointed<Block> ours(options().name("block"), plain);
  const Tensor x = leaf({32, 64});
  const auto held = [&](auto&& forward) {
    forward();  // what is made once
    const Meter meter;
    const int64_t base = meter.live();
    const Tensor y = forward();
    return meter.live() - base;
  };
  const int64_t direct = held([&] { return checkpoint(options().name("block"), plain, x); });
  EXPECT_EQ(held([&] { return ours(x); }), direct);
  EXPECT_EQ(held([&] { return ours->forward(x); }), direct);
  EXPECT_LT(direct, held([&] { return plain(x); }) / 4);
}

TEST_P(CheckpointedReplay, TheModuleMayBeGoneBeforeTheBackwardPassAndGoesWithTheGraph) {
  const Tensor x = leaf({3, 8});
  const auto gradient = [&](auto module) {
    torch::manual_seed(5);
    const Tensor y = module(x).sin().sum();
    const std::weak_ptr<nn::Module> alive = module.ptr();
    module = nullptr;
    return std::make_pair(y, alive);
  };
  torch::manual_seed(3);
  auto [expected, gone] = gradient(Block(8));
  EXPECT_TRUE(gone.expired());
  torch::manual_seed(3);
  auto [y, module] = gradient(Checkpointed<Block>(options(), 8));
  EXPECT_EQ(module.expired(), GetParam() == Replay::operators);
  EXPECT_TRUE(same_bits(torch::autograd::grad({expected}, {x}), torch::autograd::grad({y}, {x})));
  y = Tensor();
  EXPECT_TRUE(module.expired());
}

TEST_P(CheckpointedReplay, BatchNormInEvalUsesItsBuffersAndLeavesThem) {
  nn::BatchNorm1d plain(6);
  Checkpointed<nn::BatchNorm1d> ours(options(), plain);
  const Tensor x = leaf({4, 6});
  plain->forward(x);  // the statistics are shared, through both
  EXPECT_TRUE(same_bits(plain->buffers(), ours->buffers()));
  EXPECT_EQ(ours->num_batches_tracked.item<int64_t>(), 1);
  plain->eval();
  ours->eval();
  const std::vector<Tensor> leaves{x, plain->weight, plain->bias};
  EXPECT_TRUE(same_bits(loss_and_gradients(leaves, [&] { return plain(x).sin().sum(); }),
                        loss_and_gradients(leaves, [&] { return ours(x).sin().sum(); })));
  EXPECT_EQ(ours->num_batches_tracked.item<int64_t>(), 1);
}

struct MixImpl : nn::Module {
  MixImpl() { weight = register_parameter("weight", torch::arange(4.0)); }
  std::tuple<Tensor, int64_t> forward(const Tensor& a, Tensor b, double factor,
                                      const std::string& word, std::optional<Tensor> mask,
                                      const std::vector<Tensor>& more) const {
    Tensor y = (a * weight).sin() * b.exp() * factor + more.at(0).cos();
    if (mask) y = y * *mask;
    return {y, static_cast<int64_t>(word.size())};
  }
  Tensor weight;
};
TORCH_MODULE(Mix);

TEST_P(CheckpointedReplay, TakesManyArgumentsThatNeedNotBeTensors) {
  Mix plain;
  Checkpointed<Mix> ours(options(), plain);
  const Tensor a = leaf({3, 4}, 1), b = leaf({3, 4}, 2), mask = leaf({4}, 3), c = leaf({4}, 4);
  const std::vector<Tensor> leaves{a, b, mask, c, plain->weight};
  const auto run = [&](auto& module) {
    return loss_and_gradients(leaves, [&] {
      const auto [y, size] = module->forward(a, b, 0.5, "word", mask, {c});
      EXPECT_EQ(size, 4);
      return y.tanh().sum();
    });
  };
  EXPECT_TRUE(same_bits(run(plain), run(ours)));
  const auto& constant = *ours;
  EXPECT_TRUE(bit_equal(std::get<0>(constant.forward(a, b, 0.5, "", {}, {c})),
                        std::get<0>(plain->forward(a, b, 0.5, "", {}, {c}))));
}

INSTANTIATE_TEST_SUITE_P(Both, CheckpointedReplay,
                         ::testing::Values(Replay::functions, Replay::operators));

TEST(Checkpointed, DefaultArgumentsAreKnownToTheHolderAndToSequential) {
  torch::manual_seed(3);
  nn::ConvTranspose1d plain(2, 3, 3);
  Checkpointed<nn::ConvTranspose1d> ours(plain);
  const Tensor x = leaf({1, 2, 5});
  EXPECT_TRUE(bit_equal(plain(x), ours(x)));
  EXPECT_TRUE(bit_equal(plain(x), nn::Sequential(ours)->forward(x)));
  nn::MultiheadAttention attention(8, 2);
  Checkpointed<nn::MultiheadAttention> other(attention);
  const Tensor q = leaf({3, 2, 8});
  EXPECT_TRUE(bit_equal(std::get<0>(attention(q, q, q)), std::get<0>(other(q, q, q))));
}

struct ManyImpl : nn::Module {
  Tensor forward(const Tensor& x) noexcept { return x.sin().exp(); }
  Tensor forward(const Tensor& x, int64_t power, double factor = 2.0) {
    return x.pow(power) * factor;
  }
};
TORCH_MODULE(Many);

TEST(Checkpointed, OverloadsAndTemplatesOfForwardAreCalledAsTheModulesOwn) {
  Checkpointed<Many> many;
  const Tensor x = leaf({4});
  EXPECT_TRUE(bit_equal(many->forward(x), x.sin().exp()));
  EXPECT_TRUE(bit_equal(many->forward(x, 3), x.pow(3) * 2.0));
  EXPECT_TRUE(bit_equal(many(x, 3, 4.0), x.pow(3) * 4.0));

  nn::Sequential row(nn::Linear(4, 4), nn::Tanh());
  Checkpointed<nn::Sequential> shared(row);
  EXPECT_EQ(shared->named_parameters().keys(), row->named_parameters().keys());
  const ReplayCounter counter;
  EXPECT_TRUE(
      same_bits(loss_and_gradients(row->parameters(), [&] { return row->forward(x).sum(); }),
                loss_and_gradients(row->parameters(), [&] { return shared->forward(x).sum(); })));
  EXPECT_EQ(counter.stats().replays, 1);
}

TEST(Checkpointed, AnyModuleCallsItAndTypesFindIt) {
  Checkpointed<nn::Linear> linear(4, 4);
  nn::AnyModule any(linear);
  const Tensor x = leaf({2, 4});
  const ReplayCounter counter;
  any.forward(x).sum().backward();
  EXPECT_EQ(counter.stats().regions, 1);
  EXPECT_EQ(&any.get<Checkpointed<nn::Linear>::Impl>(), linear.get());
  EXPECT_EQ(any.ptr()->as<nn::Linear>(), linear.get());
}

TEST(Checkpointed, AnExistingModuleIsSharedByHolderOrPointer) {
  Block plain(8);
  plain->eval();
  Checkpointed<Block> ours(plain.ptr()), of_class(CheckpointOptions().name("mine"), plain);
  Checkpointed<BlockImpl> same_type = of_class.ptr();
  EXPECT_EQ(same_type->checkpoint_options().name(), "mine");
  EXPECT_FALSE(ours->is_training()) << "as it was";
  {
    torch::NoGradGuard no_grad;
    plain->scale.mul_(2);
    plain->up->weight.add_(1);
  }
  EXPECT_TRUE(same_bits(plain->parameters(), ours->parameters()));
  plain->to(torch::kDouble);
  EXPECT_EQ(ours->scale.scalar_type(), torch::kDouble);
  EXPECT_EQ(ours->up->weight.scalar_type(), torch::kDouble);
  EXPECT_NE(message_of<UsageError>([] {
              Checkpointed<Block>(std::shared_ptr<BlockImpl>{});
            }).find("null"),
            std::string::npos);
}

TEST(Checkpointed, TrainAndEvalReachIt) {
  auto model = net<Checkpointed<Block>>();
  model->eval();
  EXPECT_FALSE(model->member->is_training());
  EXPECT_FALSE(model->member->dropout->is_training());
  model->train();
  EXPECT_TRUE(model->member->dropout->is_training());
}

TEST(Checkpointed, ClonesAreCheckpointedToo) {
  const auto model = net<Checkpointed<Block>>(CheckpointOptions().name("mine"));
  const auto copy = std::dynamic_pointer_cast<NetImpl<Checkpointed<Block>>>(model->clone());
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->member->checkpoint_options().name(), "mine");
  EXPECT_TRUE(same_bits(model->parameters(), copy->parameters()));
  EXPECT_NE(copy->parameters()[0].data_ptr(), model->parameters()[0].data_ptr());
  const ReplayCounter counter;
  EXPECT_TRUE(same_bits(train(model, 2), train(copy, 2)));
  EXPECT_EQ(counter.stats().regions, 2 * 2 * 4);
}

TEST(Checkpointed, OptionsCanBeChangedAndSwitchedOff) {
  Checkpointed<nn::Linear> linear(4, 4);
  const Tensor x = leaf({2, 4});
  const ReplayCounter counter;
  linear->checkpoint_options(CheckpointOptions().enabled(false));
  linear(x).sum().backward();
  EXPECT_EQ(counter.stats().regions, 0);
  linear->checkpoint_options(CheckpointOptions().replay(Replay::operators).early_stop(false));
  EXPECT_THROW(linear(x), UsageError);
}

TEST(Checkpointed, AModuleOnTheStackIsRefused) {
  Checkpointed<nn::Linear>::Impl linear(4, 4);
  EXPECT_NE(message_of<UsageError>([&] {
              linear.forward(leaf({2, 4}));
            }).find("shared_ptr"),
            std::string::npos);
}

TEST(Checkpointed, ThroughThePointerOfItsOwnClassAModuleRunsPlain) {
  Checkpointed<nn::Linear> linear(4, 4);
  const std::shared_ptr<nn::LinearImpl> plain = linear.ptr();
  const ReplayCounter counter;
  plain->forward(leaf({2, 4}));
  EXPECT_EQ(counter.stats().regions, 0);
}

}  // namespace
}  // namespace reprise::testing
