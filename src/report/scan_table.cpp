// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <vector>

#include "report/markup.h"
#include "report/tables.h"

// The granularity curve: more segments hold more boundaries, longer ones more of their inside.

namespace reprise::detail {
namespace {

const std::vector<Column> kColumns = {{"segments", Align::right},
                                      {"boundaries", Align::right, 4},
                                      {"longest"},
                                      {"recomputed", Align::right, 2},
                                      {"peak"},
                                      {"peak ratio", Align::right, 3},
                                      {"step ms", Align::right, 5},
                                      {"time ratio"},
                                      {"95 %", Align::right, 6},
                                      {"peak, to scale", Align::left, 1},
                                      {"gradients", Align::left, 7}};

constexpr double kBarLength = 24;

std::string bar(int64_t bytes, int64_t largest) {
  if (largest <= 0) return "";
  const double share = static_cast<double>(bytes) / static_cast<double>(largest);
  return std::string(static_cast<std::size_t>(std::llround(kBarLength * share)), '#');
}

}  // namespace

TextTable scan_table(const Comparison& comparison) {
  int64_t largest = 0;
  for (const StrategyRow& row : comparison.rows) largest = std::max(largest, row.peak_bytes);
  TextTable table(kColumns);
  for (const StrategyRow& row : comparison.rows) {
    const bool cut = row.segments.has_value();
    table.add_row({cut ? format_count(*row.segments) : row.strategy,
                   cut ? format_count(*row.segments - 1) : "-",
                   cut ? format_count(row.longest_segment_layers.value_or(0)) : "-",
                   cut ? format_count(row.recomputed_ops) + " ops" : "-",
                   format_bytes(row.peak_bytes), number("%.3f", row.memory_ratio),
                   number("%.2f", row.step_ms_median), number("%.3f", row.time_ratio),
                   interval_text(row), bar(row.peak_bytes, largest), verdict_cell(row)});
  }
  return table;
}

}  // namespace reprise::detail
