// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <reprise/reprise.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include "offload/disk_channel.h"
#include "offload/engine.h"
#include "offload/memory_channel.h"
#include "tests/internal/faulty_channel.h"
#include "tests/one_thread.h"
#include "tests/store_support.h"
#include "tests/support.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

// Training steps that offload, while the disk below the store fails at random: short transfers,
// errors, flipped bits, writes that are lost, reads from elsewhere, no space.

namespace reprise {
namespace {

namespace nn = torch::nn;
using testing::Tensor;
using tests::FaultRates;
using tests::FaultyChannel;
using tests::soon;

constexpr FaultRates kRates{.fails = 20,
                            .full = 20,
                            .interrupted = 40,
                            .shorter = 60,
                            .nothing = 10,
                            .flipped = 60,
                            .lost = 30,
                            .elsewhere = 30,
                            .late = 60,
                            .no_growth = 100};

std::unique_ptr<detail::Channel> channel(unsigned seed, const std::string& folder) {
  if (seed % 4 != 0) {  // memory does not wait for anybody, and the engine does the same
    constexpr std::size_t kBytes = 4 << 20;
    std::shared_ptr<void> pool(std::malloc(kBytes), std::free);
    return detail::memory_channel(std::move(pool), kBytes, "memory", "");
  }
  DiskOptions options;
  options.direct = seed % 8 == 0;
  return detail::disk_channel(folder, options);
}

/// Three small layers of all that tapes find hard: views, draws, writes in place, products.
struct Net : nn::Module {
  Net() {
    for (int i = 0; i < 3; ++i) {
      layers->push_back(nn::Linear(16, 16));
      norms->push_back(nn::LayerNorm(nn::LayerNormOptions({16})));
    }
    register_module("layers", layers);
    register_module("norms", norms);
  }
  Tensor forward(Tensor x) {
    for (std::size_t i = 0; i < 3; ++i) {
      const Tensor y = norms->at<nn::LayerNormImpl>(i).forward(x);
      const Tensor z = layers->at<nn::LinearImpl>(i).forward(y);
      x = x + at::dropout(at::gelu(z).relu_(), 0.2, true) * y.t().contiguous().sigmoid().t();
    }
    return x.square().mean();
  }
  nn::ModuleList layers, norms;
};

TEST(OffloadFaults, TenThousandOfThemInTrainingGiveNoWrongGradientNoLeakAndNoFile) {
  const tests::OneThread one_thread;
  const tests::TempFolder folder;
  torch::manual_seed(1);
  Net net;
  const Tensor x = testing::leaf({16, 16});
  std::vector<Tensor> leaves = net.parameters();
  leaves.push_back(x);
  const auto plain = testing::loss_and_gradients(leaves, [&] { return net.forward(x); });
  const int64_t live = Meter().live();

  std::atomic<int64_t> injected = 0;
  int64_t steps = 0, right = 0, errors = 0, fetched = 0, failed = 0, recomputed = 0;
  for (unsigned seed = 1; injected < 10'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Store store(std::make_shared<detail::BlockEngine>(
        std::make_unique<FaultyChannel>(channel(seed, folder.path("")), seed, kRates, injected),
        int64_t{1} << 20, kNoLimit));
    OffloadOptions options = OffloadOptions().min_bytes(0).keep_last(0);
    options.fetch_ahead(seed % 3 == 0 ? 0 : 4096);
    options.on_failure(seed % 2 ? StoreFailure::recompute : StoreFailure::error);
    const Policy policy = Policy::offload(store, options);
    for (int step = 0; step < 8; ++step, ++steps) {
      OffloadSummary summary;
      const auto train = [&] {
        const testing::Warnings quiet;
        at::set_num_threads(1);
        std::unique_ptr<Scope> scope;
        try {
          const auto ours = testing::loss_and_gradients(leaves, [&] {
            const StoreStats before = store.stats();
            scope = std::make_unique<Scope>(policy);
            const Tensor loss = net.forward(x);
            scope->end();
            // What comes back out of memory meets with no fault.
            const int64_t moved = scope->summary().offload.moved;
            EXPECT_TRUE(soon([&] {
              const StoreStats now = store.stats();
              return now.blocks_sent + now.faults - before.blocks_sent - before.faults >= moved;
            }));
            return loss;
          });
          EXPECT_TRUE(testing::same_bits(ours, plain));
          ++right;
        } catch (const StoreError&) {
          ++errors;
          EXPECT_EQ(options.on_failure(), StoreFailure::error);
        }
        summary = scope->summary().offload;
      };
      // A backward pass that throws leaves work in its thread's queue, and with it the graph.
      std::thread(train).join();
      ASSERT_FALSE(HasFailure());
      for (Tensor leaf : leaves) leaf.mutable_grad() = Tensor();
      fetched += summary.fetched;
      failed += summary.failed;
      recomputed += summary.recomputed;
    }
    ASSERT_TRUE(soon([&] { return store.stats().blocks_held == 0; }));
    ASSERT_EQ(store.stats().bytes_stored, 0);
    ASSERT_TRUE(soon([&] { return Meter().live() == live; })) << Meter().live() - live;
    ASSERT_EQ(folder.entries(), 0U);
  }
  std::cout << steps << " steps, " << injected << " faults: " << right << " steps with right bits, "
            << errors << " errors; " << fetched << " values fetched, " << failed << " not sent, "
            << recomputed << " recomputed\n";
  EXPECT_GT(right, steps / 3);
  EXPECT_GT(errors, 50);
  EXPECT_GT(failed, 500);
  EXPECT_GT(recomputed, 500);
}

}  // namespace
}  // namespace reprise
