// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/compare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <reprise/error.h>
#include <reprise/stats.h>

#include "workloads/libtorch.h"
#include "workloads/measured_step.h"

namespace reprise::workloads {
namespace {

// A strategy and what its measured steps have shown so far.
struct Contestant {
  Strategy strategy;
  StrategyRow row;
  std::vector<double> milliseconds;
};

std::vector<Strategy> plain_first(std::vector<Strategy> strategies) {
  const auto plain = std::find_if(strategies.begin(), strategies.end(),
                                  [](const Strategy& strategy) { return strategy.is_plain(); });
  if (plain == strategies.end()) {
    strategies.insert(strategies.begin(), parse_strategy("plain"));
  } else {
    std::rotate(strategies.begin(), plain, plain + 1);
  }
  return strategies;
}

Contestant enter(const Workload& workload, const Strategy& strategy) {
  Contestant contestant{strategy, {}, {}};
  contestant.row.strategy = strategy.text;
  const std::vector<Segment> checkpointed = workload.regions_of(strategy);
  if (strategy.is_plain()) return contestant;
  int64_t longest = 0;
  for (const Segment& region : checkpointed) longest = std::max(longest, region.size());
  contestant.row.segments = static_cast<int64_t>(checkpointed.size());
  contestant.row.longest_segment_layers = longest;
  return contestant;
}

void require_finite(double loss, int64_t step) {
  if (std::isfinite(loss)) return;
  throw Error("the loss of step " + std::to_string(step + 1) + " is " + std::to_string(loss) +
                  ", so there is nothing to compare",
              "check the data and the sizes of the model");
}

void add_step(Contestant& contestant, const MeasuredStep& step, const StepResults& expected) {
  StrategyRow& row = contestant.row;
  row.peak_bytes = std::max(row.peak_bytes, step.peak_bytes);
  row.held_bytes = std::max(row.held_bytes, step.held_bytes);
  if (step.rss_peak_bytes) {
    row.rss_peak_bytes = std::max(row.rss_peak_bytes.value_or(0), *step.rss_peak_bytes);
  }
  row.loss = step.results.loss.item<double>();
  contestant.milliseconds.push_back(step.milliseconds);
  const Difference difference = compare_results(step.results, expected);
  row.grads_bit_equal = row.grads_bit_equal && difference.bit_equal;
  row.rng_preserved = row.rng_preserved && difference.rng_preserved;
  row.max_abs_grad_diff = std::max(row.max_abs_grad_diff, difference.max_abs);
}

// In a step of its own, as counting operators takes time.
void count_replays(Workload& workload, Contestant& contestant) {
  const ReplayCounter counter;
  const RegionReport report;
  measure_step(workload, contestant.strategy, 0);
  const ReplayStats stats = counter.stats();
  contestant.row.recomputed_ops = stats.operators;
  contestant.row.recomputed_ms = stats.milliseconds;
  contestant.row.regions = report.regions();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void finish_row(Contestant& contestant, int64_t samples) {
  StrategyRow& row = contestant.row;
  row.step_ms_median = median(contestant.milliseconds);
  row.step_ms_min =
      *std::min_element(contestant.milliseconds.begin(), contestant.milliseconds.end());
  row.samples_per_second = static_cast<double>(samples) * 1000 / row.step_ms_median;
}

class Progress {
 public:
  Progress(const CompareOptions& options, int64_t total) : options_(options), total_(total) {}
  void next(const Contestant& contestant) {
    if (options_.progress) options_.progress(done_, total_, contestant.strategy.text);
    ++done_;
  }

 private:
  const CompareOptions& options_;
  int64_t total_;
  int64_t done_ = 0;
};

// Plain's results of a step stay for the others to be compared with. They are freed before plain
// runs again, so that its base is the true one; the base of the others is read with them in place.
void run_rounds(Workload& workload, std::vector<Contestant>& contestants,
                const CompareOptions& options, Progress& progress, Comparison& comparison) {
  for (int64_t step = 0; step < options.steps; ++step) {
    StepResults expected;
    for (Contestant& contestant : contestants) {
      progress.next(contestant);
      MeasuredStep measured = measure_step(workload, contestant.strategy, step);
      const bool first = &contestant == &contestants.front();
      if (first) {
        require_finite(measured.results.loss.item<double>(), step);
        comparison.base_bytes = measured.base_bytes;
        expected = measured.results;
      }
      add_step(contestant, measured, expected);
    }
  }
}

void require_steps(const CompareOptions& options) {
  if (options.steps >= 1 && options.warmup >= 0) return;
  throw UsageError("a comparison needs one measured step or more, got " +
                       std::to_string(options.steps) + " and " + std::to_string(options.warmup) +
                       " for warm-up",
                   "use --steps 10");
}

}  // namespace

Comparison compare(Workload& workload, const std::vector<Strategy>& strategies,
                   const CompareOptions& options) {
  require_steps(options);
  std::vector<Contestant> contestants;
  for (const Strategy& strategy : plain_first(strategies)) {
    contestants.push_back(enter(workload, strategy));
  }
  Comparison comparison;
  comparison.workload = workload.name();
  comparison.device = workload.device().str();
  comparison.libtorch = loaded_libtorch().text();
  comparison.threads = torch::get_num_threads();
  comparison.parameters = workload.parameter_count();
  comparison.steps = options.steps;

  const auto entries = static_cast<int64_t>(contestants.size());
  Progress progress(options, entries * (options.warmup + options.steps + 1));
  for (int64_t round = 0; round < options.warmup; ++round) {
    for (Contestant& contestant : contestants) {
      progress.next(contestant);
      measure_step(workload, contestant.strategy, 0);
    }
  }
  run_rounds(workload, contestants, options, progress, comparison);
  const std::optional<Quality> quality = workload.quality();
  for (Contestant& contestant : contestants) {
    progress.next(contestant);
    count_replays(workload, contestant);
    finish_row(contestant, workload.samples_per_batch());
    StrategyRow& row = contestant.row;
    const StrategyRow& plain = contestants.front().row;
    row.memory_ratio = static_cast<double>(row.peak_bytes) / static_cast<double>(plain.peak_bytes);
    row.time_ratio = row.step_ms_median / plain.step_ms_median;
    if (quality) row.quality = quality->value;
    comparison.rows.push_back(row);
  }
  return comparison;
}

}  // namespace reprise::workloads
