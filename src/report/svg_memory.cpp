// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "base/text_width.h"
#include "report/markup.h"
#include "report/memory_view.h"
#include "report/pictures.h"
#include "report/svg_axis.h"

// Memory over time: bands of categories, one on the other, and the peak.

namespace reprise::detail {
namespace {

// Where each sample begins: where its time is, but far enough from the one before that even the
// shortest peak can be seen. Samples are as many as there is room for, so that none moves far.
std::vector<double> places_of(const MemoryView& view, const Scale& x) {
  constexpr double kNarrowest = 1;
  std::vector<double> places;
  for (const MemorySample& sample : view.samples) {
    const double place = x(sample.ms);
    places.push_back(places.empty() ? place : std::max(place, places.back() + kNarrowest));
  }
  return places;
}

// The top of a band, from place to place. Moves that are too small to see are left out.
std::string steps(const std::vector<double>& places, const std::vector<double>& tops, double end,
                  double bottom) {
  std::string data = "M" + short_number(places.front()) + " " + short_number(bottom);
  std::string drawn;
  for (std::size_t i = 0; i < tops.size(); ++i) {
    const std::string top = short_number(tops[i]);
    if (top == drawn) continue;
    data += "H" + short_number(places[i]) + "V" + top;
    drawn = top;
  }
  return data + "H" + short_number(std::max(end, places.back() + 1)) + "V" + short_number(bottom) +
         "Z";
}

// The highest band first: each one below covers what is not its neighbour's above.
void draw_bands(Svg& svg, const Frame& frame, const MemoryView& view,
                const std::vector<double>& places, double end, const Scale& y) {
  std::vector<int64_t> sums(view.samples.size(), 0);
  std::vector<std::pair<Category, std::string>> bands;
  for (const Category category : stack_order()) {
    bool present = false;
    std::vector<double> tops;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const int64_t bytes = view.samples[i].bytes[category];
      present = present || bytes != 0;
      sums[i] += bytes;
      tops.push_back(y(static_cast<double>(sums[i])));
    }
    if (present) bands.emplace_back(category, steps(places, tops, end, frame.bottom));
  }
  for (auto band = bands.rbegin(); band != bands.rend(); ++band) {
    const auto& [category, data] = *band;
    svg.path(data, "band " + category_style(category),
             std::string(name_of(category)) + ": " + format_bytes(view.peak.bytes[category]) +
                 " at the peak");
  }
}

// A name stands right of its line, or of the name before it. What ends as soon as it began has
// none.
void draw_marks(Svg& svg, const Frame& frame, const MemoryView& view, const Scale& x) {
  double free = frame.left;
  for (std::size_t i = 0; i < view.marks.size(); ++i) {
    const TimelineMark& mark = view.marks[i];
    const double at = x(mark.ms);
    const double end = i + 1 < view.marks.size() ? x(view.marks[i + 1].ms) : at;
    if (mark.name == "start" || end - at < 4) continue;
    svg.line({at, frame.top - 18}, {at, frame.bottom}, "mark");
    const std::string name = printable(mark.name);
    const double width = static_cast<double>(display_width(name)) * 10;
    const double begin = std::max(at + 4, free);
    if (begin > at + 120 || begin + width > kPictureWidth) continue;  // too far, or too long
    svg.text({begin, frame.top - 6}, Anchor::start, "", name);
    free = begin + width + 4;
  }
}

void draw_peak(Svg& svg, const Frame& frame, const MemoryView& view,
               const std::vector<double>& places, const Scale& y) {
  const int64_t total = view.peak.bytes.total();
  const auto sample =
      std::find_if(view.samples.begin(), view.samples.end(),
                   [total](const MemorySample& each) { return each.bytes.total() == total; });
  const double place = places[static_cast<std::size_t>(sample - view.samples.begin())];
  const Point top{place + 0.5, y(static_cast<double>(total))};
  const std::string words = "peak " + format_bytes(total);
  svg.line(top, {top.x, frame.bottom}, "peak");
  svg.marker(top, 0, "peakdot", words + " after " + format_milliseconds(view.peak.ms));
  const bool right = top.x < frame.left + frame.width() * 0.6;
  svg.text({top.x + (right ? 12 : -12), top.y + 2}, right ? Anchor::start : Anchor::end,
           "halo strong", words);
}

std::string description(const std::string& name, const MemoryView& view) {
  std::string text =
      "Live bytes of " + name + " over a step of " + format_milliseconds(view.end_ms) + ". Peak " +
      format_bytes(view.peak.bytes.total()) + " after " + format_milliseconds(view.peak.ms) + ":";
  for (const Category category : stack_order()) {
    if (view.peak.bytes[category] == 0) continue;
    text +=
        " " + std::string(name_of(category)) + " " + format_bytes(view.peak.bytes[category]) + ",";
  }
  text.back() = '.';
  return text;
}

void draw_panel(Svg& svg, const Frame& frame, const MemoryView& view, const MemoryLimits& limits) {
  const Scale x{0, limits.end_ms, frame.left, frame.right};
  const Scale y{0, static_cast<double>(limits.bytes) * 1.1, frame.bottom, frame.top};
  draw_left_axis(svg, frame, y, byte_ticks(0, y.high, 4), "");
  const std::vector<double> places = places_of(view, x);
  draw_bands(svg, frame, view, places, x(view.end_ms), y);
  draw_marks(svg, frame, view, x);
  draw_bottom_axis(svg, frame, x, time_ticks(0, x.high, 6), "");
  draw_peak(svg, frame, view, places, y);
}

// Swatches and names, in rows as wide as the picture.
void draw_legend(Svg& svg, const std::vector<Category>& categories, double top) {
  double x = 20;
  double y = top;
  for (const Category category : categories) {
    const std::string name = name_of(category);
    const double width = 46 + static_cast<double>(display_width(name)) * 10.5;
    if (x + width > kPictureWidth) {
      x = 20;
      y += 28;
    }
    svg.rectangle({x, y - 12}, 14, 14, category_style(category));
    svg.text({x + 20, y}, Anchor::start, "name", name);
    x += width;
  }
}

}  // namespace

std::string category_style(Category category) {
  return "c" + std::to_string(static_cast<int>(category));
}

MemoryLimits limits_of(const std::vector<MemoryView>& views) {
  MemoryLimits limits;
  for (const MemoryView& view : views) {
    limits.bytes = std::max(limits.bytes, view.peak.bytes.total());
    limits.end_ms = std::max(limits.end_ms, view.end_ms);
  }
  return limits;
}

std::vector<Category> categories_of(const std::vector<MemoryView>& views) {
  std::vector<Category> present;
  for (const Category category : stack_order()) {
    const bool there = std::any_of(views.begin(), views.end(), [category](const auto& view) {
      return std::any_of(view.samples.begin(), view.samples.end(),
                         [category](const auto& sample) { return sample.bytes[category] != 0; });
    });
    if (there) present.push_back(category);
  }
  return present;
}

Svg draw_memory(const std::string& name, const MemoryView& view, const MemoryLimits& limits) {
  Svg svg(kPictureWidth, 300, description(name, view));
  draw_panel(svg, {98, 32, 704, 262}, view, limits);
  return svg;
}

Svg draw_memories(const std::vector<std::string>& names, const std::vector<MemoryView>& views) {
  constexpr double kPanel = 290;
  constexpr double kLegend = 70;
  std::string words;
  for (std::size_t i = 0; i < views.size(); ++i) words += description(names[i], views[i]) + " ";
  Svg svg(kPictureWidth, kPanel * static_cast<double>(views.size()) + kLegend, words);
  const MemoryLimits limits = limits_of(views);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const double top = kPanel * static_cast<double>(i);
    svg.text({20, top + 26}, Anchor::start, "strong", printable(names[i]));
    draw_panel(svg, {98, top + 66, 704, top + 250}, views[i], limits);
  }
  draw_legend(svg, categories_of(views), kPanel * static_cast<double>(views.size()) + 22);
  return svg;
}

}  // namespace reprise::detail
