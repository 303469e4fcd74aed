// SPDX-License-Identifier: BSD-3-Clause
#include "report/svg.h"

#include "report/markup.h"

namespace reprise::detail {
namespace {

std::string attribute(std::string_view name, double value) {
  return " " + std::string(name) + "=\"" + short_number(value) + "\"";
}

std::string class_of(std::string_view style) { return " class=\"" + std::string(style) + "\""; }

std::string title(std::string_view tooltip) {
  return tooltip.empty() ? "" : "<title>" + escape(tooltip) + "</title>";
}

std::string with_title(const std::string& name, const std::string& attributes,
                       std::string_view tooltip) {
  if (tooltip.empty()) return "<" + name + attributes + "/>\n";
  return "<" + name + attributes + ">" + title(tooltip) + "</" + name + ">\n";
}

constexpr std::string_view anchor_name(Anchor anchor) {
  return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

}  // namespace

Svg::Svg(double width, double height, std::string_view label) {
  open_ = "viewBox=\"0 0 " + short_number(width) + " " + short_number(height) +
          "\" role=\"img\" aria-label=\"" + escape(label) + "\">\n";
}

void Svg::line(Point from, Point to, std::string_view style) {
  body_ += "<line" + attribute("x1", from.x) + attribute("y1", from.y) + attribute("x2", to.x) +
           attribute("y2", to.y) + class_of(style) + "/>\n";
}

void Svg::rectangle(Point corner, double width, double height, std::string_view style) {
  body_ += "<rect" + attribute("x", corner.x) + attribute("y", corner.y) +
           attribute("width", width) + attribute("height", height) + class_of(style) + "/>\n";
}

void Svg::text(Point at, Anchor anchor, std::string_view style, std::string_view text) {
  body_ += "<text" + attribute("x", at.x) + attribute("y", at.y);
  if (anchor != Anchor::start) {
    body_ += " text-anchor=\"" + std::string(anchor_name(anchor)) + "\"";
  }
  body_ += (style.empty() ? "" : class_of(style)) + ">" + escape(text) + "</text>\n";
}

void Svg::path(const std::string& data, std::string_view style, std::string_view tooltip) {
  body_ += with_title("path", " d=\"" + data + "\"" + class_of(style), tooltip);
}

void Svg::marker(Point at, int shape, std::string_view style, std::string_view tooltip) {
  if (shape == 0) {
    body_ += with_title(
        "circle", attribute("cx", at.x) + attribute("cy", at.y) + " r=\"6\"" + class_of(style),
        tooltip);
    return;
  }
  path("M" + short_number(at.x) + " " + short_number(at.y - 9) + "l9 9l-9 9l-9 -9z", style,
       tooltip);
}

std::string Svg::inline_text() const { return "<svg " + open_ + body_ + "</svg>\n"; }

std::string Svg::file_text() const {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + open_ + "<style>\n" +
         std::string(picture_style()) +
         "</style>\n<rect width=\"100%\" height=\"100%\" class=\"ground\"/>\n" + body_ + "</svg>\n";
}

// The bands take the colours of Okabe and Ito, which people of all kinds of colour vision tell
// apart; a line in the colour of the ground parts them, too.
std::string_view picture_style() {
  return R"css(svg{--ground:#fff;--ink:#1b2430;--soft:#5b6776;--grid:#e3e7ec;--accent:#0072b2;
font:14px system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
@media (prefers-color-scheme:dark){svg{--ground:#14181d;--ink:#e8ecf1;--soft:#a3aebb;--grid:#2b323b;
--accent:#56b4e9}}
svg text{fill:var(--soft)}
svg .name{fill:var(--ink)}
svg .strong{fill:var(--ink);font-weight:600}
svg .ground{fill:var(--ground)}
svg .halo{fill:var(--ink);paint-order:stroke;stroke:var(--ground);stroke-width:4px;
stroke-linejoin:round}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .axis{stroke:var(--soft);stroke-width:1}
svg .mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 4}
svg .leader{stroke:var(--soft);stroke-width:1}
svg .peak{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:5 4;fill:none}
svg .peakdot{fill:var(--ink);stroke:var(--ground);stroke-width:2}
svg .band{stroke:var(--ground);stroke-width:.6}
svg .dot{fill:var(--series,var(--accent));stroke:var(--ground);stroke-width:1.5}
svg .interval{stroke:var(--accent);stroke-width:3;stroke-opacity:.4;stroke-linecap:round}
svg .bad{fill:#d55e00}
svg .plain{fill:var(--ink);stroke:var(--ground);stroke-width:1.5}
svg .curve{fill:none;stroke:var(--series);stroke-width:2;stroke-linejoin:round}
svg .s0{--series:var(--accent)}svg .s1{--series:#e69f00}svg .s2{--series:#009e73}
svg .s3{--series:#cc79a7}
svg .c0{fill:#0072b2}svg .c1{fill:#e69f00}svg .c2{fill:#56b4e9}svg .c3{fill:#7f6bb0}
svg .c4{fill:#64748b}svg .c5{fill:#009e73}svg .c6{fill:#f0e442}svg .c7{fill:#cc79a7}
svg .c8{fill:#d55e00}svg .c9{fill:#b4bcc6}
@media (max-width:600px){svg{font-size:22px}}
@media print{svg{--ground:#fff;--ink:#000;--soft:#444;--grid:#ddd}}
)css";
}

}  // namespace reprise::detail
