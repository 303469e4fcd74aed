// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/markup.h"
#include "report/memory_view.h"
#include "report/svg_axis.h"
#include "report/svg_labels.h"
#include "report/thin.h"
#include "tests/report_example.h"

// The parts that pictures are made of: ticks, places of labels, thinning, numbers.

namespace reprise::detail {
namespace {

using ::testing::ElementsAre;
using testing::example_timeline;
using testing::TimelineBuilder;

std::vector<std::string> labels_of(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks) labels.push_back(tick.label);
  return labels;
}

TEST(Ticks, are_round_in_their_unit) {
  constexpr double kMiB = 1 << 20;
  EXPECT_THAT(labels_of(byte_ticks(0, 310 * kMiB, 3)),
              ElementsAre("0 MiB", "100 MiB", "200 MiB", "300 MiB"));
  EXPECT_THAT(labels_of(byte_ticks(0, 1.4 * 1024 * kMiB, 3)),
              ElementsAre("0 GiB", "0.5 GiB", "1 GiB"));
  EXPECT_THAT(labels_of(time_ticks(0, 90, 2)), ElementsAre("0 ms", "50 ms"));
  EXPECT_THAT(labels_of(time_ticks(0, 4100, 2)), ElementsAre("0 s", "2 s", "4 s"));
  EXPECT_THAT(labels_of(ratio_ticks(0.93, 1.21, 3)),
              ElementsAre("1\u00D7", "1.1\u00D7", "1.2\u00D7"));
  EXPECT_THAT(labels_of(number_ticks(0, 0.0042, 2)), ElementsAre("0", "0.002", "0.004"));
}

TEST(Ticks, end_where_there_is_nothing_to_divide) {
  EXPECT_EQ(number_ticks(3, 3, 5).size(), 1);
  EXPECT_LE(number_ticks(0, NAN, 5).size(), 1);
}

TEST(Numbers, are_short_and_never_in_another_way) {
  EXPECT_EQ(short_number(1.50, 2), "1.5");
  EXPECT_EQ(short_number(-0.001, 1), "0");
  EXPECT_EQ(short_number(INFINITY, 1), "0");
  EXPECT_EQ(fixed_number(1.5, 3), "1.500");
  EXPECT_EQ(significant(1e-12), "1e-12");
  EXPECT_EQ(format_milliseconds(12.34), "12.3 ms");
  EXPECT_EQ(format_milliseconds(1234), "1.23 s");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
}

TEST(Labels, cover_neither_points_nor_each_other) {
  std::vector<Label> labels;
  for (int i = 0; i < 8; ++i) labels.push_back({{300.0 + 6 * i, 200.0 + 5 * i}, "strategy"});
  const auto placed = place_labels(labels, {50, 20, 700, 380});
  ASSERT_EQ(placed.size(), labels.size());
  const auto left = [](const PlacedLabel& label) {
    const double width = 8 * 11;
    return label.at.x - (label.anchor == Anchor::end      ? width
                         : label.anchor == Anchor::middle ? width / 2
                                                          : 0);
  };
  for (std::size_t i = 0; i < placed.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = std::abs(placed[i].at.y - placed[j].at.y) >= 20 ||
                         std::abs(left(placed[i]) - left(placed[j])) >= 80;
      EXPECT_TRUE(apart) << i << " and " << j;
    }
  }
}

TEST(Thinning, keeps_the_ends_and_every_extreme) {
  struct Value {
    double y;
  };
  std::vector<Value> values(10000, {1});
  values[4321].y = 9;
  values[8765].y = -9;
  const auto kept = thin_extremes(values, 100);
  EXPECT_LE(kept.size(), 202);
  EXPECT_EQ(kept.front(), 0);
  EXPECT_EQ(kept.back(), 9999);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  for (const std::size_t extreme : {4321, 8765}) {
    EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), extreme)) << extreme;
  }
  values.resize(100);
  EXPECT_EQ(thin_extremes(values, 100).size(), 100) << "few are kept whole";
}

TEST(MemoryView, keeps_the_peak_exactly_however_short_it_was) {
  TimelineBuilder builder;
  builder.existing(1000, Category::parameters);
  for (int i = 0; i < 20000; ++i) {
    builder.free(builder.make(1 + i % 7, Category::temporaries, "aten::mul"));
    if (i == 12345) builder.free(builder.make(1 << 20, Category::saved, "aten::mm"));
  }
  const Timeline timeline = builder.finish();
  const MemoryView view = view_of(timeline);
  EXPECT_LE(view.samples.size(), 3 * 201);
  EXPECT_EQ(view.peak.bytes, timeline.peak());
  EXPECT_EQ(std::count_if(view.samples.begin(), view.samples.end(),
                          [&](const MemorySample& sample) {
                            return sample.bytes == view.peak.bytes && sample.ms == view.peak.ms;
                          }),
            1);
  EXPECT_EQ(view.samples.front().bytes.total(), 1000) << "the beginning";
  EXPECT_EQ(view.samples.back().bytes.total(), 1000) << "the end";
  EXPECT_TRUE(std::is_sorted(view.samples.begin(), view.samples.end(),
                             [](const auto& a, const auto& b) { return a.ms < b.ms; }));
}

TEST(MemoryView, shows_what_a_long_quiet_stretch_held) {
  TimelineBuilder builder;
  const int64_t block = builder.make(64, Category::saved, "aten::mm");
  const int64_t small = builder.make(8, Category::saved, "aten::mm");
  builder.free(block);
  Timeline timeline = builder.finish();
  timeline.events[0].ms = 1.00;
  timeline.events[1].ms = 1.01;
  timeline.events[2].ms = 1.02;
  timeline.marks.back().ms = 100;
  const auto samples = thinned(timeline, 100);
  EXPECT_EQ(samples.back().bytes.total(), timeline.blocks[static_cast<std::size_t>(small)].bytes)
      << "the last moment of a column counts until the next one that has any";
}

TEST(MemoryView, groups_what_is_alive_at_the_peak) {
  const MemoryView view = view_of(example_timeline(8));
  ASSERT_GE(view.groups.size(), 3);
  EXPECT_EQ(view.groups[0].category, Category::saved);
  EXPECT_EQ(view.groups[0].blocks, 8);
  EXPECT_EQ(view.groups[0].bytes, 8 << 20);
  EXPECT_EQ(view.groups[0].module, "layers.*.linear");
  int64_t sum = 0;
  for (const PeakGroup& group : view.groups) sum += group.bytes;
  EXPECT_EQ(sum, view.peak.bytes.total());
}

TEST(MemoryView, counts_layers_as_one_kind_but_not_the_parts_of_a_layer) {
  TimelineBuilder builder;
  for (const char* module : {"layer1.0.conv1", "layer1.1.conv1", "layer2.0.conv2", "7"}) {
    builder.existing(1 << 10, Category::parameters, module);
  }
  const MemoryView view = view_of(builder.finish());
  std::vector<std::string> modules;
  for (const PeakGroup& group : view.groups) modules.push_back(group.module);
  EXPECT_THAT(modules, ::testing::UnorderedElementsAre("layer*.*.conv1", "layer*.*.conv2", "*"));
}

TEST(StackOrder, has_every_category_once) {
  EXPECT_THAT(stack_order(), ::testing::UnorderedElementsAreArray(all_categories()));
}

}  // namespace
}  // namespace reprise::detail
