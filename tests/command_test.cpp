// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/run_command.h"
#include "tests/temp_folder.h"

// The built command, run as a process: results, exit codes, and one clear line for each mistake.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using tests::Outcome;
using tests::TempFolder;

Outcome run(const std::string& arguments, const std::string& environment = "") {
  return tests::run_command(REPRISE_COMMAND, arguments, environment);
}

struct Mistake {
  std::string arguments;
  int code;
  std::string complaint;
};

// Two lines, "error: ..." and "hint: ...", and nothing on stdout.
void expect_rejected(const Mistake& mistake, const std::string& environment = "") {
  SCOPED_TRACE("reprise " + mistake.arguments);
  const Outcome outcome = run(mistake.arguments, environment);
  EXPECT_EQ(outcome.code, mistake.code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("error: "));
  EXPECT_THAT(outcome.err, HasSubstr(mistake.complaint));
  EXPECT_THAT(outcome.err, HasSubstr("\nhint: "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
}

TEST(Command, rejects_unknown_verbs_workloads_options_and_strategies_with_the_nearest) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {"", 2, "a verb is missing"},
           {"trian digits", 2, "unknown verb 'trian'\nhint: did you mean 'train'?"},
           {"--stpes 3", 2, "unknown option '--stpes'"},
           {"compare", 2, "a workload is missing"},
           {"compare digit", 2, "unknown workload 'digit'\nhint: did you mean 'digits'?"},
           {"compare digits --stpes 3", 2,
            "unknown option '--stpes'\nhint: did you mean '--steps'?"},
           {"compare digits --stpes=3", 2, "unknown option '--stpes'"},
           {"compare digits blocks", 2, "unexpected argument 'blocks'"},
           {"compare digits --steps", 2, "--steps: a value is missing"},
           {"compare digits --json=", 2, "--json: a value is missing"},
           {"compare digits --steps 5 --steps 6", 2, "--steps: it is given more than once"},
           {"compare digits --strategies plain,chekpoint", 2, "did you mean 'checkpoint'?"},
           {"train blocks --strategy segments:0", 2, "'segments:0'"},
           {"train blocks --strategy sequential:9 --steps 1", 2, "9 of a workload of 5 layers"},
           {"compare digits --layers 3", 2, "--layers does nothing"},
           {"train blocks --batch 8 --steps 1 --strategy accumulate:9", 2,
            "8 cannot be taken in 9 parts"},
           {"train blocks --steps 1 --strategy accumulate:2 --accumulate 2", 2,
            "both take the batch in parts"},
           {"compare blocks --strategies accumulate:0", 2, "'accumulate:0': expected a whole"},
           {"compare blocks --batch 8 --strategies accumulate:9", 2,
            "8 cannot be taken in 9 parts"},
           {"compare blocks --strategies parts", 2, "the layers of 'blocks' have no parts"},
           {"compare blocks --layers 2 --strategies tape:advised", 2, "the advice for 2 layers"},
           {"compare blocks --segment-scan --strategies plain", 2, "chooses the strategies itself"},
           {"compare blocks --segment-scan --layers 1", 2, "'blocks' has one layer"},
           {"doctor --steps 3", 2, "unknown option '--steps'"},
       }) {
    expect_rejected(mistake);
  }
}

TEST(Command, rejects_numbers_that_are_none_by_the_name_of_the_option) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {"compare blocks --width 0", 2, "--width: '0'"},
           {"compare blocks --layers -3", 2, "--layers: '-3'"},
           {"compare blocks --batch twelve", 2, "--batch: 'twelve'"},
           {"compare blocks --context nan", 2, "--context: 'nan'"},
           {"compare blocks --width 1.5", 2, "--width: '1.5'"},
           {"compare blocks --width ''", 2, "--width: ''"},
           {"compare blocks --steps 99999999999999999999", 2, "--steps: '99999999999999999999'"},
           {"compare blocks --train 0", 2, "--train: '0'"},
           {"compare digits --hidden 256,0", 2, "--hidden: '0'"},
           {"compare digits --hidden 256", 2, "--hidden: two sizes"},
           {"compare digits --dropout 1", 2, "--dropout: a probability"},
           {"compare digits --dropout nan", 2, "--dropout: 'nan'"},
           {"compare digits --seed -1", 2, "--seed: '-1'"},
           {"compare digits --threads 0", 2, "--threads: '0'"},
           {"compare digits --device gpu", 2, "--device: 'gpu'"},
           {"train digits --until-loss 0", 2, "--until-loss: '0'"},
           {"train digits --until-loss inf", 2, "--until-loss: 'inf'"},
           {"train digits --log-every 0", 2, "--log-every: '0'"},
           {"train digits --steps 0", 2, "--steps: '0'"},
           {"train blocks", 2, "nothing says when to stop"},
       }) {
    expect_rejected(mistake);
  }
}

TEST(Command, rejects_what_models_of_pictures_and_scripts_cannot_be_or_take) {
  const TempFolder folder;
  const std::string text = folder.write("text.pt", "no script");
  for (const Mistake& mistake : std::vector<Mistake>{
           {"compare resnet50 --depth 101", 2, "--depth: there is no ResNet of 101"},
           {"compare resnet50 --batch 1 --size 32", 2, "one picture of 32x32"},
           {"compare resnet50 --images /nowhere", 2, "cannot read the folder '/nowhere'"},
           {"compare unet --size 60", 2, "--size 60 cannot be halved"},
           {"compare unet --size 0", 2, "--size: '0'"},
           {"compare unet --strategies ffn --size 8", 2, "they have decoder"},
           {"compare script:/nowhere.pt --input 2x3", 2, "cannot open '/nowhere.pt'"},
           {"compare script:" + text, 2, "--input is missing"},
           {"compare script:" + text + " --input 2y3", 2, "--input: '2y3'"},
           {"compare script:" + text + " --input 2 --loss l1", 2, "--loss: 'l1'"},
           {"compare script:" + text + " --input 2", 1, "is no TorchScript module"},
       }) {
    expect_rejected(mistake);
  }
}

TEST(Command, rejects_data_files_that_are_missing_truncated_or_corrupt) {
  const TempFolder folder;
  const std::string whole =
      tests::read_file(std::string(REPRISE_SOURCE_DIR) + "/data/digits.csv.gz");
  const std::string cut = folder.write("cut.csv.gz", whole.substr(0, 5000));
  const std::string corrupt = folder.write("corrupt.csv", "1,2,three\n");
  expect_rejected({"compare digits --data /nowhere.gz", 2, "'/nowhere.gz'"});
  expect_rejected({"compare digits --data " + cut, 1, "is truncated"});
  expect_rejected({"train digits --data " + corrupt, 1, "row 1"});
  expect_rejected({"compare digits", 2, folder.path("none")},
                  "REPRISE_DATA_DIR=" + folder.path("none"));
}

TEST(Command, rejects_a_json_path_that_cannot_be_written_before_it_runs) {
  const TempFolder folder;
  expect_rejected({"compare digits --json " + folder.path("missing/r.json"), 2, "No such file"});
  expect_rejected({"train digits --json " + folder.path(""), 2, "it is a folder"});
  EXPECT_EQ(folder.entries(), 0);
}

TEST(Command, fails_with_one_error_when_training_diverges) {
  const TempFolder folder;
  const Outcome outcome =
      run("train blocks --width 4 --threads 1 --steps 100 --learning-rate 1e30 --json " +
          folder.path("r.json"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("error: the loss is "), HasSubstr("\nhint: ")));
  EXPECT_EQ(folder.entries(), 0) << "nothing half-written";
}

TEST(Command, notices_a_stdout_that_is_full) {
  const Outcome outcome =
      run("compare blocks --width 4 --steps 1 --threads 1 >/dev/full 2>/dev/null #");
  EXPECT_EQ(outcome.code, 1);
}

TEST(Command, compare_prints_a_table_and_writes_the_same_as_json) {
  const TempFolder folder;
  const Outcome outcome =
      run("compare blocks --width 16 --threads 1 --steps 2 --strategies "
          "checkpoint,layers:2,4,every:2 --json " +
          folder.path("r.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "") << "no progress where stderr is no terminal";
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\nplain "), HasSubstr("\ncheckpoint "),
                                 HasSubstr("\nlayers:2,4 "), HasSubstr("bit-identical")));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("r.json")));
  EXPECT_EQ(json["workload"], "blocks");
  EXPECT_EQ(json["steps"], 2);
  ASSERT_EQ(json["rows"].size(), 4);
  EXPECT_EQ(json["rows"][3]["segments"], 2);
  EXPECT_EQ(json["rows"][3]["grads_bit_equal"], true);
  EXPECT_EQ(folder.entries(), 1);
}

TEST(Command, compare_tells_where_regions_do_not_preserve_their_draws) {
  const TempFolder folder;
  const Outcome outcome =
      run("compare blocks --width 16 --threads 1 --steps 2 --dropout 0.5 --regions --strategies "
          "checkpoint,checkpoint+no_rng --json " +
          folder.path("r.json"));
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("note: checkpoint+no_rng does not preserve"),
                                 HasSubstr("\ncheckpoint, in one step\n"), HasSubstr("\nlayer 4")));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("differ from plain's: checkpoint+no_rng\n"),
                                 HasSubstr("leave '+no_rng' out")));
  const auto rows = nlohmann::json::parse(tests::read_file(folder.path("r.json")))["rows"];
  EXPECT_EQ(rows[1]["regions"][0]["preserves_rng"], true);
  EXPECT_EQ(rows[1]["grads_bit_equal"], true);
  EXPECT_EQ(rows[2]["regions"][0]["preserves_rng"], false);
  EXPECT_EQ(rows[2]["grads_bit_equal"], false);
}

TEST(Command, compare_takes_batches_in_parts_without_calling_it_a_failure) {
  const Outcome outcome =
      run("compare blocks --width 16 --batch 10 --threads 1 --steps 2 --strategies "
          "checkpoint,accumulate:3");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("(batch in parts)"), HasSubstr("bit-identical"),
                                 HasSubstr("not meant to be: accumulate:3")));
}

TEST(Command, compare_trains_every_strategy_to_the_same_weights) {
  const TempFolder folder;
  const Outcome outcome =
      run("compare digits --hidden 16,16,16 --threads 1 --steps 1 --train 3 --dropout 0.2 --json " +
          folder.path("r.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("each trained 3 steps"), HasSubstr("accuracy"),
                                 HasSubstr("trained weights too")));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("r.json")));
  EXPECT_EQ(json["train_steps"], 3);
  EXPECT_EQ(json["rows"][1]["training"]["weights_bit_equal"], true);
  EXPECT_EQ(json["rows"][1]["training"]["loss"], json["rows"][0]["training"]["loss"]);
}

TEST(Command, compare_scans_numbers_of_segments_and_prints_markdown) {
  const TempFolder folder;
  const Outcome outcome =
      run("compare blocks --layers 6 --width 16 --threads 1 --steps 1 --segment-scan --markdown "
          "--json " +
          folder.path("r.json") + " --report " + folder.path("r.svg"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("| boundaries |"), HasSubstr("-: |"), HasSubstr("###")));
  EXPECT_THAT(tests::read_file(folder.path("r.svg")),
              AllOf(HasSubstr("<svg"), HasSubstr("over plain"), HasSubstr("segments")));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("r.json")));
  EXPECT_EQ(json["segment_scan"], true);
  std::vector<int64_t> segments;
  for (const auto& row : json["rows"]) {
    if (!row["segments"].is_null()) segments.push_back(row["segments"]);
  }
  EXPECT_EQ(segments, (std::vector<int64_t>{6, 3, 2, 1}));
}

TEST(Command, compare_digits_is_plain_and_checkpoint_by_default) {
  const Outcome outcome = run("compare digits --hidden 16,16,16 --steps 2 --threads 1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("1 thread,"), HasSubstr("\nplain "), HasSubstr("\ncheckpoint ")));
}

TEST(Command, train_prints_the_same_losses_under_both_strategies) {
  const std::string common =
      "train digits --hidden 32,32,32 --threads 1 --steps 20 --log-every 5 --strategy ";
  const auto losses = [&](const std::string& strategy) {
    const Outcome outcome = run(common + strategy);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string found;
    const std::regex loss("step +([0-9]+)/20 \\| loss ([0-9.e+-]+)");
    for (std::sregex_iterator it(outcome.out.begin(), outcome.out.end(), loss), end; it != end;
         ++it) {
      found += it->str(1) + " " + it->str(2) + "\n";
    }
    EXPECT_THAT(outcome.out, HasSubstr("accuracy "));
    return found;
  };
  const std::string plain = losses("plain");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), '\n'), 5) << plain;
  EXPECT_EQ(losses("checkpoint"), plain);
}

TEST(Command, profile_prints_the_tree_and_the_peak_and_writes_json) {
  const TempFolder folder;
  const std::string common =
      "profile gpt --layers 2 --width 32 --batch 2 --context 16 --threads 1 ";
  const Outcome outcome = run(common + "--steps 2 --saved --json " + folder.path("r.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(
      outcome.out,
      AllOf(StartsWith("gpt on cpu, LibTorch "), HasSubstr("1 thread, medians of 2 steps"),
            HasSubstr("\n    1 "), HasSubstr("\nsaved tensor "), HasSubstr("\nalive at the peak "),
            HasSubstr("\noptimizer state "), HasSubstr("resident memory of the process ")));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("r.json")));
  EXPECT_EQ(json["kind"], "profile");
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["modules"][0]["path"], "");
  EXPECT_EQ(json["modules"][0]["total"]["saved_bytes"], json["saved_bytes"]);

  const Outcome top = run(common + "--steps 1 --top 2");
  EXPECT_THAT(top.out, ContainsRegex("class\n[^\n]+\n[^\n]+\n\na training step"));
  const Outcome flat = run(common + "--steps 1 --module-depth 0");
  EXPECT_THAT(flat.out, AllOf(HasSubstr("\n(all) "), Not(HasSubstr("attention "))));
}

TEST(Command, profile_of_shapes_alone_saves_the_same_bytes) {
  const TempFolder folder;
  const std::string common =
      "profile gpt --layers 2 --width 32 --batch 2 --context 16 --threads 1 --json ";
  EXPECT_EQ(run(common + folder.path("real.json") + " --steps 1").code, 0);
  const Outcome outcome = run(common + folder.path("meta.json") + " --meta");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("from shapes alone"), Not(HasSubstr("forward ms")),
                                 Not(HasSubstr("peak"))));
  const auto real = nlohmann::json::parse(tests::read_file(folder.path("real.json")));
  const auto meta = nlohmann::json::parse(tests::read_file(folder.path("meta.json")));
  EXPECT_EQ(meta["saved"], real["saved"]);
  EXPECT_EQ(meta["saved_bytes"], real["saved_bytes"]);
}

TEST(Command, profile_rejects_what_it_cannot_do) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {"profile", 2, "a workload is missing"},
           {"profile gtp", 2, "did you mean 'gpt'?"},
           {"profile gpt --top 0", 2, "--top: '0'"},
           {"profile gpt --module-depth -1", 2, "--module-depth: '-1'"},
           {"profile gpt --steps 0", 2, "--steps: '0'"},
           {"profile gpt --meta --steps 3", 2, "--steps does nothing with --meta"},
           {"profile gpt --savd", 2, "did you mean '--saved'?"},
           {"profile gpt --json /nowhere/r.json", 2, "No such file"},
       }) {
    expect_rejected(mistake);
  }
}

TEST(Command, train_takes_a_batch_in_parts_by_strategy_or_by_option) {
  const TempFolder folder;
  const auto trained = [&](const std::string& arguments) {
    const Outcome outcome =
        run("train blocks --width 16 --batch 250 --threads 1 --steps 3 --json " + folder.path("r") +
            arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(tests::read_file(folder.path("r")));
  };
  const auto strategy = trained(" --strategy accumulate:4");
  const auto option = trained(" --accumulate 4");
  const auto plain = trained("");
  EXPECT_EQ(strategy["accumulate"], 4);
  EXPECT_EQ(strategy["loss"], option["loss"]);
  EXPECT_EQ(strategy["peak_bytes"], option["peak_bytes"]);
  EXPECT_LT(strategy["peak_bytes"], plain["peak_bytes"]);
}

TEST(Command, train_writes_json) {
  const TempFolder folder;
  const Outcome outcome =
      run("train digits --hidden 16,16 --threads 1 --steps 3 --until-loss 0.001 --regions "
          "--strategy checkpoint --json " +
          folder.path("r.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("0.001 was not reached"));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("r.json")));
  EXPECT_EQ(json["steps"], 3);
  EXPECT_EQ(json["max_steps"], 3);
  EXPECT_EQ(json["log"].size(), 2);
  EXPECT_EQ(json["quality_name"], "accuracy");
  EXPECT_EQ(json["regions"][0]["name"], "layers 0-1");
  EXPECT_EQ(json["regions"][0]["replays"], 3);
  EXPECT_THAT(outcome.out, HasSubstr("\nlayers 0-1 "));
}

TEST(Command, doctor_finds_everything_and_says_so) {
  const TempFolder folder;
  const Outcome outcome = run("doctor --json " + folder.path("r.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("LibTorch"), HasSubstr("libtorch"),
                                 HasSubstr("1797 rows"), ContainsRegex("missing +nothing")));
  const auto json = nlohmann::json::parse(tests::read_file(folder.path("r.json")));
  EXPECT_EQ(json["digits_rows"], 1797);
  EXPECT_EQ(json["allocator_counted"], true);
  EXPECT_TRUE(json["missing"].empty());
}

TEST(Command, doctor_names_what_is_missing) {
  const Outcome outcome = run("doctor", "REPRISE_METER=0 REPRISE_DATA_DIR=/nowhere");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("not counted"));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("/nowhere"), HasSubstr("REPRISE_METER")));
}

TEST(Command, prints_help_and_version) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("train"), HasSubstr("compare"), HasSubstr("doctor")));
  const Outcome verb = run("compare --help");
  EXPECT_EQ(verb.code, 0);
  EXPECT_THAT(verb.out,
              AllOf(HasSubstr("--strategies"), HasSubstr("every:N"), HasSubstr("digits")));
  EXPECT_THAT(run("--version").out, StartsWith("reprise "));
}

TEST(Command, writes_no_escape_codes_where_nobody_looks) {
  EXPECT_THAT(run("trian").err, Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace reprise
