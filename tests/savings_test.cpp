// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support.h"
#include "tests/warnings.h"

// Warnings about dropping that is of no use.

namespace reprise::testing {
namespace {

constexpr int64_t kLarge = 1 << 19;

Tensor chain(Tensor x) {
  for (int i = 0; i < 4; ++i) x = x.sin().exp();
  return x;
}

// One name for each test: each is warned of once in the process.
std::string warnings_of(const std::string& name, Replay replay,
                        const std::function<Tensor(const CheckpointOptions&, const Tensor&)>& run) {
  auto options = CheckpointOptions().replay(replay).name(name);
  if (replay == Replay::operators) options.policy(Policy::recompute_all().audit(false));
  Tensor x = leaf({kLarge});
  Meter().reset_peak();
  const Warnings warnings;
  run(options, x).sum().backward();
  return warnings.text();
}

class Savings : public ::testing::TestWithParam<Replay> {
 protected:
  std::string name(const std::string& text) const {
    return text + (GetParam() == Replay::operators ? " on the tape" : "");
  }
};

TEST_P(Savings, ARegionAroundEverythingIsWarnedOfByName) {
  const std::string own = name("whole model");
  const auto run = [](const CheckpointOptions& options, const Tensor& x) {
    return checkpoint(options, chain, x);
  };
  const std::string text = warnings_of(own, GetParam(), run);
  EXPECT_NE(text.find("'" + own + "'"), std::string::npos) << text;
  EXPECT_NE(text.find("saves nothing"), std::string::npos) << text;
  EXPECT_EQ(warnings_of(own, GetParam(), run), "") << "once is enough";
}

TEST_P(Savings, AHigherPeakOfAnEarlierPhaseHidesNothing) {
  const std::string own = name("after a higher peak");
  const std::string text =
      warnings_of(own, GetParam(), [](const CheckpointOptions& options, const Tensor& x) {
        torch::empty({64 * kLarge});
        return checkpoint(options, chain, x);
      });
  EXPECT_NE(text.find("'" + own + "'"), std::string::npos) << text;
}

TEST_P(Savings, SeveralRegionsAreNotWarnedOf) {
  EXPECT_EQ(warnings_of(name("halves"), GetParam(),
                        [](const CheckpointOptions& options, const Tensor& x) {
                          return checkpoint(options, chain, checkpoint(options, chain, x));
                        }),
            "");
}

TEST_P(Savings, ARegionBeforePlainLayersIsNotWarnedOf) {
  EXPECT_EQ(warnings_of(name("front"), GetParam(),
                        [](const CheckpointOptions& options, const Tensor& x) {
                          return chain(checkpoint(options, chain, x));
                        }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Both, Savings, ::testing::Values(Replay::functions, Replay::operators));

// The first step of a scope is audited: it keeps everything, and stands higher than any other.
TEST(Savings, AScopeAroundEverythingIsWarnedOfInItsSecondStep) {
  const Tensor x = leaf({kLarge});
  const Warnings warnings;
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(warnings.mention("saves nothing"), step == 2) << warnings.text();
    Tensor y;
    {
      const Scope scope(Policy::recompute_all(), ScopeOptions().name("whole model, audited"));
      y = chain(x);
    }
    y.sum().backward();
  }
}

TEST(Savings, AnAuditedScopeBeforePlainLayersIsNotWarnedOf) {
  const Tensor x = leaf({kLarge});
  const Warnings warnings;
  for (int step = 0; step < 3; ++step) {
    Tensor y;
    {
      const Scope scope(Policy::recompute_all(), ScopeOptions().name("front, audited"));
      y = chain(x);
    }
    chain(y).sum().backward();
  }
  EXPECT_EQ(warnings.text(), "");
}

TEST(Savings, AScopeThatKeepsAllItDecidesOnIsWarnedOf) {
  const Tensor x = leaf({8});
  const Warnings warnings;
  {
    const Scope scope(Policy::keep_ops({"aten::exp", "aten::sin"}).audit(false));
    x.exp().sin().exp();
  }
  EXPECT_TRUE(warnings.mention("saves nothing")) << warnings.text();
}

TEST(Savings, RulesThatMatchNothingAreWarnedOfByName) {
  const Tensor x = leaf({8});
  const Warnings warnings;
  {
    const Scope scope(Policy::keep_ops({"aten::conv1d"}).audit(false));
    x.exp().sin();
  }
  EXPECT_TRUE(warnings.mention("keep_ops(aten::conv1d)")) << warnings.text();
}

}  // namespace
}  // namespace reprise::testing
