// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "report/svg.h"
#include "report/svg_axis.h"

// Labels of marked points, placed so that they cover neither each other nor the points.

namespace reprise::detail {

struct Label {
  Point at;  ///< the marked point
  std::string text;
};

struct PlacedLabel {
  Point at;  ///< where the text begins, ends or has its middle: as `anchor` says
  Anchor anchor = Anchor::start;
  bool far = false;  ///< a line to the point is needed
};

/// One for each of `labels`, earlier ones first served. Where no free place is left, the label
/// stands right of its point, over whatever is there.
std::vector<PlacedLabel> place_labels(const std::vector<Label>& labels, const Frame& frame);

}  // namespace reprise::detail
