// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <iostream>
#include <memory>

#include <reprise/report.h>

#include "commands.h"
#include "options.h"
#include "report_files.h"
#include "terminal.h"
#include "workloads/compare.h"
#include "workloads/words.h"

// reprise compare: strategies side by side on one workload.

namespace reprise::command {
namespace {

// The line of progress is gone when this returns, before the table is printed.
Comparison measure(workloads::Workload& workload,
                   const std::vector<workloads::Strategy>& strategies, int64_t steps) {
  ProgressLine line;
  workloads::CompareOptions settings;
  settings.steps = steps;
  settings.progress = [&line](int64_t done, int64_t total, const std::string& strategy) {
    line.show("step " + std::to_string(done + 1) + " of " + std::to_string(total) + ": " +
              strategy);
  };
  return workloads::compare(workload, strategies, settings);
}

void print_regions(const Comparison& comparison) {
  for (const StrategyRow& row : comparison.rows) {
    if (row.regions.empty()) continue;
    std::cout << "\n"
              << row.strategy << ", in one step\n"
              << region_table(row.regions, stdout_style());
  }
}

// Where a user has switched the preserving of draws off, gradients that differ are no fault.
std::string hint_for(const Comparison& comparison) {
  for (const StrategyRow& row : comparison.rows) {
    const bool gave_up = std::any_of(row.regions.begin(), row.regions.end(),
                                     [](const RegionStats& stats) { return !stats.preserves_rng; });
    if (!gave_up && (!row.grads_bit_equal || !row.rng_preserved)) {
      return "please report this with the command line: it must not happen";
    }
  }
  return "leave '+no_rng' out, or dropout: what draws in a region needs its random numbers again";
}

// Says whether the promise was kept. Bytes and times are reported whatever they are; gradients that
// differ are an error.
int verdict(const Comparison& comparison) {
  std::vector<std::string> differing;
  std::vector<std::string> moved;
  for (const StrategyRow& row : comparison.rows) {
    if (!row.grads_bit_equal) differing.push_back(row.strategy);
    if (!row.rng_preserved) moved.push_back(row.strategy);
  }
  if (!differing.empty()) {
    std::cout << "\ngradients, outputs or losses differ from plain's\n";
    print_error("gradients differ from plain's: " + workloads::join(differing),
                hint_for(comparison));
    return kGradientsDiffer;
  }
  std::cout << "\ngradients, outputs and losses are bit-identical to plain's in every step\n";
  if (moved.empty()) return kOk;
  print_error(
      "the random number stream stands elsewhere than after plain: " + workloads::join(moved),
      hint_for(comparison));
  return kFailure;
}

int run(const Options& options) {
  const auto strategies =
      workloads::parse_strategies(options.text("--strategies").value_or("plain,checkpoint"));
  const int64_t steps = options.whole("--steps").value_or(10);
  const auto workload = make_workload(options);
  const Comparison comparison = measure(*workload, strategies, steps);
  std::cout << to_table(comparison, stdout_style());
  if (options.flag("--regions")) print_regions(comparison);
  write_json(options, to_json(comparison));
  write_reports(options, *workload, {.comparison = comparison});
  return verdict(comparison);
}

}  // namespace

Run add_compare(CLI::App& verb) {
  const auto options = std::make_shared<Options>(verb);
  add_run_options(*options);
  options->add("--strategies", "S,S,...", "default plain,checkpoint; plain always runs");
  options->add_flag("--regions", "print what each region did, too");
  options->add("--steps", "N", "measured steps of each strategy, default 10");
  verb.footer(workloads::strategy_grammar());
  return [options] { return run(*options); };
}

}  // namespace reprise::command
