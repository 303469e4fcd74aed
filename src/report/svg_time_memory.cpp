// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include "base/text_width.h"
#include "report/markup.h"
#include "report/pictures.h"
#include "report/svg_axis.h"
#include "report/svg_labels.h"

// Time against memory: one mark for each strategy.

namespace reprise::detail {
namespace {

std::string ratio(double value) { return fixed_number(value, 2) + "\u00D7"; }

std::string tooltip(const StrategyRow& row) {
  return row.strategy + ": peak " + format_bytes(row.peak_bytes) + ", " + ratio(row.memory_ratio) +
         " of plain's; step " + format_milliseconds(row.step_ms_median) + ", " +
         ratio(row.time_ratio) + " of plain's" +
         (row.grads_bit_equal ? "" : "; its gradients differ");
}

std::string description(const std::vector<StrategyRow>& rows) {
  std::string text = "Time against memory, as ratios to plain.";
  for (const StrategyRow& row : rows) text += " " + tooltip(row) + ".";
  return text;
}

struct Range {
  double low = 1;
  double high = 1;
};

Range range_of(const std::vector<StrategyRow>& rows, double StrategyRow::*ratio) {
  Range range;
  for (const StrategyRow& row : rows) {
    if (!std::isfinite(row.*ratio)) continue;
    range.low = std::min(range.low, row.*ratio);
    range.high = std::max(range.high, row.*ratio);
  }
  return range;
}

}  // namespace

Svg draw_time_memory(const Comparison& comparison) {
  const std::vector<StrategyRow>& rows = comparison.rows;
  Svg svg(kPictureWidth, 440, description(rows));
  const Frame frame{76, 44, 696, 380};
  const Range times = range_of(rows, &StrategyRow::time_ratio);
  const double spread = std::max(times.high - times.low, 0.05);
  const Scale x{times.low - spread * 0.08, times.high + spread * 0.12, frame.left, frame.right};
  const double high = range_of(rows, &StrategyRow::memory_ratio).high;
  const Scale y{0, high * 1.06, frame.bottom, frame.top};

  draw_left_axis(svg, frame, y, ratio_ticks(y.low, y.high, 6),
                 "peak memory of a step, over plain\u2019s");
  draw_bottom_axis(svg, frame, x, ratio_ticks(x.low, x.high, 6), "time of a step, over plain\u2019s",
                   /*grid=*/true);
  svg.line({x(1), frame.top}, {x(1), frame.bottom}, "mark");
  svg.line({frame.left, y(1)}, {frame.right, y(1)}, "mark");

  std::vector<Label> labels;
  for (const StrategyRow& row : rows) {
    labels.push_back({{x(row.time_ratio), y(row.memory_ratio)}, printable(row.strategy)});
  }
  const std::vector<PlacedLabel> placed = place_labels(labels, frame);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (placed[i].far) svg.line(labels[i].at, {placed[i].at.x, placed[i].at.y - 5}, "leader");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool plain = i == 0;
    const std::string style = plain ? "plain" : rows[i].grads_bit_equal ? "dot" : "dot bad";
    svg.marker(labels[i].at, plain ? 1 : 0, style, tooltip(rows[i]));
    svg.text(placed[i].at, placed[i].anchor, plain ? "halo strong" : "halo", labels[i].text);
  }
  return svg;
}

}  // namespace reprise::detail
