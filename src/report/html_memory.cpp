// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "report/html_parts.h"
#include "report/markup.h"
#include "report/memory_view.h"
#include "report/pictures.h"

// The part of a page that shows memory over time, and what is alive at the peak.

namespace reprise::detail {
namespace {

constexpr std::size_t kShownGroups = 15;

Html swatch(Category category) {
  return {
      "<svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect width=\"14\" "
      "height=\"14\" rx=\"3\" "
      "class=\"" +
      category_style(category) + "\"/></svg>"};
}

Html legend(const MemoryView& view) {
  Html items;
  for (const Category category : categories_of({view})) {
    items += element("li", "",
                     swatch(category) + text(std::string(name_of(category)) + " ") +
                         element("b", "", format_bytes(view.peak.bytes[category])));
  }
  return element("ul", "legend", items);
}

std::string or_dash(const std::string& name) { return name.empty() ? "\u2013" : name; }

Html alive(const MemoryView& view) {
  using Kind = HtmlTable::Kind;
  HtmlTable table({{"category", Kind::words},
                   {"bytes"},
                   {"share"},
                   {"blocks"},
                   {"made by", Kind::words},
                   {"in module", Kind::words}});
  const auto total = static_cast<double>(std::max<int64_t>(view.peak.bytes.total(), 1));
  const std::size_t shown = std::min(view.groups.size(), kShownGroups);
  for (std::size_t i = 0; i < shown; ++i) {
    const PeakGroup& group = view.groups[i];
    const double share = static_cast<double>(group.bytes) / total;
    table.add_row(
        {swatch(group.category) + text(name_of(group.category)), text(format_bytes(group.bytes)),
         text(short_number(share * 100) + " %") + bar(share), text(format_count(group.blocks)),
         text(or_dash(group.op)), text(or_dash(group.module))});
  }
  int64_t bytes = 0;
  int64_t blocks = 0;
  for (std::size_t i = shown; i < view.groups.size(); ++i) {
    bytes += view.groups[i].bytes;
    blocks += view.groups[i].blocks;
  }
  if (blocks > 0) {
    table.add_row(
        {text(format_count(static_cast<int64_t>(view.groups.size() - shown)) + " smaller kinds"),
         text(format_bytes(bytes)),
         text(short_number(static_cast<double>(bytes) / total * 100) + " %"),
         text(format_count(blocks)), text(""), text("")});
  }
  return table.html();
}

Html figure(const NamedTimeline& named, const MemoryView& view, const MemoryLimits& limits,
            bool open) {
  const int64_t peak = view.peak.bytes.total();
  const std::string caption =
      "Peak " + format_bytes(peak) + " after " + format_milliseconds(view.peak.ms) + ", " +
      format_bytes(peak - view.base) + " above what was there before the forward pass.";
  const Html table =
      element("summary", "", "What is alive at the peak, largest first") + alive(view);
  const Html details{(open ? "<details open>" : "<details>") + table.markup + "</details>\n"};
  return element("figure", "",
                 element("h3", "", named.name) + element("figcaption", "", caption) +
                     Html{draw_memory(named.name, view, limits).inline_text()} + legend(view) +
                     details);
}

}  // namespace

Html section_of(const std::vector<NamedTimeline>& timelines) {
  std::vector<MemoryView> views;
  for (const NamedTimeline& each : timelines) views.push_back(view_of(each.timeline));
  const MemoryLimits limits = limits_of(views);
  Html figures;
  for (std::size_t i = 0; i < views.size(); ++i) {
    figures += figure(timelines[i], views[i], limits, /*open=*/i == 0);
  }
  const std::string several =
      views.size() > 1 ? " All pictures have the same axes, so that they compare as they look."
                       : "";
  return section(
      "Memory over time",
      element("p", "soft",
              "Live bytes in one step, by what they are for; the figures below a picture are those "
              "at its peak. The step was recorded by itself after the measured ones, and "
              "recording takes time: trust the times of the tables." +
                  several + " In names of modules, * stands for every number.") +
          figures);
}

}  // namespace reprise::detail
