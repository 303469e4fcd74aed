// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reprise/export.h>
#include <reprise/text_style.h>

namespace reprise {

/// What the regions of one name did, and the scopes that have one.
struct RegionStats {
  std::string name;            ///< empty: regions without a name, together
  int64_t runs = 0;            ///< forward runs that were recorded
  int64_t replays = 0;         ///< runs of the function again, or of some operators of it
  double milliseconds = 0;     ///< wall time of the replays
  int64_t dropped_bytes = 0;   ///< not kept at the end of the forward runs, all runs together
  bool dropped_known = true;   ///< false for reentrant regions, which save nothing to be counted
  bool preserves_rng = true;   ///< whether all of them did
  bool saves_nothing = false;  ///< a replay brought everything back where memory stood highest
};

/// Collects, while it lives, what the regions and named scopes of the process do, on all threads.
/// Several may live at once. Costs a map lookup for each region and each replay.
class REPRISE_API RegionReport {
 public:
  RegionReport();
  ~RegionReport();
  RegionReport(const RegionReport&) = delete;
  RegionReport& operator=(const RegionReport&) = delete;

  /// In the order in which they were first heard of.
  std::vector<RegionStats> regions() const;

  /// region_table() of them.
  std::string str() const;

 private:
  int64_t id_;
};

/// A table, and hints for regions that save nothing or do not preserve their draws.
REPRISE_API std::string region_table(const std::vector<RegionStats>& regions,
                                     const TextStyle& style = {});

}  // namespace reprise
