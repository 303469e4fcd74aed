// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/run_command.h"

// Budgets on the command line, of the built command.

namespace reprise {
namespace {

using ::testing::HasSubstr;
using tests::Outcome;

Outcome run(const std::string& arguments) { return tests::run_command(REPRISE_COMMAND, arguments); }

constexpr const char* kBlocks = "blocks --layers 6 --width 64 --context 32 --batch 64";

TEST(BudgetCommand, rejects_what_is_no_budget_in_one_clear_line) {
  struct Mistake {
    std::string budget, complaint;
  };
  for (const Mistake& mistake : std::vector<Mistake>{
           {"banana", "expected a budget, got 'banana'"},
           {"0", "must be more than nothing"},
           {"0MiB", "must be more than nothing"},
           {"-3MiB", "must be more than nothing"},
           {"0%", "must be more than nothing"},
           {"101%", "no more than 100%"},
           {"5", "needs a unit"},
           {"5parsecs", "unknown unit 'parsecs'"},
           {"1e3MiB", "unknown unit 'e3MiB'"},
           {"99999999999999999999TiB", "no memory is of this size"},
       }) {
    for (const std::string verb : {"train ", "compare ", "plan "}) {
      SCOPED_TRACE(verb + mistake.budget);
      const Outcome outcome = run(verb + kBlocks + " --steps 1 --budget " + mistake.budget);
      EXPECT_EQ(outcome.code, 2);
      EXPECT_THAT(outcome.err, HasSubstr("error: --budget: "));
      EXPECT_THAT(outcome.err, HasSubstr(mistake.complaint));
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
    }
  }
  EXPECT_EQ(run(std::string("compare ") + kBlocks + " --strategies budget:50%").code, 2);
  EXPECT_EQ(run(std::string("compare ") + kBlocks + " --strategies budget").code, 2);
  EXPECT_EQ(run(std::string("train ") + kBlocks + " --steps 1 --budget 1GiB --strategy plain").code,
            2);
}

TEST(BudgetCommand, says_what_a_whole_step_needs) {
  const Outcome outcome = run(std::string("train ") + kBlocks + " --steps 2 --budget 5%");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("hint: a whole step needs "));
  EXPECT_THAT(outcome.err, HasSubstr("by shapes"));
}

TEST(BudgetCommand, ends_with_3_when_nothing_fits) {
  for (const std::string verb : {"train ", "compare "}) {
    for (const std::string budget : {"1KiB", "1%"}) {
      SCOPED_TRACE(verb + budget);
      const Outcome outcome = run(verb + kBlocks + " --steps 2 --budget " + budget);
      EXPECT_EQ(outcome.code, 3) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("error: "));
      EXPECT_THAT(outcome.err, HasSubstr("hint: "));
    }
  }
}

TEST(BudgetCommand, warns_of_more_than_the_machine_has) {
  const Outcome outcome = run(std::string("train ") + kBlocks + " --steps 1 --budget 4096TiB");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("of this machine"));
}

TEST(BudgetCommand, compares_budgets_with_plain) {
  const tests::TempFolder folder;
  const Outcome outcome =
      run(std::string("compare ") + kBlocks + " --steps 2 --train 2 --strategies plain,budget=80%" +
          " --budget 60% --json " + folder.path("out"));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("predicted peak"));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("out")));
  const int64_t plain = json["rows"][0]["peak_bytes"];
  for (int i = 1; i <= 2; ++i) {
    const auto& row = json["rows"][i];
    EXPECT_LE(row["peak_bytes"], row["budget_bytes"]);
    EXPECT_LT(row["budget_bytes"], plain);
    EXPECT_GT(row["recomputed_ops"], 0);
    EXPECT_EQ(row["budget"]["limit_bytes"], row["budget_bytes"]);
    EXPECT_LE(row["budget"]["peak_bytes"], row["budget_bytes"]);
  }
}

TEST(BudgetCommand, measured_steps_are_planned_ones_and_stand_beside_their_prediction) {
  const tests::TempFolder folder;
  const Outcome outcome =
      run(std::string("compare ") + kBlocks +
          " --steps 3 --strategies budget=70%,online=70% --json " + folder.path("out"));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("out")));
  const auto &planned = json["rows"][1], &online = json["rows"][2];
  EXPECT_GE(planned["budget"]["planned_steps"], 3);
  EXPECT_LE(planned["predicted_peak_bytes"], planned["budget_bytes"]);
  EXPECT_GT(planned["predicted_step_ms"], 0);
  EXPECT_EQ(online["budget"]["planned_steps"], 0);
  EXPECT_EQ(online["budget"]["plans"], 0);
  EXPECT_TRUE(online["predicted_peak_bytes"].is_null());
  EXPECT_LE(online["peak_bytes"], online["budget_bytes"]);
}

TEST(BudgetCommand, scans_budgets_and_says_which_are_too_small) {
  const tests::TempFolder folder;
  const Outcome outcome = run(std::string("compare ") + kBlocks +
                              " --steps 1 --strategies plain --budget-scan 5%..95%/3 --json " +
                              folder.path("out") + " --report " + folder.path("out.svg"));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("infeasible: the least is "));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("out")));
  ASSERT_EQ(json["rows"].size(), 3);
  EXPECT_EQ(json["rows"][1]["strategy"], "budget=50%");
  EXPECT_EQ(json["rows"][2]["strategy"], "budget=95%");
  ASSERT_EQ(json["infeasible"].size(), 1);
  EXPECT_EQ(json["infeasible"][0]["strategy"], "budget=5%");
  EXPECT_GT(json["infeasible"][0]["least_bytes"], json["infeasible"][0]["budget_bytes"]);
  EXPECT_THAT(
      tests::read_file(folder.path("out.svg")),
      ::testing::AllOf(HasSubstr("no schedule that fits takes less"), HasSubstr(">bound<")));
}

TEST(BudgetCommand, refuses_bad_scans_in_one_clear_line) {
  const std::string compare = std::string("compare ") + kBlocks + " --budget-scan ";
  for (const tests::Mistake& mistake : std::vector<tests::Mistake>{
           {compare + "banana", 2, "--budget-scan: expected a range of budgets"},
           {compare + "20%..100%", 2, "expected a range of budgets"},
           {compare + "20%/9", 2, "expected a range of budgets"},
           {compare + "20%..101%/9", 2, "no more than 100%"},
           {compare + "0%..100%/9", 2, "must be more than nothing"},
           {compare + "1MiB..2MiB/9", 2, "is no share"},
           {compare + "20%..100%/0", 2, "is no number of budgets"},
           {compare + "20%..100%/1000", 2, "from 1 to 100"},
           {compare + "20%..100%/1", 2, "two ends"},
           {compare + "20%..20%/3", 2, "one budget only"},
           {compare + "20%..100%/9 --segment-scan", 2, "--budget-scan together with"},
       }) {
    tests::expect_rejected(REPRISE_COMMAND, mistake);
  }
}

TEST(BudgetCommand, training_ends_with_what_was_predicted_and_measured) {
  const tests::TempFolder folder;
  const Outcome outcome =
      run(std::string("train ") + kBlocks + " --steps 4 --budget 70% --json " + folder.path("out"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nbudget\nlimit "));
  const auto budget = nlohmann::json::parse(tests::read_file(folder.path("out")))["budget"];
  EXPECT_GT(budget["limit_bytes"], 0);
  EXPECT_LE(budget["peak_bytes"], budget["limit_bytes"]);
  EXPECT_GT(budget["plain_peak_bytes"], budget["limit_bytes"]);
}

}  // namespace
}  // namespace reprise
