// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <string>

#include <ATen/record_function.h>

#include "tests/at_once.h"
#include "tests/parity.h"

// Public reports of selective checkpointing elsewhere that a C++ program could meet, and that go
// right here. docs/regressions.md has a line for each report; P#n is number n of pytorch/pytorch.

namespace reprise::testing {
namespace {

using torch::autograd::grad;

CheckpointOptions under(const Policy& policy) {
  return CheckpointOptions().replay(Replay::operators).policy(policy.audit(false));
}

std::vector<Policy> policies() {
  return {Policy::keep_ops({"aten::mm"}),
          Policy::keep_ops({"aten::sin", "aten::mul_", "aten::exp"}),
          Policy::recompute_ops({"aten::mm", "aten::bernoulli_"}),
          Policy::where([](const ValueView& v) { return v.invocation % 2 == 0; }, Action::keep,
                        "every second call"),
          Policy::keep_matmuls(),
          Policy::recompute_all()};
}

void expect_plain_under_each(const std::vector<Tensor>& leaves,
                             const std::function<Tensor(const CheckpointOptions&)>& model) {
  const auto plain =
      loss_and_gradients(leaves, [&] { return model(CheckpointOptions().enabled(false)).sum(); });
  for (const Policy& policy : policies()) {
    EXPECT_TRUE(
        same_bits(plain, loss_and_gradients(leaves, [&] { return model(under(policy)).sum(); })));
  }
}

// P#119590, P#113737
TEST(ReportsOnPolicies, InPlaceOperatorsOnKeptAndDroppedValuesEqualPlain) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  const auto f = [&](const Tensor& t) {
    Tensor y = t.mm(w);
    y.add_(t).mul_(t.sin());  // the product that a policy keeps is written to
    Tensor z = y.sin();
    z.select(0, 1).mul_(2);
    z.t().add_(y);
    return z.mm(w).cos().relu_();
  };
  expect_plain_under_each({x, w}, [&](const CheckpointOptions& options) {
    return checkpoint(options, f, checkpoint(options, f, x).tanh());
  });
}

// P#175258: kept values are not found again by counting calls.
TEST(ReportsOnPolicies, ABranchOnGlobalStateBetweenTheRunsChangesNothing) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  bool warm = false;
  Tensor memo;
  const auto f = [&](const Tensor& t) {
    if (!warm) memo = w.mm(w).detach();
    warm = true;
    return t.mm(w).sin().mm(memo).exp();
  };
  expect_plain_under_each({x, w}, [&](const CheckpointOptions& options) {
    warm = false;
    const Tensor y = checkpoint(options, f, x * 0.1);
    return checkpoint(options, f, y.tanh());  // finds the memo of the first region
  });
}

// Automodel PR#3133: a profiler's marks are operators, too.
TEST(ReportsOnPolicies, AProfilerThatIsOnInForwardOnlyIsNotCounted) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  const auto f = [&](const Tensor& t) {
    RECORD_USER_SCOPE("part");
    return t.mm(w).sin().mm(w).exp();
  };
  static std::atomic<int> marks{0};
  expect_plain_under_each({x, w}, [&](const CheckpointOptions& options) {
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
          ++marks;
          return nullptr;
        }));
    const Tensor y = checkpoint(options, f, checkpoint(options, f, x * 0.1));
    at::removeCallback(handle);
    return y;
  });
  EXPECT_GT(marks, 0);
}

// P#193338: a weight that is cast once, and used by several regions.
TEST(ReportsOnPolicies, AWeightSharedByRegionsUnderAutocastEqualsPlain) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  const auto f = [&](const Tensor& t) { return t.mm(w).sin().mm(w); };
  expect_plain_under_each({x, w}, [&](const CheckpointOptions& options) {
    const Autocast autocast(at::kCPU);
    const Tensor a = checkpoint(options, f, x), b = checkpoint(options, f, x.cos());
    return (a * b).to(at::kFloat);
  });
}

// P#190758, P#190717: what is drawn is drawn once, whatever is kept.
TEST(ReportsOnPolicies, DropoutIsNeverDrawnAnew) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  const auto f = [&](const Tensor& t) {
    const Tensor y = at::dropout(t.mm(w).sin(), 0.4, true);
    return at::dropout(y.mm(w).exp(), 0.3, true) * at::rand_like(y);
  };
  expect_plain_under_each({x, w}, [&](const CheckpointOptions& options) {
    const Tensor y = checkpoint(options, f, x * 0.1);
    return at::dropout(checkpoint(options, f, y.tanh()), 0.2, true);
  });
}

// P#96764: one graph, walked by several threads at once.
TEST(ReportsOnPolicies, OneGraphWalkedByManyBackwardPassesAtOnceEqualsPlain) {
  const Tensor x = leaf({16, 16}), w = leaf({16, 16}, 2);
  const auto f = [&](const Tensor& t) { return t.mm(w).sin().mm(w).exp().tanh(); };
  const auto expected = grad({f(f(x * 0.1)).sum()}, {x, w});
  for (const Policy& policy : policies()) {
    const Tensor y = checkpoint(under(policy), f, checkpoint(under(policy), f, x * 0.1)).sum();
    at_once(4, [&](int) {
      for (int k = 0; k < 10; ++k) {
        EXPECT_TRUE(same_bits(expected, grad({y}, {x, w}, {}, /*retain_graph=*/true)));
      }
    });
  }
}

// P#11732: replicas that share parameters, each on a thread of its own.
TEST(ReportsOnPolicies, ReplicasOnThreadsOfTheirOwnEqualPlain) {
  const Tensor w = leaf({16, 16});
  const auto f = [&](const Tensor& t) { return t.mm(w).sin().mm(w).tanh(); };
  const auto plain = [&](uint64_t seed) { return grad({f(leaf({4, 16}, seed)).sum()}, {w}); };
  at_once(4, [&](int i) {
    for (uint64_t k = 0; k < 10; ++k) {
      const Policy policy = policies()[k % policies().size()];
      const Tensor y = checkpoint(under(policy), f, leaf({4, 16}, 10 * i + k)).sum();
      EXPECT_TRUE(same_bits(plain(10 * i + k), grad({y}, {w})));
    }
  });
}

}  // namespace
}  // namespace reprise::testing
