// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/checkpoint.h>

#include "tests/faulty_store.h"
#include "tests/store_support.h"
#include "tests/support.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

// Saved tensors that go to a store, as users of policies see it.

namespace reprise::testing {
namespace {

namespace nn = torch::nn;
using tests::faulty_store;
using tests::FaultyStoreRates;

constexpr int64_t kWidth = 64, kRows = 256;

/// Layers whose saved tensors are all of 64 KiB or more.
struct Layers : nn::Module {
  explicit Layers(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      up.push_back(register_module("up" + std::to_string(i), nn::Linear(kWidth, 2 * kWidth)));
      down.push_back(register_module("down" + std::to_string(i), nn::Linear(2 * kWidth, kWidth)));
      norm.push_back(register_module("norm" + std::to_string(i),
                                     nn::LayerNorm(nn::LayerNormOptions({kWidth}))));
    }
  }
  Tensor forward(Tensor x) {
    for (std::size_t i = 0; i < up.size(); ++i) {
      const ModuleScope layer("layers." + std::to_string(i));
      const Tensor hidden = named("hidden", at::gelu(up[i](norm[i](x))));
      x = boundary(x + at::dropout(down[i](hidden), 0.1, true));
    }
    return x;
  }
  std::vector<nn::Linear> up, down;
  std::vector<nn::LayerNorm> norm;
};

class Offload : public ::testing::Test {
 protected:
  Offload() {
    torch::manual_seed(1);
    net = std::make_shared<Layers>(5);
    leaves = net->parameters();
    leaves.push_back(x);
    plain = step();
    const PeakScope peak;
    step();
    plain_peak = peak.peak_above_base();
  }

  std::vector<Tensor> step() {
    return loss_and_gradients(leaves, [&] { return net->forward(x).square().mean(); });
  }

  /// Of the last step, as it stands after the backward pass.
  std::vector<Tensor> under(const Policy& policy, OffloadSummary* summary = nullptr) {
    std::unique_ptr<Scope> scope;
    const StoreStats before = store_in_use ? store_in_use->stats() : StoreStats();
    auto results = loss_and_gradients(leaves, [&] {
      scope = std::make_unique<Scope>(policy);
      const Tensor loss = net->forward(x).square().mean();
      scope->end();
      arrive(store_in_use, *scope, before);
      return loss;
    });
    if (summary != nullptr) *summary = scope->summary().offload;
    return results;
  }

  /// Waits until all that a forward pass has sent is in the store: then it must be fetched.
  static void arrive(const Store* store, const Scope& scope, const StoreStats& before) {
    if (store == nullptr) return;
    EXPECT_TRUE(tests::soon([&] {
      const StoreStats now = store->stats();
      return now.blocks_sent - before.blocks_sent + now.faults - before.faults >=
             scope.summary().offload.moved;
    }));
  }

  tests::TempFolder folder;
  const Store* store_in_use = nullptr;
  std::shared_ptr<Layers> net;
  const Tensor x = leaf({kRows, kWidth}, 2);
  std::vector<Tensor> leaves, plain;
  int64_t plain_peak = 0;
};

TEST_F(Offload, ToDiskGivesTheSameBitsInLessMemory) {
  const DiskStore store(folder.path(""));
  store_in_use = &store;
  const int64_t base = Meter().live();
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    OffloadSummary summary;
    const PeakScope peak;
    EXPECT_TRUE(same_bits(under(Policy::offload(store), &summary), plain));
    EXPECT_LT(peak.peak_above_base(), plain_peak);
    EXPECT_GT(summary.moved, 20) << summary;
    EXPECT_EQ(summary.skipped_last, 1) << summary;
    EXPECT_EQ(summary.fetched, summary.moved) << summary;
    EXPECT_EQ(summary.fetched_bytes, summary.moved_bytes) << summary;
    EXPECT_EQ(summary.failed, 0);
    EXPECT_EQ(Meter().live(), base);
    EXPECT_EQ(folder.entries(), 0U);
  }
  EXPECT_EQ(store.stats().blocks_held, 0);
}

TEST_F(Offload, ParametersStayWhereTheyAre) {
  const DiskStore store(folder.path(""));
  const Tensor weight = leaf({256, 256}, 3), input = leaf({256, 256}, 4);
  std::unique_ptr<Scope> scope;
  loss_and_gradients({weight, input}, [&] {
    scope = std::make_unique<Scope>(Policy::offload(store, OffloadOptions().keep_last(0)));
    Tensor loss = at::mm(input, weight).sum();  // saves its two arguments, and nothing else
    scope->end();
    return loss;
  });
  EXPECT_EQ(scope->summary().external, 2);
  EXPECT_EQ(scope->summary().offload.seen, 0);
  EXPECT_EQ(store.stats().blocks_sent, 0);
}

TEST_F(Offload, RulesChooseByOperatorNameAndLayer) {
  const DiskStore store(folder.path(""));
  const auto moved = [&](const Policy& policy) {
    OffloadSummary summary;
    EXPECT_TRUE(same_bits(under(policy, &summary), plain));
    return summary.seen;
  };
  EXPECT_EQ(moved(Policy::offload_names({"hidden"}).into(store)), 5);
  EXPECT_EQ(moved(Policy::offload_ops({"aten::gelu"}).into(store)), 5);
  EXPECT_GT(moved(Policy::layers(0, 2, Action::offload).into(store)), 4);
  EXPECT_EQ(moved((Policy::offload_names({"hidden"}) | Policy::keep_all()).into(store)), 5);
  EXPECT_EQ(moved((Policy::offload_names({"hidden"}) | Policy::recompute_all()).into(store)), 5);
}

TEST_F(Offload, OptionsBoundWhatGoes) {
  const DiskStore store(folder.path(""));
  OffloadSummary all, half, none, small, last;
  const auto with = [&](const OffloadOptions& options, OffloadSummary& summary) {
    EXPECT_TRUE(same_bits(under(Policy::offload(store, options), &summary), plain));
  };
  with(OffloadOptions(), all);
  with(OffloadOptions().fraction(0.5), half);
  EXPECT_GT(half.skipped_fraction, 0);
  EXPECT_LE(half.moved_bytes, all.seen_bytes / 2);
  EXPECT_GT(half.moved_bytes, all.seen_bytes / 3);
  with(OffloadOptions().fraction(0), none);
  EXPECT_EQ(none.moved, 0);
  with(OffloadOptions().min_bytes(100 << 10), small);
  EXPECT_GT(small.skipped_small, 0);
  EXPECT_GT(small.moved, 0);
  with(OffloadOptions().keep_last(7), last);
  EXPECT_EQ(last.skipped_last, 7);
  EXPECT_THROW(OffloadOptions().fraction(1.5), UsageError);
  EXPECT_THROW(OffloadOptions().min_bytes(-1), UsageError);
  EXPECT_THROW(OffloadOptions().keep_last(-1), UsageError);
  EXPECT_THROW(OffloadOptions().fetch_ahead(-1), UsageError);
}

TEST_F(Offload, WithoutAStoreIsAnError) {
  EXPECT_NE(message_of<UsageError>([&] { under(Policy::offload_names({"hidden"})); }).find("store"),
            std::string::npos);
}

TEST_F(Offload, WhatTheProgramStillHasIsNotMoved) {
  const DiskStore store(folder.path(""));
  std::vector<Tensor> held;
  OffloadSummary summary;
  Tensor loss;
  {
    Scope scope(Policy::offload(store).audit(false));
    Tensor y = x;
    for (int i = 0; i < 4; ++i) {
      held.push_back(y * 2);
      y = at::gelu(held.back());
    }
    loss = y.square().mean();
    scope.end();
    summary = scope.summary().offload;
  }
  EXPECT_EQ(summary.moved + summary.skipped_alive + summary.skipped_last, summary.seen) << summary;
  EXPECT_EQ(summary.skipped_alive, 4) << summary;
}

TEST_F(Offload, AStoreWithoutRoomKeepsTheRest) {
  DiskOptions options;
  options.bytes_held = 512 << 10;
  const DiskStore store(folder.path(""), options);
  OffloadSummary summary;
  EXPECT_TRUE(same_bits(under(Policy::offload(store), &summary), plain));
  EXPECT_GT(summary.skipped_full + summary.failed, 0) << summary;
  EXPECT_GT(summary.moved, 0);
}

TEST_F(Offload, ARetainedGraphIsWalkedAgain) {
  const DiskStore store(folder.path(""));
  torch::manual_seed(7);
  std::unique_ptr<Scope> scope = std::make_unique<Scope>(Policy::offload(store));
  const Tensor loss = net->forward(x).square().mean();
  scope->end();
  arrive(&store, *scope, StoreStats());
  for (int pass = 0; pass < 3; ++pass) {
    loss.backward({}, /*retain_graph=*/pass < 2);
    std::vector<Tensor> results{loss.detach()};
    for (Tensor leaf : leaves) {
      results.push_back(leaf.grad());
      leaf.mutable_grad() = Tensor();
    }
    EXPECT_TRUE(same_bits(results, plain)) << pass;
  }
  EXPECT_EQ(scope->summary().offload.fetched, 3 * scope->summary().offload.moved);
  EXPECT_EQ(store.stats().blocks_held, 0);
}

TEST_F(Offload, FaultsKeepOrRecomputeOrThrow) {
  const Warnings warnings;
  int64_t injected = 0, thrown = 0, recomputed = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    const Store sends = faulty_store(DiskStore(folder.path("")), seed, FaultyStoreRates{300, 0});
    OffloadSummary summary;
    store_in_use = &sends;
    EXPECT_TRUE(same_bits(under(Policy::offload(sends), &summary), plain)) << seed;
    EXPECT_EQ(summary.failed, sends.stats().faults);
    injected += sends.stats().faults;
    const Store fetches =
        faulty_store(DiskStore(folder.path("")), seed, FaultyStoreRates{100, 100});
    store_in_use = &fetches;
    try {
      EXPECT_TRUE(same_bits(under(Policy::offload(fetches)), plain)) << seed;
    } catch (const StoreError& error) {
      ++thrown;
    }
    for (Tensor leaf : leaves) leaf.mutable_grad() = Tensor();
    const Store again = faulty_store(DiskStore(folder.path("")), seed, FaultyStoreRates{100, 300});
    store_in_use = &again;
    EXPECT_TRUE(same_bits(
        under(Policy::offload(again, OffloadOptions().on_failure(StoreFailure::recompute)),
              &summary),
        plain))
        << seed;
    recomputed += summary.recomputed;
  }
  EXPECT_GT(injected, 8);
  EXPECT_GT(thrown, 2);
  EXPECT_GT(recomputed, 8);
}

TEST_F(Offload, ComposesWithFunctionReplayInBothOrders) {
  const DiskStore store(folder.path(""));
  const auto region = [&](const Tensor& input) { return at::gelu(at::sigmoid(input * 3) * 2); };
  const auto chain = [&](bool checkpointed) {
    Tensor y = x * 1.0;
    for (int i = 0; i < 4; ++i) y = checkpointed ? checkpoint(region, y) : region(y);
    return y.square().mean();
  };
  const auto expected = loss_and_gradients({x}, [&] { return chain(false); });
  OffloadSummary around;
  std::unique_ptr<Scope> scope;
  EXPECT_TRUE(same_bits(loss_and_gradients({x},
                                           [&] {
                                             scope =
                                                 std::make_unique<Scope>(Policy::offload(store));
                                             Tensor loss = chain(true);
                                             scope->end();
                                             return loss;
                                           }),
                        expected));
  around = scope->summary().offload;
  EXPECT_GT(around.moved, 0);
  // A scope inside of what is replayed.
  int64_t moved_inside = 0;
  const auto inside = [&](const Tensor& input) {
    Scope inner(Policy::offload(store, OffloadOptions().keep_last(0)));
    Tensor result = region(input);
    inner.end();
    moved_inside += inner.summary().offload.moved;
    return result;
  };
  EXPECT_TRUE(same_bits(loss_and_gradients({x},
                                           [&] {
                                             Tensor y = x * 1.0;
                                             for (int i = 0; i < 4; ++i) y = checkpoint(inside, y);
                                             return y.square().mean();
                                           }),
                        expected));
  EXPECT_GT(moved_inside, 4);
}

TEST_F(Offload, ALossyStoreChangesGradientsAndAnExactOneDoesNot) {
  const DiskStore disk(folder.path(""));
  EXPECT_TRUE(same_bits(under(Policy::offload(CompressedStore(disk))), plain));
  CompressedOptions lossy;
  lossy.lossy_bfloat16 = true;
  const auto rounded = under(Policy::offload(CompressedStore(disk, lossy)));
  EXPECT_FALSE(same_bits(rounded, plain));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(at::allclose(rounded[i], plain[i], 0.1, 0.01)) << i;
  }
}

TEST_F(Offload, MovingNothingIsWarnedOfOnce) {
  const Warnings warnings;
  const DiskStore store(folder.path(""));
  const Policy policy = Policy::offload(store, OffloadOptions().min_bytes(1 << 30));
  for (int i = 0; i < 3; ++i) under(policy);
  const std::size_t first = warnings.text().find("offloads nothing");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(warnings.text().find("offloads nothing", first + 1), std::string::npos);
}

TEST_F(Offload, SharedStoragesGoOnceAndViewsComeBackAsTheyWere) {
  const DiskStore store(folder.path(""));
  const auto views = [&] {
    const Tensor base = at::sigmoid(x);
    const Tensor a = base.t();
    const Tensor b = base.slice(0, 3, kRows, 5);
    const Tensor c = base.select(1, 7).unsqueeze(1).expand({kRows, kWidth});
    const Tensor d = base.view({kWidth, kRows}).transpose(0, 1);
    return (a.exp().sum() + b.exp().sum() + (c * c * d).sum()) +
           at::einsum("ij,jk->ik", {a, d}).sum();
  };
  const auto expected = loss_and_gradients({x}, views);
  std::unique_ptr<Scope> scope;
  EXPECT_TRUE(same_bits(loss_and_gradients({x},
                                           [&] {
                                             scope =
                                                 std::make_unique<Scope>(Policy::offload(store));
                                             Tensor loss = views();
                                             scope->end();
                                             return loss;
                                           }),
                        expected));
  const OffloadSummary summary = scope->summary().offload;
  const auto whole = static_cast<int64_t>(x.nbytes());
  EXPECT_LE(summary.moved_bytes, summary.seen_bytes);
  EXPECT_GE(summary.moved, 1) << summary << whole;
}

}  // namespace
}  // namespace reprise::testing
