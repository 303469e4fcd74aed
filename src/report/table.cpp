// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include <reprise/report.h>

#include "report/markup.h"
#include "report/tables.h"

// A comparison as text: lines about the run, a table, and notes.

namespace reprise {
namespace detail {
namespace {

// The higher the number, the sooner a narrow terminal goes without.
std::vector<Column> columns(bool offloads) {
  std::vector<Column> columns = {{"strategy", Align::left},      {"peak"},
                                 {"held", Align::right, 6},      {"peak ratio", Align::right, 1},
                                 {"rss peak", Align::right, 9},  {"step ms", Align::right, 3},
                                 {"quartiles", Align::right, 8}, {"time ratio"},
                                 {"95 %", Align::right, 2},      {"samples/s", Align::right, 7},
                                 {"recomputed", Align::right, 5}};
  if (offloads) columns.push_back({"offloaded", Align::right, 5});
  columns.push_back({"loss", Align::right, 4});
  columns.push_back({"gradients", Align::left});
  return columns;
}

std::string rate(double value) {
  return std::isfinite(value) ? format_count(std::llround(value)) : "-";
}

std::string recomputed(const StrategyRow& row) {
  if (row.recomputed_ops == 0) return "-";
  return format_count(row.recomputed_ops) + " ops, " + number("%.1f", row.recomputed_ms) + " ms";
}

std::string quartiles(const StrategyRow& row) {
  return number("%.2f", row.step_ms_q1) + " to " + number("%.2f", row.step_ms_q3);
}

}  // namespace

bool has_offloads(const Comparison& comparison) {
  return std::any_of(comparison.rows.begin(), comparison.rows.end(),
                     [](const StrategyRow& row) { return row.offloaded_bytes > 0; });
}

std::string offloaded(const StrategyRow& row) {
  return row.offloaded_bytes > 0 ? format_bytes(row.offloaded_bytes) : "-";
}

TextTable strategy_table(const Comparison& comparison) {
  const bool offloads = has_offloads(comparison);
  TextTable table(columns(offloads));
  for (const StrategyRow& row : comparison.rows) {
    std::vector<Cell> cells = {row.strategy,
                               format_bytes(row.peak_bytes),
                               format_bytes(row.held_bytes),
                               number("%.3f", row.memory_ratio),
                               row.rss_peak_bytes ? format_bytes(*row.rss_peak_bytes) : "-",
                               number("%.2f", row.step_ms_median),
                               quartiles(row),
                               number("%.3f", row.time_ratio),
                               interval_text(row),
                               rate(row.samples_per_second),
                               recomputed(row)};
    if (offloads) cells.emplace_back(offloaded(row));
    cells.emplace_back(number("%.9g", row.loss));
    cells.push_back(verdict_cell(row));
    table.add_row(cells);
  }
  return table;
}

}  // namespace detail

namespace {

std::string steps_of(int64_t steps) {
  return std::to_string(steps) + (steps == 1 ? " step" : " steps");
}

struct Heading {
  std::string run;
  std::string base;
};

Heading heading_of(const Comparison& comparison) {
  return {comparison.workload + " on " + comparison.device + ", LibTorch " + comparison.libtorch +
              ", " + std::to_string(comparison.threads) +
              (comparison.threads == 1 ? " thread, " : " threads, ") + steps_of(comparison.steps) +
              " for each strategy",
          detail::format_count(comparison.parameters) +
              " parameters; peak and held are above the base of " +
              format_bytes(comparison.base_bytes) + " that lives before a step"};
}

std::string training_heading(const Comparison& comparison) {
  return "each trained " + steps_of(*comparison.train_steps) + " from the same start";
}

std::vector<std::string> notes_of(const Comparison& comparison) {
  std::vector<std::string> notes;
  for (const StrategyRow& row : comparison.rows) {
    if (row.preserves_draws()) continue;
    notes.push_back("note: " + row.strategy +
                    " does not preserve random draws: nothing in its regions may draw");
  }
  return notes;
}

std::vector<std::string> offloads_of(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const StrategyRow& row : comparison.rows) {
    if (!row.offload) continue;
    std::ostringstream line;
    line << row.strategy << ", in one step: " << *row.offload;
    lines.push_back(line.str());
  }
  return lines;
}

detail::TextTable rows_of(const Comparison& comparison) {
  return comparison.segment_scan ? detail::scan_table(comparison)
                                 : detail::strategy_table(comparison);
}

}  // namespace

std::string to_table(const Comparison& comparison, const TextStyle& style) {
  const Heading heading = heading_of(comparison);
  std::string text = heading.run + "\n" + heading.base + "\n\n" + rows_of(comparison).str(style);
  if (detail::has_budgets(comparison)) text += "\n" + detail::budget_table(comparison).str(style);
  if (comparison.train_steps) {
    text +=
        "\n" + training_heading(comparison) + "\n" + detail::training_table(comparison).str(style);
  }
  for (const std::string& line : offloads_of(comparison)) text += "\n" + line;
  for (const std::string& note : notes_of(comparison)) text += "\n" + note + "\n";
  return text;
}

std::string to_markdown(const Comparison& comparison) {
  const Heading heading = heading_of(comparison);
  std::string text = heading.run + "; " + heading.base + ".\n\n" + rows_of(comparison).markdown();
  if (detail::has_budgets(comparison)) text += "\n" + detail::budget_table(comparison).markdown();
  if (comparison.train_steps) {
    text += "\n" + training_heading(comparison) + ":\n\n" +
            detail::training_table(comparison).markdown();
  }
  for (const std::string& line : offloads_of(comparison)) text += "\n" + line;
  for (const std::string& note : notes_of(comparison)) text += "\n" + note + ".\n";
  return text;
}

}  // namespace reprise
