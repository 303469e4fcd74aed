// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "plan/chain.h"

// The chain programme against closed forms, known staircases and enumeration of all schedules.

namespace reprise::planner {
namespace {

/// A chain as the literature writes it; the gradient of what x names has its size.
struct Textbook {
  struct Option {
    double forward, backward;
    int64_t kept, forward_scratch, backward_scratch;
  };
  std::vector<int64_t> x;                    // bytes of block i's input; one more than blocks
  std::vector<std::vector<Option>> options;  // by block
  std::vector<double> bare;
  std::vector<int64_t> bare_scratch;
  bool gradients = true;

  std::size_t size() const { return options.size(); }
  int64_t g(std::size_t i) const { return gradients ? x[i] : 0; }

  Chain chain() const {
    Chain chain;
    for (std::size_t s = 0; s < size(); ++s) {
      ChainBlock block;
      for (const Option& option : options[s]) {
        block.options.push_back({option.forward + option.backward, option.kept,
                                 option.kept + option.forward_scratch,
                                 g(s + 1) + option.kept + g(s) + option.backward_scratch});
      }
      block.last = block.options;
      block.bare_time = bare[s];
      block.bare = x[s + 1] + bare_scratch[s];
      block.gradient = g(s + 1);
      chain.blocks.push_back(block);
      std::vector<int64_t> row(1, 0);
      for (std::size_t j = s + 1; j < size(); ++j) row.push_back(x[j]);
      chain.checkpoint.push_back(row);
    }
    return chain;
  }
};

Textbook uniform(std::size_t n) {
  Textbook chain;
  chain.x.assign(n + 1, 1);
  chain.options.assign(n, {{1, 2, 3, 0, 0}});
  chain.bare.assign(n, 1);
  chain.bare_scratch.assign(n, 0);
  return chain;
}

float least_time(const Textbook& textbook, int64_t budget) {
  const Chain chain = textbook.chain();
  const auto slots = static_cast<int>(budget);
  return ChainProgramme(chain, budget, slots, slots).time(slots);
}

// --- every persistent schedule, one by one ---------------------------------------------------

struct Action {
  enum class Kind { keep, bare, back, drop_input } kind;
  std::size_t block;
  std::size_t option = 0;
  bool frees_input = false;
};
using Actions = std::vector<Action>;

std::vector<Actions> all_schedules(const Textbook& chain, std::size_t s, std::size_t t) {
  using Kind = Action::Kind;
  std::vector<Actions> all;
  for (std::size_t o = 0; o < chain.options[s].size(); ++o) {
    for (const Actions& inner : s == t ? std::vector<Actions>(1) : all_schedules(chain, s + 1, t)) {
      Actions actions{{Kind::keep, s, o}};
      actions.insert(actions.end(), inner.begin(), inner.end());
      actions.push_back({Kind::back, s, o});
      all.push_back(actions);
    }
  }
  for (std::size_t j = s + 1; j <= t; ++j) {
    for (const Actions& behind : all_schedules(chain, j, t)) {
      for (const Actions& before : all_schedules(chain, s, j - 1)) {
        Actions actions;
        for (std::size_t k = s; k < j; ++k) actions.push_back({Kind::bare, k, 0, k > s});
        actions.insert(actions.end(), behind.begin(), behind.end());
        actions.push_back({Kind::drop_input, j});
        actions.insert(actions.end(), before.begin(), before.end());
        all.push_back(actions);
      }
    }
  }
  return all;
}

struct Executed {
  double time = 0;
  int64_t peak = 0;
};

// Allocates and frees, one action after the other.
Executed execute(const Textbook& chain, const Actions& actions) {
  Executed run;
  int64_t live = chain.g(chain.size());
  const auto reach = [&](int64_t bytes) { run.peak = std::max(run.peak, bytes); };
  for (const Action& action : actions) {
    const std::size_t s = action.block;
    const Textbook::Option& option = chain.options[s][action.option];
    switch (action.kind) {
      case Action::Kind::keep:
        run.time += option.forward;
        live += option.kept;
        reach(live + option.forward_scratch);
        break;
      case Action::Kind::bare:
        run.time += chain.bare[s];
        live += chain.x[s + 1];
        reach(live + chain.bare_scratch[s]);
        if (action.frees_input) live -= chain.x[s];
        break;
      case Action::Kind::back:
        run.time += option.backward;
        live += chain.g(s);
        reach(live + option.backward_scratch);
        live -= option.kept + chain.g(s + 1);
        break;
      case Action::Kind::drop_input:
        live -= chain.x[s];
        break;
    }
  }
  EXPECT_EQ(live, chain.g(0));
  return run;
}

Textbook random_chain(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Textbook chain;
  const int n = draw(1, 5);
  for (int i = 0; i <= n; ++i) chain.x.push_back(draw(1, 9));
  for (int s = 0; s < n; ++s) {
    std::vector<Textbook::Option> options;
    for (int o = draw(1, n < 5 ? 2 : 1); o > 0; --o) {
      options.push_back({1.0 * draw(1, 6), 1.0 * draw(1, 6), chain.x[s + 1] + draw(0, 9),
                         draw(0, 1) * draw(0, 20), draw(0, 1) * draw(0, 20)});
    }
    chain.options.push_back(options);
    chain.bare.push_back(draw(1, 6));
    chain.bare_scratch.push_back(draw(0, 1) * draw(0, 20));
  }
  return chain;
}

TEST(ChainProgramme, EqualsTheBestOfAllSchedules) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const Textbook chain = random_chain(random);
    std::vector<Executed> runs;
    int64_t most = 0;
    for (const Actions& actions : all_schedules(chain, 0, chain.size() - 1)) {
      runs.push_back(execute(chain, actions));
      most = std::max(most, runs.back().peak);
    }
    const Chain form = chain.chain();
    const auto slots = static_cast<int>(most) + 1;
    const ChainProgramme programme(form, slots, slots, slots);
    for (int m = 1; m <= slots; ++m) {
      float best = std::numeric_limits<float>::infinity();
      for (const Executed& run : runs) {
        if (run.peak <= m) best = std::min(best, static_cast<float>(run.time));
      }
      ASSERT_EQ(programme.time(m), best) << "trial " << trial << ", " << m << " bytes";
    }
  }
}

/// A plan for blocks s .. t as actions, from steps[at] on.
void read_plan(const std::vector<ChainStep>& steps, std::size_t& at, std::size_t s, std::size_t t,
               Actions& actions) {
  using Kind = Action::Kind;
  if (steps[at].kind == ChainStep::Kind::forward) {
    actions.push_back({Kind::keep, s, static_cast<std::size_t>(steps[at++].option)});
    if (s < t) read_plan(steps, at, s + 1, t, actions);
    ASSERT_EQ(steps[at].kind, ChainStep::Kind::backward);
    actions.push_back({Kind::back, s, static_cast<std::size_t>(steps[at++].option)});
    return;
  }
  // The blocks behind the checkpoint come first; then block s runs again.
  std::size_t again = at + 1;
  while (static_cast<std::size_t>(steps[again].block) != s) ++again;
  const auto j = static_cast<std::size_t>(steps[again - 1].block);
  for (std::size_t k = s; k < j; ++k, ++at) actions.push_back({Kind::bare, k, 0, k > s});
  read_plan(steps, at, j, t, actions);
  ASSERT_EQ(at, again);
  actions.push_back({Kind::drop_input, j});
  read_plan(steps, at, s, j - 1, actions);
}

TEST(ChainProgramme, PlansAreWhatTheTableSays) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const Textbook chain = random_chain(random);
    const Chain form = chain.chain();
    const ChainProgramme programme(form, 120, 120, 120);
    for (int m = 1; m <= 120; ++m) {
      if (!std::isfinite(programme.time(m))) continue;
      const std::vector<ChainStep> steps = programme.plan(m);
      Actions actions;
      std::size_t at = 0;
      read_plan(steps, at, 0, chain.size() - 1, actions);
      ASSERT_EQ(at, steps.size());
      const Executed run = execute(chain, actions);
      ASSERT_LE(run.peak, m);
      ASSERT_EQ(static_cast<float>(run.time), programme.time(m));
    }
  }
}

TEST(ChainProgramme, CountsOfSchedulesAreSchroedersNumbers) {
  const std::vector<std::size_t> counts = {1, 2, 6, 22, 90, 394, 1806};
  for (std::size_t n = 1; n <= counts.size(); ++n) {
    EXPECT_EQ(all_schedules(uniform(n), 0, n - 1).size(), counts[n - 1]);
  }
}

// t(l, c) = r l - C(c + r, r - 1), with the least r for which l <= C(c + r, c).
int64_t revolve(int64_t l, int64_t c) {
  const auto binomial = [](int64_t n, int64_t k) {
    int64_t value = 1;
    for (int64_t i = 1; i <= k; ++i) value = value * (n - k + i) / i;
    return value;
  };
  int64_t r = 0;
  while (binomial(c + r, c) < l) ++r;
  return r * l - binomial(c + r, r - 1);
}

TEST(ChainProgramme, IsRevolveWhenOnlyOneBlockFits) {
  struct Case {
    int64_t l, c, runs;
  };
  const std::vector<Case> cases = {{10, 1, 45},   {10, 2, 20},    {10, 3, 15},
                                   {20, 3, 45},   {50, 3, 180},   {50, 5, 122},
                                   {100, 5, 316}, {100, 10, 222}, {300, 5, revolve(300, 5)}};
  EXPECT_EQ(revolve(1000, 5), 6284);
  EXPECT_EQ(revolve(1000, 10), 3636);
  EXPECT_EQ(revolve(10000, 10), 57624);
  for (const auto& [l, c, runs] : cases) {
    ASSERT_EQ(revolve(l, c), runs);
    Textbook chain = uniform(static_cast<std::size_t>(l));
    chain.gradients = false;
    const int64_t large = 2 * c + 2;  // two such never fit
    chain.options.assign(static_cast<std::size_t>(l), {{1, 0, large, 0, 0}});
    EXPECT_EQ(least_time(chain, large + c), static_cast<float>(runs + l)) << l << ", " << c;
  }
}

TEST(ChainProgramme, HasTheKnownStaircases) {
  std::ifstream file(std::string(REPRISE_SOURCE_DIR) + "/tests/data/chains.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 3U);
  for (const auto& one : cases) {
    Textbook chain;
    chain.x = one["x"].get<std::vector<int64_t>>();
    chain.bare = one["fn"].get<std::vector<double>>();
    chain.bare_scratch = one["ftn"].get<std::vector<int64_t>>();
    for (const auto& block : one["opts"]) {
      chain.options.emplace_back();
      for (const auto& o : block) {
        chain.options.back().push_back({o[0].get<double>(), o[1].get<double>(), o[2].get<int64_t>(),
                                        o[3].get<int64_t>(), o[4].get<int64_t>()});
      }
    }
    const auto stairs = one["staircase"].get<std::vector<std::pair<int64_t, float>>>();
    float expected = std::numeric_limits<float>::infinity();
    std::size_t next = 0;
    for (int64_t budget = 1; budget <= stairs.back().first; ++budget) {
      if (next < stairs.size() && stairs[next].first == budget) expected = stairs[next++].second;
      EXPECT_EQ(least_time(chain, budget), expected) << one["name"] << ", " << budget << " bytes";
    }
  }
}

// Published ports answer 30 here for 49 bytes: a plan that peaks at 52.
TEST(ChainProgramme, CountsTheGradientThatIsLiveWhileALaterForwardRunGoesOn) {
  Textbook chain;
  chain.x = {2, 8, 11, 12};
  chain.options = {{{5, 4, 14, 27, 0}}, {{2, 3, 15, 0, 0}}, {{5, 4, 13, 0, 0}}};
  chain.bare = {5, 2, 5};
  chain.bare_scratch = {0, 0, 0};
  EXPECT_EQ(least_time(chain, 48), std::numeric_limits<float>::infinity());
  EXPECT_EQ(least_time(chain, 49), 35);
  EXPECT_EQ(least_time(chain, 51), 35);
  EXPECT_EQ(least_time(chain, 52), 30);
  EXPECT_EQ(least_time(chain, 59), 28);
}

TEST(ChainProgramme, CoarseSlotsNeverPromiseTooMuch) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    const Textbook chain = random_chain(random);
    const Chain form = chain.chain();
    for (int64_t budget : {30, 45, 60, 90}) {
      const ChainProgramme fine(form, budget, static_cast<int>(budget), static_cast<int>(budget));
      const ChainProgramme coarse(form, budget, 16, 16);
      EXPECT_GE(coarse.time(16), fine.time(static_cast<int>(budget)));
    }
  }
}

}  // namespace
}  // namespace reprise::planner
