// SPDX-License-Identifier: BSD-3-Clause
#include "report/memory_view.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace reprise::detail {
namespace {

// Moment 0 is the beginning, moment i the one after event i - 1.
double ms_at(const Timeline& timeline, std::size_t moment) {
  return moment == 0 ? 0 : timeline.events[moment - 1].ms;
}

double end_of(const Timeline& timeline) {
  double end = timeline.events.empty() ? 0 : timeline.events.back().ms;
  for (const TimelineMark& mark : timeline.marks) end = std::max(end, mark.ms);
  return end;
}

// "layers.3.ffn" becomes "layers.*.ffn", and "block3.ffn1" becomes "block*.ffn1": a number that
// ends a part counts layers, but in the last part it may tell a layer's own parts from each other.
std::string without_numbers(const std::string& path) {
  std::string kind;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const std::size_t word = part.find_last_not_of("0123456789") + 1;  // 0: a number all through
    const bool numbered = word < part.size() && (word == 0 || end < path.size());
    kind += (begin == 0 ? "" : ".") + (numbered ? part.substr(0, word) + "*" : part);
    begin = end + 1;
  }
  return kind;
}

std::vector<PeakGroup> groups_of(const Timeline& timeline, int64_t event) {
  std::map<std::tuple<Category, std::string, std::string>, PeakGroup> found;
  for (const int64_t index : timeline.alive(event)) {
    const MemoryBlock& block = timeline.blocks[static_cast<std::size_t>(index)];
    const std::string module = without_numbers(block.module);
    PeakGroup& group = found[{block.category, block.op, module}];
    group.category = block.category;
    group.op = block.op;
    group.module = module;
    ++group.blocks;
    group.bytes += block.bytes;
  }
  std::vector<PeakGroup> groups;
  for (auto& [key, group] : found) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const PeakGroup& a, const PeakGroup& b) { return a.bytes > b.bytes; });
  return groups;
}

// What the data of a step needs belongs to its base.
int64_t base_of(const Timeline& timeline) {
  const auto forward =
      std::find_if(timeline.marks.begin(), timeline.marks.end(),
                   [](const TimelineMark& mark) { return mark.name == "forward"; });
  const int64_t event = forward == timeline.marks.end() ? -1 : forward->event - 1;
  return timeline.at(event).total();
}

}  // namespace

const std::vector<Category>& stack_order() {
  static const auto& order = *new std::vector<Category>{
      Category::parameters, Category::optimizer_state, Category::buffers,   Category::inputs,
      Category::gradients,  Category::saved,           Category::offloaded, Category::replayed,
      Category::other,      Category::temporaries};
  return order;
}

std::vector<MemorySample> thinned(const Timeline& timeline, double end_ms, int64_t columns) {
  const std::vector<CategoryBytes> all = timeline.all();
  const auto column = [&](std::size_t moment) {
    return end_ms > 0 ? static_cast<int64_t>(ms_at(timeline, moment) / end_ms *
                                             static_cast<double>(columns))
                      : 0;
  };
  std::vector<MemorySample> samples;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t low = begin;
    std::size_t high = begin;
    std::size_t end = begin;
    for (; end < all.size() && column(end) == column(begin); ++end) {
      if (all[end].total() < all[low].total()) low = end;
      if (all[end].total() > all[high].total()) high = end;
    }
    std::vector<std::size_t> kept = {std::min(low, high), std::max(low, high), end - 1};
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const std::size_t moment : kept) samples.push_back({ms_at(timeline, moment), all[moment]});
    begin = end;
  }
  return samples;
}

MemoryView view_of(const Timeline& timeline) {
  const int64_t event = timeline.peak_event();
  MemoryView view;
  view.end_ms = end_of(timeline);
  view.peak = {ms_at(timeline, static_cast<std::size_t>(event + 1)), timeline.at(event)};
  view.base = base_of(timeline);
  view.samples = thinned(timeline, view.end_ms);
  view.marks = timeline.marks;
  view.groups = groups_of(timeline, event);
  return view;
}

}  // namespace reprise::detail
