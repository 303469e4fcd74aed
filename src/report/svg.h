// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

// A small writer of SVG. Shapes go in, in units of the view box; the text of one <svg> element
// comes out. Colours are classes, so that a page or the picture itself sets them for light and
// dark.

namespace reprise::detail {

struct Point {
  double x = 0;
  double y = 0;
};

enum class Anchor { start, middle, end };

class Svg {
 public:
  /// `label` says in words what the picture shows, for those who cannot see it.
  Svg(double width, double height, std::string_view label);

  void line(Point from, Point to, std::string_view style);
  void rectangle(Point corner, double width, double height, std::string_view style);
  void text(Point at, Anchor anchor, std::string_view style, std::string_view text);

  /// `data` as in SVG's attribute d. A tooltip may be empty.
  void path(const std::string& data, std::string_view style, std::string_view tooltip = "");

  /// `shape` 0 is a disc; 1 a diamond, larger, for the one that stands out.
  void marker(Point at, int shape, std::string_view style, std::string_view tooltip);

  /// For a page, which brings the style sheet.
  std::string inline_text() const;

  /// A file of its own, with picture_style() and a ground inside.
  std::string file_text() const;

 private:
  std::string element(const std::string& style) const;

  std::string open_;
  std::string body_;
};

/// The style sheet of all pictures: colours for light and dark, larger letters where the picture
/// is narrow.
std::string_view picture_style();

}  // namespace reprise::detail
