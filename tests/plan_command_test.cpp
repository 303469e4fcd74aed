// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/run_command.h"

// Planning by the command, and training by what it has planned.

namespace reprise {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::Mistake;
using tests::Outcome;
using tests::TempFolder;

Outcome run(const std::string& arguments) { return tests::run_command(REPRISE_COMMAND, arguments); }

const std::string kGpt = "gpt --layers 2 --width 32 --heads 2 --context 32 --batch 4 --threads 1 ";

json read_json(const std::string& path) { return json::parse(tests::read_file(path)); }

// A plan file and the JSON about it, made once for the tests of this file.
class PlanCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    planned_ = new Outcome(run("plan " + kGpt + "--budget 60% --evaluations 2000 -o " + plan() +
                               " --json " + folder_->path("report")));
  }
  static void TearDownTestSuite() {
    delete planned_;
    delete folder_;
  }

  static std::string plan() { return folder_->path("plan.json"); }

  static std::string train(const std::string& arguments) {
    return "train " + kGpt + "--steps 3 " + arguments;
  }

  static std::string edited(const std::string& name, void (*edit)(json& file)) {
    json file = read_json(plan());
    edit(file);
    return folder_->write(name, file.dump());
  }

  static TempFolder* folder_;
  static Outcome* planned_;
};

TempFolder* PlanCommand::folder_ = nullptr;
Outcome* PlanCommand::planned_ = nullptr;

TEST_F(PlanCommand, says_what_is_predicted_beside_plain) {
  ASSERT_EQ(planned_->code, 0) << planned_->err;
  EXPECT_THAT(planned_->out,
              AllOf(HasSubstr("of the best plan"), HasSubstr("run again"), HasSubstr("recomputed"),
                    HasSubstr("the least is "), HasSubstr("it is pinned by ")));
  const json report = read_json(folder_->path("report"));
  const int64_t plain = report["plain_peak_bytes"], budget = report["budget_bytes"];
  EXPECT_NEAR(static_cast<double>(budget), 0.6 * static_cast<double>(plain),
              0.01 * static_cast<double>(plain));
  EXPECT_LE(report["predicted_peak_bytes"], budget);
  EXPECT_GE(report["predicted_ms"], report["bound_ms"]);
  EXPECT_GE(report["bound_ms"], report["plain_ms"]);
  EXPECT_GT(report["recomputed"]["count"], 0);
  EXPECT_FALSE(report["replayed"].empty());
}

TEST_F(PlanCommand, its_frontier_falls_as_the_budget_grows_and_ends_at_the_least) {
  const json report = read_json(folder_->path("report"));
  const json& points = report["frontier"];
  ASSERT_GE(points.size(), 3);
  EXPECT_EQ(points.back()["budget_bytes"], report["least"]["bytes"]);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_LE(points[i]["peak_bytes"], points[i]["budget_bytes"]);
    EXPECT_GE(points[i]["milliseconds"], points[i]["bound_ms"]);
    if (i > 0) {
      EXPECT_GE(points[i]["milliseconds"], points[i - 1]["milliseconds"]);
    }
  }
}

TEST_F(PlanCommand, training_by_the_plan_keeps_its_bytes_and_ends_with_plains_loss) {
  const Outcome planned = run(train("--plan " + plan() + " --json " + folder_->path("planned")));
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("plan        "));
  ASSERT_EQ(run(train("--json " + folder_->path("plain"))).code, 0);
  const json by_plan = read_json(folder_->path("planned"));
  const json plain = read_json(folder_->path("plain"));
  EXPECT_EQ(by_plan["loss"], plain["loss"]);
  EXPECT_EQ(by_plan["strategy"], "plan");
  const json& budget = by_plan["budget"];
  EXPECT_LE(budget["peak_bytes"], budget["limit_bytes"]);
  EXPECT_EQ(budget["limit_bytes"], read_json(folder_->path("report"))["budget_bytes"]);
  EXPECT_GE(budget["planned_steps"], 1);
  EXPECT_TRUE(plain["budget"].is_null());
}

TEST_F(PlanCommand, refuses_files_that_are_no_plan_in_one_clear_line) {
  const std::string whole = tests::read_file(plan());
  const std::string cut = folder_->write("cut", whole.substr(0, whole.size() / 2));
  const std::string prose = folder_->write("prose", "a plan, they said");
  const std::string other = folder_->write("other", "{\"reprise\": \"trace\", \"version\": 1}");
  const std::string newer = edited("newer", [](json& file) { file["version"] = 99; });
  const std::string empty = edited("empty", [](json& file) { file.erase("trace"); });
  const std::string greedy =
      edited("greedy", [](json& file) { file["plan"]["budget_bytes"] = 1000; });
  const std::string liar = edited("liar", [](json& file) { file["plan"]["peak_bytes"] = 1000; });
  for (const Mistake& mistake : std::vector<Mistake>{
           {train("--plan " + folder_->path("none")), 2, "cannot be read"},
           {train("--plan " + cut), 2, "it is no JSON, or was cut off"},
           {train("--plan " + prose), 2, "it is no JSON, or was cut off"},
           {train("--plan " + other), 2, "it is no plan file"},
           {train("--plan " + newer), 2, "its version is 99, and this build reads 1"},
           {train("--plan " + empty), 2, "its field 'trace' is missing"},
           {train("--plan " + greedy), 2, "plan '" + greedy + "': "},
           {train("--plan " + liar), 2, "plan '" + liar + "': "},
       }) {
    tests::expect_rejected(REPRISE_COMMAND, mistake);
  }
}

TEST_F(PlanCommand, refuses_a_plan_for_something_else_before_it_trains) {
  const std::string older = edited("older", [](json& file) { file["libtorch"] = "1.13.0"; });
  const std::string smaller = edited("smaller", [](json& file) { file["batch"] = 3; });
  const std::string with = " --steps 1 --plan " + plan();
  for (const Mistake& mistake : std::vector<Mistake>{
           {"train gpt --layers 3 --width 32 --heads 2 --context 32 --batch 4 --threads 1" + with,
            2, "made for 'gpt --layers 2 "},
           {"train gpt --layers 2 --width 32 --heads 2 --context 32 --batch 8 --threads 1" + with,
            2, "--batch 8'"},
           {"train digits --threads 1" + with, 2, "this is 'digits'"},
           {train("--plan " + older), 2, "made for LibTorch 1.13.0"},
           {train("--plan " + smaller), 2, "made for a batch of 3"},
           {train("--plan " + plan() + " --budget 50%"), 2, "--plan together with --budget"},
           {train("--plan " + plan() + " --strategy plain"), 2, "--plan together with --strategy"},
           {train("--plan " + plan() + " --accumulate 2"), 2, "--accumulate"},
       }) {
    tests::expect_rejected(REPRISE_COMMAND, mistake);
  }
}

// The file says what it was made for, and nobody can see at once that it lies.
TEST_F(PlanCommand, says_after_the_first_step_that_the_operators_are_other_ones) {
  const std::string path = folder_->path("without");
  ASSERT_EQ(
      run("plan " + kGpt + "--dropout 0 --budget 70% --evaluations 0 --steps 1 -o " + path).code,
      0);
  json file = read_json(path);
  file["setting"] = read_json(plan())["setting"];
  folder_->write("without", file.dump());
  const Outcome outcome = run(train("--plan " + path));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("error: the plan does not fit: operator "), HasSubstr("\nhint: ")));
}

TEST_F(PlanCommand, warns_of_other_threads) {
  const std::string more = edited("more", [](json& file) { file["threads"] = 7; });
  const Outcome outcome = run(train("--plan " + more));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("was made with 7 threads"));
}

TEST_F(PlanCommand, refuses_bad_options_in_one_clear_line) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {"plan " + kGpt, 2, "a budget is missing"},
           {"plan --budget 50%", 2, "a workload is missing"},
           {"plan " + kGpt + "--budget banana", 2, "--budget: expected a budget, got 'banana'"},
           {"plan " + kGpt + "--budget 0", 2, "must be more than nothing"},
           {"plan " + kGpt + "--budget -5MiB", 2, "must be more than nothing"},
           {"plan " + kGpt + "--budget 120%", 2, "no more than 100%"},
           {"plan " + kGpt + "--budget 50% -o /nowhere/plan", 2, "No such file"},
           {"plan " + kGpt + "--budget 50% --evaluations -1", 2, "--evaluations: '-1'"},
           {"plan " + kGpt + "--budget 50% --meta --steps 3", 2, "--steps does nothing"},
           {"plan " + kGpt + "--budget 50% --timeline a.svg", 2, "no memory over time"},
           {"plan " + kGpt + "--budget 50% --strategies plain", 2, "--strategies does nothing"},
           {"plan " + kGpt + "--max-batch --output p", 2, "--output does nothing"},
           {"plan " + kGpt + "--max-batch --strategies budget=50%", 2, "'budget=50%' is not known"},
           {"plan digits --max-batch", 2, "the batch of 'digits' has one size"},
           {"plan " + kGpt + "--budget 1KiB", 3, "are live before a step"},
           {"plan " + kGpt + "--budget 1%", 3, "the least is "},
       }) {
    tests::expect_rejected(REPRISE_COMMAND, mistake);
  }
}

TEST_F(PlanCommand, plans_by_shapes_what_it_plans_by_running) {
  const Outcome outcome = run("plan " + kGpt + "--budget 60% --meta --evaluations 2000 --json " +
                              folder_->path("meta"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json meta = read_json(folder_->path("meta")), real = read_json(folder_->path("report"));
  EXPECT_TRUE(meta["meta"]);
  EXPECT_EQ(meta["base_bytes"], real["base_bytes"]);
  EXPECT_GT(meta["predicted_ms"], 0);
}

TEST_F(PlanCommand, a_budget_fits_a_larger_batch_than_any_fixed_strategy) {
  const Outcome outcome =
      run("plan " + kGpt + "--max-batch --meta --budget 64MiB --json " + folder_->path("batches"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json rows = read_json(folder_->path("batches"))["rows"];
  ASSERT_EQ(rows.size(), 5);
  const int64_t by_budget = rows.back()["samples"], by_plain = rows[0]["samples"];
  EXPECT_EQ(rows.back()["strategy"], "budget");
  for (const json& row : rows) {
    const int64_t base = row["base_bytes"], peak = row["peak_bytes"];
    EXPECT_LE(base + peak, int64_t{64} << 20);
    EXPECT_GE(by_budget, row["samples"]) << row;
  }
  EXPECT_GT(by_budget, by_plain);
}

}  // namespace
}  // namespace reprise
