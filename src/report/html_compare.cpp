// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include "report/html_parts.h"
#include "report/markup.h"
#include "report/pictures.h"
#include "report/tables.h"

// The part of a page that shows a comparison.

namespace reprise::detail {
namespace {

std::string ratio(double value, int decimals = 3) {
  return std::isfinite(value) ? fixed_number(value, decimals) + "\u00D7" : "\u2013";
}

bool kept(const StrategyRow& row) { return row.keeps_promise(); }

Html verdict(const StrategyRow& row) {
  const std::string text = verdict_text(row);
  if (!row.exact) return element("span", "", text);
  return element("span", kept(row) ? "good" : "bad", text);
}

std::string recomputed(const StrategyRow& row) {
  if (row.recomputed_ops == 0) return "\u2013";
  return format_count(row.recomputed_ops) + " ops, " + format_milliseconds(row.recomputed_ms);
}

Html with_bar(const std::string& value, double share) { return text(value) + bar(share); }

Html table_of(const Comparison& comparison) {
  using Kind = HtmlTable::Kind;
  const bool offloads = has_offloads(comparison);
  std::vector<HtmlTable::Column> columns = {{"strategy", Kind::words},
                                            {"peak"},
                                            {"held"},
                                            {"peak ratio"},
                                            {"step"},
                                            {"time ratio"},
                                            {"95 %"},
                                            {"samples/s"},
                                            {"recomputed"}};
  if (offloads) columns.push_back({"offloaded"});
  columns.push_back({"loss"});
  columns.push_back({"gradients", Kind::words});
  HtmlTable table(columns);
  double slowest = 1;
  double largest = 1;
  for (const StrategyRow& row : comparison.rows) {
    slowest = std::max(slowest, row.time_ratio);
    largest = std::max(largest, row.memory_ratio);
  }
  for (const StrategyRow& row : comparison.rows) {
    const bool plain = &row == &comparison.rows.front();
    std::vector<Html> cells = {text(row.strategy),
                               text(format_bytes(row.peak_bytes)),
                               text(format_bytes(row.held_bytes)),
                               with_bar(ratio(row.memory_ratio), row.memory_ratio / largest),
                               text(format_milliseconds(row.step_ms_median)),
                               with_bar(ratio(row.time_ratio), row.time_ratio / slowest),
                               text(interval_text(row)),
                               text(std::isfinite(row.samples_per_second)
                                        ? format_count(std::llround(row.samples_per_second))
                                        : "\u2013"),
                               text(recomputed(row))};
    if (offloads) cells.push_back(text(offloaded(row)));
    cells.push_back(text(significant(row.loss)));
    cells.push_back(verdict(row));
    table.add_row(cells, plain ? "plain" : "");
  }
  return table.html();
}

Html budgets_of(const Comparison& comparison) {
  using Kind = HtmlTable::Kind;
  HtmlTable table({{"budget", Kind::words},
                   {"above base"},
                   {"predicted peak"},
                   {"measured"},
                   {"predicted step"},
                   {"measured"},
                   {"bound"},
                   {"fits", Kind::words}});
  const auto milliseconds = [](double value) { return text(format_milliseconds(value)); };
  const Html none = text("\u2013");
  for (const StrategyRow& row : comparison.rows) {
    if (!row.budget_bytes) continue;
    const bool planned = row.budget && row.predicted_peak_bytes && row.predicted_step_ms;
    const bool fits = row.peak_bytes <= *row.budget_bytes;
    table.add_row(
        {text(row.strategy), text(format_bytes(*row.budget_bytes)),
         planned ? text(format_bytes(*row.predicted_peak_bytes)) : none,
         text(format_bytes(row.peak_bytes)), planned ? milliseconds(*row.predicted_step_ms) : none,
         milliseconds(row.step_ms_median), planned ? milliseconds(row.budget->bound_ms) : none,
         element("span", fits ? "good" : "bad", fits ? "yes" : "no")});
  }
  for (const InfeasibleBudget& budget : comparison.infeasible) {
    const std::string least =
        budget.least_bytes > 0 ? "the least is " + format_bytes(budget.least_bytes) : "infeasible";
    table.add_row({text(budget.strategy), text(format_bytes(budget.budget_bytes)), none, none, none,
                   none, none, element("span", "", least)});
  }
  return table.html();
}

Html training_of(const Comparison& comparison) {
  using Kind = HtmlTable::Kind;
  HtmlTable table({{"strategy", Kind::words},
                   {"final loss"},
                   {comparison.quality_name.empty() ? "quality" : comparison.quality_name},
                   {"peak"},
                   {"time"},
                   {"weights", Kind::words}});
  for (const StrategyRow& row : comparison.rows) {
    if (!row.training) continue;
    const Cell weights = weights_cell(row);
    const char* tone = weights.tone == Tone::good ? "good" : weights.tone == Tone::bad ? "bad" : "";
    table.add_row({text(row.strategy), text(significant(row.training->loss)),
                   text(quality_text(row.training->quality, comparison.quality_unit)),
                   text(format_bytes(row.training->peak_bytes)),
                   text(format_milliseconds(row.training->seconds * 1000)),
                   element("span", tone, weights.text)});
  }
  return table.html();
}

}  // namespace

Html cards_of(const Comparison& comparison) {
  if (comparison.rows.empty()) return {};
  const StrategyRow& plain = comparison.rows.front();
  const auto by_memory = [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; };
  const StrategyRow& least =
      *std::min_element(comparison.rows.begin(), comparison.rows.end(), by_memory);
  const bool identical = std::all_of(comparison.rows.begin(), comparison.rows.end(), kept);
  Html cards = card("plain\u2019s peak", format_bytes(plain.peak_bytes),
                    "above a base of " + format_bytes(comparison.base_bytes));
  cards += card("plain\u2019s step", format_milliseconds(plain.step_ms_median),
                "median of " + format_count(comparison.steps));
  if (&least != &plain) {
    cards += card("least memory", ratio(least.memory_ratio, 2),
                  least.strategy + ", at " + ratio(least.time_ratio, 2) + " the time");
  }
  const bool all_exact = std::all_of(comparison.rows.begin(), comparison.rows.end(),
                                     [](const StrategyRow& row) { return row.exact; });
  cards += card("gradients", identical ? "bit-identical" : "differ",
                !identical  ? "see the table"
                : all_exact ? "in every strategy and step"
                            : "in every strategy that promises it");
  cards += card("parameters", format_count(comparison.parameters), "");
  return cards;
}

Html sections_of(const Comparison& comparison) {
  const bool line =
      std::count_if(comparison.rows.begin(), comparison.rows.end(), [](const StrategyRow& row) {
        return row.budget && row.predicted_peak_bytes;
      }) > 1;
  const Html picture =
      element(
          "p", "soft",
          "Each mark is a strategy: the further down the less memory, the further left the less "
          "time. Plain, the diamond, is 1\u00D7 on both axes. A bar through a mark is the 95 % "
          "confidence interval of the time ratio.") +
      (line
           ? element("p", "soft",
                     "Budgets are joined. The broken line is their bound: by what was measured, no "
                     "schedule that fits a budget takes less time.")
           : Html{}) +
      element("figure", "", Html{draw_time_memory(comparison).inline_text()});
  const Html table =
      element(
          "p", "soft",
          "Peak and held bytes are above the base of " + format_bytes(comparison.base_bytes) +
              " that lives before a step: parameters and data. Held is what is alive at the end "
              "of the forward pass. Times are medians of " +
              format_count(comparison.steps) +
              (comparison.steps == 1 ? " step." : " steps, taken in turn.")) +
      table_of(comparison);
  Html sections = section("Time against memory", picture) + section("Strategies", table);
  if (has_budgets(comparison)) {
    sections += section("Budgets, predicted and measured", budgets_of(comparison));
  }
  if (comparison.train_steps) {
    sections +=
        section("Trained " + format_count(*comparison.train_steps) + " steps from the same start",
                training_of(comparison));
  }
  return sections;
}

}  // namespace reprise::detail
