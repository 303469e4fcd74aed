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
using ::testing::Not;
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
    for (const std::string verb : {"train ", "compare "}) {
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
  EXPECT_THAT(outcome.out, HasSubstr("note: budget=60% is "));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("out")));
  const int64_t plain = json["rows"][0]["peak_bytes"];
  for (int i = 1; i <= 2; ++i) {
    const auto& row = json["rows"][i];
    EXPECT_LE(row["peak_bytes"], row["budget_bytes"]);
    EXPECT_LT(row["budget_bytes"], plain);
    EXPECT_GT(row["recomputed_ops"], 0);
  }
}

}  // namespace
}  // namespace reprise
