// SPDX-License-Identifier: BSD-3-Clause
#include <barrier>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/one_thread.h"
#include "tests/parity.h"

// Random programs with regions of every way in each other, against plain. The fuzzer of the tape
// (tests/internal/fuzz) knows more operators; here it is the regions that are mixed.

namespace reprise::testing {
namespace {

using torch::autograd::grad;

/// What programs are made of.
struct Grammar {
  bool regions = false;
  bool whole_functions = false;  // among the regions
  bool inner_gradients = false;  // taken in the middle of a region
};

/// A program is a seed: run again with the same seed and arguments, it does the same work.
class Program {
 public:
  Program(Tensor weight, Grammar grammar) : weight_(std::move(weight)), grammar_(grammar) {}

  std::vector<Tensor> run(std::vector<Tensor> pool, unsigned seed, int depth) const {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    const unsigned steps = 2 + below(4);
    for (unsigned step = 0; step < steps; ++step) {
      const Tensor a = pool[below(pool.size())], b = pool[below(pool.size())];
      switch (below(depth > 0 ? 12 : 9)) {
        case 0:
          pool.push_back(a.sin().mul(b));
          break;
        case 1:
          pool.push_back(a.matmul(weight_).tanh());
          break;
        case 2:
          pool.push_back(at::dropout(a, 0.3, true).cos());
          break;
        case 3:
          pool.push_back(a.t() + at::rand_like(b));
          break;
        case 4:
          pool.push_back(written_to(a, b));
          break;
        case 5:
          pool.push_back(a.detach().exp().tanh() * b);
          break;
        case 6:
          pool.push_back(unrecorded(a) * b);
          break;
        case 7:
          pool.push_back(std::get<0>(a.max(1, /*keepdim=*/true)) * b.softmax(1));
          break;
        case 8:
          pool.push_back(grammar_.inner_gradients ? slope(a) - b : a - b);
          break;
        default: {
          const std::vector<Tensor> results = region(below(3), {a, b}, random(), depth - 1);
          pool.insert(pool.end(), results.begin(), results.end());
        }
      }
    }
    return {pool.back(), pool[below(pool.size())]};
  }

 private:
  std::vector<Tensor> region(unsigned way, std::vector<Tensor> arguments, unsigned seed,
                             int depth) const {
    const auto part = [self = *this, seed, depth](const std::vector<Tensor>& given) {
      return self.run(given, seed, depth);
    };
    if (!grammar_.regions) return part(arguments);
    auto kind = static_cast<Way>(way);
    if (kind == Way::whole_functions && !grammar_.whole_functions) kind = Way::functions;
    CheckpointOptions options = options_of(kind);
    if (kind == Way::operators) options.policy(policy(seed % 3));
    return checkpoint(options, part, arguments);
  }

  static Policy policy(unsigned which) {
    if (which == 0) return Policy::recompute_all().audit(false);
    if (which == 1) return Policy::keep_ops({"aten::mm", "aten::sin", "aten::add_"}).audit(false);
    return Policy::where([](const ValueView& value) { return value.invocation % 2 == 0; },
                         Action::encode, "every second call")
        .audit(false);
  }

  static Tensor written_to(const Tensor& a, const Tensor& b) {
    Tensor y = a.clone();
    y.select(0, 1).mul_(2);
    y.t().add_(b);
    return y.mul_(b.sigmoid());
  }

  static Tensor unrecorded(const Tensor& a) {
    const torch::NoGradGuard no_grad;
    return a.sin().add_(1);
  }

  /// A gradient that is taken on the way.
  static Tensor slope(const Tensor& a) {
    const Tensor y = a.requires_grad() ? a : a.detach().requires_grad_();
    return grad({y.sin().exp().sum()}, {y}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  }

  Tensor weight_;
  Grammar grammar_;
};

class RandomRegions : public ::testing::TestWithParam<unsigned> {};

/// The results, first gradients twice, second gradients, and where the random stream stands then.
std::vector<Tensor> observe(unsigned seed, Grammar grammar) {
  torch::manual_seed(seed);
  const Tensor x = leaf({4, 4}, 1), w = leaf({4, 4}, 2), fixed = leaf({4, 4}, 3).detach();
  std::vector<Tensor> all = Program(w, grammar).run({x, fixed}, seed, 4);
  const Tensor loss = all[0].sin().sum() + (all[1] * x).sum() + (x * w).sin().sum();
  for (int i = 0; i < 2; ++i) {
    const auto first = grad({loss}, {x, w}, {}, /*retain_graph=*/true);
    all.insert(all.end(), first.begin(), first.end());
  }
  const auto first = grad({loss}, {x, w}, {}, /*retain_graph=*/true, /*create_graph=*/true);
  (first[0].sin().sum() + first[1].square().sum()).backward();
  all.insert(all.end(), {x.grad(), w.grad(), at::rand({4})});
  return all;
}

void expect_plain(unsigned first_seed, Grammar grammar) {
  const tests::OneThread one_thread;
  const Meter meter;
  for (unsigned seed = first_seed; seed < first_seed + 100; ++seed) {
    grammar.regions = false;
    const auto plain = observe(seed, grammar);
    const int64_t base = meter.live();
    grammar.regions = true;
    {
      const auto ours = observe(seed, grammar);
      ASSERT_TRUE(same_bits(plain, ours)) << "seed " << seed;
    }
    ASSERT_EQ(meter.live(), base) << "seed " << seed;
  }
}

TEST_P(RandomRegions, WalkedByFourBackwardPassesAtOnceGiveTheGradientsOfPlain) {
  const tests::OneThread one_thread;
  const Tensor x = leaf({4, 4}, 1), w = leaf({4, 4}, 2);
  const auto loss = [&](unsigned seed, bool regions) {
    torch::manual_seed(seed);
    const Program program(w, {.regions = regions, .whole_functions = true});
    const auto results = program.run({x, x.sin()}, seed, 4);
    return results[0].sin().sum() + (results[1] * x * w).sum();
  };
  for (unsigned seed = 1000 * GetParam(); seed < 1000 * GetParam() + 20; ++seed) {
    const auto expected = grad({loss(seed, false)}, {x, w});
    const Tensor ours = loss(seed, true);
    std::vector<std::thread> threads;
    std::barrier start(4);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (int k = 0; k < 5; ++k) {
          EXPECT_TRUE(same_bits(expected, grad({ours}, {x, w}, {}, /*retain_graph=*/true))) << seed;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(RandomRegions, GiveTheResultsGradientsAndDrawsOfPlainAndLeaveNothing) {
  expect_plain(1000 * GetParam(), {.whole_functions = true});
}

TEST_P(RandomRegions, WithGradientsTakenInsideGiveThoseOfPlainAndLeaveNothing) {
  expect_plain(1000 * GetParam(), {.inner_gradients = true});
}

// A whole function that draws after such a gradient: see Nested.
TEST_P(RandomRegions, OfWholeFunctionsWithGradientsTakenInsideGiveThoseOfPlain) {
  expect_plain(1000 * GetParam(), {.whole_functions = true, .inner_gradients = true});
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRegions, ::testing::Range(0U, 4U));

}  // namespace
}  // namespace reprise::testing
