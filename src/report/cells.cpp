// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdio>

#include "report/tables.h"

namespace reprise {

bool StrategyRow::preserves_draws() const {
  return std::all_of(regions.begin(), regions.end(),
                     [](const RegionStats& stats) { return stats.preserves_rng; });
}

bool StrategyRow::keeps_promise() const {
  if (!exact) return true;
  return grads_bit_equal && buffers_bit_equal && rng_preserved &&
         (!training || training->weights_bit_equal);
}

namespace detail {

std::string number(const char* format, double value) {
  const int length = std::snprintf(nullptr, 0, format, value);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, value);
  text.pop_back();
  return text;
}

std::string interval_text(const StrategyRow& row) {
  if (!row.time_ratio_low || !row.time_ratio_high) return "-";
  return number("%.3f", *row.time_ratio_low) + " to " + number("%.3f", *row.time_ratio_high);
}

std::string inexact_reason(const StrategyRow& row) {
  return row.lossy ? "lossy store" : "batch in parts";
}

std::string verdict_text(const StrategyRow& row) {
  std::string text =
      row.grads_bit_equal ? "identical" : "differ by " + number("%.3g", row.max_abs_grad_diff);
  if (!row.exact) return row.grads_bit_equal ? text : text + " (" + inexact_reason(row) + ")";
  if (!row.rng_preserved) text += ", RNG moved";
  if (!row.buffers_bit_equal) text += ", buffers differ";
  return text;
}

Cell verdict_cell(const StrategyRow& row) {
  const bool good = row.grads_bit_equal && row.rng_preserved && row.buffers_bit_equal;
  const Tone otherwise = row.exact ? Tone::bad : Tone::normal;
  return {verdict_text(row), good ? Tone::good : otherwise};
}

}  // namespace detail
}  // namespace reprise
