// SPDX-License-Identifier: BSD-3-Clause
#include <iostream>
#include <memory>

#include <reprise/error.h>
#include <reprise/report.h>

#include "commands.h"
#include "options.h"
#include "report_files.h"
#include "terminal.h"
#include "workloads/budget_scan.h"
#include "workloads/compare.h"
#include "workloads/words.h"

// reprise compare: strategies side by side on one workload.

namespace reprise::command {
namespace {

// The line of progress is gone when this returns, before the table is printed.
Comparison measure(workloads::Workload& workload,
                   const std::vector<workloads::Strategy>& strategies,
                   workloads::CompareOptions settings) {
  ProgressLine line;
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

// What finer cuts save and cost: both ratios over the number of segments.
Curve granularity_curve(const Comparison& comparison) {
  Curve curve;
  curve.title = "Granularity";
  curve.x_title = "segments";
  curve.y_title = "over plain";
  curve.y_unit = Unit::ratio;
  curve.series = {{"peak", {}}, {"time", {}}};
  for (auto row = comparison.rows.rbegin(); row != comparison.rows.rend(); ++row) {
    if (!row->segments) continue;
    const auto segments = static_cast<double>(*row->segments);
    curve.series[0].points.push_back({segments, row->memory_ratio});
    curve.series[1].points.push_back({segments, row->time_ratio});
  }
  return curve;
}

Report report_of(const Comparison& comparison) {
  Report report;
  report.comparison = comparison;
  if (comparison.segment_scan) report.curves = {granularity_curve(comparison)};
  return report;
}

// Says of which strategies a median should not be trusted before the machine is quieter.
void warn_of_outliers(const Comparison& comparison) {
  std::vector<std::string> slow;
  for (const StrategyRow& row : comparison.rows) {
    if (row.outlier_steps == 0) continue;
    slow.push_back(row.strategy + " (" + std::to_string(row.outlier_steps) + " of " +
                   std::to_string(comparison.steps) + ")");
  }
  if (slow.empty()) return;
  print_warning(
      "steps far slower than the others, beyond Q3 + 3 (Q3 - Q1): " + workloads::join(slow) +
      "; something else ran: measure again, or with more --steps");
}

// Where a user has switched the preserving of draws off, gradients that differ are no fault.
std::string hint_for(const Comparison& comparison) {
  for (const StrategyRow& row : comparison.rows) {
    if (row.preserves_draws() && !row.keeps_promise()) {
      return "please report this with the command line: it must not happen";
    }
  }
  return "leave '+no_rng' out, or dropout: what draws in a region needs its random numbers again";
}

// The strategies that broke their promise in one respect, as a part of a sentence.
template <class Kept>
void add_broken(std::vector<std::string>& complaints, const Comparison& comparison,
                const std::string& what, Kept kept) {
  std::vector<std::string> broken;
  for (const StrategyRow& row : comparison.rows) {
    if (row.exact && !kept(row)) broken.push_back(row.strategy);
  }
  if (!broken.empty()) complaints.push_back(what + ": " + workloads::join(broken));
}

std::string joined(const std::vector<std::string>& complaints) {
  std::string text;
  for (const std::string& complaint : complaints) text += (text.empty() ? "" : "; ") + complaint;
  return text;
}

std::string promise_kept(const Comparison& comparison) {
  std::string text = "gradients, outputs and losses are bit-identical to plain's in every step";
  if (comparison.train_steps) text += ", trained weights too";
  std::vector<std::string> excepted;
  for (const StrategyRow& row : comparison.rows) {
    if (row.exact) continue;
    excepted.push_back(row.strategy + (row.lossy ? " (rounded)" : " (sums in another order)"));
  }
  if (!excepted.empty()) text += "; not meant to be: " + workloads::join(excepted);
  return text;
}

// Says whether the promise was kept. Bytes and times are reported whatever they are; gradients that
// differ are an error.
int verdict(const Comparison& comparison) {
  std::vector<std::string> differing;
  add_broken(differing, comparison, "gradients differ from plain's",
             [](const StrategyRow& row) { return row.grads_bit_equal; });
  add_broken(differing, comparison, "buffers differ from plain's",
             [](const StrategyRow& row) { return row.buffers_bit_equal; });
  add_broken(
      differing, comparison, "trained weights differ from plain's",
      [](const StrategyRow& row) { return !row.training || row.training->weights_bit_equal; });
  if (!differing.empty()) {
    std::cout << "\ngradients, outputs or losses differ from plain's\n";
    print_error(joined(differing), hint_for(comparison));
    return kGradientsDiffer;
  }
  std::cout << "\n" << promise_kept(comparison) << "\n";
  std::vector<std::string> moved;
  add_broken(moved, comparison, "the random number stream stands elsewhere than after plain",
             [](const StrategyRow& row) { return row.rng_preserved; });
  if (moved.empty()) return kOk;
  print_error(joined(moved), hint_for(comparison));
  return kFailure;
}

int run(const Options& options) {
  const auto typed = options.text("--strategies");
  const bool scan = options.flag("--segment-scan");
  if (scan && typed) {
    throw UsageError("--segment-scan chooses the strategies itself", "leave --strategies out");
  }
  auto strategies = workloads::parse_strategies(typed.value_or("plain,checkpoint"));
  if (const auto budget = budget_strategy(options)) strategies.push_back(*budget);
  const auto budgets = options.text("--budget-scan");
  if (budgets && scan) {
    throw UsageError("--budget-scan together with --segment-scan", "scan one after the other");
  }
  if (budgets) {
    for (auto& each : workloads::budget_scan("--budget-scan: ", *budgets)) {
      strategies.push_back(std::move(each));
    }
  }
  workloads::CompareOptions settings;
  settings.steps = options.whole("--steps").value_or(10);
  settings.keep_infeasible = budgets.has_value();
  settings.train = options.whole("--train").value_or(0);
  settings.store = options.text("--store");
  const auto workload = make_workload(options);
  if (scan) strategies = workloads::segment_scan(*workload);
  Comparison comparison = measure(*workload, strategies, settings);
  comparison.segment_scan = scan;
  std::cout << (options.flag("--markdown") ? to_markdown(comparison)
                                           : to_table(comparison, stdout_style()));
  if (options.flag("--regions")) print_regions(comparison);
  write_json(options, to_json(comparison));
  write_reports(options, *workload, report_of(comparison));
  warn_of_outliers(comparison);
  return verdict(comparison);
}

}  // namespace

Run add_compare(CLI::App& verb) {
  const auto options = std::make_shared<Options>(verb);
  add_run_options(*options);
  options->add("--strategies", "S,S,...", "default plain,checkpoint; plain always runs");
  options->add("--budget", "SIZE|P%", "one strategy more: budget=SIZE or budget=P%");
  options->add("--budget-scan", "P%..P%/N",
               "N strategies more, budgets from one share to the other, as 20%..100%/9");
  options->add_flag("--segment-scan",
                    "instead: plain, and the layers in every number of equal segments");
  options->add("--steps", "N", "measured steps of each strategy, default 10");
  options->add("--train", "N", "then train N steps by each strategy, all from the same start");
  add_store_option(*options);
  options->add_flag("--regions", "print what each region did, too");
  options->add_flag("--markdown", "print the tables as GitHub's Markdown");
  verb.footer(workloads::strategy_grammar());
  return [options] { return run(*options); };
}

}  // namespace reprise::command
