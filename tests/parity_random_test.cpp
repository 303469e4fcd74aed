// SPDX-License-Identifier: BSD-3-Clause
#include <utility>
#include <vector>

#include "tests/at_once.h"
#include "tests/one_thread.h"
#include "tests/parity.h"
#include "tests/random_program.h"

// Random programs of regions against plain: twice, for second gradients, and on four threads at
// once. tests/stress/ runs them with failures, under sanitizers.

namespace reprise::testing {
namespace {

using torch::autograd::grad;

class RandomRegions : public ::testing::TestWithParam<unsigned> {};

/// The results, first gradients twice, second gradients, and where the random stream stands then.
std::vector<Tensor> observe(unsigned seed, Grammar grammar) {
  torch::manual_seed(seed);
  const Tensor x = leaf({4, 4}, 1), w = leaf({4, 4}, 2), fixed = leaf({4, 4}, 3).detach();
  std::vector<Tensor> all = RandomProgram(w, grammar).run({x, fixed}, seed, 4);
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
    const RandomProgram program(w, {.regions = regions, .whole_functions = true});
    const auto results = program.run({x, x.sin()}, seed, 4);
    return results[0].sin().sum() + (results[1] * x * w).sum();
  };
  for (unsigned seed = 1000 * GetParam(); seed < 1000 * GetParam() + 20; ++seed) {
    const auto expected = grad({loss(seed, false)}, {x, w});
    const Tensor ours = loss(seed, true);
    at_once(4, [&](int) {
      for (int k = 0; k < 5; ++k) {
        EXPECT_TRUE(same_bits(expected, grad({ours}, {x, w}, {}, /*retain_graph=*/true))) << seed;
      }
    });
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
