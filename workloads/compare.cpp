// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/compare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <reprise/error.h>
#include <reprise/stats.h>

#include "workloads/compare_budgets.h"
#include "workloads/compare_training.h"
#include "workloads/libtorch.h"
#include "workloads/measured_step.h"
#include "workloads/statistics.h"
#include "workloads/stores.h"

namespace reprise::workloads {
namespace {

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

// A layer that is cut into parts is as many regions.
Contestant enter(Workload& workload, const Strategy& strategy) {
  workload.check(strategy);
  Contestant contestant;
  contestant.strategy = strategy;
  StrategyRow& row = contestant.row;
  row.strategy = strategy.text;
  row.lossy = strategy.store_kind && !strategy.store_kind->exact();
  row.exact = parts_of(strategy) == 1 && !row.lossy;
  if (budget_of(strategy)) return contestant;
  if (strategy.is_plain()) return contestant;
  const std::vector<Segment> checkpointed = workload.regions_of(strategy);
  const bool each_part = asks_for_parts(strategy) && !part_of(strategy);
  const std::size_t parts = each_part ? workload.part_names().size() : 1;
  int64_t longest = 0;
  for (const Segment& region : checkpointed) longest = std::max(longest, region.size());
  row.segments = static_cast<int64_t>(checkpointed.size() * parts);
  row.longest_segment_layers = longest;
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
  row.buffers_bit_equal = row.buffers_bit_equal && difference.buffers_bit_equal;
  row.rng_preserved = row.rng_preserved && difference.rng_preserved;
  row.max_abs_grad_diff = std::max(row.max_abs_grad_diff, difference.max_abs);
}

int64_t bytes_sent(const Strategy& strategy) {
  return strategy.store ? strategy.store->stats().bytes_sent : 0;
}

// In a step of its own, as counting operators takes time.
void count_replays(Workload& workload, Contestant& contestant) {
  const ReplayCounter counter;
  const RegionReport report;
  const int64_t sent = bytes_sent(contestant.strategy);
  const MeasuredStep step = measure_step(workload, contestant.strategy, 0, contestant.limit());
  const ReplayStats stats = counter.stats();
  contestant.row.recomputed_ops = stats.operators;
  contestant.row.recomputed_ms = stats.milliseconds;
  contestant.row.regions = report.regions();
  contestant.row.offloaded_bytes = bytes_sent(contestant.strategy) - sent;
  if (!contestant.strategy.store || contestant.budget) return;
  contestant.row.offload = step.offload;
  contestant.row.offloaded_bytes = step.offload.moved_bytes;
}

void finish_row(Contestant& contestant, const Contestant& plain, int64_t samples) {
  StrategyRow& row = contestant.row;
  const Spread spread = spread_of(contestant.milliseconds);
  row.step_ms_median = spread.median;
  row.step_ms_min = spread.min;
  row.step_ms_q1 = spread.q1;
  row.step_ms_q3 = spread.q3;
  row.step_ms_max = spread.max;
  row.outlier_steps = spread.outliers;
  row.samples_per_second = static_cast<double>(samples) * 1000 / spread.median;
  row.memory_ratio =
      static_cast<double>(row.peak_bytes) / static_cast<double>(plain.row.peak_bytes);
  row.time_ratio = spread.median / spread_of(plain.milliseconds).median;
  note_plans(contestant);
  if (&contestant == &plain) return;
  if (const auto interval = ratio_interval(contestant.milliseconds, plain.milliseconds)) {
    row.time_ratio_low = interval->low;
    row.time_ratio_high = interval->high;
  }
}

class Progress {
 public:
  Progress(const CompareOptions& options, int64_t total) : options_(options), total_(total) {}
  void next(const std::string& strategy) {
    if (options_.progress) options_.progress(done_, total_, strategy);
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
      progress.next(contestant.strategy.text);
      MeasuredStep measured = measure_step(workload, contestant.strategy, step, contestant.limit());
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

// In the words of a comparison, which says budgets above the base.
BudgetInfeasible of_strategy(const Contestant& contestant, const BudgetInfeasible& error,
                             const Workload& workload, PlainTrace& trace) {
  const int64_t bytes = *contestant.row.budget_bytes;
  const int64_t least = workload.device().is_cpu() ? trace.least_bytes(contestant.strategy) : 0;
  std::string text = "strategy '" + contestant.strategy.text + "': " + format_bytes(bytes) +
                     " above the base is too small";
  if (!error.op().empty()) text += " for " + error.op();
  return BudgetInfeasible(text,
                          (least > bytes ? "the least that a plan is found for is " +
                                               format_bytes(least) + ": give it that"
                                         : std::string("give it more")) +
                              ", or leave the strategy out",
                          bytes, least, error.op());
}

// Budgets that are too small leave the comparison here, where that was asked for.
void warm_up_all(Workload& workload, std::vector<Contestant>& contestants,
                 const CompareOptions& options, Progress& progress, Comparison& comparison) {
  PlainTrace trace(workload);
  for (int64_t round = 0; round < options.warmup; ++round) {
    for (auto each = contestants.begin(); each != contestants.end();) {
      progress.next(each->strategy.text);
      try {
        warm_up(workload, *each);
        ++each;
      } catch (const BudgetInfeasible& error) {
        if (follow_from_the_first_step(workload, trace, *each)) continue;
        if (!options.keep_infeasible) throw of_strategy(*each, error, workload, trace);
        const int64_t bytes = *each->row.budget_bytes;
        const int64_t least = trace.least_bytes(each->strategy);
        comparison.infeasible.push_back({each->strategy.text, bytes, least > bytes ? least : 0});
        each = contestants.erase(each);
      }
    }
  }
}

void require_steps(const CompareOptions& options) {
  if (options.steps >= 1 && options.warmup >= 0 && options.train >= 0) return;
  throw UsageError("a comparison needs one measured step or more, got " +
                       std::to_string(options.steps) + ", " + std::to_string(options.warmup) +
                       " for warm-up and " + std::to_string(options.train) + " of training",
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
  check_store_folder(strategies, options.store);
  for (const Contestant& contestant : contestants) workload.prepare(contestant.strategy);
  Comparison comparison;
  comparison.workload = workload.name();
  comparison.device = workload.device().str();
  comparison.libtorch = loaded_libtorch().text();
  comparison.threads = torch::get_num_threads();
  comparison.parameters = workload.parameter_count();
  comparison.steps = options.steps;

  for (Contestant& contestant : contestants) {
    make_store(contestant.strategy, options.store, workload);
  }
  make_budgets(workload, contestants);
  const auto entries = static_cast<int64_t>(contestants.size());
  const int64_t runs = options.train > 0 ? 1 : 0;
  Progress progress(options, entries * (options.warmup + options.steps + 1 + runs));
  warm_up_all(workload, contestants, options, progress, comparison);
  run_rounds(workload, contestants, options, progress, comparison);
  const std::optional<Quality> quality = workload.quality();
  if (quality) {
    comparison.quality_name = quality->name;
    comparison.quality_unit = quality->unit;
  }
  std::vector<Strategy> ran;
  for (Contestant& contestant : contestants) {
    ran.push_back(contestant.strategy);
    progress.next(contestant.strategy.text);
    count_replays(workload, contestant);
    finish_row(contestant, contestants.front(), workload.samples_per_batch());
    if (quality) contestant.row.quality = quality->value;
    comparison.rows.push_back(contestant.row);
  }
  if (options.train > 0) {
    train_side_by_side(workload, ran, options.train, comparison,
                       [&](const std::string& strategy) { progress.next(strategy); });
  }
  return comparison;
}

std::vector<Strategy> segment_scan(const Workload& workload) {
  const int64_t layers = workload.layer_count();
  if (layers < 2) {
    throw UsageError("'" + workload.name() + "' has one layer, which cannot be cut into segments",
                     "give --layers 2 or more, or choose another workload");
  }
  std::vector<Strategy> strategies;
  int64_t last = 0;
  for (int64_t size = 1; size <= layers; ++size) {
    const auto segments = static_cast<int64_t>(make_segments(layers, size).size());
    if (std::exchange(last, segments) == segments) continue;
    strategies.push_back(parse_strategy("segments:" + std::to_string(size)));
  }
  return strategies;
}

}  // namespace reprise::workloads
