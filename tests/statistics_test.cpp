// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/statistics.h"

#include <gtest/gtest.h>

// What repeated timings say: quartiles, steps that do not belong, and the interval of a ratio.

namespace reprise::workloads {
namespace {

TEST(Spread, quartiles_lie_between_neighbours) {
  const Spread spread = spread_of({4, 1, 3, 2});
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.q1, 1.75);
  EXPECT_EQ(spread.median, 2.5);
  EXPECT_EQ(spread.q3, 3.25);
  EXPECT_EQ(spread.max, 4);
  EXPECT_EQ(spread_of({3, 1, 2}).median, 2);
  const Spread one = spread_of({7});
  EXPECT_EQ(one.q1, 7);
  EXPECT_EQ(one.q3, 7);
}

TEST(Spread, counts_slow_steps_that_are_far_out_and_no_others) {
  const std::vector<double> usual = {10, 11, 12, 10, 11, 12, 10, 11};
  const auto outliers_with = [&](std::initializer_list<double> more) {
    std::vector<double> values = usual;
    values.insert(values.end(), more);
    return spread_of(values).outliers;
  };
  EXPECT_EQ(outliers_with({}), 0);
  EXPECT_EQ(outliers_with({13}), 0) << "within the fence";
  EXPECT_EQ(outliers_with({30}), 1);
  EXPECT_EQ(outliers_with({30, 40}), 2);
  EXPECT_EQ(outliers_with({1}), 0) << "fast";
  EXPECT_EQ(spread_of({1, 1, 1, 1, 1, 1.05}).outliers, 0) << "steady: 5 % is the clock's grain";
  EXPECT_EQ(spread_of({1, 1, 1, 1, 1, 1.2}).outliers, 1);
  EXPECT_EQ(spread_of({1, 9}).outliers, 0) << "too few to say which is odd";
}

TEST(RatioInterval, holds_the_ratio_and_is_the_same_each_time) {
  const std::vector<double> values = {20, 22, 21, 25, 19, 20, 23, 21};
  const std::vector<double> reference = {10, 11, 10, 12, 10, 11, 11, 10};
  const auto interval = ratio_interval(values, reference);
  ASSERT_TRUE(interval.has_value());
  const double ratio = spread_of(values).median / spread_of(reference).median;
  EXPECT_LE(interval->low, ratio);
  EXPECT_GE(interval->high, ratio);
  EXPECT_LT(interval->low, interval->high);
  EXPECT_GT(interval->low, 1.5);
  EXPECT_LT(interval->high, 2.5);
  const auto again = ratio_interval(values, reference);
  EXPECT_EQ(interval->low, again->low);
  EXPECT_EQ(interval->high, again->high);
}

TEST(RatioInterval, pairs_rounds_so_that_what_slows_both_is_no_doubt) {
  std::vector<double> reference, values;
  for (const double disturbed : {1, 5, 2, 9, 1, 3, 7, 2}) {
    reference.push_back(disturbed);
    values.push_back(1.5 * disturbed);
  }
  const auto interval = ratio_interval(values, reference);
  EXPECT_DOUBLE_EQ(interval->low, 1.5);
  EXPECT_DOUBLE_EQ(interval->high, 1.5);
}

TEST(RatioInterval, is_wider_where_the_steps_are_fewer) {
  const std::vector<double> pattern = {10, 14, 11, 13, 12, 10, 15, 11};
  const auto width_of = [&](int copies) {
    std::vector<double> values, reference;
    for (int copy = 0; copy < copies; ++copy) {
      for (std::size_t i = 0; i < pattern.size(); ++i) {
        values.push_back(pattern[i]);
        reference.push_back(pattern[(i * 3 + 1) % pattern.size()]);
      }
    }
    const auto interval = ratio_interval(values, reference);
    return interval->high - interval->low;
  };
  EXPECT_LT(width_of(8), width_of(1));
}

TEST(RatioInterval, needs_six_rounds) {
  EXPECT_FALSE(ratio_interval({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}).has_value());
  EXPECT_TRUE(ratio_interval({1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}).has_value());
}

}  // namespace
}  // namespace reprise::workloads
