// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>

#include <reprise/region_report.h>

#include "base/text_table.h"
#include "meter/region_log.h"

namespace reprise {
namespace {

/// In the order in which they were first heard of.
struct Regions {
  RegionStats& of(const std::string& name) {
    const auto [entry, fresh] = place.try_emplace(name, stats.size());
    if (fresh) stats.emplace_back().name = name;
    return stats[entry->second];
  }
  std::vector<RegionStats> stats;
  std::map<std::string, std::size_t> place;
};

std::mutex mutex;
std::map<int64_t, Regions>& reports() {
  static auto& all = *new std::map<int64_t, Regions>;
  return all;
}
std::atomic<int64_t> alive{0};

/// A hint for those regions to which it applies.
struct Hint {
  void add(const std::string& region, bool applies) {
    if (applies) regions += (regions.empty() ? "" : "; ") + region;
  }
  std::string str() const {
    return regions.empty() ? std::string() : "hint: " + regions + ": these " + text + "\n";
  }
  std::string text;
  std::string regions = {};
};

std::string milliseconds(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

template <class Note>
void note_in_all(const std::string& name, Note&& note) {
  if (alive == 0) return;
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto& [id, regions] : reports()) note(regions.of(name));
}

}  // namespace

namespace detail {

void log_region(const std::string& name, std::optional<int64_t> dropped_bytes, bool preserves_rng) {
  note_in_all(name, [&](RegionStats& stats) {
    ++stats.runs;
    stats.dropped_bytes += dropped_bytes.value_or(0);
    stats.dropped_known = stats.dropped_known && dropped_bytes.has_value();
    stats.preserves_rng = stats.preserves_rng && preserves_rng;
  });
}

void log_replay(const std::string& name, double milliseconds) {
  note_in_all(name, [&](RegionStats& stats) {
    ++stats.replays;
    stats.milliseconds += milliseconds;
  });
}

void log_useless_region(const std::string& name) {
  note_in_all(name, [](RegionStats& stats) { stats.saves_nothing = true; });
}

}  // namespace detail

RegionReport::RegionReport() {
  static int64_t next = 0;
  const std::lock_guard<std::mutex> lock(mutex);
  id_ = next++;
  reports()[id_];
  ++alive;
}

RegionReport::~RegionReport() {
  const std::lock_guard<std::mutex> lock(mutex);
  reports().erase(id_);
  --alive;
}

std::vector<RegionStats> RegionReport::regions() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return reports()[id_].stats;
}

std::string RegionReport::str() const { return region_table(regions()); }

std::string region_table(const std::vector<RegionStats>& regions, const TextStyle& style) {
  using detail::Align;
  detail::TextTable table({{"region", Align::left},
                           {"runs", Align::right, 2},
                           {"replays", Align::right, 1},
                           {"replay ms"},
                           {"dropped bytes"}});
  Hint useless{
      "bring everything back at once where memory stands highest: use several smaller "
      "regions, or leave the end of the model out of it"};
  Hint as_plain{"keep as much as a plain run"};
  Hint uncounted{"are reentrant: what they drop is never saved, and so not counted"};
  Hint draws{"do not preserve their random draws: nothing in them may draw"};
  for (const RegionStats& stats : regions) {
    const std::string name = stats.name.empty() ? "(without a name)" : stats.name;
    table.add_row({name, std::to_string(stats.runs), std::to_string(stats.replays),
                   milliseconds(stats.milliseconds),
                   stats.dropped_known ? std::to_string(stats.dropped_bytes) : "unknown"});
    useless.add(name, stats.saves_nothing);
    as_plain.add(name, !stats.saves_nothing && stats.runs > 0 && stats.dropped_known &&
                           stats.dropped_bytes == 0);
    uncounted.add(name, !stats.dropped_known);
    draws.add(name, !stats.preserves_rng);
  }
  return table.str(style) + useless.str() + as_plain.str() + uncounted.str() + draws.str();
}

}  // namespace reprise
