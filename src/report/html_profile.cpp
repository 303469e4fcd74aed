// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "report/html_parts.h"
#include "report/markup.h"

// The part of a page that shows a profile: the tree of modules.

namespace reprise::detail {
namespace {

// A huge model's page must open all the same: its deepest modules are left out.
constexpr std::size_t kMostRows = 400;

int64_t shown_depth(const Profile& profile) {
  int64_t depth = 0;
  for (const ModuleProfile& module : profile.modules) depth = std::max(depth, module.depth);
  const auto rows = [&](int64_t most) {
    return std::count_if(profile.modules.begin(), profile.modules.end(),
                         [most](const ModuleProfile& module) { return module.depth <= most; });
  };
  while (depth > 1 && rows(depth) > static_cast<std::ptrdiff_t>(kMostRows)) --depth;
  return depth;
}

std::string flops(int64_t count) {
  if (count == 0) return "\u2013";
  const auto value = static_cast<double>(count);
  if (value >= 1e12) return short_number(value / 1e12, 2) + " T";
  if (value >= 1e9) return short_number(value / 1e9, 2) + " G";
  if (value >= 1e6) return short_number(value / 1e6, 2) + " M";
  return format_count(count);
}

std::string bytes(int64_t count) { return count == 0 ? "\u2013" : format_bytes(count); }

std::string class_name(const std::optional<LayerClass>& layer_class) {
  if (!layer_class) return "";
  switch (*layer_class) {
    case LayerClass::compute_heavy:
      return "compute";
    case LayerClass::activation_heavy:
      return "activations";
    case LayerClass::light:
      break;
  }
  return "light";
}

Html name(const ModuleProfile& module, const std::string& root) {
  if (module.path.empty()) return text(root);
  const std::string indent = short_number(static_cast<double>(module.depth) * 0.9, 1);
  return {"<span class=\"tree\" style=\"padding-left:" + indent + "em\">" +
          escape(module.path.substr(module.path.rfind('.') + 1)) + "</span>"};
}

}  // namespace

Html cards_of(const Profile& profile) {
  const ModuleFigures total =
      profile.modules.empty() ? ModuleFigures{} : profile.modules.front().total;
  Html cards;
  if (!profile.meta) {
    cards += card("step", format_milliseconds(profile.step_ms),
                  "median of " + format_count(profile.steps));
    cards += card("peak", format_bytes(profile.peak_bytes),
                  "above a base of " + format_bytes(profile.base_bytes));
  }
  cards += card("saved for backward", format_bytes(profile.saved_bytes),
                format_count(static_cast<int64_t>(profile.saved.size())) + " tensors");
  cards += card("FLOPs", flops(total.flops()), "forward and backward");
  cards += card("parameters", format_count(total.parameters), "");
  return cards;
}

Html section_of(const Profile& profile) {
  using Kind = HtmlTable::Kind;
  std::vector<HtmlTable::Column> columns = {{"module", Kind::words}};
  if (!profile.meta) columns.insert(columns.end(), {{"forward"}, {"backward"}, {"time"}});
  columns.insert(
      columns.end(),
      {{"saved"}, {"of all"}, {"output"}, {"FLOPs"}, {"parameters"}, {"class", Kind::words}});
  HtmlTable table(columns);
  const int64_t depth = shown_depth(profile);
  std::size_t left_out = 0;
  for (const ModuleProfile& module : profile.modules) {
    if (module.depth > depth) {
      ++left_out;
      continue;
    }
    const ModuleFigures& figures = module.total;
    std::vector<Html> cells = {name(module, profile.workload.empty() ? "model" : profile.workload)};
    const auto share = [](double part) {
      return text(short_number(part * 100) + " %") + bar(part);
    };
    if (!profile.meta) {
      cells.push_back(text(format_milliseconds(figures.forward_ms)));
      cells.push_back(text(format_milliseconds(figures.backward_ms)));
      cells.push_back(share(module.time_share));
    }
    cells.push_back(text(bytes(figures.saved_bytes)));
    cells.push_back(share(module.saved_share));
    cells.push_back(text(bytes(figures.output_bytes)));
    cells.push_back(text(flops(figures.flops())));
    cells.push_back(text(format_count(figures.parameters)));
    cells.push_back(text(class_name(module.layer_class)));
    table.add_row(cells, module.depth == 0 ? "root" : "");
  }
  std::string about =
      "Each line counts a module with all that is inside it. Saved bytes are those that autograd "
      "keeps for the backward pass.";
  if (profile.meta) about += " From shapes alone: nothing was run, so there are no times.";
  if (left_out > 0) {
    about += " " + format_count(static_cast<int64_t>(left_out)) + " modules deeper than " +
             format_count(depth) + " levels are left out.";
  }
  Html notes;
  for (const std::string& note : profile.notes) notes += element("p", "soft", note);
  return section("Modules", element("p", "soft", about) + table.html() + notes);
}

}  // namespace reprise::detail
