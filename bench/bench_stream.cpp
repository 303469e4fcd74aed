// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include <reprise/budget.h>
#include <reprise/meter.h>

#include <torch/torch.h>

#include <benchmark/benchmark.h>

#include "workloads/strategy.h"
#include "workloads/transformer.h"

// A stream of steps whose lengths vary, under one budget: 200 steps of a transformer of two blocks
// with 16 lengths, drawn at random, within half of what the longest needs. Once a length has been
// seen three times, its steps are planned, and take what was predicted.
//   over            largest live bytes above the budget: 0
//   planned         steps that followed a plan
//   time_off        median difference between measured and predicted time, in percent
//   beyond_10       share of steps that took over a tenth more or less than predicted, in percent

namespace {

using namespace reprise;

constexpr int kLengths = 16, kSteps = 200, kSeenBefore = 3;
constexpr int64_t kLongest = 256, kBatch = 8, kWidth = 128;

struct Model {
  std::shared_ptr<workloads::TransformerStack> blocks =
      std::make_shared<workloads::TransformerStack>(
          workloads::TransformerSizes{2, kWidth, 4, 0.1, workloads::NormPlace::first});
  workloads::Strategy plain = workloads::parse_strategy("plain");

  at::Tensor loss(int64_t length) const {
    return blocks->forward(plain, at::ones({kBatch, length, kWidth})).square().mean();
  }
  void clear() const {
    for (at::Tensor& parameter : blocks->parameters()) parameter.mutable_grad() = at::Tensor();
  }
};

void stream(benchmark::State& state) {
  for (auto _ : state) {
    torch::manual_seed(1);
    const Model model;
    int64_t plain = 0;
    for (int i = 0; i < 2; ++i) {
      const PeakScope scope;
      model.loss(kLongest).backward();
      plain = scope.peak_above_base();
      model.clear();
    }
    auto budget = Budget::activations(plain / 2);
    std::mt19937 random(2);
    std::map<int64_t, int> seen;
    std::vector<double> off;
    int64_t over = 0;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t length = kLongest * static_cast<int64_t>(1 + random() % kLengths) / kLengths;
      model.clear();
      const PeakScope scope;
      budget.forward([&] { return model.loss(length); }).backward();
      over = std::max(over, scope.peak_above_base() - plain / 2);
      const BudgetSummary summary = budget.summary();
      if (++seen[length] > kSeenBefore && budget.followed()) {
        off.push_back(std::abs(summary.measured_ms / summary.predicted_ms - 1));
      }
    }
    const BudgetSummary summary = budget.summary();
    const auto beyond =
        std::count_if(off.begin(), off.end(), [](double each) { return each > 0.1; });
    state.counters["over"] = static_cast<double>(std::max<int64_t>(0, over));
    state.counters["planned"] = static_cast<double>(summary.planned_steps);
    state.counters["plans"] = static_cast<double>(summary.plans);
    std::sort(off.begin(), off.end());
    state.counters["time_off"] = off.empty() ? 100 : 100 * off[off.size() / 2];
    state.counters["beyond_10"] =
        off.empty() ? 100 : 100 * static_cast<double>(beyond) / static_cast<double>(off.size());
  }
}
BENCHMARK(stream)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
