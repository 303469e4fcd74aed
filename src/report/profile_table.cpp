// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include <reprise/profile_report.h>
#include <reprise/report.h>

#include "report/columns.h"
#include "report/markup.h"

// A profile as aligned text: the run, the tree of modules or the largest of them, saved tensors.

namespace reprise {
namespace {

using detail::columns;
using detail::fixed_number;
using detail::format_count;
using detail::percent;
using detail::Row;
using detail::scaled;

std::string bytes_or_dash(int64_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

const char* word_of(LayerClass which) {
  switch (which) {
    case LayerClass::compute_heavy:
      return "compute-heavy";
    case LayerClass::activation_heavy:
      return "activation-heavy";
    case LayerClass::light:
      return "light";
  }
  return "";
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::string heading(const Profile& profile) {
  const bool meta = profile.meta;
  std::string text = (profile.workload.empty() ? "a model" : profile.workload) + " on " +
                     profile.device + ", LibTorch " + profile.libtorch;
  if (meta) {
    text += ", from shapes alone: no times";
  } else {
    text += ", " + std::to_string(profile.threads) +
            (profile.threads == 1 ? " thread" : " threads") + ", medians of " +
            std::to_string(profile.steps) + (profile.steps == 1 ? " step" : " steps");
  }
  text += "\nbase " + format_bytes(profile.base_bytes) + ", autograd saves " +
          format_bytes(profile.saved_bytes);
  if (!meta) {
    text += ", held after forward " + format_bytes(profile.held_bytes) + ", peak " +
            format_bytes(profile.peak_bytes) + " above base; step " +
            fixed_number(profile.step_ms, 2) + " ms";
  }
  return text + "\n\n";
}

/// Columns of times are left out where there are none.
class ModuleTable {
 public:
  explicit ModuleTable(bool times) : times_(times) {
    add({"module", "parameters", "forward ms", "backward ms", "time", "output", "saved", "of saved",
         "FLOPs", "class"});
  }

  void add(const std::string& name, const ModuleProfile& module, const ModuleFigures& figures,
           double time_share, double saved_share) {
    add({name, figures.parameters == 0 ? "-" : format_count(figures.parameters),
         fixed_number(figures.forward_ms, 2), fixed_number(figures.backward_ms, 2),
         percent(time_share), bytes_or_dash(figures.output_bytes),
         bytes_or_dash(figures.saved_bytes), percent(saved_share), scaled(figures.flops()),
         module.layer_class ? word_of(*module.layer_class) : ""});
  }

  std::string str(const TextStyle& style) const {
    return times_ ? columns(rows_, "lrrrrrrrrl", "0645170238", style)
                  : columns(rows_, "lrrrrr", "034012", style);
  }

 private:
  void add(Row row) {
    if (!times_) {
      row.pop_back();
      row.erase(row.begin() + 2, row.begin() + 5);
    }
    rows_.push_back(std::move(row));
  }

  const bool times_;
  std::vector<Row> rows_;
};

std::string tree(const Profile& profile, const ProfileTableOptions& options) {
  ModuleTable table(!profile.meta);
  for (const ModuleProfile& module : profile.modules) {
    if (options.depth && module.depth > *options.depth) continue;
    const std::string name =
        module.depth == 0
            ? "(all)"
            : std::string(static_cast<std::size_t>(module.depth) * 2, ' ') + last_part(module.path);
    table.add(name, module, module.total, module.time_share, module.saved_share);
  }
  return table.str(options.style);
}

/// The modules by what they cost themselves, the modules in them left out.
std::string largest(const Profile& profile, const ProfileTableOptions& options) {
  std::vector<const ModuleProfile*> modules;
  for (const ModuleProfile& module : profile.modules) {
    if (options.depth && module.depth > *options.depth) continue;
    if (module.own.operators > 0) modules.push_back(&module);
  }
  const auto cost = [&](const ModuleProfile* module) {
    return profile.meta ? static_cast<double>(module->own.saved_bytes) : module->own.milliseconds();
  };
  std::stable_sort(modules.begin(), modules.end(),
                   [&](const auto* a, const auto* b) { return cost(a) > cost(b); });
  if (static_cast<int64_t>(modules.size()) > *options.top) {
    modules.resize(static_cast<std::size_t>(*options.top));
  }
  const ModuleFigures whole =
      profile.modules.empty() ? ModuleFigures() : profile.modules.front().total;
  const auto share = [](double part, double all) { return all > 0 ? part / all : 0; };
  ModuleTable table(!profile.meta);
  for (const ModuleProfile* module : modules) {
    table.add(module->path.empty() ? "(outside)" : module->path, *module, module->own,
              share(module->own.milliseconds(), whole.milliseconds()),
              share(static_cast<double>(module->own.saved_bytes),
                    static_cast<double>(whole.saved_bytes)));
  }
  return table.str(options.style);
}

std::string tensor_of(const SavedTensorProfile& line) {
  std::string text = line.dtype + "[";
  for (std::size_t i = 0; i < line.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(line.shape[i]);
  }
  return text + "]";
}

std::string held(const SavedTensorProfile& line) {
  if (line.external) return "there before";
  return line.held_bytes == 0 ? "counted above" : format_bytes(line.held_bytes);
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string saved_tensors(const Profile& profile, const ProfileTableOptions& options) {
  std::vector<const SavedTensorProfile*> lines;
  for (const SavedTensorProfile& line : profile.saved) lines.push_back(&line);
  if (options.top) {
    std::stable_sort(lines.begin(), lines.end(),
                     [](const auto* a, const auto* b) { return a->held_bytes > b->held_bytes; });
    if (static_cast<int64_t>(lines.size()) > *options.top) {
      lines.resize(static_cast<std::size_t>(*options.top));
    }
  }
  std::vector<Row> rows = {{"saved tensor", "bytes", "held", "made by", "in", "saved by", "in"}};
  for (const SavedTensorProfile* line : lines) {
    rows.push_back({tensor_of(*line), format_bytes(line->bytes), held(*line), or_dash(line->op),
                    or_dash(line->module), or_dash(line->saved_by), or_dash(line->saved_in)});
  }
  return columns(rows, "lrrllll", "0123465", options.style);
}

}  // namespace

std::string to_table(const Profile& profile, const ProfileTableOptions& options) {
  std::string text = heading(profile);
  text += options.top ? largest(profile, options) : tree(profile, options);
  if (options.saved) text += "\n" + saved_tensors(profile, options);
  for (const std::string& note : profile.notes) text += "\nnote: " + note + "\n";
  return text;
}

std::string peak_table(const Timeline& timeline, int64_t top, const TextStyle& style) {
  const int64_t event = timeline.peak_event();
  const CategoryBytes peak = timeline.at(event);
  std::string text = "peak " + format_bytes(peak.total());
  if (event >= 0) {
    text += " at " + fixed_number(timeline.events[static_cast<std::size_t>(event)].ms, 2) + " ms";
  }
  int64_t resident = 0;
  for (const TimelineMark& mark : timeline.marks) {
    resident = std::max(resident, mark.resident_bytes.value_or(0));
  }
  if (resident > 0) text += "; resident memory of the process " + format_bytes(resident);
  text += "\n\n";

  std::vector<Row> rows = {{"alive at the peak", "bytes", "share"}};
  for (const Category category : all_categories()) {
    if (peak[category] == 0) continue;
    rows.push_back({name_of(category), format_bytes(peak[category]),
                    detail::percent(static_cast<double>(peak[category]) /
                                    static_cast<double>(std::max<int64_t>(1, peak.total())))});
  }
  text += columns(rows, "lrr", "000", style);
  const std::vector<int64_t> alive = timeline.alive(event);
  if (alive.empty() || top <= 0) return text;
  rows = {{"largest blocks", "bytes", "made by", "in"}};
  for (std::size_t i = 0; i < alive.size() && static_cast<int64_t>(i) < top; ++i) {
    const MemoryBlock& block = timeline.blocks[static_cast<std::size_t>(alive[i])];
    rows.push_back({name_of(block.category), format_bytes(block.bytes), or_dash(block.op),
                    or_dash(block.module)});
  }
  return text + "\n" + columns(rows, "lrll", "0012", style);
}

}  // namespace reprise
