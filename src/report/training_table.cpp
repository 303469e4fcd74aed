// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <vector>

#include "report/tables.h"

// What each strategy made of the same weights.

namespace reprise::detail {
std::string quality_text(const std::optional<double>& quality, const std::string& unit) {
  if (!quality) return "-";
  if (unit == "%") return number("%.2f", *quality * 100) + " %";
  return number("%.6g", *quality) + (unit.empty() ? "" : " " + unit);
}

Cell weights_cell(const StrategyRow& row) {
  const TrainingOutcome& outcome = *row.training;
  if (outcome.weights_bit_equal) return {"identical", row.exact ? Tone::good : Tone::normal};
  const std::string text = "differ by " + number("%.3g", outcome.max_abs_weight_diff);
  return row.exact ? Cell(text, Tone::bad) : Cell(text + " (" + inexact_reason(row) + ")");
}

TextTable training_table(const Comparison& comparison) {
  const std::string quality = comparison.quality_name.empty() ? "quality" : comparison.quality_name;
  TextTable table({{"strategy", Align::left},
                   {"final loss"},
                   {quality, Align::right, 1},
                   {"peak", Align::right, 3},
                   {"seconds", Align::right, 2},
                   {"weights", Align::left}});
  for (const StrategyRow& row : comparison.rows) {
    if (!row.training) continue;
    table.add_row({row.strategy, number("%.9g", row.training->loss),
                   quality_text(row.training->quality, comparison.quality_unit),
                   format_bytes(row.training->peak_bytes), number("%.1f", row.training->seconds),
                   weights_cell(row)});
  }
  return table;
}

}  // namespace reprise::detail
