// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/budget_scan.h"

#include <string>
#include <vector>

#include <reprise/budget_infeasible.h>
#include <reprise/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// Budgets as people type them: alone, in strategies, in scans.

namespace reprise::workloads {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> scanned(const std::string& text) {
  std::vector<std::string> texts;
  for (const Strategy& each : budget_scan("scan: ", text)) texts.push_back(each.text);
  return texts;
}

TEST(BudgetScan, has_both_ends_and_equal_distances) {
  EXPECT_THAT(scanned("20%..100%/5"),
              ElementsAre("budget=20%", "budget=40%", "budget=60%", "budget=80%", "budget=100%"));
  EXPECT_THAT(scanned("50%..20%/3"), ElementsAre("budget=50%", "budget=35%", "budget=20%"));
  EXPECT_THAT(scanned("10%..20%/4"),
              ElementsAre("budget=10%", "budget=13.3333%", "budget=16.6667%", "budget=20%"));
  EXPECT_THAT(scanned("30%..30%/1"), ElementsAre("budget=30%"));
}

TEST(BudgetScan, refuses_everything_else) {
  for (const char* text : {"", "50%", "20%..100%", "20%-100%/9", "20%..100%/", "20%..100%/1.5",
                           "20%..100%/-3", "20%..100%/101", "20%..100%/1", "20%..20%/2", "..100%/9",
                           "20%../9", "20%..1GiB/9", "20%..100%/9/9"}) {
    EXPECT_THROW(scanned(text), UsageError) << text;
  }
}

TEST(BudgetStrategies, say_their_size_and_whether_they_plan) {
  const Strategy planned = parse_strategy("budget=1.5MiB"), online = parse_strategy("online=25%");
  EXPECT_EQ(budget_of(planned)->bytes, 3 << 19);
  EXPECT_EQ(budget_of(online)->share, 0.25);
  EXPECT_FALSE(stays_online(planned));
  EXPECT_TRUE(stays_online(online));
  EXPECT_FALSE(stays_online(parse_strategy("plain")));
  for (const char* text : {"online", "online:50%", "online=", "online=banana", "budget:50%",
                           "budget=0", "online=101%", "online=50%+operators"}) {
    EXPECT_THROW(parse_strategy(text), UsageError) << text;
  }
}

TEST(BudgetSize, is_counted_above_base) {
  EXPECT_EQ(bytes_above_base("", {.bytes = 100}, 30, 500), 70);
  EXPECT_EQ(bytes_above_base("", {.share = 0.25}, 30, 500), 125);
  EXPECT_EQ(bytes_above_base("", {.above_base = 40}, 30, 500), 40);
  EXPECT_EQ(bytes_above_base("", {.share = 0.001}, 30, 500), 1) << "never nothing";
  EXPECT_THROW(bytes_above_base("", {.bytes = 30}, 30, 500), BudgetInfeasible);
}

}  // namespace
}  // namespace reprise::workloads
