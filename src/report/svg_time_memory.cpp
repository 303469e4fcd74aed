// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text_width.h"
#include "report/markup.h"
#include "report/pictures.h"
#include "report/svg_axis.h"
#include "report/svg_labels.h"
#include "report/tables.h"

// Time against memory: one mark for each strategy, those of budgets joined, and their bound.

namespace reprise::detail {
namespace {

std::string ratio(double value) { return fixed_number(value, 2) + "\u00D7"; }

std::string tooltip(const StrategyRow& row) {
  return row.strategy + ": peak " + format_bytes(row.peak_bytes) + ", " + ratio(row.memory_ratio) +
         " of plain's; step " + format_milliseconds(row.step_ms_median) + ", " +
         ratio(row.time_ratio) + " of plain's" +
         (row.time_ratio_low ? ", 95 % interval " + interval_text(row) : "") + "; " +
         verdict_text(row);
}

std::string description(const std::vector<StrategyRow>& rows) {
  std::string text = "Time against memory, as ratios to plain.";
  for (const StrategyRow& row : rows) text += " " + tooltip(row) + ".";
  return text;
}

// Plain's 1 is always in it.
struct Range {
  double low = 1;
  double high = 1;
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

Range times_of(const std::vector<StrategyRow>& rows) {
  Range range;
  for (const StrategyRow& row : rows) {
    range.add(row.time_ratio);
    range.add(row.time_ratio_low.value_or(1));
    range.add(row.time_ratio_high.value_or(1));
  }
  return range;
}

bool on_line(const StrategyRow& row) { return row.budget && row.predicted_peak_bytes; }

// From the largest budget to the smallest: budgets as they were measured, or no schedule that fits
// takes less.
std::vector<CurvePoint> line_of(const std::vector<StrategyRow>& rows, bool bound) {
  std::vector<CurvePoint> line;
  if (rows.empty()) return line;
  const auto plain = static_cast<double>(rows.front().peak_bytes);
  for (const StrategyRow& row : rows) {
    if (!on_line(row)) continue;
    if (!bound) {
      line.push_back({row.time_ratio, row.memory_ratio});
    } else if (row.budget->plain_ms > 0) {
      line.push_back({row.budget->bound_ms / row.budget->plain_ms,
                      static_cast<double>(*row.budget_bytes) / plain});
    }
  }
  std::stable_sort(line.begin(), line.end(),
                   [](const CurvePoint& a, const CurvePoint& b) { return a.y > b.y; });
  if (line.size() < 2) line.clear();
  return line;
}

void draw_line(Svg& svg, const std::vector<CurvePoint>& line, const Scale& x, const Scale& y,
               const char* style, const char* tooltip) {
  std::string data;
  for (const CurvePoint& point : line) {
    data += (data.empty() ? "M" : "L") + short_number(x(point.x)) + " " + short_number(y(point.y));
  }
  if (!data.empty()) svg.path(data, style, tooltip);
}

// Where the time ratio would lie in 95 of 100 comparisons like this.
void draw_interval(Svg& svg, const StrategyRow& row, const Scale& x, double y) {
  if (!row.time_ratio_low || !row.time_ratio_high) return;
  svg.line({x(*row.time_ratio_low), y}, {x(*row.time_ratio_high), y}, "interval");
}

}  // namespace

Svg draw_time_memory(const Comparison& comparison) {
  const std::vector<StrategyRow>& rows = comparison.rows;
  Svg svg(kPictureWidth, 440, description(rows));
  const Frame frame{76, 44, 696, 380};
  const std::vector<CurvePoint> budgets = line_of(rows, false), bound = line_of(rows, true);
  Range times = times_of(rows);
  for (const CurvePoint& point : bound) times.add(point.x);
  const double spread = std::max(times.high - times.low, 0.05);
  const Scale x{times.low - spread * 0.08, times.high + spread * 0.12, frame.left, frame.right};
  Range memory;
  for (const StrategyRow& row : rows) memory.add(row.memory_ratio);
  for (const CurvePoint& point : bound) memory.add(point.y);
  const Scale y{0, memory.high * 1.06, frame.bottom, frame.top};

  draw_left_axis(svg, frame, y, ratio_ticks(y.low, y.high, 6),
                 "peak memory of a step, over plain\u2019s");
  draw_bottom_axis(svg, frame, x, ratio_ticks(x.low, x.high, 6),
                   "time of a step, over plain\u2019s",
                   /*grid=*/true);
  svg.line({x(1), frame.top}, {x(1), frame.bottom}, "mark");
  svg.line({frame.left, y(1)}, {frame.right, y(1)}, "mark");
  draw_line(svg, budgets, x, y, "curve s0", "budgets");
  draw_line(svg, bound, x, y, "peak", "no schedule that fits takes less");

  std::vector<Label> labels;
  for (const StrategyRow& row : rows) {
    labels.push_back({{x(row.time_ratio), y(row.memory_ratio)}, printable(row.strategy)});
  }
  if (!bound.empty()) labels.push_back({{x(bound.back().x), y(bound.back().y)}, "bound"});
  const std::vector<PlacedLabel> placed = place_labels(labels, frame);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (placed[i].far) svg.line(labels[i].at, {placed[i].at.x, placed[i].at.y - 5}, "leader");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) draw_interval(svg, rows[i], x, labels[i].at.y);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool plain = i == 0;
    const std::string style = plain ? "plain" : rows[i].keeps_promise() ? "dot" : "dot bad";
    svg.marker(labels[i].at, plain ? 1 : 0, style, tooltip(rows[i]));
    svg.text(placed[i].at, placed[i].anchor, plain ? "halo strong" : "halo", labels[i].text);
  }
  if (!bound.empty()) {
    svg.text(placed.back().at, placed.back().anchor, "halo", labels.back().text);
  }
  return svg;
}

}  // namespace reprise::detail
