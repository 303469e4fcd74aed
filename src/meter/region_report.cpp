// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <iomanip>
#include <map>
#include <mutex>
#include <sstream>

#include <reprise/region_report.h>

#include "meter/region_log.h"

namespace reprise {
namespace {

using ByName = std::map<std::string, RegionStats>;

std::mutex mutex;
std::map<int64_t, ByName>& reports() {
  static auto& all = *new std::map<int64_t, ByName>;
  return all;
}
std::atomic<int64_t> alive{0};

template <class Note>
void note_in_all(const std::string& name, Note&& note) {
  if (alive == 0) return;
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto& [id, regions] : reports()) {
    RegionStats& stats = regions[name];
    stats.name = name;
    note(stats);
  }
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
  std::vector<RegionStats> regions;
  for (const auto& [name, stats] : reports()[id_]) regions.push_back(stats);
  return regions;
}

std::string RegionReport::str() const { return region_table(regions()); }

std::string region_table(const std::vector<RegionStats>& regions) {
  std::ostringstream table, hints;
  const auto row = [&](const auto& name, const auto& runs, const auto& replays, const auto& time,
                       const auto& dropped) {
    table << std::left << std::setw(32) << name << std::right << std::setw(8) << runs
          << std::setw(9) << replays << std::setw(12) << time << std::setw(17) << dropped << '\n';
  };
  table << std::fixed << std::setprecision(2);
  row("region", "runs", "replays", "replay ms", "dropped bytes");
  for (const RegionStats& stats : regions) {
    const std::string name = stats.name.empty() ? "(without a name)" : stats.name;
    row(name, stats.runs, stats.replays, stats.milliseconds,
        stats.dropped_known ? std::to_string(stats.dropped_bytes) : "unknown");
    if (stats.saves_nothing) {
      hints << "hint: " << name
            << " brings everything back at once where memory stands highest: use several smaller "
               "regions, or leave the end of the model out of it\n";
    } else if (stats.runs > 0 && stats.dropped_known && stats.dropped_bytes == 0) {
      hints << "hint: " << name << " keeps as much as a plain run\n";
    }
    if (!stats.preserves_rng) {
      hints << "hint: " << name << " does not preserve its random draws: nothing in it may draw\n";
    }
  }
  return table.str() + hints.str();
}

}  // namespace reprise
