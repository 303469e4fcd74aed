// SPDX-License-Identifier: BSD-3-Clause
#include "tests/stress/budgets.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <reprise/reprise.h>

#include "tests/at_once.h"
#include "tests/stress/net.h"

namespace reprise::stress {
namespace {

constexpr int kThreads = 3, kSteps = 5;

void train(const Net& net, Budget& budget, unsigned seed, const std::vector<Tensor>& expected) {
  for (int step = 0; step < kSteps; ++step) {
    if ((seed + static_cast<unsigned>(step)) % 4 == 0) {
      try {
        budget.forward([&] { return net.loss(/*fail=*/true); });
      } catch (const std::runtime_error&) {  // it may also not fit: then that comes out below
      }
    }
    try {
      budget.forward([&] { return net.loss(); }).backward();
    } catch (const std::exception& error) {
      // Several threads may need their memory at one moment.
      if (std::string(error.what()).find("a budget of ") == std::string::npos) throw;
      net.take();
      continue;
    }
    const auto ours = net.take();
    if (!bit_equal(ours[0], expected[0]) || !bit_equal(ours[1], expected[1])) {
      throw std::runtime_error("gradients under a budget differ");
    }
    if (step == 2) budget.finish_planning();
  }
}

}  // namespace

int64_t check_budgets(unsigned seed, c10::Device device, const Store* store) {
  const Meter meter(device);
  const int64_t base = meter.live();
  int64_t planned = 0;
  {
    std::vector<Net> nets;
    std::vector<std::vector<Tensor>> expected;
    int64_t peaks = 0;
    for (int t = 0; t < kThreads; ++t) {
      nets.emplace_back(seed * kThreads + static_cast<unsigned>(t), device);
      const PeakScope scope(meter);
      nets.back().loss().backward();
      peaks += scope.peak_above_base();
      expected.push_back(nets.back().take());
    }
    Budget budget(meter.live() + peaks * 3 / 4, device);
    if (store != nullptr) budget.into(*store);
    budget.plan_with({.evaluations = 100, .bound = false});
    std::atomic<bool> failed{false};
    testing::at_once(kThreads, [&](int t) {
      try {
        const auto i = static_cast<std::size_t>(t);
        train(nets[i], budget, seed + static_cast<unsigned>(t), expected[i]);
      } catch (...) {
        failed = true;
      }
    });
    if (failed) throw std::runtime_error("a thread under a budget failed");
    for (std::size_t i = 0; i < nets.size(); ++i) {  // alone, so that steps are measured
      train(nets[i], budget, 1, expected[i]);
      budget.finish_planning();
      train(nets[i], budget, 1, expected[i]);
    }
    planned = budget.summary().planned_steps;
    const BudgetSummary summary = budget.summary();
    // On an accelerator a backward pass cannot be refused.
    if (summary.peak > summary.limit && device.is_cpu())
      throw std::runtime_error("a budget was exceeded");
  }
  if (meter.live() != base) throw std::runtime_error("something is left of a budget");
  return planned;
}

}  // namespace reprise::stress
