// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reprise/ledger.h>

// A timeline as its picture needs it: thinned, summed up, its peak described.

namespace reprise::detail {

struct MemorySample {
  double ms = 0;
  CategoryBytes bytes;  ///< from then to the next sample
};

/// Blocks alive at the peak that are of one kind.
struct PeakGroup {
  Category category = Category::other;
  std::string op;
  std::string module;  ///< numbers in it are "*": the same part of every layer is one kind
  int64_t blocks = 0;
  int64_t bytes = 0;
};

struct MemoryView {
  double end_ms = 0;
  MemorySample peak;
  int64_t base = 0;  ///< live bytes before the first mark "forward"; without one, at the beginning
  std::vector<MemorySample> samples;
  std::vector<TimelineMark> marks;
  std::vector<PeakGroup> groups;  ///< largest first
};

MemoryView view_of(const Timeline& timeline);

/// Samples of which a picture of so many columns shows all it can: of the moments in one column the
/// lowest, the highest and the last. The highest of all is among them.
std::vector<MemorySample> thinned(const Timeline& timeline, double end_ms, int64_t columns = 200);

/// From the bottom of a picture to its top: what lives long first.
const std::vector<Category>& stack_order();

}  // namespace reprise::detail
