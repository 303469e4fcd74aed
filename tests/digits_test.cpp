// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/digits.h"

#include <stdlib.h>

#include <reprise/error.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temp_folder.h"

// The digits: the data that ships, damaged files, and the model.

namespace reprise::workloads {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::TempFolder;

const std::string kShipped = std::string(REPRISE_SOURCE_DIR) + "/data/digits.csv.gz";

std::string row(const std::string& pixel = "7", const std::string& label = "3") {
  std::string text;
  for (int i = 0; i < 64; ++i) text += pixel + ",";
  return text + label;
}

// The message of what loading throws, and whether it is a wrong name or a wrong file.
template <class Expected>
std::string failure(const std::string& path) {
  try {
    load_digits(path);
  } catch (const Expected& error) {
    return error.what();
  }
  return "nothing of the expected kind was thrown";
}

TEST(DigitsData, holds_the_whole_set) {
  const DigitsData data = load_digits(kShipped);
  EXPECT_THAT(data.pixels.sizes().vec(), ElementsAre(1797, 64));
  EXPECT_THAT(data.labels.sizes().vec(), ElementsAre(1797));
  EXPECT_EQ(data.pixels.dtype(), torch::kFloat32);
  EXPECT_EQ(data.pixels.min().item<float>(), 0);
  EXPECT_EQ(data.pixels.max().item<float>(), 1);
  EXPECT_EQ(data.pixels[0][2].item<float>(), 5.0F / 16);
  const torch::Tensor counts = torch::bincount(data.labels);
  EXPECT_EQ(counts.numel(), 10);
  EXPECT_GE(counts.min().item<int64_t>(), 174);
}

TEST(DigitsData, reads_an_unpacked_file_with_or_without_a_last_newline) {
  const TempFolder folder;
  EXPECT_EQ(load_digits(folder.write("a.csv", row() + "\n" + row())).labels.numel(), 2);
  EXPECT_EQ(load_digits(folder.write("b.csv", row() + "\n" + row() + "\n")).labels.numel(), 2);
}

TEST(DigitsData, refuses_a_file_that_is_not_there) {
  EXPECT_THAT(
      failure<UsageError>("/nowhere/digits.csv.gz"),
      AllOf(HasSubstr("/nowhere/digits.csv.gz"), HasSubstr("No such file"), HasSubstr("\nhint: ")));
}

TEST(DigitsData, refuses_a_folder) {
  const TempFolder folder;
  EXPECT_THAT(failure<Error>(folder.path("")), HasSubstr("\nhint: "));
}

TEST(DigitsData, refuses_a_truncated_file) {
  const TempFolder folder;
  const std::string whole = tests::read_file(kShipped);
  for (const std::size_t size : {whole.size() - 1, whole.size() - 9, whole.size() / 2}) {
    EXPECT_THAT(failure<Error>(folder.write("cut.gz", whole.substr(0, size))),
                AllOf(HasSubstr("cut.gz"), HasSubstr("truncated"), HasSubstr("\nhint: ")))
        << size;
  }
}

TEST(DigitsData, refuses_a_flipped_bit_anywhere) {
  const TempFolder folder;
  const std::string whole = tests::read_file(kShipped);
  for (const std::size_t at :
       {std::size_t{40}, whole.size() / 3, whole.size() / 2, whole.size() - 6, whole.size() - 2}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_THAT(failure<Error>(folder.write("bit.gz", damaged)), HasSubstr("bit.gz")) << at;
  }
}

TEST(DigitsData, names_the_row_that_is_wrong) {
  const TempFolder folder;
  const std::vector<std::pair<std::string, std::string>> bad_rows = {
      {row("17"), "'17'"},        {row("-1"), "'-1'"},
      {row("x"), "'x'"},          {row(""), "''"},
      {row("1.5"), "'1.5'"},      {row("7", "10"), "label is '10'"},
      {row("7", "-1"), "label"},  {row("7", ""), "label"},
      {row("7", "nan"), "label"}, {row() + ",1", "66 columns"},
      {"", "1 columns"},          {"1,2,3", "3 columns"},
      {row() + "\r", "label"},    {row(" 7"), "' 7'"},
  };
  for (const auto& [bad, complaint] : bad_rows) {
    const std::string text = row() + "\n" + row() + "\n" + bad + "\n" + row() + "\n";
    EXPECT_THAT(failure<Error>(folder.write("rows.csv", text)),
                AllOf(HasSubstr("rows.csv', row 3: "), HasSubstr(complaint), HasSubstr("\nhint: ")))
        << bad;
  }
}

TEST(DigitsData, refuses_a_file_without_rows) {
  const TempFolder folder;
  EXPECT_THAT(failure<Error>(folder.write("empty.gz", "")), HasSubstr("no rows"));
  EXPECT_THAT(failure<Error>(folder.write("blank.csv", "\n")), HasSubstr("row 1: "));
}

TEST(DigitsData, is_looked_for_where_the_environment_says) {
  const TempFolder folder;
  ::setenv("REPRISE_DATA_DIR", folder.path("").c_str(), 1);
  EXPECT_THROW(find_digits(), UsageError) << "a chosen folder is the only one";
  const std::string copy = folder.write("digits.csv.gz", row());
  EXPECT_EQ(std::filesystem::path(find_digits()).lexically_normal(), copy);
  ::unsetenv("REPRISE_DATA_DIR");
  EXPECT_EQ(load_digits(find_digits()).labels.numel(), 1797);
}

TEST(Digits, is_the_model_of_the_listing) {
  const auto workload = make_workload("digits", {});
  EXPECT_EQ(workload->parameter_count(),
            (64 + 1) * 256 + (256 + 1) * 512 + (512 + 1) * 512 + (512 + 1) * 128 + (128 + 1) * 10);
  EXPECT_EQ(workload->layers().size(), 6) << "three times Linear and ReLU";
  EXPECT_THAT(workload->blocks(), ElementsAre(Segment{0, 6}));
  EXPECT_EQ(workload->samples_per_batch(), 1797);
  const ForwardResult result = workload->forward(parse_strategy("plain"), workload->batch(0));
  EXPECT_NEAR(result.loss.item<double>(), std::log(10.0), 0.05) << "of an untrained classifier";
}

TEST(Digits, takes_sizes_and_dropout) {
  WorkloadOptions options;
  options.hidden = {16, 24, 8};
  options.dropout = 0.5;
  const auto workload = make_workload("digits", options);
  EXPECT_EQ(workload->layers().size(), 6) << "twice Linear, ReLU and Dropout";
  EXPECT_EQ(workload->parameter_count(), 65 * 16 + 17 * 24 + 25 * 8 + 9 * 10);
  const auto quality = workload->quality();
  ASSERT_TRUE(quality.has_value());
  EXPECT_EQ(quality->value, workload->quality()->value) << "dropout is off while it is measured";
  EXPECT_TRUE(workload->module().is_training());
}

TEST(Digits, needs_a_middle) {
  WorkloadOptions options;
  options.hidden = {256};
  EXPECT_THROW(make_workload("digits", options), UsageError);
}

}  // namespace
}  // namespace reprise::workloads
