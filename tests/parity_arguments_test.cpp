// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "tests/parity.h"

// What goes into a region and comes out of it: structures, views, and in-place operators. Numbers
// are those of the behaviours in the design's list of what PyTorch's own tests assert.

namespace reprise::testing {
namespace {

using torch::autograd::grad;

Tensor wave(const Tensor& x) { return x.sin().exp().mul(x).tanh(); }

class Arguments : public EveryWay {};

// 8, 9, 42
TEST_P(Arguments, NumbersTextsFunctionsAndNothingPassInAndOut) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t, int number, bool flag, const std::string& text,
                    std::nullptr_t nothing, const Tensor& undefined,
                    const std::function<Tensor(Tensor)>& activation) {
    EXPECT_FALSE(undefined.defined());
    const Tensor y = activation(t * number);
    return std::make_tuple(flag ? y.exp() : y, number + 1, !flag, text + "!", nothing, undefined,
                           activation, t);
  };
  expect_equal({x}, [&](const CheckpointOptions& options) {
    const auto [y, number, flag, text, nothing, undefined, activation, same] = checkpoint(
        options, f, x, 3, true, "text", nullptr, Tensor(), [](Tensor t) { return wave(t); });
    EXPECT_EQ(number, 4);
    EXPECT_FALSE(flag);
    EXPECT_EQ(text, "text!");
    EXPECT_FALSE(undefined.defined());
    EXPECT_TRUE(same.is_same(x));
    return activation(y) * same;
  });
}

// 10
TEST_P(Arguments, WithoutTensorsAreReturnedUnchangedAndNothingIsReplayed) {
  const ReplayCounter counter;
  const auto f = [](int a, std::string b) { return std::make_pair(a, std::move(b)); };
  EXPECT_EQ(checkpoint(options(), f, 3, "b"), std::make_pair(3, std::string("b")));
  EXPECT_EQ(counter.stats().replays, 0);
}

// 37
TEST_P(Arguments, MapsInAndOutEqualPlain) {
  using Map = std::map<std::string, Tensor>;
  const Tensor x = leaf({8}), y = leaf({8}, 2);
  const auto f = [](const Map& in) {
    return Map{{"sum", wave(in.at("x") + in.at("y"))}, {"product", in.at("x") * in.at("y").exp()}};
  };
  expect_equal({x, y}, [&](const CheckpointOptions& options) {
    const Map out = checkpoint(options, f, Map{{"x", x}, {"y", y}});
    return out.at("sum").sin() * out.at("product");
  });
}

struct Settings {
  std::optional<Tensor> bias;
  std::vector<Tensor> weights;
  double scale = 1;
};
auto reprise_fields(Settings& settings) { return std::tie(settings.bias, settings.weights); }

// 43: what keyword arguments are in Python.
TEST_P(Arguments, TensorsInAStructOfSettingsGetGradients) {
  const Tensor x = leaf({4, 4}), w = leaf({4, 4}, 2), v = leaf({4, 4}, 3), b = leaf({4}, 4);
  const auto f = [](const Tensor& t, const Settings& settings) {
    Tensor y = t * settings.scale;
    for (const Tensor& weight : settings.weights) y = wave(y.matmul(weight));
    return settings.bias ? y + settings.bias->exp() : y;
  };
  for (const bool bias : {true, false}) {
    expect_equal(bias ? std::vector<Tensor>{x, w, v, b} : std::vector<Tensor>{x, w, v},
                 [&](const CheckpointOptions& options) {
                   Settings settings{std::nullopt, {w, v}, 0.5};
                   if (bias) settings.bias = b;
                   return checkpoint(options, f, x, settings);
                 });
  }
}

// 9
TEST_P(Arguments, ReturnedAsOutputsAreThemselves) {
  const Tensor x = leaf({8});
  expect_equal({x}, [&](const CheckpointOptions& options) {
    const Tensor h = x * 2;
    const auto f = [](const Tensor& t) { return std::make_tuple(t, wave(t), t); };
    const auto [first, y, second] = checkpoint(options, f, h);
    EXPECT_TRUE(first.is_same(h));
    EXPECT_TRUE(second.is_same(h));
    return first.sin() * y * second.exp();
  });
}

// A replay needs the argument as it was, though a plain run would not.
TEST_P(Arguments, ChangedInPlaceAfterwardsRaise) {
  const Tensor x = leaf({8});
  const Tensor h = x * 2;
  const Tensor y = checkpoint(
      options(), [](const Tensor& t) { return (t + 1).sin(); }, h);
  h.mul_(2);
  // In autograd's words, or in ours.
  const std::string message = message_of_any([&] { y.sum().backward(); });
  EXPECT_TRUE(message.find("inplace") != std::string::npos ||
              message.find("in place") != std::string::npos)
      << message;
}

TEST_P(Arguments, ChangedInPlaceAfterwardsDoNotMatterIfNothingNeedsThem) {
  const Tensor x = leaf({8});
  expect_equal({x}, [&](const CheckpointOptions& options) {
    Tensor h = x * 2;
    const Tensor y = checkpoint(
        options, [](const Tensor& t) { return t + 1; }, h);
    h.mul_(3);
    return y * h;
  });
}

TEST_P(Arguments, ThatAreViewsOfOneStorageAreToldApart) {
  const Tensor x = leaf({6, 6});
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return (wave(a) * b.exp()).matmul(c.cos());
  };
  expect_equal({x}, [&](const CheckpointOptions& options) {
    const Tensor h = x * 2;
    return checkpoint(options, f, h, h.t(), h.view({36}).as_strided({6, 6}, {6, 1}));
  });
}

TEST_P(Arguments, ResultsMayBeViewsOfArgumentsAndOfWhatIsMadeInside) {
  const Tensor x = leaf({4, 6});
  const auto f = [](const Tensor& t) {
    const Tensor y = wave(t);
    return std::make_tuple(t.view({6, 4}), y.t(), y[1], y.expand({2, 4, 6}));
  };
  expect_equal({x}, [&](const CheckpointOptions& options) {
    const Tensor h = x * 2;
    const auto [a, b, c, d] = checkpoint(options, f, h);
    EXPECT_TRUE(a.is_view());
    EXPECT_TRUE(a.is_alias_of(h));
    EXPECT_TRUE(b.is_alias_of(c));
    return a.sin() * b.exp() * c.sum() * d.cos().sum();
  });
}

TEST_P(Arguments, AResultMayBeChangedInPlaceAfterwards) {
  const Tensor x = leaf({4, 6});
  const auto f = [](const Tensor& t) { return t.exp().sin(); };
  expect_equal({x}, [&](const CheckpointOptions& options) {
    const Tensor y = checkpoint(options, f, x);
    y.mul_(3).add_(x);
    y[1].zero_();
    return y.cos();
  });
}

TEST_P(Arguments, TheLastOperatorMayBeInPlace) {
  const Tensor x = leaf({4, 6});
  const auto f = [](const Tensor& t) { return t.exp().sin().mul_(t).relu_(); };
  expect_equal({x}, [&](const CheckpointOptions& options) { return checkpoint(options, f, x); });
}

TEST_P(Arguments, ChainedViewsMayBeWrittenToInside) {
  const Tensor x = leaf({4, 6});
  const auto f = [](const Tensor& t) {
    const Tensor y = t.cos();
    y[0].mul_(2);
    y.slice(1, 0, 3).t().select(0, 1).sin_();
    return y.t() * t.t();
  };
  expect_equal({x}, [&](const CheckpointOptions& options) { return checkpoint(options, f, x); });
}

// By functions, this is the error that Checkpoint tests name: the argument is gone.
TEST(ArgumentsByOperators, TheFirstOperatorMayChangeTheArgumentInPlace) {
  const Tensor x = leaf({8});
  const auto f = [](Tensor t) { return t.relu_().sin().exp(); };
  const auto on_tape = options_of(Way::operators);
  EXPECT_TRUE(
      same_bits(loss_and_gradients({x}, [&] { return f(x * 2).sum(); }),
                loss_and_gradients({x}, [&] { return checkpoint(on_tape, f, x * 2).sum(); })));
}

// 26 to 28: by functions these are a RecomputeMismatch; the record cannot differ from itself.
TEST(ArgumentsByOperators, AFunctionThatWouldDoOtherWorkAgainIsReplayedAsItWas) {
  const Tensor x = leaf({8});
  int calls = 0;
  const auto f = [&](const Tensor& t) {
    return calls++ % 2 ? t.slice(0, 0, 3).exp() : t.exp().sin().tanh();
  };
  const Tensor y = checkpoint(options_of(Way::operators), f, x).sum();
  ++calls;
  EXPECT_TRUE(same_bits(grad({x.exp().sin().tanh().sum()}, {x}), grad({y}, {x})));
}

// 56: a number read out of a tensor is read once.
TEST_P(Arguments, ANumberReadFromATensorInsideEqualsPlain) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) {
    const Tensor y = t.exp();
    const auto factor = y.max().item<double>();
    return (y / factor).sin().nonzero().sum() + (y * factor).cos().exp();
  };
  expect_equal({x}, [&](const CheckpointOptions& options) { return checkpoint(options, f, x); });
}

INSTANTIATE_IN_EVERY_WAY(Arguments);

}  // namespace
}  // namespace reprise::testing
