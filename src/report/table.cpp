// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <reprise/report.h>

// A comparison as an aligned text table.

namespace reprise {
namespace {

using Cells = std::vector<std::string>;

std::string number(const char* format, double value) {
  const int length = std::snprintf(nullptr, 0, format, value);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, value);
  text.pop_back();
  return text;
}

std::string count(int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > sign + 3;) text.insert(at -= 3, ",");
  return text;
}

const Cells kHeader = {"strategy",   "peak",      "held",       "peak ratio", "rss peak", "step ms",
                       "time ratio", "samples/s", "recomputed", "loss",       "gradients"};

std::string rate(double value) { return std::isfinite(value) ? count(std::llround(value)) : "-"; }

std::string recomputed(const StrategyRow& row) {
  if (row.recomputed_ops == 0) return "-";
  return count(row.recomputed_ops) + " ops, " + number("%.1f", row.recomputed_ms) + " ms";
}

bool preserve_rng(const std::vector<RegionStats>& regions) {
  return std::all_of(regions.begin(), regions.end(),
                     [](const RegionStats& stats) { return stats.preserves_rng; });
}

std::string gradients(const StrategyRow& row) {
  std::string text =
      row.grads_bit_equal ? "identical" : "differ by " + number("%.3g", row.max_abs_grad_diff);
  if (!row.rng_preserved) text += ", RNG moved";
  return text;
}

Cells cells_of(const StrategyRow& row) {
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

// The first and the last column hold words and stand left, the others hold numbers and stand right.
std::string line_of(const Cells& cells, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string space(widths[i] - cells[i].size(), ' ');
    const bool left = i == 0 || i + 1 == cells.size();
    if (i > 0) line += "  ";
    line += left ? cells[i] + space : space + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string to_table(const Comparison& comparison) {
  std::vector<Cells> lines = {kHeader};
  for (const StrategyRow& row : comparison.rows) lines.push_back(cells_of(row));
  std::vector<std::size_t> widths(kHeader.size(), 0);
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text = comparison.workload + " on " + comparison.device + ", LibTorch " +
                     comparison.libtorch + ", " + std::to_string(comparison.threads) +
                     (comparison.threads == 1 ? " thread, " : " threads, ") +
                     std::to_string(comparison.steps) +
                     (comparison.steps == 1 ? " step" : " steps") + " for each strategy\n";
  text += count(comparison.parameters) + " parameters; peak and held are above the base of " +
          format_bytes(comparison.base_bytes) + " that lives before a step\n\n";
  for (const Cells& cells : lines) text += line_of(cells, widths);
  for (const StrategyRow& row : comparison.rows) {
    if (preserve_rng(row.regions)) continue;
    text += "\nnote: " + row.strategy +
            " does not preserve random draws: nothing in its regions "
            "may draw\n";
  }
  return text;
}

}  // namespace reprise
