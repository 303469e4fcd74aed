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

#include "bench/timing.h"
#include "workloads/strategy.h"
#include "workloads/transformer.h"

// A stream of steps whose lengths vary, under one budget: 200 steps of a transformer of two blocks
// with 16 lengths, drawn at random, within half of what the longest needs. Once a length has been
// seen three times, its steps are planned, and take what was predicted.
//   over            largest live bytes above the budget: 0
//   planned         steps that followed a plan
//   time_off        median difference between measured and predicted time, in percent
//   beyond_10       share of steps that took over a tenth more or less than predicted, in percent
//   settled_*       the same of another 200 steps, with nothing planned beside them
//   plain_*         the same of plain steps against the median of their length: the machine's own

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

/// How far steps were off, as parts of what they should have taken.
class Off {
 public:
  void add(double measured, double expected) { off_.push_back(std::abs(measured / expected - 1)); }

  /// In percent.
  double typical() const { return off_.empty() ? 100 : 100 * median(off_); }
  double beyond_a_tenth() const {
    const auto beyond =
        std::count_if(off_.begin(), off_.end(), [](double each) { return each > 0.1; });
    return off_.empty() ? 100
                        : 100 * static_cast<double>(beyond) / static_cast<double>(off_.size());
  }

 private:
  std::vector<double> off_;
};

std::vector<int64_t> lengths() {
  std::mt19937 random(2);
  std::vector<int64_t> lengths;
  for (int step = 0; step < kSteps; ++step) {
    lengths.push_back(kLongest * static_cast<int64_t>(1 + random() % kLengths) / kLengths);
  }
  return lengths;
}

/// What plain steps of one length differ by from their own median: nobody can predict better.
Off scatter_of_plain(const Model& model) {
  using Clock = std::chrono::steady_clock;
  std::map<int64_t, std::vector<double>> times;
  for (const int64_t length : lengths()) {
    model.clear();
    const auto start = Clock::now();
    model.loss(length).backward();
    times[length].push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  Off off;
  for (const auto& [length, each] : times) {
    for (const double time : each) off.add(time, median(each));
  }
  return off;
}

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
    std::map<int64_t, int> seen;
    int64_t over = 0;
    const auto run = [&] {
      Off off;
      for (const int64_t length : lengths()) {
        model.clear();
        const PeakScope scope;
        budget.forward([&] { return model.loss(length); }).backward();
        over = std::max(over, scope.peak_above_base() - plain / 2);
        const BudgetSummary summary = budget.summary();
        if (++seen[length] > kSeenBefore && budget.followed()) {
          off.add(summary.measured_ms, summary.predicted_ms);
        }
      }
      return off;
    };
    const Off first = run();
    const BudgetSummary summary = budget.summary();
    budget.finish_planning();
    const Off settled = run();
    const Off scatter = scatter_of_plain(model);
    state.counters["over"] = static_cast<double>(std::max<int64_t>(0, over));
    state.counters["planned"] = static_cast<double>(summary.planned_steps);
    state.counters["plans"] = static_cast<double>(summary.plans);
    state.counters["time_off"] = first.typical();
    state.counters["beyond_10"] = first.beyond_a_tenth();
    state.counters["settled_off"] = settled.typical();
    state.counters["settled_beyond_10"] = settled.beyond_a_tenth();
    state.counters["plain_off"] = scatter.typical();
    state.counters["plain_beyond_10"] = scatter.beyond_a_tenth();
  }
}
BENCHMARK(stream)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
