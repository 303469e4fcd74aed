// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support.h"

// Live bytes return to where they were, however a step under a Scope ends.

namespace reprise::testing {
namespace {

constexpr int64_t kLarge = 1 << 14;

/// A step whose every part is in the hands of the test.
class ScopeLifetime : public ::testing::Test {
 protected:
  Tensor forward(const std::function<void()>& inside = [] {}) {
    const Scope scope(policy);
    const Tensor hidden = (x.exp() * w).sin();
    inside();
    return (at::dropout(hidden, 0.5, true).tanh() * w).sum();
  }

  int64_t above_base() const { return meter.live() - base; }

  const Policy policy = Policy::keep_names({"none"}).otherwise(Action::recompute).audit(false);
  Tensor x = leaf({kLarge}, 1), w = leaf({kLarge}, 2);
  const Meter meter;
  const int64_t base = meter.live();
};

TEST_F(ScopeLifetime, AfterBackward) {
  const Tensor y = forward();
  EXPECT_LT(above_base(), kLarge * 4) << "something was kept";
  const auto gradients = torch::autograd::grad({y}, {x, w});
  EXPECT_EQ(above_base(), 2 * kLarge * 4 + 4);
}

TEST_F(ScopeLifetime, AfterAnExceptionInForward) {
  EXPECT_THROW(forward([] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(above_base(), 0);
  EXPECT_NO_THROW(forward().backward());
}

TEST_F(ScopeLifetime, AfterAnExceptionInReplay) {
  const Tensor factor = at::ones({kLarge});
  const int64_t with_factor = above_base();
  {
    Tensor y;
    {
      const Scope scope(policy);
      y = (x.exp() * factor).sin().sum();
    }
    factor.add_(1);
    EXPECT_THROW(y.backward(), std::exception);
  }
  EXPECT_EQ(above_base(), with_factor);
  EXPECT_NO_THROW(forward().backward());
}

TEST_F(ScopeLifetime, AfterAnExceptionInBackward) {
  {
    Tensor inner = x * 1;
    inner.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("no"); });
    Tensor y;
    {
      const Scope scope(policy);
      y = inner.exp().sin().exp().sum();
    }
    EXPECT_THROW(y.backward(), std::runtime_error);
  }
  EXPECT_EQ(above_base(), 0);
}

TEST_F(ScopeLifetime, WhenTheGraphIsDropped) {
  forward();
  EXPECT_EQ(above_base(), 0);
}

TEST_F(ScopeLifetime, WhenARetainedGraphIsDropped) {
  {
    const Tensor y = forward();
    const int64_t before = above_base();
    for (int i = 0; i < 3; ++i) {
      (void)torch::autograd::grad({y}, {x, w}, {}, /*retain_graph=*/true);
      EXPECT_EQ(above_base(), before);
    }
  }
  EXPECT_EQ(above_base(), 0);
}

TEST_F(ScopeLifetime, APartialBackwardLeavesNoReplayedTensorsBehind) {
  Tensor y;
  {
    const Scope scope(policy);
    y = (x.exp() * w.sin()).sum();
  }
  const int64_t before = above_base();
  (void)torch::autograd::grad({y}, {w}, {}, /*retain_graph=*/true);
  EXPECT_EQ(above_base(), before);
}

}  // namespace
}  // namespace reprise::testing
