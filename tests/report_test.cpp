// SPDX-License-Identifier: BSD-3-Clause
#include <functional>
#include <limits>
#include <sstream>

#include <reprise/error.h>
#include <reprise/report.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "tests/temp_folder.h"

// Reports: bytes as text, the table, the JSON, and files that are whole or not there.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::TempFolder;

Comparison example() {
  Comparison comparison;
  comparison.workload = "blocks";
  comparison.device = "cpu";
  comparison.libtorch = "2.15.0";
  comparison.threads = 2;
  comparison.parameters = 1234567;
  comparison.base_bytes = 3 << 20;
  comparison.steps = 10;
  StrategyRow plain;
  plain.strategy = "plain";
  plain.peak_bytes = 10 << 20;
  StrategyRow other;
  other.strategy = "segments:5";
  other.peak_bytes = 5 << 20;
  other.memory_ratio = 0.5;
  other.loss = std::numeric_limits<double>::quiet_NaN();
  other.grads_bit_equal = false;
  other.max_abs_grad_diff = std::numeric_limits<double>::infinity();
  other.segments = 3;
  other.recomputed_ops = 4321;
  other.quality = 0.5;
  other.regions.resize(2);
  other.regions[0].dropped_bytes = 64;
  other.regions[1].dropped_known = false;
  other.regions[1].preserves_rng = false;
  comparison.rows = {plain, other};
  return comparison;
}

std::vector<std::string> keys_of(const nlohmann::ordered_json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(FormatBytes, keeps_three_digits_and_names_the_unit) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(312), "312 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(3 * kMiB / 2), "1.50 MiB");
  EXPECT_EQ(format_bytes(kMiB - 1), "1.00 MiB") << "never 1024 KiB";
  EXPECT_EQ(format_bytes(12 * kMiB + kMiB / 2), "12.5 MiB");
  EXPECT_EQ(format_bytes(345 * kMiB), "345 MiB");
  EXPECT_EQ(format_bytes(-3 * kMiB), "-3.00 MiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "8.00 EiB");
}

TEST(ComparisonJson, has_the_fields_of_the_schema_in_its_order) {
  const auto json = nlohmann::ordered_json::parse(to_json(example()));
  EXPECT_THAT(keys_of(json),
              ElementsAre("schema", "workload", "device", "libtorch", "threads", "parameters",
                          "base_bytes", "steps", "segment_scan", "train_steps", "quality_name",
                          "quality_unit", "rows", "infeasible"));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["parameters"], 1234567);
  ASSERT_EQ(json["rows"].size(), 2);
  EXPECT_THAT(
      keys_of(json["rows"][0]),
      ElementsAre("strategy", "peak_bytes", "held_bytes", "memory_ratio", "rss_peak_bytes",
                  "step_ms_median", "step_ms_min", "step_ms_q1", "step_ms_q3", "step_ms_max",
                  "outlier_steps", "time_ratio", "time_ratio_low", "time_ratio_high",
                  "samples_per_second", "loss", "quality", "exact", "grads_bit_equal",
                  "max_abs_grad_diff", "buffers_bit_equal", "segments", "longest_segment_layers",
                  "recomputed_ops", "recomputed_ms", "offloaded_bytes", "rng_preserved",
                  "budget_bytes", "predicted_peak_bytes", "predicted_step_ms", "budget", "offload",
                  "regions", "training"));
  EXPECT_THAT(keys_of(json["rows"][1]["regions"][0]),
              ElementsAre("name", "runs", "replays", "milliseconds", "dropped_bytes",
                          "preserves_rng", "saves_nothing"));
}

TEST(ComparisonJson, writes_what_is_absent_or_not_finite_as_null) {
  const auto rows = nlohmann::json::parse(to_json(example()))["rows"];
  EXPECT_TRUE(rows[0]["segments"].is_null());
  EXPECT_TRUE(rows[0]["quality"].is_null());
  EXPECT_EQ(rows[1]["segments"], 3);
  EXPECT_EQ(rows[1]["quality"], 0.5);
  EXPECT_EQ(rows[1]["grads_bit_equal"], false);
  EXPECT_TRUE(rows[1]["loss"].is_null());
  EXPECT_TRUE(rows[1]["max_abs_grad_diff"].is_null());
  EXPECT_EQ(rows[0]["regions"].size(), 0);
  EXPECT_EQ(rows[1]["regions"][0]["dropped_bytes"], 64);
  EXPECT_TRUE(rows[1]["regions"][1]["dropped_bytes"].is_null());
  EXPECT_EQ(rows[1]["regions"][1]["preserves_rng"], false);
}

TEST(ComparisonJson, has_how_training_ended) {
  Comparison comparison = example();
  EXPECT_TRUE(nlohmann::json::parse(to_json(comparison))["rows"][0]["training"].is_null());
  comparison.train_steps = 7;
  comparison.rows[1].training = TrainingOutcome{0.5, 0.75, 2.5, 1024, false, 1e-3};
  const auto json = nlohmann::ordered_json::parse(to_json(comparison));
  EXPECT_EQ(json["train_steps"], 7);
  EXPECT_THAT(keys_of(json["rows"][1]["training"]),
              ElementsAre("loss", "quality", "seconds", "peak_bytes", "weights_bit_equal",
                          "max_abs_weight_diff"));
  EXPECT_EQ(json["rows"][1]["training"]["quality"], 0.75);
}

TEST(StrategyRow, keeps_its_promise_or_made_none) {
  StrategyRow row;
  EXPECT_TRUE(row.keeps_promise());
  for (bool StrategyRow::*kept : {&StrategyRow::grads_bit_equal, &StrategyRow::buffers_bit_equal,
                                  &StrategyRow::rng_preserved}) {
    StrategyRow broken;
    broken.*kept = false;
    EXPECT_FALSE(broken.keeps_promise());
    broken.exact = false;
    EXPECT_TRUE(broken.keeps_promise());
  }
  row.training = TrainingOutcome();
  EXPECT_TRUE(row.keeps_promise());
  row.training->weights_bit_equal = false;
  EXPECT_FALSE(row.keeps_promise());
  EXPECT_TRUE(row.preserves_draws());
  EXPECT_FALSE(example().rows[1].preserves_draws());
}

TEST(ComparisonJson, survives_any_text) {
  Comparison comparison = example();
  comparison.workload = "a \"quoted\" \n \xff name";
  EXPECT_NO_THROW(nlohmann::json::parse(to_json(comparison)));
}

TEST(TrainingJson, has_settings_log_and_end) {
  Training training;
  training.workload = "digits";
  training.log = {{1, 2.5, 10, 30, 1.5}, {2, 2.0, 10, 30, 1.25}};
  training.until_loss = 0.5;
  const auto json = nlohmann::ordered_json::parse(to_json(training));
  EXPECT_THAT(keys_of(json),
              ElementsAre("schema", "workload", "strategy", "device", "libtorch", "threads", "seed",
                          "parameters", "max_steps", "until_loss", "log_every", "accumulate",
                          "autocast", "first_step", "base_bytes", "log", "steps", "loss",
                          "reached_loss", "quality", "quality_name", "quality_unit", "peak_bytes",
                          "total_peak_bytes", "seconds", "samples_per_second", "skipped_steps",
                          "interrupted", "sample", "warnings", "regions", "budget", "offload"));
  EXPECT_TRUE(json["max_steps"].is_null());
  EXPECT_EQ(json["until_loss"], 0.5);
  EXPECT_TRUE(json["quality_name"].is_null());
  ASSERT_EQ(json["log"].size(), 2);
  EXPECT_THAT(keys_of(json["log"][0]), ElementsAre("step", "loss", "peak_bytes", "total_peak_bytes",
                                                   "step_ms", "learning_rate"));
  EXPECT_EQ(json["log"][1]["loss"], 2.0);
}

TEST(ComparisonTable, is_aligned_and_has_units) {
  const std::vector<std::string> lines = lines_of(to_table(example()));
  ASSERT_EQ(lines.size(), 8);
  EXPECT_THAT(lines[7], HasSubstr("note: segments:5 does not preserve random draws"));
  EXPECT_THAT(lines[0],
              AllOf(HasSubstr("blocks on cpu"), HasSubstr("2 threads"), HasSubstr("10 steps")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("1,234,567 parameters"), HasSubstr("3.00 MiB")));
  const std::size_t end_of_peak = lines[3].find("peak") + 4;
  EXPECT_EQ(lines[4].find("10.0 MiB") + 8, end_of_peak);
  EXPECT_EQ(lines[5].find("5.00 MiB") + 8, end_of_peak);
  EXPECT_THAT(lines[4], HasSubstr("identical"));
  EXPECT_THAT(lines[5], AllOf(HasSubstr("differ by inf"), HasSubstr("4,321 ops")));
  for (const std::string& line : lines) EXPECT_FALSE(line.ends_with(' '));
}

TEST(ComparisonTable, shows_intervals_spread_and_what_is_not_meant_to_be_exact) {
  Comparison comparison = example();
  StrategyRow& row = comparison.rows[1];
  row.time_ratio_low = 1.25;
  row.time_ratio_high = 1.5;
  row.step_ms_q1 = 2;
  row.step_ms_q3 = 3.5;
  EXPECT_THAT(to_table(comparison), AllOf(HasSubstr("1.250 to 1.500"), HasSubstr("2.00 to 3.50")));
  row.buffers_bit_equal = false;
  row.rng_preserved = false;
  EXPECT_THAT(to_table(comparison), HasSubstr("differ by inf, RNG moved, buffers differ"));
  row.exact = false;
  EXPECT_THAT(to_table(comparison), HasSubstr("differ by inf (batch in parts)"));
}

OffloadSummary example_offload() {
  OffloadSummary offload;
  offload.seen = 8;
  offload.seen_bytes = 4 << 20;
  offload.moved = 7;
  offload.moved_bytes = 3 << 20;
  offload.skipped_last = 1;
  offload.fetched = 6;
  offload.returned = 1;
  return offload;
}

TEST(ComparisonTable, shows_offloaded_bytes_where_there_are_some) {
  Comparison comparison = example();
  EXPECT_THAT(to_table(comparison), Not(HasSubstr("offload")));
  StrategyRow& row = comparison.rows[1];
  row.offload = example_offload();
  row.offloaded_bytes = row.offload->moved_bytes;
  for (const std::string& text : {to_table(comparison), to_markdown(comparison)}) {
    EXPECT_THAT(text, AllOf(HasSubstr("offloaded"), HasSubstr("3.00 MiB")));
    EXPECT_THAT(text, HasSubstr("\n" + row.strategy + ", in one step: 7 of 8 values moved, "));
    EXPECT_THAT(text, Not(HasSubstr("plain, in one step")));
  }
  row.exact = false;
  row.lossy = true;
  EXPECT_THAT(to_table(comparison), HasSubstr("differ by inf (lossy store)"));
}

TEST(ComparisonJson, has_what_became_of_offloaded_values) {
  Comparison comparison = example();
  comparison.rows[1].offload = example_offload();
  const auto rows = nlohmann::ordered_json::parse(to_json(comparison))["rows"];
  EXPECT_TRUE(rows[0]["offload"].is_null());
  EXPECT_THAT(keys_of(rows[1]["offload"]),
              ElementsAre("seen", "seen_bytes", "moved", "moved_bytes", "failed", "skipped_small",
                          "skipped_fraction", "skipped_last", "skipped_alive", "skipped_full",
                          "fetched", "fetched_bytes", "returned", "recomputed", "forward_wait_ms",
                          "backward_wait_ms", "send_bandwidth", "fetch_bandwidth"));
  EXPECT_EQ(rows[1]["offload"]["moved_bytes"], 3 << 20);
  EXPECT_EQ(rows[1]["offload"]["skipped_last"], 1);
}

TEST(ComparisonTable, has_a_second_table_for_training) {
  Comparison comparison = example();
  comparison.train_steps = 20;
  comparison.quality_name = "accuracy";
  comparison.quality_unit = "%";
  comparison.rows[0].training = TrainingOutcome{0.25, 0.5, 1.5, 2 << 20, true, 0};
  comparison.rows[1].training = TrainingOutcome{0.5, std::nullopt, 1.5, 1 << 20, false, 0.125};
  const std::string table = to_table(comparison);
  EXPECT_THAT(table,
              AllOf(HasSubstr("each trained 20 steps from the same start"), HasSubstr("accuracy"),
                    HasSubstr("50.00 %"), HasSubstr("identical"), HasSubstr("differ by 0.125")));
}

TEST(ComparisonTable, a_scan_has_boundaries_lengths_and_bars) {
  Comparison comparison = example();
  comparison.segment_scan = true;
  comparison.rows[1].longest_segment_layers = 11;
  const std::vector<std::string> lines = lines_of(to_table(comparison));
  EXPECT_THAT(lines[3],
              AllOf(HasSubstr("segments"), HasSubstr("boundaries"), HasSubstr("longest")));
  EXPECT_THAT(lines[4], AllOf(HasSubstr("plain"), HasSubstr(std::string(24, '#'))));
  EXPECT_THAT(lines[5], AllOf(HasSubstr(" 11 "), HasSubstr("  " + std::string(12, '#') + "  ")));
}

TEST(ComparisonMarkdown, is_a_table_of_github) {
  Comparison comparison = example();
  comparison.rows[1].strategy = "a|b";
  const std::vector<std::string> lines = lines_of(to_markdown(comparison));
  ASSERT_EQ(lines.size(), 8);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("blocks on cpu"), HasSubstr("1,234,567 parameters")));
  EXPECT_TRUE(lines[2].starts_with("| strategy"));
  EXPECT_TRUE(lines[3].starts_with("| :-")) << lines[3];
  EXPECT_THAT(lines[3], HasSubstr("-: |"));
  EXPECT_THAT(lines[5], HasSubstr("a\\|b"));
  const auto bars = [](const std::string& line) {
    return std::count(line.begin(), line.end(), '|');
  };
  EXPECT_EQ(bars(lines[2]), bars(lines[3]));
  EXPECT_EQ(bars(lines[2]), bars(lines[4]));
  EXPECT_EQ(lines[7], "note: a|b does not preserve random draws: nothing in its regions may draw.");
}

TEST(WriteFile, writes_and_replaces_whole_files) {
  const TempFolder folder;
  const std::string path = folder.path("result.json");
  write_file(path, "first");
  write_file(path, "second");
  EXPECT_EQ(tests::read_file(path), "second");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFile, makes_a_file_that_the_user_mask_allows) {
  const TempFolder folder;
  const mode_t mask = ::umask(022);
  write_file(folder.path("result"), "text");
  ::umask(mask);
  struct stat status = {};
  ASSERT_EQ(::stat(folder.path("result").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644U);
}

TEST(WriteFile, writes_through_a_link) {
  const TempFolder folder;
  const std::string target = folder.write("target", "old");
  std::filesystem::create_symlink(target, folder.path("link"));
  write_file(folder.path("link"), "new");
  EXPECT_EQ(tests::read_file(target), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
}

TEST(WriteFile, leaves_nothing_where_it_cannot_write) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path("folder"));
  for (const std::string& path : {folder.path("missing/result.json"), folder.path("folder"),
                                  std::string(), folder.path(std::string(300, 'x'))}) {
    for (const auto& act : {std::function<void()>([&] { write_file(path, "text"); }),
                            std::function<void()>([&] { check_writable(path); })}) {
      try {
        act();
        ADD_FAILURE() << "'" << path << "' was accepted";
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("'" + path + "'"), HasSubstr("\nhint: ")));
      }
    }
  }
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFile, reports_a_full_disk_as_a_failure_of_the_write) {
  EXPECT_NO_THROW(check_writable("/dev/full"));
  try {
    write_file("/dev/full", "text");
    ADD_FAILURE() << "a full disk was not noticed";
  } catch (const UsageError&) {
    ADD_FAILURE() << "the name was right";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
  }
}

TEST(CheckWritable, changes_nothing) {
  const TempFolder folder;
  check_writable(folder.path("new"));
  EXPECT_EQ(folder.entries(), 0);
  const std::string path = folder.write("old", "text");
  check_writable(path);
  EXPECT_EQ(tests::read_file(path), "text");
  EXPECT_EQ(folder.entries(), 1);
}

}  // namespace
}  // namespace reprise
