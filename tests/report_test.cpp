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
  EXPECT_THAT(keys_of(json), ElementsAre("schema", "workload", "device", "libtorch", "threads",
                                         "parameters", "base_bytes", "steps", "rows"));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["parameters"], 1234567);
  ASSERT_EQ(json["rows"].size(), 2);
  EXPECT_THAT(keys_of(json["rows"][0]),
              ElementsAre("strategy", "peak_bytes", "held_bytes", "memory_ratio", "rss_peak_bytes",
                          "step_ms_median", "step_ms_min", "time_ratio", "samples_per_second",
                          "loss", "quality", "grads_bit_equal", "max_abs_grad_diff", "segments",
                          "longest_segment_layers", "recomputed_ops", "recomputed_ms",
                          "offloaded_bytes", "rng_preserved", "budget_bytes",
                          "predicted_peak_bytes", "predicted_step_ms", "regions"));
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
                          "parameters", "max_steps", "until_loss", "log_every", "base_bytes", "log",
                          "steps", "loss", "reached_loss", "quality", "quality_name", "peak_bytes",
                          "total_peak_bytes", "seconds", "regions"));
  EXPECT_TRUE(json["max_steps"].is_null());
  EXPECT_EQ(json["until_loss"], 0.5);
  EXPECT_TRUE(json["quality_name"].is_null());
  ASSERT_EQ(json["log"].size(), 2);
  EXPECT_THAT(keys_of(json["log"][0]),
              ElementsAre("step", "loss", "peak_bytes", "total_peak_bytes", "step_ms"));
  EXPECT_EQ(json["log"][1]["loss"], 2.0);
}

TEST(ComparisonTable, is_aligned_and_has_units) {
  std::istringstream text(to_table(example()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
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
