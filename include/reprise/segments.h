// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include <reprise/export.h>

// How a row of layers is cut into segments. Plain arithmetic: nothing here runs a layer.

namespace reprise {

/// Consecutive layers, half-open: [begin, end).
struct Segment {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Segment&) const = default;
};

/// Cuts `blocks` layers into segments of `segment_size`; the last may be shorter. No blocks, no
/// segments. Throws UsageError when `blocks` is negative or `segment_size` is not positive.
REPRISE_API std::vector<Segment> make_segments(int64_t blocks, int64_t segment_size);

/// Cuts `layers` layers into `segments` segments whose sizes differ by at most one, the longer ones
/// first: 9 layers in 5 segments are 2, 2, 2, 2, 1.
/// Throws UsageError when `segments` is below 1 or above `layers`.
REPRISE_API std::vector<Segment> balanced_segments(int64_t layers, int64_t segments);

/// Cuts `layers` layers after the given numbers of layers: boundaries 10, 20, 30 of 40 layers give
/// [0,10), [10,20), [20,30), [30,40). Throws UsageError unless the boundaries rise strictly and lie
/// strictly between 0 and `layers`.
REPRISE_API std::vector<Segment> segments_at(int64_t layers,
                                             const std::vector<int64_t>& boundaries);

}  // namespace reprise
