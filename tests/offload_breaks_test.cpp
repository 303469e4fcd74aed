// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <utility>
#include <vector>

#include "tests/copy_store.h"
#include "tests/faulty_store.h"
#include "tests/support.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

// What programs do that an offload might not survive. Everything that may go does: from the first
// byte on, to the last value.

namespace reprise::testing {
namespace {

using tests::CopyBackend;
using tests::faulty_store;

OffloadOptions everything() { return OffloadOptions().min_bytes(0).keep_last(0); }

class OffloadBreaks : public ::testing::Test {
 protected:
  /// Nothing may be left when the graph is gone.
  void TearDown() override {
    EXPECT_EQ(store.stats().blocks_held, 0);
    EXPECT_EQ(copies->written_to(), 0) << "memory was written to while it was being sent";
  }

  /// Loss and gradients of a program whose forward pass runs under a policy.
  std::vector<Tensor> under(const Policy& policy, const std::vector<Tensor>& leaves,
                            const std::function<Tensor()>& loss) {
    return loss_and_gradients(leaves, [&] {
      Scope scope(policy);
      Tensor value = loss();
      scope.end();
      summary = scope.summary().offload;
      return value;
    });
  }

  /// The same bits as plain; at least `moved` values have been to the store.
  void expect_same(const std::vector<Tensor>& leaves, const std::function<Tensor()>& loss,
                   int64_t moved = 1) {
    const auto plain = loss_and_gradients(leaves, loss);
    for (const Policy& policy :
         {Policy::offload(store, everything()),
          Policy::offload(store, everything().on_failure(StoreFailure::recompute))}) {
      EXPECT_TRUE(same_bits(under(policy, leaves, loss), plain));
      EXPECT_GE(summary.moved, moved) << summary;
    }
  }

  const std::shared_ptr<CopyBackend> copies = std::make_shared<CopyBackend>(1, /*late=*/300);
  const Store store{copies};
  const Tensor x = leaf({8, 8}, 2), w = leaf({8, 8}, 3);
  OffloadSummary summary;
};

// --- faults --------------------------------------------------------------------------------------

// Once the scope's end has sent them, nobody must have forgotten how they are made.
TEST_F(OffloadBreaks, WhatTheEndOfTheScopeSendsCanBeMadeAgain) {
  const Warnings warnings;
  const auto chain = [&] { return (x.sin() * x.exp()).cos().tanh().mean(); };
  const auto plain = loss_and_gradients({x}, chain);
  const Store broken = faulty_store(store, 1, {.fetches = 1000});
  const Policy policy =
      Policy::offload(broken, everything().on_failure(StoreFailure::recompute));
  std::unique_ptr<Scope> scope;
  const auto ours = loss_and_gradients({x}, [&] {
    Tensor loss;
    scope = std::make_unique<Scope>(policy);
    loss = chain();
    scope->end();
    return loss;
  });
  EXPECT_TRUE(same_bits(ours, plain));
  EXPECT_GT(scope->summary().offload.recomputed, 0) << scope->summary().offload;
}

TEST_F(OffloadBreaks, AValueThatIsSavedTwiceGoes) {
  const auto fork = [&] {
    Tensor y = x.sigmoid();
    Tensor a = y.matmul(w), b = y.sin(), c = y.t() * w;  // y four times, and a view of it
    return (a + b + c).sum();
  };
  expect_same({x, w}, fork);
  EXPECT_EQ(summary.skipped_alive, 0) << summary;
}

}  // namespace
}  // namespace reprise::testing
