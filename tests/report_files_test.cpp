// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <filesystem>

#include <reprise/meter.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/run_command.h"
#include "tests/temp_folder.h"
#include "workloads/measured_step.h"
#include "workloads/memory_timeline.h"

// Reports, pictures and snapshots that the command writes, and the step that is recorded for them.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using tests::Outcome;
using tests::TempFolder;

constexpr const char* kSmall = "blocks --layers 3 --width 16 --batch 4 --threads 1 --steps 2";

Outcome run(const std::string& arguments) { return tests::run_command(REPRISE_COMMAND, arguments); }

TEST(ReportFiles, come_from_compare) {
  const TempFolder folder;
  const Outcome outcome =
      run("compare " + std::string(kSmall) + " --strategies checkpoint,tape:full --report \"" +
          folder.path("it's.html") + "\" --timeline '" + folder.path("t.svg") + "' --snapshot '" +
          folder.path("s.pickle") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string html = tests::read_file(folder.path("it's.html"));
  EXPECT_THAT(html, AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("reprise compare blocks"),
                          HasSubstr("<h3>tape:full</h3>")));
  EXPECT_THAT(html, HasSubstr("it&#39;\\&#39;&#39;s.html"))
      << "the command line, as one would type it, and escaped";
  EXPECT_THAT(tests::read_file(folder.path("t.svg")),
              AllOf(StartsWith("<svg "), HasSubstr("saved activations"), HasSubstr("tape:full")));
  EXPECT_THAT(tests::read_file(folder.path("s.pickle")), StartsWith("\x80\x02"));
  EXPECT_EQ(folder.entries(), 3);
}

TEST(ReportFiles, are_pictures_where_their_name_says_so) {
  const TempFolder folder;
  ASSERT_EQ(run("compare " + std::string(kSmall) + " --report " + folder.path("p.SVG")).code, 0);
  EXPECT_THAT(tests::read_file(folder.path("p.SVG")),
              AllOf(StartsWith("<svg "), HasSubstr("time of a step")));
  ASSERT_EQ(run("train " + std::string(kSmall) + " --report " + folder.path("t.svg")).code, 0);
  EXPECT_THAT(tests::read_file(folder.path("t.svg")),
              AllOf(StartsWith("<svg "), HasSubstr("loss")));
}

TEST(ReportFiles, come_from_train_with_the_state_of_the_optimizer) {
  const TempFolder folder;
  const Outcome outcome =
      run("train gpt --layers 1 --width 16 --heads 2 --context 8 --batch 2 "
          "--steps 2 --strategy checkpoint --report " +
          folder.path("t.html"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(tests::read_file(folder.path("t.html")),
              AllOf(HasSubstr("Peak memory of each step"), HasSubstr("optimizer state"),
                    HasSubstr("checkpoint")));
}

TEST(ReportFiles, change_nothing_that_is_printed) {
  const TempFolder folder;
  const std::string arguments = "train " + std::string(kSmall) + " --dropout 0.2";
  const auto loss = [](const std::string& out) {
    return out.substr(out.find("loss"), out.find("| peak") - out.find("loss"));
  };
  EXPECT_EQ(loss(run(arguments).out),
            loss(run(arguments + " --report " + folder.path("r.html")).out));
}

TEST(ReportFiles, that_cannot_be_written_are_refused_before_the_run) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path("folder"));
  for (const auto& [arguments, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"--report " + folder.path("missing/r.html"), "missing/r.html"},
           {"--report " + folder.path("folder"), "it is a folder"},
           {"--report " + folder.path("r.pdf"), "does not end in .html, .htm, .svg"},
           {"--timeline " + folder.path("r.png"), "does not end in .svg"},
           {"--timeline " + folder.path("missing/r.svg"), "missing/r.svg"},
           {"--snapshot " + folder.path("r.json"), "does not end in .pickle"},
           {"--snapshot " + folder.path("missing/r.pickle"), "missing/r.pickle"}}) {
    for (const char* verb : {"compare ", "train "}) {
      // So many steps that a run would not end: the refusal must come before it.
      const Outcome outcome = run(verb + std::string("blocks --steps 100000000 ") + arguments);
      EXPECT_EQ(outcome.code, 2) << arguments;
      EXPECT_EQ(outcome.out, "");
      EXPECT_THAT(outcome.err,
                  AllOf(StartsWith("error: "), HasSubstr(complaint), HasSubstr("\nhint: ")));
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
    }
  }
  EXPECT_EQ(folder.entries(), 1) << "nothing is left behind";
}

TEST(ReportFiles, leave_the_old_one_where_the_disk_is_full) {
  const Outcome outcome = run("compare " + std::string(kSmall) + " --report /dev/full");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("/dev/full"), HasSubstr("\nhint: ")));
  EXPECT_THAT(outcome.out, HasSubstr("time ratio")) << "the result is printed all the same";
}

class RecordedStep : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedStep, has_the_peak_of_the_measured_one) {
  workloads::WorkloadOptions options;
  options.layers = 4;
  options.batch = 8;
  const auto workload = workloads::make_workload("blocks", options);
  const auto strategy = workloads::parse_strategy(GetParam());
  workloads::measure_step(*workload, strategy, 0);  // warm
  const auto measured = workloads::measure_step(*workload, strategy, 0);
  const Timeline timeline =
      workloads::record_step(*workload, strategy, workloads::StepKind::gradients);
  ASSERT_EQ(timeline.marks[2].name, "forward");  // after "start" and "data"
  const int64_t base = timeline.at(timeline.marks[2].event - 1).total();
  EXPECT_EQ(timeline.peak().total() - base, measured.peak_bytes);
  for (const torch::Tensor& parameter : workload->module().parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, RecordedStep,
                         ::testing::Values("plain", "checkpoint", "segments:2", "tape:full"));

}  // namespace
}  // namespace reprise
