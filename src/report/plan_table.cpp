// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reprise/plan_report.h>
#include <reprise/report.h>

#include "base/text_table.h"
#include "report/columns.h"
#include "report/markup.h"

// A plan as aligned text.

namespace reprise {
namespace {

using detail::fixed_number;
using detail::format_count;
using detail::percent;
using detail::TextTable;

constexpr std::size_t kReplayLines = 8;

double over(double value, double whole) { return whole > 0 ? value / whole : 0; }
double over(int64_t value, int64_t whole) {
  return over(static_cast<double>(value), static_cast<double>(whole));
}

std::string ratio(double value) { return fixed_number(value, 3); }

std::string counted(int64_t count, const std::string& what) {
  return format_count(count) + " " + what + (count == 1 ? "" : "s");
}

std::string heading(const PlanReport& report) {
  std::string text = report.workload + " on " + report.device + ", LibTorch " + report.libtorch +
                     ", " + counted(report.threads, "thread");
  if (report.meta) text += ", from shapes alone: times by operator rates";
  return text + "\n" + counted(report.parameters, "parameter") + ", batch " +
         format_count(report.batch) + "; a plain step takes " +
         format_bytes(report.plain_peak_bytes) + " above the base of " +
         format_bytes(report.base_bytes) + "\nbudget " + format_bytes(report.budget_bytes) +
         " above base (" + percent(over(report.budget_bytes, report.plain_peak_bytes)) +
         " of plain), " + format_bytes(report.base_bytes + report.budget_bytes) + " in all\n\n";
}

std::string prediction(const PlanReport& report, const TextStyle& style) {
  TextTable table({{"", detail::Align::left}, {"plain"}, {"planned"}, {"over plain"}});
  table.add_row({"peak above base", format_bytes(report.plain_peak_bytes),
                 format_bytes(report.peak_bytes),
                 ratio(over(report.peak_bytes, report.plain_peak_bytes))});
  table.add_row({"step ms", fixed_number(report.plain_ms, 2), fixed_number(report.milliseconds, 2),
                 ratio(over(report.milliseconds, report.plain_ms))});
  table.add_row({"bound ms", "", fixed_number(report.bound_ms, 2),
                 ratio(over(report.bound_ms, report.plain_ms))});
  const double above = over(report.milliseconds - report.bound_ms, report.bound_ms);
  return table.str(style) + "within " + percent(std::max(0.0, above)) +
         " of the best plan, by the bound\n\n";
}

std::string transfers(const TracedStore& store) {
  constexpr double kMiB = 1024 * 1024;
  return "the store: " + fixed_number(store.send_bytes_per_us * 1e6 / kMiB, 0) + " MiB/s out and " +
         fixed_number(store.fetch_bytes_per_us * 1e6 / kMiB, 0) +
         " MiB/s back, beside the step; from it each MiB takes " +
         fixed_number(store.work_us_per_byte / 1e3 * kMiB, 2) + " ms\n";
}

std::string fates(const PlanReport& report, const TextStyle& style) {
  TextTable table({{"saved values", detail::Align::left}, {"number"}, {"bytes"}, {"stay as"}});
  const auto add = [&](const char* name, const PlannedValues& values) {
    table.add_row({name, format_count(values.count), format_bytes(values.bytes),
                   values.kept_bytes > 0 ? format_bytes(values.kept_bytes) : "-"});
  };
  add("kept", report.kept);
  add("encoded", report.encoded);
  add("recomputed", report.recomputed);
  if (report.store) add("offloaded", report.offloaded);
  return table.str(style) + (report.store ? transfers(*report.store) : "") + "\n";
}

std::string replays(const PlanReport& report, const TextStyle& style) {
  if (report.replayed.empty()) return "nothing is run again\n\n";
  ReplayedOperator rest{"others", 0, 0}, all{"all", 0, 0};
  TextTable table({{"run again", detail::Align::left}, {"times"}, {"ms"}});
  const auto add = [&](const ReplayedOperator& op) {
    table.add_row({op.name, format_count(op.times), fixed_number(op.milliseconds, 2)});
  };
  for (std::size_t i = 0; i < report.replayed.size(); ++i) {
    const ReplayedOperator& op = report.replayed[i];
    all.times += op.times;
    all.milliseconds += op.milliseconds;
    if (i < kReplayLines) {
      add(op);
    } else {
      rest.times += op.times;
      rest.milliseconds += op.milliseconds;
    }
  }
  if (rest.times > 0) add(rest);
  if (report.replayed.size() > 1) add(all);
  return table.str(style) + "\n";
}

std::string other_budgets(const PlanReport& report, const TextStyle& style) {
  TextTable table({{"budget", detail::Align::left},
                   {"of plain"},
                   {"peak", detail::Align::right, 2},
                   {"step ms"},
                   {"over plain"},
                   {"bound", detail::Align::right, 1}});
  for (const FrontierPoint& point : report.frontier) {
    table.add_row({format_bytes(point.budget_bytes),
                   percent(over(point.budget_bytes, report.plain_peak_bytes)),
                   format_bytes(point.peak_bytes), fixed_number(point.milliseconds, 2),
                   ratio(over(point.milliseconds, report.plain_ms)),
                   ratio(over(point.bound_ms, report.plain_ms))});
  }
  const LeastBudgetReport& least = report.least;
  std::string text = table.str(style) + "the least is " + format_bytes(least.bytes) + " (" +
                     percent(over(least.bytes, report.plain_peak_bytes)) +
                     " of plain); no schedule has a peak below " + format_bytes(least.bound_bytes) +
                     "\n";
  if (!least.pinned_by.empty()) {
    text += "it is pinned by " + least.pinned_by + ", with " + counted(least.live_values, "value") +
            " of " + format_bytes(least.live_bytes) + " alive\n";
  }
  return text;
}

}  // namespace

std::string to_table(const PlanReport& report, const TextStyle& style) {
  std::string text = heading(report) + prediction(report, style) + fates(report, style) +
                     replays(report, style) + other_budgets(report, style);
  for (const std::string& note : report.notes) text += "\nnote: " + note + "\n";
  return text;
}

}  // namespace reprise
