// SPDX-License-Identifier: BSD-3-Clause
#include "report/svg_labels.h"

#include <algorithm>
#include <array>

#include "base/text_width.h"

namespace reprise::detail {
namespace {

// For the large letters of a narrow picture.
constexpr double kLetter = 11;
constexpr double kAbove = 16;  // of the base line
constexpr double kBelow = 6;

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

struct Candidate {
  double x;
  double y;
  Anchor anchor;
  bool far;
};

// From the best to the last resort. The far ones climb or sink line by line.
std::vector<Candidate> candidates() {
  std::vector<Candidate> all = {{12, 5, Anchor::start, false},
                                {-12, 5, Anchor::end, false},
                                {0, -13, Anchor::middle, false},
                                {0, 23, Anchor::middle, false}};
  for (const double y : {-24.0, 30.0, -44.0, 50.0, -64.0, 70.0, -84.0, 90.0, -104.0, 110.0}) {
    all.push_back({18, y, Anchor::start, true});
    all.push_back({-18, y, Anchor::end, true});
  }
  return all;
}

Box box_of(Point at, Anchor anchor, double width) {
  const double left = anchor == Anchor::start    ? at.x
                      : anchor == Anchor::middle ? at.x - width / 2
                                                 : at.x - width;
  return {left, at.y - kAbove, left + width, at.y + kBelow};
}

bool inside(const Box& box, const Frame& frame) {
  return box.left >= frame.left && box.right <= frame.right + 20 && box.top >= frame.top - 8 &&
         box.bottom <= frame.bottom;
}

}  // namespace

std::vector<PlacedLabel> place_labels(const std::vector<Label>& labels, const Frame& frame) {
  constexpr double kRadius = 7;
  std::vector<Box> taken;
  for (const Label& label : labels) {
    const auto [x, y] = label.at;
    taken.push_back({x - kRadius, y - kRadius, x + kRadius, y + kRadius});
  }
  const std::vector<Candidate> all = candidates();
  std::vector<PlacedLabel> placed;
  for (const Label& label : labels) {
    const double width = static_cast<double>(display_width(label.text)) * kLetter;
    const auto box = [&](const Candidate& candidate) {
      return box_of({label.at.x + candidate.x, label.at.y + candidate.y}, candidate.anchor, width);
    };
    const auto free = std::find_if(all.begin(), all.end(), [&](const Candidate& candidate) {
      const Box here = box(candidate);
      return inside(here, frame) && std::none_of(taken.begin(), taken.end(), [&](const Box& other) {
               return here.meets(other);
             });
    });
    const Candidate& chosen = free == all.end() ? all.front() : *free;
    taken.push_back(box(chosen));
    placed.push_back({{label.at.x + chosen.x, label.at.y + chosen.y}, chosen.anchor, chosen.far});
  }
  return placed;
}

}  // namespace reprise::detail
