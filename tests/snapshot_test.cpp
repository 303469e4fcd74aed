// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <reprise/report.h>
#include <reprise/snapshot.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/report_example.h"
#include "tests/temp_folder.h"
#include "workloads/libtorch.h"
#include "workloads/memory_timeline.h"

// Snapshots, opened with the viewer that comes with PyTorch.

namespace reprise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace reprise::testing;
using nlohmann::json;

// Empty where LibTorch is not from a wheel, and so has no Python beside it.
std::string viewer() {
  const std::filesystem::path library = workloads::libtorch_path();
  const auto path = library.parent_path().parent_path() / "cuda" / "_memory_viz.py";
  return std::filesystem::exists(path) ? path.string() : "";
}

// What tests/snapshot_check.py says; null, and a failure, where it fails.
json opened(const std::vector<NamedTimeline>& timelines) {
  const tests::TempFolder folder;
  const std::string file = folder.write("run.pickle", to_snapshot(timelines));
  const std::string line = std::string("python3 '") + REPRISE_SOURCE_DIR +
                           "/tests/snapshot_check.py' '" + viewer() + "' '" + file + "' >'" +
                           folder.path("out") + "' 2>'" + folder.path("err") + "'";
  if (std::system(line.c_str()) != 0) {
    ADD_FAILURE() << tests::read_file(folder.path("err"));
    return nullptr;
  }
  return json::parse(tests::read_file(folder.path("out")));
}

class Snapshot : public ::testing::Test {
 protected:
  void SetUp() override {
    if (viewer().empty()) GTEST_SKIP() << "this LibTorch has no torch/cuda/_memory_viz.py";
  }
};

TEST_F(Snapshot, has_the_peak_the_end_and_the_events_of_each_timeline) {
  const std::vector<NamedTimeline> timelines = {{"plain", example_timeline(8)},
                                                {"half", example_timeline(8, 1 << 19)}};
  const json result = opened(timelines);
  ASSERT_FALSE(result.is_null());
  EXPECT_THAT(result["names"], ElementsAre("plain", "half"));
  ASSERT_EQ(result["devices"].size(), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const Timeline& timeline = timelines[i].timeline;
    const json& device = result["devices"][i];
    EXPECT_EQ(device["peak"], timeline.peak().total());
    EXPECT_EQ(device["alive"], timeline.all().back().total());
    // Two blocks were there before; a free has two events; the last one is the snapshot itself.
    EXPECT_EQ(device["events"], 2 + 3 * 8 + 8 + 4 * 8 + 16 + 1);
    EXPECT_TRUE(std::is_sorted(device["times"].begin(), device["times"].end()));
  }
}

TEST_F(Snapshot, names_operator_modules_and_phase_as_frames_from_the_inside_out) {
  const json result = opened({{"plain", example_timeline(8)}});
  ASSERT_FALSE(result.is_null());
  const json& frames = result["devices"][0]["frames"];
  EXPECT_THAT(frames[0],
              ElementsAre("layers.0:no operator", "layers.0:0", "layers:layers", "step:before"));
  EXPECT_THAT(frames[3], ElementsAre("layers.0.linear:aten::addmm", "layers.0.linear:linear",
                                     "layers.0:0", "layers:layers", "step:forward"));
  EXPECT_THAT(result["devices"][0]["categories"],
              ElementsAre("gradients", "inputs", "parameters", "saved activations", "temporaries",
                          "unknown"));
}

TEST_F(Snapshot, is_shown_by_every_view) {
  const json result = opened({{"plain", example_timeline(8)}});
  ASSERT_FALSE(result.is_null());
  EXPECT_THAT(result["summary"].get<std::string>(), HasSubstr("segments: 1"));
  EXPECT_THAT(result["summary"].get<std::string>(), HasSubstr("total_allocated: 7.0MiB"));
  EXPECT_THAT(result["trace"].get<std::string>(), HasSubstr("1.0MiB"));
  EXPECT_THAT(result["flame"].get<std::string>(),
              HasSubstr("active_allocated;step:0:backward;layers:0:layers;layers.7:0:7;"
                        "layers.7.linear:0:linear;layers.7.linear:0:aten::mm 262144"));
}

TEST_F(Snapshot, holds_any_size_any_name_and_any_number_of_events) {
  TimelineBuilder builder;
  for (const int64_t bytes :
       {int64_t{1}, int64_t{255}, int64_t{256}, int64_t{1} << 31, (int64_t{1} << 39) + 7}) {
    builder.existing(bytes, Category::other);
  }
  builder.existing(0, Category::other);  // takes no place, and so is not there
  for (int64_t i = 0; i < 3000; ++i) {
    const std::string name = "caf\u00E9 \"" + std::to_string(i) + "\"\n\xff";
    builder.free(builder.make(1 + i % 77, Category::temporaries, name, name));
  }
  const Timeline timeline = builder.finish();
  const json result = opened({{"\xff", timeline}});
  ASSERT_FALSE(result.is_null());
  EXPECT_EQ(result["devices"][0]["events"], 5 + 3 * 3000 + 1);
  EXPECT_EQ(result["devices"][0]["peak"], timeline.peak().total());
  EXPECT_EQ(result["devices"][0]["frames"][5][0],
            "caf\u00E9 \"0\"\n\uFFFD:caf\u00E9 \"0\"\n\uFFFD");
}

TEST_F(Snapshot, of_a_recorded_step_has_its_peak) {
  workloads::WorkloadOptions options;
  options.layers = 6;
  options.batch = 8;
  const auto workload = workloads::make_workload("blocks", options);
  const Timeline timeline = workloads::record_step(
      *workload, workloads::parse_strategy("checkpoint"), workloads::StepKind::gradients);
  const json result = opened({{"checkpoint", timeline}});
  ASSERT_FALSE(result.is_null());
  EXPECT_GT(timeline.peak().total(), 0);
  EXPECT_EQ(result["devices"][0]["peak"], timeline.peak().total());
  EXPECT_EQ(result["devices"][0]["alive"], timeline.all().back().total());
}

}  // namespace
}  // namespace reprise
