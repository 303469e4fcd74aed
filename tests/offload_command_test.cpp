// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/run_command.h"

// Strategies that offload, on the command line of the built command.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::Mistake;
using tests::Outcome;
using tests::TempFolder;

Outcome run(const std::string& arguments) { return tests::run_command(REPRISE_COMMAND, arguments); }

const std::string kBlocks = " blocks --layers 6 --width 64 --context 32 --batch 64 --dropout 0.1 ";

std::string in(const TempFolder& folder) { return " --store '" + folder.path("") + "'"; }

nlohmann::json json_of(const TempFolder& folder, const std::string& arguments, Outcome* told) {
  const Outcome outcome = run(arguments + " --json " + folder.path("json"));
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  if (told != nullptr) *told = outcome;
  return nlohmann::json::parse(tests::read_file(folder.path("json")));
}

TEST(OffloadCommand, compares_stores_with_plain) {
  const TempFolder folder, out;
  Outcome outcome;
  const auto json = json_of(out,
                            "compare" + kBlocks +
                                "--steps 2 --train 2 --strategies plain,offload:disk,"
                                "offload:disk+compressed,offload:host,tape:full" +
                                in(folder),
                            &outcome);
  for (const auto& row : json["rows"]) {
    SCOPED_TRACE(row["strategy"]);
    const std::string strategy = row["strategy"];
    EXPECT_TRUE(row["exact"]);
    EXPECT_TRUE(row["grads_bit_equal"]);
    EXPECT_TRUE(row["training"]["weights_bit_equal"]);
    if (strategy.starts_with("offload:")) {
      EXPECT_GT(row["offloaded_bytes"], json["rows"][0]["peak_bytes"].get<int64_t>() / 4);
      EXPECT_EQ(row["offload"]["moved_bytes"], row["offloaded_bytes"]);
      EXPECT_EQ(row["offload"]["failed"], 0);
      EXPECT_EQ(row["recomputed_ops"], 0);
      EXPECT_THAT(outcome.out, HasSubstr("\n" + strategy + ", in one step: "));
    } else {
      EXPECT_EQ(row["offloaded_bytes"], 0);
      EXPECT_TRUE(row["offload"].is_null());
    }
  }
  EXPECT_THAT(outcome.out, HasSubstr("offloaded"));
  EXPECT_THAT(outcome.err, HasSubstr("for a model that trains on the CPU it saves none"));
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(OffloadCommand, a_lossy_store_differs_without_failing) {
  const TempFolder folder, out;
  Outcome outcome;
  const auto json = json_of(
      out, "compare" + kBlocks + "--steps 1 --train 1 --strategies offload:disk+lossy" + in(folder),
      &outcome);
  const auto& row = json["rows"][1];
  EXPECT_FALSE(row["exact"]);
  EXPECT_FALSE(row["grads_bit_equal"]);
  EXPECT_GT(row["max_abs_grad_diff"], 0);
  EXPECT_FALSE(row["training"]["weights_bit_equal"]);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("(lossy store)"), Not(HasSubstr("batch in parts")),
                                 HasSubstr("not meant to be: offload:disk+lossy (rounded)")));
}

TEST(OffloadCommand, no_column_where_nothing_is_offloaded) {
  const Outcome outcome = run("compare" + kBlocks + "--steps 1 --strategies plain");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("offload")));
}

TEST(OffloadCommand, sets_it_beside_recomputation_and_smaller_batches) {
  const TempFolder folder, out;
  const auto json = json_of(out,
                            "compare gpt --layers 2 --width 64 --heads 2 --context 32 --batch 8 "
                            "--steps 1 --strategies plain,tape:full,offload:disk,accumulate:4" +
                                in(folder),
                            nullptr);
  ASSERT_EQ(json["rows"].size(), 4);
  for (const char* strategy : {"tape:full", "accumulate:4"}) {
    const std::size_t i = std::string(strategy) == "tape:full" ? 1 : 3;
    EXPECT_EQ(json["rows"][i]["strategy"], strategy);
    EXPECT_LT(json["rows"][i]["peak_bytes"], json["rows"][0]["peak_bytes"]);
  }
  EXPECT_GT(json["rows"][2]["offloaded_bytes"], 0);
}

TEST(OffloadCommand, hybrids_are_budgets_with_a_store) {
  const TempFolder folder, out;
  const auto json = json_of(
      out, "compare" + kBlocks + "--steps 2 --strategies budget=60%,hybrid=60%" + in(folder),
      nullptr);
  const auto& row = json["rows"][2];
  EXPECT_TRUE(row["grads_bit_equal"]);
  EXPECT_LE(row["peak_bytes"], row["budget_bytes"]);
  EXPECT_GE(row["budget"]["planned_steps"], 2);
  const Outcome outcome = run("train" + kBlocks + "--steps 3 --strategy hybrid=60%" + in(folder));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nbudget\nlimit "));
  EXPECT_EQ(folder.entries(), 0U);
}

// With fewer threads than cores transfers cost the step nothing, so that plans send.
TEST(OffloadCommand, plans_that_offload_are_trained_by) {
  const TempFolder folder, out;
  const std::string blocks = kBlocks + "--threads 1 ", file = out.path("plan");
  Outcome outcome;
  const auto planned = json_of(
      out, "plan" + blocks + "--budget 50% --evaluations 2000 --output " + file + in(folder),
      &outcome);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\noffloaded "), HasSubstr("\nthe store: ")));
  EXPECT_GT(planned["store"]["send_bytes_per_second"], 0);
  EXPECT_GT(planned["store"]["fetch_bytes_per_second"], 0);
  const std::string train = "train" + blocks + "--steps 3 ";
  const auto plain = json_of(out, train, nullptr);
  if (std::thread::hardware_concurrency() > 1) {
    EXPECT_GT(planned["offloaded"]["count"], 0);
    const auto by_plan = json_of(out, train + "--plan " + file + in(folder), nullptr);
    EXPECT_EQ(by_plan["loss"], plain["loss"]);
    EXPECT_EQ(by_plan["budget"]["planned_steps"], 2);
    EXPECT_EQ(by_plan["budget"]["plans"], 0);
    EXPECT_GT(by_plan["budget"]["offloaded_bytes"], 0);
    tests::expect_rejected(REPRISE_COMMAND, {train + "--plan " + file, 2,
                                             "strategy 'plan': there is no folder to offload to"});
  }
  const std::string without = out.path("without");
  const auto other =
      json_of(out, "plan" + blocks + "--budget 50% --evaluations 0 --output " + without, &outcome);
  EXPECT_TRUE(other["store"].is_null());
  EXPECT_THAT(outcome.out, Not(HasSubstr("offloaded")));
  tests::expect_rejected(REPRISE_COMMAND, {train + "--plan " + without + in(folder), 2,
                                           "--store: no strategy offloads to a folder"});
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(OffloadCommand, trains_to_the_same_loss_and_ends_with_what_was_moved) {
  const TempFolder folder, out;
  Outcome outcome;
  const std::string train = "train" + kBlocks + "--steps 3 ";
  const auto plain = json_of(out, train, nullptr);
  const auto moved =
      json_of(out, train + "--strategy offload:disk --accumulate 2" + in(folder), &outcome);
  const auto parts = json_of(out, train + "--accumulate 2", nullptr);
  const auto host = json_of(out, train + "--strategy offload:host", nullptr);
  EXPECT_TRUE(plain["offload"].is_null());
  EXPECT_EQ(moved["loss"], parts["loss"]);
  EXPECT_EQ(host["loss"], plain["loss"]);
  EXPECT_GT(moved["offload"]["moved_bytes"], plain["peak_bytes"].get<int64_t>() / 2);
  EXPECT_EQ(moved["offload"]["moved"], moved["offload"]["fetched"].get<int64_t>() +
                                           moved["offload"]["returned"].get<int64_t>());
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\noffload\n"), HasSubstr(" values moved, ")));
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(OffloadCommand, reports_show_the_memory_of_a_step_that_offloads) {
  const TempFolder folder, out;
  for (const std::string verb : {"compare", "train"}) {
    const std::string option = verb == "train" ? "--strategy " : "--strategies ";
    const Outcome outcome = run(verb + kBlocks + "--steps 1 " + option + "offload:disk" +
                                in(folder) + " --report " + out.path("report.html"));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(tests::read_file(out.path("report.html")), HasSubstr("offload:disk"));
  }
}

TEST(OffloadCommand, refuses_folders_that_no_store_can_use) {
  const TempFolder folder;
  const std::string file = folder.write("file", "text");
  const std::string compare = "compare" + kBlocks + "--steps 1 --strategies plain,offload:";
  const std::string train = "train" + kBlocks + "--steps 1 --strategy offload:";
  for (const Mistake& mistake : std::vector<Mistake>{
           {compare + "disk", 2, "strategy 'offload:disk': there is no folder to offload to"},
           {train + "disk+lossy", 2, "strategy 'offload:disk+lossy': there is no folder"},
           {compare + "disk --store /nowhere/at/all", 2,
            "--store: nothing can be stored in '/nowhere/at/all': No such file or directory"},
           {train + "disk --store /nowhere", 2, "nothing can be stored in '/nowhere'"},
           {compare + "disk --store " + file, 2, "Not a directory"},
           {compare + "disk --store /proc/self", 2, "nothing can be stored in '/proc/self'"},
           {compare + "disk --store ''", 2, "--store: the folder has no name"},
           {compare + "disk --store", 2, "--store: a value is missing"},
           {compare + "host" + in(folder), 2, "--store: no strategy offloads to a folder"},
           {"train" + kBlocks + "--steps 1" + in(folder), 2, "no strategy offloads to a folder"},
           {"plan" + kBlocks + "--max-batch --strategies offload:host", 2, "not known by shapes"},
       }) {
    tests::expect_rejected(REPRISE_COMMAND, mistake);
  }
}

TEST(OffloadCommand, refuses_what_is_no_store) {
  const std::string compare = "compare" + kBlocks + "--steps 1 --strategies ";
  for (const Mistake& mistake : std::vector<Mistake>{
           {compare + "offload", 2, "it is written offload:disk or offload:host"},
           {compare + "offload:", 2, "unknown store ''"},
           {compare + "offload=disk", 2, "it is written offload:disk or offload:host"},
           {compare + "offload:dsk", 2, "did you mean 'disk'?"},
           {compare + "offload:tape", 2, "stores: disk, host"},
           {compare + "offload:disk+lossless", 2, "unknown option '+lossless'"},
           {compare + "offload:disk+no_rng", 2, "options of stores: compressed, lossy"},
           {compare + "offload:disk+lossy+compressed", 2, "do not go together"},
           {compare + "offload:disk+lossy+lossy", 2, "'+lossy' stands twice"},
           {compare + "checkpoint+lossy", 2, "options of regions"},
           {compare + "plain+lossy", 2, "has no regions"},
           {compare + "hybrid=50%", 2, "strategy 'hybrid=50%': there is no folder to offload to"},
           {compare + "hybrid=banana", 2, "strategy 'hybrid=banana': expected a budget"},
           {compare + "hybrid=101%", 2, "no more than 100%"},
           {compare + "hybrid:50%", 2, "it is written hybrid=SIZE or hybrid=P%"},
           {compare + "hybrid=50%+no_rng", 2, "options of stores: compressed, lossy"},
           {"plan" + kBlocks + "--max-batch --strategies hybrid=50%", 2, "not known by shapes"},
           {"plan" + kBlocks + "--max-batch --store /tmp", 2, "--store does nothing"},
           {"plan" + kBlocks + "--budget 50% --store /nowhere", 2, "stored in '/nowhere'"},
       }) {
    tests::expect_rejected(REPRISE_COMMAND, mistake);
  }
}

}  // namespace
}  // namespace reprise
