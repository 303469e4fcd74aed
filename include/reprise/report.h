// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <reprise/budget.h>
#include <reprise/export.h>
#include <reprise/offload.h>
#include <reprise/region_report.h>
#include <reprise/text_style.h>

// Results as plain data, and how they are written: tables for people, JSON for programs. All bytes
// are above the base (the live bytes before the step) unless they say otherwise. docs/command.md
// describes the JSON field by field.

namespace reprise {

/// How a strategy's training run in a comparison ended.
struct TrainingOutcome {
  double loss = 0;                ///< of the last step
  std::optional<double> quality;  ///< of the trained weights
  double seconds = 0;
  int64_t peak_bytes = 0;         ///< largest of all steps, the optimizer's update included
  bool weights_bit_equal = true;  ///< the final parameters and buffers equal plain's
  double max_abs_weight_diff = 0;
};

/// What one strategy of a comparison needed.
struct StrategyRow {
  std::string strategy;
  int64_t peak_bytes = 0;                 ///< largest live bytes in a step
  int64_t held_bytes = 0;                 ///< live bytes at the end of the forward pass
  double memory_ratio = 1.0;              ///< peak_bytes over plain's
  std::optional<int64_t> rss_peak_bytes;  ///< resident peak of the process, base included
  double step_ms_median = 0;
  double step_ms_min = 0;
  double step_ms_q1 = 0;  ///< a quarter of the steps were faster
  double step_ms_q3 = 0;  ///< a quarter of the steps were slower
  double step_ms_max = 0;
  int64_t outlier_steps = 0;  ///< far slower than the others of this strategy
  double time_ratio = 1.0;    ///< ratio of medians over plain's
  /// Ends of the 95 % confidence interval of `time_ratio`; none where the steps are too few.
  std::optional<double> time_ratio_low;
  std::optional<double> time_ratio_high;
  double samples_per_second = 0;
  double loss = 0;                ///< of the last step
  std::optional<double> quality;  ///< the workload's own measure, such as accuracy
  bool exact = true;   ///< it promises plain's bits: all but accumulate:N and lossy stores do
  bool lossy = false;  ///< it offloads to a store that rounds
  bool grads_bit_equal = true;  ///< gradients, inputs' included, and outputs equal plain's
  double max_abs_grad_diff = 0;
  bool buffers_bit_equal = true;    ///< the module's buffers, as batch norm's, after each step
  std::optional<int64_t> segments;  ///< number of checkpointed regions
  std::optional<int64_t> longest_segment_layers;  ///< layers in the longest of them
  int64_t recomputed_ops = 0;                     ///< operators run again in one step
  double recomputed_ms = 0;                       ///< time of the replays of one step
  int64_t offloaded_bytes = 0;                    ///< sent to its store in one step
  std::optional<OffloadSummary> offload;          ///< what became of what it offloads, in one step
  std::vector<RegionStats> regions;               ///< what its regions did in one step
  bool rng_preserved = true;  ///< the RNG stream after the step stands where plain leaves it
  std::optional<int64_t> budget_bytes;
  std::optional<int64_t> predicted_peak_bytes;  ///< of the plan, where a step followed one
  std::optional<double> predicted_step_ms;
  std::optional<BudgetSummary> budget;      ///< what its budget has done, warm-up included
  std::optional<TrainingOutcome> training;  ///< where the comparison trained

  /// Whether all its regions bring their random draws back; where they do not, nothing in them may
  /// draw.
  REPRISE_API bool preserves_draws() const;

  /// Whether it kept its promise: plain's bits in every step and after training.
  REPRISE_API bool keeps_promise() const;
};

/// A budget that a comparison could not run.
struct InfeasibleBudget {
  std::string strategy;
  int64_t budget_bytes = 0;
  int64_t least_bytes = 0;  ///< the least that a plan was found for; 0 if that is no more
};

/// Strategies side by side, measured in one run. The first row is plain.
struct Comparison {
  std::string workload;
  std::string device;
  std::string libtorch;
  int64_t threads = 0;
  int64_t parameters = 0;
  int64_t base_bytes = 0;
  int64_t steps = 0;
  bool segment_scan = false;  ///< the rows are plain and one number of segments after the other
  std::optional<int64_t> train_steps;  ///< that each strategy trained, where it did
  std::string quality_name;            ///< what `quality` measures; empty when there is none
  std::string quality_unit;            ///< "%" where `quality` is a share from 0 to 1
  std::vector<StrategyRow> rows;
  std::vector<InfeasibleBudget> infeasible;  ///< where they were asked to be told, not thrown
};

/// One logged step of a training run.
struct TrainingStep {
  int64_t step = 0;  ///< the first is 1
  double loss = 0;   ///< before the step's update
  int64_t peak_bytes = 0;
  int64_t total_peak_bytes = 0;  ///< base included
  double step_ms = 0;
  double learning_rate = 0;  ///< of the optimizer's first group
};

/// A training run: what was asked, the logged steps, how it ended.
struct Training {
  std::string workload;
  std::string strategy;
  std::string device;
  std::string libtorch;
  int64_t threads = 0;
  int64_t seed = 0;
  int64_t parameters = 0;
  std::optional<int64_t> max_steps;  ///< `--steps`
  std::optional<double> until_loss;  ///< `--until-loss`
  int64_t log_every = 0;
  int64_t accumulate = 1;  ///< parts in which each batch is taken
  std::string autocast;    ///< "bf16", "fp16"; empty without
  int64_t first_step = 1;  ///< above 1 in a resumed run
  int64_t base_bytes = 0;  ///< before the last step
  std::vector<TrainingStep> log;
  int64_t steps = 0;  ///< number of the last step
  double loss = 0;    ///< of the last step
  bool reached_loss = false;
  std::optional<double> quality;
  std::string quality_name;      ///< what `quality` measures; empty when there is none
  std::string quality_unit;      ///< "%" where `quality` is a share from 0 to 1; may be empty
  int64_t peak_bytes = 0;        ///< largest of all steps
  int64_t total_peak_bytes = 0;  ///< largest of all steps, base included
  double seconds = 0;
  double samples_per_second = 0;
  int64_t skipped_steps = 0;  ///< left out because a gradient was not finite
  bool interrupted = false;   ///< ended before its time by its user
  std::string sample;         ///< what the trained model has made, such as a text; may be empty
  std::vector<std::string> warnings;
  std::vector<RegionStats> regions;       ///< what the strategy's regions did in all steps together
  std::optional<BudgetSummary> budget;    ///< where it ran under one
  std::optional<OffloadSummary> offload;  ///< where it offloads: of all steps together
};

/// JSON with a newline at the end. Numbers that are not finite are null.
REPRISE_API std::string to_json(const Comparison& comparison);
REPRISE_API std::string to_json(const Training& training);

/// An aligned table with units, one line for each row, two lines about the run above it, and below
/// it a note for each strategy whose regions do not preserve their random draws, and a line for
/// each that offloads. A scan over segments has columns of its own; budgets and training runs have
/// tables of their own, below.
/// Where the style's width is too small, columns are left out and named, or each row is set as
/// lines of its own.
REPRISE_API std::string to_table(const Comparison& comparison, const TextStyle& style = {});

/// The same as a document in GitHub's Markdown, with all columns.
REPRISE_API std::string to_markdown(const Comparison& comparison);

/// "1.50 MiB", "312 B": binary units, three significant digits or more.
REPRISE_API std::string format_bytes(int64_t bytes);

/// Writes `text` to `path` so that the file is either whole or as it was before: to a temporary
/// file beside it, which then takes its name. A device or pipe, such as /dev/stdout, is written
/// directly. Throws UsageError when the path cannot be written and Error when the write itself
/// fails (a full disk); both name the path and the system's reason.
REPRISE_API void write_file(const std::string& path, const std::string& text);

/// Throws as write_file() would, where that can be known beforehand, and changes nothing: for a
/// check before a long run.
REPRISE_API void check_writable(const std::string& path);

}  // namespace reprise
