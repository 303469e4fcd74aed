// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/text_width.h"
#include "report/markup.h"
#include "report/pictures.h"
#include "report/svg_axis.h"
#include "report/thin.h"

// A value as it changes: loss over steps, bytes or time over segments.

namespace reprise::detail {
namespace {

std::vector<Tick> ticks_of(Unit unit, const Scale& scale, int count) {
  switch (unit) {
    case Unit::bytes:
      return byte_ticks(scale.low, scale.high, count);
    case Unit::milliseconds:
      return time_ticks(scale.low, scale.high, count);
    case Unit::ratio:
      return ratio_ticks(scale.low, scale.high, count);
    case Unit::number:
      break;
  }
  return number_ticks(scale.low, scale.high, count);
}

std::string text_of(Unit unit, double value) {
  switch (unit) {
    case Unit::bytes:
      return format_bytes(std::llround(value));
    case Unit::milliseconds:
      return format_milliseconds(value);
    case Unit::ratio:
      return short_number(value, 3) + "\u00D7";
    case Unit::number:
      break;
  }
  return significant(value);
}

std::string style_of(std::size_t series) { return "curve s" + std::to_string(series % 4); }

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::vector<CurvePoint> finite(const std::vector<CurvePoint>& points) {
  std::vector<CurvePoint> kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept), [](const CurvePoint& point) {
    return std::isfinite(point.x) && std::isfinite(point.y);
  });
  return kept;
}

std::string description(const Curve& curve) {
  std::string text = (curve.title.empty() ? "" : curve.title + ": ") + curve.y_title + " against " +
                     curve.x_title + ".";
  for (const CurveSeries& series : curve.series) {
    const std::vector<CurvePoint> points = finite(series.points);
    if (points.empty()) continue;
    const CurvePoint& first = points.front();
    const CurvePoint& last = points.back();
    text += " " + (series.name.empty() ? curve.y_title : series.name) + ": from " +
            text_of(curve.y_unit, first.y) + " at " + text_of(curve.x_unit, first.x) + " to " +
            text_of(curve.y_unit, last.y) + " at " + text_of(curve.x_unit, last.x) + ".";
  }
  return text;
}

std::string path_of(const std::vector<CurvePoint>& points, const Scale& x, const Scale& y) {
  std::string data;
  for (const std::size_t i : thin_extremes(points)) {
    data += (data.empty() ? "M" : "L") + short_number(x(points[i].x)) + " " +
            short_number(y(points[i].y));
  }
  return data;
}

// Right of the title, the last series first.
void draw_legend(Svg& svg, const Frame& frame, const std::vector<CurveSeries>& all) {
  double right = frame.right;
  for (std::size_t i = all.size(); i-- > 0 && all.size() > 1;) {
    const std::string name = printable(all[i].name);
    svg.text({right, frame.top - 14}, Anchor::end, "name", name);
    right -= static_cast<double>(display_width(name)) * 9 + 8;
    svg.line({right - 18, frame.top - 19}, {right, frame.top - 19}, style_of(i));
    right -= 34;
  }
}

}  // namespace

Svg draw_curve(const Curve& curve) {
  constexpr std::size_t kMarked = 40;  // of more points the line is enough
  Svg svg(kPictureWidth, 320, description(curve));
  Range x_range;
  Range y_range;
  y_range.add(0);  // so that heights compare as they look
  for (const CurveSeries& series : curve.series) {
    for (const CurvePoint& point : finite(series.points)) {
      x_range.add(point.x);
      y_range.add(point.y);
    }
  }
  if (x_range.empty()) x_range = {0, 1};
  const Frame frame{98, 44, 704, 262};
  const double margin = std::max(x_range.high - x_range.low, 1e-9) * 0.02;
  const Scale x{x_range.low - margin, x_range.high + margin, frame.left, frame.right};
  const double high = y_range.high > y_range.low ? y_range.high : y_range.low + 1;
  const Scale y{y_range.low, high + (high - y_range.low) * 0.06, frame.bottom, frame.top};
  draw_left_axis(svg, frame, y, ticks_of(curve.y_unit, y, 5), curve.y_title);
  draw_bottom_axis(svg, frame, x, ticks_of(curve.x_unit, x, 6), curve.x_title);
  draw_legend(svg, frame, curve.series);
  for (std::size_t i = 0; i < curve.series.size(); ++i) {
    const std::vector<CurvePoint> points = finite(curve.series[i].points);
    svg.path(path_of(points, x, y), style_of(i), curve.series[i].name);
    for (const CurvePoint& point : points) {
      if (points.size() > kMarked) break;
      svg.marker({x(point.x), y(point.y)}, 0, "dot s" + std::to_string(i % 4),
                 text_of(curve.x_unit, point.x) + ": " + text_of(curve.y_unit, point.y));
    }
  }
  return svg;
}

}  // namespace reprise::detail
