// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <reprise/report.h>

#include "base/text_table.h"
#include "report/markup.h"

// A comparison as an aligned text table.

namespace reprise {
namespace {

using detail::Align;
using detail::Cell;
using detail::format_count;
using detail::Tone;

std::string number(const char* format, double value) {
  const int length = std::snprintf(nullptr, 0, format, value);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, value);
  text.pop_back();
  return text;
}

// The higher the number, the sooner a narrow terminal goes without.
const std::vector<detail::Column> kColumns = {{"strategy", Align::left},
                                              {"peak"},
                                              {"held", Align::right, 6},
                                              {"peak ratio", Align::right, 1},
                                              {"rss peak", Align::right, 7},
                                              {"step ms", Align::right, 2},
                                              {"time ratio"},
                                              {"samples/s", Align::right, 5},
                                              {"recomputed", Align::right, 4},
                                              {"loss", Align::right, 3},
                                              {"gradients", Align::left}};

std::string rate(double value) { return std::isfinite(value) ? format_count(std::llround(value)) : "-"; }

std::string recomputed(const StrategyRow& row) {
  if (row.recomputed_ops == 0) return "-";
  return format_count(row.recomputed_ops) + " ops, " + number("%.1f", row.recomputed_ms) + " ms";
}

bool preserve_rng(const std::vector<RegionStats>& regions) {
  return std::all_of(regions.begin(), regions.end(),
                     [](const RegionStats& stats) { return stats.preserves_rng; });
}

Cell gradients(const StrategyRow& row) {
  std::string text =
      row.grads_bit_equal ? "identical" : "differ by " + number("%.3g", row.max_abs_grad_diff);
  if (!row.rng_preserved) text += ", RNG moved";
  return {text, row.grads_bit_equal && row.rng_preserved ? Tone::good : Tone::bad};
}

std::vector<Cell> cells_of(const StrategyRow& row) {
  return {row.strategy,
          format_bytes(row.peak_bytes),
          format_bytes(row.held_bytes),
          number("%.3f", row.memory_ratio),
          row.rss_peak_bytes ? format_bytes(*row.rss_peak_bytes) : "-",
          number("%.2f", row.step_ms_median),
          number("%.3f", row.time_ratio),
          rate(row.samples_per_second),
          recomputed(row),
          number("%.9g", row.loss),
          gradients(row)};
}

}  // namespace

std::string to_table(const Comparison& comparison, const TextStyle& style) {
  detail::TextTable table(kColumns);
  for (const StrategyRow& row : comparison.rows) table.add_row(cells_of(row));
  std::string text = comparison.workload + " on " + comparison.device + ", LibTorch " +
                     comparison.libtorch + ", " + std::to_string(comparison.threads) +
                     (comparison.threads == 1 ? " thread, " : " threads, ") +
                     std::to_string(comparison.steps) +
                     (comparison.steps == 1 ? " step" : " steps") + " for each strategy\n";
  text += format_count(comparison.parameters) + " parameters; peak and held are above the base of " +
          format_bytes(comparison.base_bytes) + " that lives before a step\n\n";
  text += table.str(style);
  for (const StrategyRow& row : comparison.rows) {
    if (preserve_rng(row.regions)) continue;
    text += "\nnote: " + row.strategy +
            " does not preserve random draws: nothing in its regions "
            "may draw\n";
  }
  return text;
}

}  // namespace reprise
