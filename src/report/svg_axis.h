// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/svg.h"

// Axes: values to places, and ticks at round values with their units.

namespace reprise::detail {

/// Values from `low` to `high` to places from `from` to `to`.
struct Scale {
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 1;
  double operator()(double value) const;
};

struct Tick {
  double value = 0;
  std::string label;
};

/// Round numbers from `low` to `high`, about `count` of them.
std::vector<Tick> number_ticks(double low, double high, int count);

/// Round numbers of a binary unit, "200 MiB".
std::vector<Tick> byte_ticks(double low, double high, int count);

/// Round times, "20 ms" or "1.5 s".
std::vector<Tick> time_ticks(double low, double high, int count);

/// Round ratios, "1.2×".
std::vector<Tick> ratio_ticks(double low, double high, int count);

/// The part of a picture in which values are drawn.
struct Frame {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

/// Grid lines, labels and the base line. `title` stands above the left axis or below the other.
void draw_left_axis(Svg& svg, const Frame& frame, const Scale& scale,
                    const std::vector<Tick>& ticks, std::string_view title);
void draw_bottom_axis(Svg& svg, const Frame& frame, const Scale& scale,
                      const std::vector<Tick>& ticks, std::string_view title, bool grid = false);

}  // namespace reprise::detail
