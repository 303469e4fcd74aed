// SPDX-License-Identifier: BSD-3-Clause
#include "tests/stress/offloads.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include <reprise/reprise.h>

#include "tests/at_once.h"
#include "tests/store_support.h"
#include "tests/stress/net.h"

namespace reprise::stress {
namespace {

constexpr int kThreads = 3, kSteps = 4;

int64_t train(const Net& net, const Policy& policy, unsigned seed,
              const std::vector<Tensor>& expected) {
  int64_t moved = 0;
  for (int step = 0; step < kSteps; ++step) {
    if ((seed + static_cast<unsigned>(step)) % 4 == 0) {
      try {
        const Scope scope(policy);
        net.loss(/*fail=*/true);
      } catch (const std::runtime_error&) {  // what had been sent is given up
      }
    }
    Scope scope(policy);
    const Tensor loss = net.loss();
    scope.end();
    loss.backward();
    moved += scope.summary().offload.moved;
    const auto ours = net.take();
    if (!bit_equal(ours[0], expected[0]) || !bit_equal(ours[1], expected[1])) {
      throw std::runtime_error("gradients with offload differ");
    }
  }
  return moved;
}

}  // namespace

int64_t check_offloads(unsigned seed, c10::Device device, const Store& store) {
  const Meter meter(device);
  const int64_t base = meter.live();
  std::atomic<int64_t> moved{0};
  {
    std::vector<Net> nets;
    std::vector<std::vector<Tensor>> expected;
    for (int t = 0; t < kThreads; ++t) {
      nets.emplace_back(seed * kThreads + static_cast<unsigned>(t), device);
      nets.back().loss().backward();
      expected.push_back(nets.back().take());
    }
    const auto options = OffloadOptions()
                             .min_bytes(0)
                             .fetch_ahead(seed % 3 * 4096)
                             .on_failure(seed % 2 ? StoreFailure::recompute : StoreFailure::error);
    const Policy policy = Policy::offload(store, options);
    std::atomic<bool> failed{false};
    testing::at_once(kThreads, [&](int t) {
      try {
        const auto i = static_cast<std::size_t>(t);
        moved += train(nets[i], policy, seed + static_cast<unsigned>(t), expected[i]);
      } catch (...) {
        failed = true;
      }
    });
    if (failed) throw std::runtime_error("a thread that offloads failed");
  }
  // A store lets go of what it was sent on threads of its own.
  if (!tests::soon([&] { return store.stats().blocks_held == 0 && meter.live() == base; })) {
    throw std::runtime_error("something is left of an offload");
  }
  return moved;
}

}  // namespace reprise::stress
