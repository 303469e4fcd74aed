// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include <reprise/store.h>

#include "offload/options.h"
#include "offload/stopwatch.h"

namespace reprise {
namespace {

constexpr int64_t kBlock = int64_t{8} << 20;
constexpr std::size_t kTargets = 4;  // fetches under way

/// Normal numbers: what a compressed store gains on these it gains on activations.
std::shared_ptr<const void> numbers() {
  auto block = std::make_shared<std::vector<float>>(kBlock / sizeof(float));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& each : *block) each = normal(random);
  return {block, block->data()};
}

double per_second(int64_t bytes, const detail::Stopwatch& watch) {
  return 1000 * static_cast<double>(bytes) / std::max(watch.ms(), 1e-6);
}

}  // namespace

Bandwidth measure_bandwidth(const Store& store, int64_t bytes) {
  detail::require_positive("the number of bytes to measure with", bytes);
  const std::shared_ptr<const void> data = numbers();
  const int64_t count = (bytes + kBlock - 1) / kBlock;
  std::vector<Block> blocks;
  Bandwidth bandwidth;

  // The first round lets a file grow, which a training loop does once.
  for (int round = 0; round < 2; ++round) {
    blocks.clear();
    const detail::Stopwatch sending;
    for (int64_t i = 0; i < count; ++i) blocks.push_back(store.send({data, kBlock, 4, true}));
    for (Block& block : blocks) block.wait();
    bandwidth.send = per_second(count * kBlock, sending);
  }

  std::vector<std::shared_ptr<void>> targets;
  for (std::size_t i = 0; i < kTargets; ++i) {
    auto target = std::make_shared<std::vector<std::byte>>(kBlock);
    targets.emplace_back(target, target->data());
  }
  std::vector<Fetch> fetches(kTargets);
  const detail::Stopwatch fetching;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Fetch& fetch = fetches[i % kTargets];
    if (fetch) fetch.wait();
    fetch = blocks[i].fetch(targets[i % kTargets]);
  }
  for (Fetch& fetch : fetches) {
    if (fetch) fetch.wait();
  }
  bandwidth.fetch = per_second(count * kBlock, fetching);
  return bandwidth;
}

}  // namespace reprise
