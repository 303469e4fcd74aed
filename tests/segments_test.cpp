// SPDX-License-Identifier: BSD-3-Clause
#include <limits>

#include "tests/support.h"

namespace reprise::testing {
namespace {

std::vector<int64_t> sizes(const std::vector<Segment>& segments) {
  std::vector<int64_t> result;
  for (const Segment& segment : segments) result.push_back(segment.size());
  return result;
}

using Sizes = std::vector<int64_t>;

TEST(Segments, MakeSegmentsCoversAllBlocksTheLastShorter) {
  EXPECT_EQ(make_segments(10, 4), (std::vector<Segment>{{0, 4}, {4, 8}, {8, 10}}));
  EXPECT_EQ(sizes(make_segments(24, 4)), (Sizes{4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(sizes(make_segments(3, 100)), (Sizes{3}));
  EXPECT_EQ(make_segments(5, std::numeric_limits<int64_t>::max()), (std::vector<Segment>{{0, 5}}));
  EXPECT_TRUE(make_segments(0, 3).empty());
}

TEST(Segments, MakeSegmentsRefusesNegativeBlocksAndNonPositiveSizes) {
  EXPECT_THROW(make_segments(-1, 3), UsageError);
  for (const int64_t size : {0, -2}) {
    const auto message = message_of<UsageError>([&] { make_segments(5, size); });
    EXPECT_NE(message.find(std::to_string(size)), std::string::npos) << message;
    EXPECT_NE(message.find("\nhint: "), std::string::npos) << message;
  }
}

TEST(Segments, BalancedSizesDifferByAtMostOneTheLongerFirst) {
  EXPECT_EQ(sizes(balanced_segments(9, 5)), (Sizes{2, 2, 2, 2, 1}));
  EXPECT_EQ(sizes(balanced_segments(10, 2)), (Sizes{5, 5}));
  EXPECT_EQ(sizes(balanced_segments(7, 1)), (Sizes{7}));
  EXPECT_EQ(sizes(balanced_segments(4, 4)), (Sizes{1, 1, 1, 1}));
}

TEST(Segments, EverySplitUpTo40LayersIsBalancedAndComplete) {
  for (int64_t layers = 1; layers <= 40; ++layers) {
    for (int64_t count = 1; count <= layers; ++count) {
      const auto segments = balanced_segments(layers, count);
      ASSERT_EQ(segments.size(), static_cast<std::size_t>(count));
      int64_t covered = 0;
      for (const Segment& segment : segments) {
        EXPECT_EQ(segment.begin, covered);
        EXPECT_LE(segments.back().size(), segment.size());
        EXPECT_LE(segment.size() - segments.back().size(), 1);
        covered = segment.end;
      }
      EXPECT_EQ(covered, layers);
    }
  }
}

TEST(Segments, BalancedRefusesCountsOutOfRangeNamingBothNumbers) {
  for (const int64_t count : {0, -1, 7}) {
    const auto message = message_of<UsageError>([&] { balanced_segments(6, count); });
    EXPECT_NE(message.find("6 layers into " + std::to_string(count)), std::string::npos) << message;
    EXPECT_NE(message.find("\nhint: "), std::string::npos) << message;
  }
  EXPECT_THROW(balanced_segments(0, 1), UsageError);
}

TEST(Segments, BoundariesCutAfterThatManyLayers) {
  EXPECT_EQ(segments_at(40, {10, 20, 30}),
            (std::vector<Segment>{{0, 10}, {10, 20}, {20, 30}, {30, 40}}));
  EXPECT_EQ(segments_at(3, {}), (std::vector<Segment>{{0, 3}}));
  EXPECT_THROW(segments_at(40, {10, 10}), UsageError);
  EXPECT_THROW(segments_at(40, {20, 10}), UsageError);
  EXPECT_THROW(segments_at(40, {0}), UsageError);
  EXPECT_THROW(segments_at(40, {40}), UsageError);
}

}  // namespace
}  // namespace reprise::testing
