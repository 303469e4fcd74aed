// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

// Long series, thinned to what a picture can show.

namespace reprise::detail {

/// Indices into `points` (of something with a `y`), in order: the first and the last point, and of
/// each stretch the lowest and the highest, so that no peak is lost. All, where they are few.
template <class Point>
std::vector<std::size_t> thin_extremes(const std::vector<Point>& points,
                                       std::size_t stretches = 240) {
  std::vector<std::size_t> kept;
  const std::size_t count = points.size();
  if (count <= 2 * stretches + 2) {
    for (std::size_t i = 0; i < count; ++i) kept.push_back(i);
    return kept;
  }
  const auto lower = [](const Point& a, const Point& b) { return a.y < b.y; };
  kept.push_back(0);
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(count * i / stretches);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(count * (i + 1) / stretches);
    const auto low = static_cast<std::size_t>(std::min_element(begin, end, lower) - points.begin());
    const auto high =
        static_cast<std::size_t>(std::max_element(begin, end, lower) - points.begin());
    kept.push_back(std::min(low, high));
    kept.push_back(std::max(low, high));
  }
  kept.push_back(count - 1);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

}  // namespace reprise::detail
