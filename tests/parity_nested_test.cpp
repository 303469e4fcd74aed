// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "tests/one_thread.h"
#include "tests/parity.h"

// Regions in regions, and backward passes in them. Numbers are those of the behaviours in the
// design's list of what PyTorch's own tests assert.

namespace reprise::testing {
namespace {

using torch::autograd::grad;
using Function = std::function<Tensor(const Tensor&)>;

Tensor wave(const Tensor& x) { return x.sin().exp().mul(x).tanh(); }

/// Reads a word from its end: c is a checkpoint, g a gradient; "cg" is c(g(wave)). Checkpoints take
/// the options in turn.
Function function_of(const std::string& word, const std::vector<CheckpointOptions>& options) {
  Function f = wave;
  std::size_t next = 0;
  for (auto letter = word.rbegin(); letter != word.rend(); ++letter) {
    if (*letter == 'c') {
      const CheckpointOptions own = options[next++ % options.size()];
      f = [f, own](const Tensor& t) { return checkpoint(own, f, t); };
    } else {
      f = [f](const Tensor& t) {
        return grad({f(t).sum()}, {t}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
      };
    }
  }
  return f;
}

class Nested : public EveryWay {
 protected:
  Function function_of(const std::string& word) const {
    return testing::function_of(word, {options()});
  }
};

// 39, 40, 41
TEST_P(Nested, CheckpointAtAnyPlaceAmongThreeGradientsEqualsPlain) {
  const tests::OneThread one_thread;
  const Tensor x = leaf({8});
  std::vector<std::string> words{""};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    const auto gradients = std::count(word.begin(), word.end(), 'g');
    if (word.size() < 5) {
      words.push_back(word + 'c');
      if (gradients < 3) words.push_back(word + 'g');
    }
    const std::string plain_word(gradients, 'g');
    EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return function_of(plain_word)(x).sum(); }),
                          loss_and_gradients({x}, [&] { return function_of(word)(x).sum(); })))
        << word;
  }
}

// 39, with regions that come back in different ways.
TEST(NestedInEachOther, RegionsOfEveryWayWithGradientsBetweenEqualPlain) {
  const Tensor x = leaf({8});
  const std::vector<Way> ways{Way::functions, Way::whole_functions, Way::operators};
  for (const std::string word : {"cc", "ccc", "cgc", "gcc", "ccg", "gcgc", "cgcg", "cgcgc"}) {
    const std::string plain_word(std::count(word.begin(), word.end(), 'g'), 'g');
    const auto plain =
        loss_and_gradients({x}, [&] { return function_of(plain_word, {{}})(x).sum(); });
    for (const Way one : ways) {
      for (const Way other : ways) {
        const Function f = function_of(word, {options_of(one), options_of(other)});
        EXPECT_TRUE(same_bits(plain, loss_and_gradients({x}, [&] { return f(x).sum(); })))
            << word << static_cast<int>(one) << static_cast<int>(other);
      }
    }
  }
}

// 39, 41
TEST_P(Nested, NoGraphOutlivesItsScope) {
  const tests::OneThread one_thread;
  const Tensor x = leaf({1 << 10});
  const Meter meter;
  for (const std::string word : {"c", "cc", "gc", "cg", "cgc", "gcgc", "cgcgc", "ccgg"}) {
    for (const bool backward : {true, false}) {
      const int64_t base = meter.live();
      const auto node = [&, word = word] {
        const Tensor y = function_of(word)(x).sum();
        if (backward) y.backward();
        return c10::weak_intrusive_ptr<torch::autograd::Node>(y.grad_fn());
      }();
      Tensor(x).mutable_grad() = Tensor();
      EXPECT_TRUE(node.expired()) << word;
      EXPECT_EQ(meter.live(), base) << word << backward;
    }
  }
}

// 40: two gradients of one graph inside the region.
TEST_P(Nested, AFunctionThatTakesTwoGradientsInsideEqualsPlain) {
  const Tensor x = leaf({8}), w = leaf({8}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) {
    const Tensor y = (wave(a) * b.exp()).sum();
    const Tensor da = grad({y}, {a}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    const Tensor db = grad({y}, {b}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    return da.sin() * db;
  };
  EXPECT_TRUE(
      same_bits(loss_and_gradients({x, w}, [&] { return f(x, w).sum(); }),
                loss_and_gradients({x, w}, [&] { return checkpoint(options(), f, x, w).sum(); })));
}

// 41: two regions in a region that takes both gradients.
TEST_P(Nested, TwoChildrenWithAGradientEachEqualPlain) {
  const Tensor x = leaf({8});
  const auto parent = [](const Function& child) {
    return [child](const Tensor& t) {
      const Tensor a = child(t), b = child(a.cos());
      const Tensor first = grad({a.sum()}, {t}, {}, true, /*create_graph=*/true)[0];
      return first * grad({b.sum()}, {t}, {}, true, /*create_graph=*/true)[0].tanh();
    };
  };
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return parent(wave)(x).sum(); }),
                        loss_and_gradients({x}, [&] {
                          return checkpoint(options(), parent(function_of("c")), x).sum();
                        })));
}

TEST_P(Nested, AWholeTrainingStepInsideARegionEqualsPlain) {
  const Tensor x = leaf({8}), w = leaf({8}, 2);
  // The inner backward accumulates into a leaf of its own, as for a learned initial state.
  const auto f = [](const Tensor& a, const Tensor& b) {
    const Tensor inner = b.detach().requires_grad_();
    (wave(a.detach()) * inner.exp()).sum().backward();
    return (a * (b - inner.grad())).exp();
  };
  EXPECT_TRUE(
      same_bits(loss_and_gradients({x, w}, [&] { return f(x, w).sum(); }),
                loss_and_gradients({x, w}, [&] { return checkpoint(options(), f, x, w).sum(); })));
}

// The inner gradient replays the region before its first run has ended. Run to its end, the
// function then comes to what the first run has yet to do.
TEST(NestedWholeFunctions, MayDrawAfterAGradientTakenInside) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) {
    const Tensor slope = grad({t.sin().exp().sum()}, {t}, {}, true, /*create_graph=*/true)[0];
    return at::dropout(slope, 0.5, true);
  };
  const auto options = options_of(Way::whole_functions);
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }),
                        loss_and_gradients({x}, [&] { return checkpoint(options, f, x).sum(); })));
}

TEST(NestedWholeFunctions, ChangeBuffersOnceAfterAGradientTakenInside) {
  const Tensor x = leaf({8, 4}), ones = at::ones({8, 4});
  const auto run = [&](const CheckpointOptions& options) {
    torch::nn::BatchNorm1d norm(4);
    const auto f = [&](const Tensor& t) {
      const Tensor slope = grad({t.sin().exp()}, {t}, {ones}, true, /*create_graph=*/true)[0];
      return norm(slope).sin();
    };
    auto all = loss_and_gradients({x}, [&] { return checkpoint(options, f, x).sum(); });
    for (const Tensor& buffer : norm->buffers()) all.push_back(buffer);
    return all;
  };
  EXPECT_TRUE(
      same_bits(run(CheckpointOptions().enabled(false)), run(options_of(Way::whole_functions))));
}

TEST_P(Nested, SixtyFourDeepEqualsPlain) {
  const tests::OneThread one_thread;
  const Tensor x = leaf({8});
  const std::function<Tensor(const CheckpointOptions&, const Tensor&, int)> deep =
      [&](const CheckpointOptions& options, const Tensor& t, int depth) -> Tensor {
    if (depth == 0) return wave(t);
    const auto inner = [&deep, options, depth](const Tensor& u) {
      return deep(options, u.sin(), depth - 1);
    };
    return checkpoint(options, inner, t).cos();
  };
  EXPECT_TRUE(
      same_bits(loss_and_gradients(
                    {x}, [&] { return deep(CheckpointOptions().enabled(false), x, 64).sum(); }),
                loss_and_gradients({x}, [&] { return deep(options(), x, 64).sum(); })));
}

// 17, 18
TEST_P(Nested, TwoThousandChainedRegionsAndHundredsOfOneSumEqualPlain) {
  const tests::OneThread one_thread;
  const Tensor w = leaf({4}), fixed = leaf({4}, 2).detach(), x = leaf({4}, 3);
  const auto model = [&](const CheckpointOptions& options) {
    return [&, options] {
      Tensor sum = at::zeros({});
      Tensor chain = x;
      const auto f = [&w](const Tensor& t, double factor) { return (t + w * factor).sin(); };
      for (int i = 0; i < 2000; ++i) {
        if (i % 4 == 0) sum = sum + checkpoint(options, f, i % 8 ? x : fixed, 0.1 * i).sum();
        chain = checkpoint(options, f, chain, 0.001);
      }
      return sum + chain.sum();
    };
  };
  EXPECT_TRUE(same_bits(loss_and_gradients({w, x}, model(CheckpointOptions().enabled(false))),
                        loss_and_gradients({w, x}, model(options()))));
}

// Its backward pass makes a region and goes backward through it, in which there is one less of
// these functions.
struct Deep : torch::autograd::Function<Deep> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, int64_t depth,
                        int64_t way) {
    context->saved_data["depth"] = depth;
    context->saved_data["way"] = way;
    context->save_for_backward({x});
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    const int64_t depth = context->saved_data["depth"].toInt();
    const int64_t way = context->saved_data["way"].toInt();
    if (depth > 0) {
      const at::AutoGradMode on(true);
      const Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
      const auto f = [depth, way](const Tensor& t) {
        return Deep::apply(t.sin(), depth - 1, way).exp();
      };
      checkpoint(options_of(static_cast<Way>(way)), f, x).sum().backward();
      ++finished;
    }
    return {grads[0], Tensor(), Tensor()};
  }
  static inline std::atomic<int> finished{0};
};

// 38
TEST_P(Nested, BackwardTwoThousandTimesInsideBackwardDoesNotOverflowTheStack) {
  const Tensor x = leaf({4});
  const auto way = static_cast<int64_t>(GetParam());
  Deep::finished = 0;
  const auto f = [&](const Tensor& t) { return Deep::apply(t.sin(), 2000, way); };
  checkpoint(options(), f, x).sum().backward();
  EXPECT_EQ(Deep::finished, 2000);
  EXPECT_TRUE(bit_equal(x.detach().cos(), x.grad()));
}

INSTANTIATE_IN_EVERY_WAY(Nested);

}  // namespace
}  // namespace reprise::testing
