// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "tests/run_command.h"
#include "tests/temp_folder.h"

// Training by the command: runs that are saved, resumed and interrupted.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::Outcome;
using tests::TempFolder;

Outcome run(const std::string& arguments) { return tests::run_command(REPRISE_COMMAND, arguments); }

struct Mistake {
  std::string arguments;
  int code;
  std::string complaint;
};

const std::string kSmall =
    "train gpt --layers 1 --width 16 --heads 2 --context 16 --batch 4 --threads 1 ";

nlohmann::json trained(const TempFolder& folder, const std::string& arguments) {
  const Outcome outcome = run(kSmall + "--json " + folder.path("result") + " " + arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(tests::read_file(folder.path("result")));
}

TEST(TrainCommand, resumes_where_it_saved_with_the_same_loss) {
  const TempFolder folder;
  const auto whole = trained(folder, "--steps 6");
  trained(folder, "--steps 4 --save " + folder.path("run"));
  const auto resumed = trained(folder, "--steps 6 --resume " + folder.path("run"));
  EXPECT_EQ(resumed["first_step"], 5);
  EXPECT_EQ(resumed["loss"], whole["loss"]);
  EXPECT_EQ(resumed["quality"], whole["quality"]);
  EXPECT_EQ(resumed["quality_unit"], "nats/byte");
  EXPECT_EQ(resumed["sample"], whole["sample"]);
}

TEST(TrainCommand, float16_scales_the_loss_and_parts_of_a_batch_count_as_the_whole) {
  const TempFolder folder;
  const auto result = trained(folder, "--steps 3 --autocast fp16 --accumulate 3");
  EXPECT_EQ(result["autocast"], "fp16");
  EXPECT_EQ(result["accumulate"], 3);
  EXPECT_EQ(result["skipped_steps"], 0);
}

TEST(TrainCommand, refuses_what_it_cannot_do_before_it_trains) {
  const TempFolder folder;
  for (const Mistake& mistake : std::vector<Mistake>{
           {kSmall + "--accumulate 0", 2, "--accumulate: '0'"},
           {kSmall + "--steps 1 --accumulate 5", 2, "batch of 4"},
           {kSmall + "--autocast fp8", 2, "--autocast: 'fp8' is not bf16 or fp16"},
           {kSmall + "--steps 1 --save /nowhere/run", 2, "No such file"},
           {kSmall + "--steps 1 --save-every 3", 2, "--save-every without --save"},
           {kSmall + "--steps 1 --text " + folder.path("none"), 2, "cannot open"},
           {kSmall + "--steps 1 --report /nowhere/r.html", 2, "No such file"},
       }) {
    SCOPED_TRACE("reprise " + mistake.arguments);
    const Outcome outcome = run(mistake.arguments);
    EXPECT_EQ(outcome.code, mistake.code);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(mistake.complaint), HasSubstr("\nhint: ")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
  }
}

TEST(TrainCommand, refuses_resume_files_that_do_not_fit_in_one_line) {
  const TempFolder folder;
  trained(folder, "--steps 1 --save " + folder.path("run"));
  const std::string whole = tests::read_file(folder.path("run"));
  folder.write("cut", whole.substr(0, whole.size() / 2));
  folder.write("other", "not a resume file");
  const auto complaint = [&](const std::string& arguments, int code) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(complaint(kSmall + "--steps 2 --resume " + folder.path("cut"), 1),
              HasSubstr("checksum"));
  EXPECT_THAT(complaint(kSmall + "--steps 2 --resume " + folder.path("other"), 1),
              HasSubstr("is no resume file"));
  EXPECT_THAT(complaint(kSmall + "--steps 2 --seed 3 --resume " + folder.path("run"), 1),
              HasSubstr("another run"));
  EXPECT_THAT(complaint(kSmall + "--steps 1 --resume " + folder.path("run"), 2),
              HasSubstr("1 steps already"));
}

TEST(TrainCommand, ends_after_the_step_when_interrupted_saves_and_goes_on) {
  const TempFolder folder;
  const std::string saved = folder.path("run"), out = folder.path("out");
  const std::string line = std::string("exec '") + REPRISE_COMMAND + "' " + kSmall +
                           "--steps 1000000 --save " + saved + " >" + out + " 2>&1 </dev/null";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 600 && tests::read_file(out).find("step       1/") == std::string::npos;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << tests::read_file(out);
  EXPECT_THAT(tests::read_file(out), AllOf(HasSubstr("interrupted after step "),
                                           HasSubstr("go on with --resume " + saved)));
  const Outcome outcome = run(kSmall + "--steps 1 --resume " + saved);
  EXPECT_THAT(outcome.err, HasSubstr("steps already"));
}

}  // namespace
}  // namespace reprise
