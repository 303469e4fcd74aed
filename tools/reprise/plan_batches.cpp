// SPDX-License-Identifier: BSD-3-Clause
#include "plan_batches.h"

#include <iostream>
#include <vector>

#include <reprise/error.h>
#include <reprise/meta_scope.h>
#include <reprise/plan.h>
#include <reprise/plan_report.h>

#include "commands.h"
#include "terminal.h"
#include "workloads/libtorch.h"
#include "workloads/max_batch.h"
#include "workloads/measured_step.h"
#include "workloads/statistics.h"

namespace reprise::command {
namespace {

using workloads::FittingBatch;
using workloads::StepBytes;
using workloads::Strategy;
using workloads::WorkloadOptions;

constexpr int kTimedSteps = 3;

// Each batch that is looked at is planned for.
PlanOptions few_evaluations() {
  PlanOptions options;
  options.evaluations = 3000;
  options.bound = false;
  return options;
}

std::vector<Strategy> fixed_strategies(const Options& options) {
  auto strategies = workloads::parse_strategies(
      options.text("--strategies").value_or("plain,checkpoint,tape:full,tape:keep_matmuls"));
  for (const Strategy& strategy : strategies) {
    const bool known = !workloads::budget_of(strategy) && !workloads::needs_classes(strategy) &&
                       !strategy.store_kind;
    if (known) continue;
    throw UsageError("--max-batch: the strategy '" + strategy.text + "' is not known by shapes",
                     "the budget is that of --budget, and has a row of its own");
  }
  return strategies;
}

// Samples in a second, of the batch that was asked for.
double measure_rate(workloads::Workload& workload, const Strategy& strategy) {
  workloads::measure_step(workload, strategy, 0);  // not the first one
  std::vector<double> milliseconds;
  for (int i = 0; i < kTimedSteps; ++i) {
    milliseconds.push_back(workloads::measure_step(workload, strategy, 0).milliseconds);
  }
  return static_cast<double>(workload.samples_per_batch()) * 1000 /
         workloads::spread_of(milliseconds).median;
}

// All bytes: a size as it is, a share of what a plain step of the batch asked for takes, or all
// that the machine has.
int64_t limit_of(const Options& options, const StepBytes& plain) {
  if (const auto size = budget_size(options)) {
    if (size->bytes > 0) return size->bytes;
    return plain.base + workloads::bytes_above_base("", *size, plain.base, plain.peak);
  }
  if (const auto machine = workloads::machine_bytes()) return *machine;
  throw UsageError("this machine does not tell its memory", "give --budget with a size");
}

class Batches {
 public:
  explicit Batches(const Options& options)
      : options_(options),
        meta_(options.flag("--meta")),
        name_(workload_name(options)),
        sizes_(workload_options(options)) {}

  BatchReport report() {
    const auto strategies = fixed_strategies(options_);
    describe();
    line_.show("looking at shapes");
    const Strategy plain = workloads::parse_strategy("plain");
    report_.limit_bytes = limit_of(options_, workloads::bytes_by_shapes(name_, sizes_, plain));
    for (const Strategy& strategy : strategies) add(strategy);
    add_budget(plain);
    line_.wipe();
    return report_;
  }

 private:
  // The workload sees whether its options are right.
  void describe() {
    const MetaScope shapes;
    const auto workload = make_workload(options_);
    if (!sizes_.batch) sizes_.batch = workload->samples_per_batch();
    report_.workload = workload->name();
    report_.device = workload->device().str();
    report_.libtorch = workloads::loaded_libtorch().text();
    report_.threads = torch::get_num_threads();
    report_.measured_at = meta_ ? 0 : workload->samples_per_batch();
    if (options_.text("--batch")) return;
    try {
      workloads::make_workload(name_, sizes_);
    } catch (const UsageError&) {  // it takes no size of a batch
      throw UsageError("--max-batch: the batch of '" + report_.workload + "' has one size",
                       "it is for workloads with --batch");
    }
  }

  FittingBatch search(const std::string& strategy,
                      const std::function<StepBytes(const WorkloadOptions&)>& bytes_of) {
    return workloads::largest_batch_within(report_.limit_bytes, [&](int64_t samples) {
      line_.show(strategy + ": a batch of " + std::to_string(samples));
      WorkloadOptions sizes = sizes_;
      sizes.batch = samples;
      return bytes_of(sizes);
    });
  }

  std::optional<double> rate_of(const Strategy& strategy) {
    if (meta_) return std::nullopt;
    line_.show("measuring " + strategy.text);
    return measure_rate(*workloads::make_workload(name_, sizes_), strategy);
  }

  void add(const Strategy& strategy) {
    const FittingBatch found = search(strategy.text, [&](const WorkloadOptions& sizes) {
      return workloads::bytes_by_shapes(name_, sizes, strategy);
    });
    report_.rows.push_back({strategy.text, found.samples, found.bytes.base, found.bytes.peak,
                            found.samples > 0 ? rate_of(strategy) : std::nullopt});
  }

  // Traced at two batches, and scaled from there value by value.
  void add_budget(const Strategy& plain) {
    line_.show("budget");
    WorkloadOptions twice = sizes_;
    twice.batch = *sizes_.batch * 2;
    const TracedBatch once_traced = workloads::trace_by_shapes(name_, sizes_);
    const TracedBatch twice_traced = workloads::trace_by_shapes(name_, twice);
    BatchRow row{"budget", 0, 0, 0, std::nullopt};
    try {
      const LargestBatch largest =
          largest_batch(once_traced, twice_traced, report_.limit_bytes, few_evaluations());
      row = {"budget", largest.step.batch, largest.step.base_bytes, largest.plan.peak_bytes,
             static_cast<double>(largest.step.batch) * 1e6 / largest.plan.microseconds};
      if (!meta_) {
        row.samples_per_second =
            *rate_of(plain) * largest.plan.plain_microseconds / largest.plan.microseconds;
      }
    } catch (const BudgetInfeasible& error) {
      row.base_bytes = scale_batch(once_traced, twice_traced, 1).base_bytes;
      row.peak_bytes = error.least() - row.base_bytes;
    }
    report_.rows.push_back(row);
  }

  const Options& options_;
  const bool meta_;
  const std::string name_;
  WorkloadOptions sizes_;
  BatchReport report_;
  ProgressLine line_;
};

}  // namespace

int plan_batches(const Options& options) {
  const BatchReport report = Batches(options).report();
  std::cout << to_table(report, stdout_style());
  write_json(options, to_json(report));
  return kOk;
}

}  // namespace reprise::command
