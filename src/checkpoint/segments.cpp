// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>

#include <reprise/error.h>
#include <reprise/segments.h>
#include <reprise/sequential.h>

namespace reprise {
namespace {

std::string range(const Segment& segment) {
  return "[" + std::to_string(segment.begin) + ", " + std::to_string(segment.end) + ")";
}

}  // namespace

std::vector<Segment> make_segments(int64_t blocks, int64_t segment_size) {
  if (blocks < 0) {
    throw UsageError("the number of blocks is " + std::to_string(blocks),
                     "give a number of blocks that is not negative");
  }
  if (segment_size < 1) {
    throw UsageError("the segment size is " + std::to_string(segment_size),
                     "give a segment size of at least 1");
  }
  std::vector<Segment> segments;
  for (int64_t begin = 0; begin < blocks;) {
    const int64_t end = begin + std::min(segment_size, blocks - begin);
    segments.push_back({begin, end});
    begin = end;
  }
  return segments;
}

std::vector<Segment> balanced_segments(int64_t layers, int64_t segments) {
  if (segments < 1 || segments > layers) {
    throw UsageError("cannot cut " + std::to_string(layers) + " layers into " +
                         std::to_string(segments) + " segments",
                     layers < 1 ? "give at least one layer"
                                : "give a number of segments from 1 to " + std::to_string(layers));
  }
  std::vector<Segment> cut;
  const int64_t longer = layers % segments;  // this many segments have one layer more
  for (int64_t i = 0, begin = 0; i < segments; ++i) {
    const int64_t end = begin + layers / segments + (i < longer ? 1 : 0);
    cut.push_back({begin, end});
    begin = end;
  }
  return cut;
}

std::vector<Segment> segments_at(int64_t layers, const std::vector<int64_t>& boundaries) {
  std::vector<Segment> cut;
  int64_t begin = 0;
  for (const int64_t boundary : boundaries) {
    if (boundary <= begin || boundary >= layers) {
      throw UsageError("a boundary after layer " + std::to_string(boundary) + " of " +
                           std::to_string(layers) + ", behind one after " + std::to_string(begin),
                       "boundaries rise and lie between 1 and " + std::to_string(layers - 1));
    }
    cut.push_back({begin, boundary});
    begin = boundary;
  }
  if (layers > begin) cut.push_back({begin, layers});
  return cut;
}

void detail::check_segments(const std::vector<Segment>& segments, int64_t layers) {
  int64_t covered = 0;
  for (const Segment& segment : segments) {
    if (segment.begin != covered || segment.end <= segment.begin) {
      throw UsageError(
          "segment " + range(segment) + " does not follow on layer " + std::to_string(covered),
          "give segments that cover the layers one after the other");
    }
    covered = segment.end;
  }
  if (covered != layers || layers == 0) {
    throw UsageError(
        "the segments cover " + std::to_string(covered) + " layers of " + std::to_string(layers),
        layers == 0 ? "give at least one layer" : "let them cover every layer");
  }
}

}  // namespace reprise
