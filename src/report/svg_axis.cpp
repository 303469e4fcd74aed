// SPDX-License-Identifier: BSD-3-Clause
#include "report/svg_axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "report/markup.h"

namespace reprise::detail {
namespace {

// The nearest that is 1, 2 or 5 times a power of ten.
double round_step(double range, int count) {
  const double rough = range / std::max(count, 1);
  if (!(rough > 0) || !std::isfinite(rough)) return 1;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double share = rough / power;
  return power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
}

int decimals_of(double step) {
  return step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
}

// Ticks of values in `unit`s, such as a MiB or a second.
std::vector<Tick> ticks_in(double low, double high, int count, double unit,
                           const std::string& name) {
  const double step = round_step((high - low) / unit, count);
  std::vector<Tick> ticks;
  const double last = high / unit + step * 1e-6;
  for (double i = std::ceil(low / unit / step - 1e-6); i * step <= last; ++i) {
    ticks.push_back({i * step * unit, short_number(i * step, decimals_of(step)) + name});
  }
  return ticks;
}

}  // namespace

double Scale::operator()(double value) const {
  if (!(high > low)) return from;
  return from + (value - low) / (high - low) * (to - from);
}

std::vector<Tick> number_ticks(double low, double high, int count) {
  return ticks_in(low, high, count, 1, "");
}

std::vector<Tick> byte_ticks(double low, double high, int count) {
  constexpr std::array<const char*, 5> kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  double unit = 1;
  std::size_t name = 0;
  while (high / unit >= 1024 && name + 1 < kUnits.size()) {
    unit *= 1024;
    ++name;
  }
  return ticks_in(low, high, count, unit, kUnits[name]);
}

std::vector<Tick> time_ticks(double low, double high, int count) {
  return high >= 2000 ? ticks_in(low, high, count, 1000, " s")
                      : ticks_in(low, high, count, 1, " ms");
}

std::vector<Tick> ratio_ticks(double low, double high, int count) {
  return ticks_in(low, high, count, 1, "\u00D7");
}

void draw_left_axis(Svg& svg, const Frame& frame, const Scale& scale,
                    const std::vector<Tick>& ticks, std::string_view title) {
  for (const Tick& tick : ticks) {
    const double y = scale(tick.value);
    svg.line({frame.left, y}, {frame.right, y}, "grid");
    svg.text({frame.left - 8, y + 5}, Anchor::end, "", tick.label);
  }
  if (!title.empty()) svg.text({4, frame.top - 14}, Anchor::start, "", title);
}

void draw_bottom_axis(Svg& svg, const Frame& frame, const Scale& scale,
                      const std::vector<Tick>& ticks, std::string_view title, bool grid) {
  for (const Tick& tick : ticks) {
    const double x = scale(tick.value);
    if (grid) svg.line({x, frame.top}, {x, frame.bottom}, "grid");
    svg.line({x, frame.bottom}, {x, frame.bottom + 5}, "axis");
    // In the large letters of a narrow picture, too, the last label must not leave it.
    const double edge = frame.right + 14;
    const bool fits = x + static_cast<double>(tick.label.size()) * 6 <= edge;
    svg.text({fits ? x : edge, frame.bottom + 23}, fits ? Anchor::middle : Anchor::end, "",
             tick.label);
  }
  svg.line({frame.left, frame.bottom}, {frame.right, frame.bottom}, "axis");
  if (!title.empty()) svg.text({frame.right, frame.bottom + 46}, Anchor::end, "", title);
}

}  // namespace reprise::detail
