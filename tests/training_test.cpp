// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include <reprise/equality.h>
#include <reprise/error.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/one_thread.h"
#include "tests/temp_folder.h"
#include "workloads/compare.h"
#include "workloads/schedule.h"
#include "workloads/text_data.h"
#include "workloads/train.h"

// Training practice in the workloads: texts, schedules, parts of batches, lower precision, and runs
// that are saved and resumed.

namespace reprise::workloads {
namespace {

using ::testing::HasSubstr;
using tests::TempFolder;
using torch::Tensor;

WorkloadOptions small() {
  WorkloadOptions options;
  options.layers = 2;
  options.width = 16;
  options.heads = 2;
  options.context = 24;
  options.batch = 4;
  return options;
}

Tensor weights(Workload& workload) {
  return torch::nn::utils::parameters_to_vector(workload.module().parameters()).detach();
}

struct Trained {
  Training training;
  Tensor weights;
};

Trained train_small(const std::string& name, const WorkloadOptions& options, TrainOptions how) {
  const auto workload = make_workload(name, options);
  Training training = train(*workload, how);
  return {training, weights(*workload)};
}

std::string failure(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class Language : public ::testing::TestWithParam<const char*> {
 protected:
  const tests::OneThread quick_;
};
INSTANTIATE_TEST_SUITE_P(Workloads, Language, ::testing::Values("gpt", "bert"));

TEST_P(Language, gradients_are_the_same_under_every_strategy) {
  for (const bool cast : {false, true}) {
    WorkloadOptions options = small();
    if (cast) options.autocast = c10::kBFloat16;
    const auto workload = make_workload(GetParam(), options);
    const auto strategies = parse_strategies(
        "checkpoint,checkpoint+operators,sequential:2,attention,ffn,tape:full,tape:every_layer,"
        "tape:keep_matmuls");
    CompareOptions how;
    how.steps = 2;
    for (const StrategyRow& row : compare(*workload, strategies, how).rows) {
      EXPECT_TRUE(row.grads_bit_equal && row.rng_preserved) << row.strategy << cast;
    }
  }
}

TEST_P(Language, a_run_in_two_pieces_is_the_run_in_one) {
  const TempFolder folder;
  for (const bool half : {false, true}) {
    WorkloadOptions options = small();
    if (half) options.autocast = c10::kHalf;
    TrainOptions whole;
    whole.steps = 6;
    whole.accumulate = half ? 2 : 1;
    const Trained expected = train_small(GetParam(), options, whole);
    TrainOptions first = whole;
    first.steps = 4;
    first.save = folder.path("run");
    train_small(GetParam(), options, first);
    TrainOptions second = whole;
    second.resume = folder.path("run");
    second.strategy = parse_strategy("checkpoint");
    const Trained resumed = train_small(GetParam(), options, second);
    EXPECT_EQ(resumed.training.first_step, 5);
    EXPECT_EQ(resumed.training.steps, 6);
    EXPECT_EQ(resumed.training.loss, expected.training.loss);
    EXPECT_TRUE(bit_equal(resumed.weights, expected.weights));
  }
}

TEST_P(Language, a_batch_in_parts_has_the_gradient_of_the_whole) {
  WorkloadOptions options = small();
  options.dropout = 0;  // each part draws its own
  options.batch = 7;
  TrainOptions how;
  how.steps = 1;
  const Trained whole = train_small(GetParam(), options, how);
  how.accumulate = 3;
  const Trained parts = train_small(GetParam(), options, how);
  EXPECT_NEAR(parts.training.loss, whole.training.loss, 1e-5);
  EXPECT_LT(parts.training.peak_bytes, whole.training.peak_bytes);
}

TEST_P(Language, learns) {
  WorkloadOptions options = small();
  options.schedule = 40;
  options.learning_rate = 1e-2;
  const auto workload = make_workload(GetParam(), options);
  TrainOptions how;
  how.steps = 40;
  const double before = workload->quality()->value;
  const Training training = train(*workload, how);
  EXPECT_LT(training.log.back().loss, training.log.front().loss - 0.5);
  const bool is_loss = training.quality_unit != "%";
  EXPECT_GT((is_loss ? before - *training.quality : *training.quality - before), 0);
}

TEST_P(Language, quality_and_sample_move_neither_weights_nor_generator) {
  const auto workload = make_workload(GetParam(), small());
  torch::manual_seed(5);
  const Tensor before = at::globalContext().defaultGenerator(torch::kCPU).get_state();
  const Tensor weights_before = weights(*workload).clone();
  const double quality = workload->quality()->value;
  workload->sample();
  EXPECT_EQ(workload->quality()->value, quality);
  EXPECT_TRUE(bit_equal(at::globalContext().defaultGenerator(torch::kCPU).get_state(), before));
  EXPECT_TRUE(bit_equal(weights(*workload), weights_before));
  EXPECT_TRUE(workload->module().is_training());
}

TEST(Bert, masks_some_bytes_of_each_line_and_nothing_of_the_padding) {
  const auto workload = make_workload("bert", small());
  for (int64_t step = 0; step < 5; ++step) {
    const Batch batch = workload->batch(step);
    const Tensor chosen = batch.target.ne(-100);
    EXPECT_TRUE(chosen.any(1).all().item<bool>());
    EXPECT_FALSE(batch.input.eq(256).logical_and(chosen).any().item<bool>());
    const Tensor unchosen = chosen.logical_not();
    EXPECT_FALSE(batch.input.eq(257).logical_and(unchosen).any().item<bool>());
    EXPECT_LT(batch.target.max().item<int64_t>(), 256);
  }
}

// What is behind a short line must not reach its loss.
TEST(Bert, padding_is_not_seen) {
  WorkloadOptions options = small();
  options.dropout = 0;
  const auto workload = make_workload("bert", options);
  const Batch batch = workload->batch(0);
  const Tensor padding = batch.input.eq(256);
  Batch longer = batch;
  longer.input = torch::constant_pad_nd(batch.input.slice(1, 0, 12), {0, 12}, 256);
  longer.target = torch::constant_pad_nd(batch.target.slice(1, 0, 12), {0, 12}, -100);
  const Batch shorter = {batch.input.slice(1, 0, 12), batch.target.slice(1, 0, 12)};
  const Strategy plain = parse_strategy("plain");
  EXPECT_NEAR(workload->run(plain, longer).loss.item<double>(),
              workload->run(plain, shorter).loss.item<double>(), 1e-5);
}

TEST(Gpt, sees_nothing_of_what_comes_later) {
  WorkloadOptions options = small();
  options.dropout = 0;
  const auto workload = make_workload("gpt", options);
  Batch batch = workload->batch(0);
  const Strategy plain = parse_strategy("plain");
  const Tensor before = workload->run(plain, batch).output.slice(1, 0, 10).detach();
  batch.input.slice(1, 10).fill_(7);
  EXPECT_TRUE(
      torch::allclose(workload->run(plain, batch).output.slice(1, 0, 10), before, 1e-5, 1e-6));
}

TEST(Text, of_a_file_is_split_and_windows_are_its_bytes) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);
  const TextData data = load_text(folder.write("text", text), 4);
  EXPECT_EQ(data.training.size(), 180U);
  EXPECT_EQ(data.validation.size(), 20U);
  const Tensor windows = text_windows(data.training, {5, 150}, 3);
  EXPECT_TRUE(torch::equal(windows, torch::tensor({{5, 6, 7}, {150, 151, 152}}, torch::kLong)));
}

TEST(Text, that_cannot_serve_is_refused_in_one_line) {
  const TempFolder folder;
  const auto load = [&](const std::string& path) { return failure([&] { load_text(path, 50); }); };
  EXPECT_THAT(load(folder.path("none")), HasSubstr("No such file"));
  EXPECT_THAT(load(folder.write("empty", "")), HasSubstr("is empty"));
  EXPECT_THAT(load(folder.write("short", "abc")), HasSubstr("its 3 bytes are too few"));
  EXPECT_THAT(load(folder.path("")), HasSubstr("Is a directory"));
  std::string packed = tests::read_file(std::string(REPRISE_SOURCE_DIR) + "/data/text.txt.gz");
  EXPECT_THAT(load(folder.write("cut.gz", packed.substr(0, packed.size() / 2))),
              HasSubstr("truncated"));
  packed[packed.size() / 2] ^= 1;
  EXPECT_THAT(load(folder.write("bad.gz", packed)), HasSubstr("corrupt"));
  WorkloadOptions options = small();
  options.text = folder.write("one", std::string(2000, 'x'));
  EXPECT_EQ(failure([&] { make_workload("bert", options); }), "");
  options.text = folder.write("newlines", std::string(2000, '\n'));
  EXPECT_THAT(failure([&] { make_workload("bert", options); }), HasSubstr("no lines"));
}

TEST(Schedule, rises_falls_and_stays) {
  EXPECT_DOUBLE_EQ(cosine_with_warmup(0, 1500), 0.01);
  EXPECT_DOUBLE_EQ(cosine_with_warmup(99, 1500), 1);
  EXPECT_DOUBLE_EQ(cosine_with_warmup(100, 1500), 1);
  EXPECT_NEAR(cosine_with_warmup(800, 1500), 0.55, 1e-12);
  EXPECT_NEAR(cosine_with_warmup(1500, 1500), 0.1, 1e-12);
  EXPECT_NEAR(cosine_with_warmup(9999, 1500), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(cosine_with_warmup(0, 1), 1);
}

TEST(Train, ends_where_its_user_says_and_saves) {
  const tests::OneThread quick;
  const TempFolder folder;
  TrainOptions how;
  how.steps = 50;
  how.save = folder.path("run");
  int64_t steps = 0;
  how.on_step = [&](const TrainingStep&) { ++steps; };
  how.interrupted = [&] { return steps == 2; };
  const Trained some = train_small("gpt", small(), how);
  EXPECT_TRUE(some.training.interrupted);
  EXPECT_EQ(some.training.steps, 3);
  how.interrupted = nullptr;
  how.steps = 5;
  const Trained expected = train_small("gpt", small(), how);
  how.resume = how.save;
  how.save = std::nullopt;
  how.steps = 5;
  EXPECT_THAT(failure([&] { train_small("gpt", small(), how); }), HasSubstr("5 steps already"));
}

TEST(Train, saves_every_so_many_steps) {
  const tests::OneThread quick;
  const TempFolder folder;
  TrainOptions how;
  how.steps = 5;
  how.save = folder.path("run");
  how.save_every = 2;
  std::vector<bool> there;
  how.on_step = [&](const TrainingStep&) { there.push_back(folder.entries() > 0); };
  train_small("gpt", small(), how);
  EXPECT_EQ(there, (std::vector<bool>{false, false, true, true, true}));
}

TEST(Train, refuses_parts_and_files_that_do_not_fit) {
  const TempFolder folder;
  TrainOptions how;
  how.steps = 1;
  how.accumulate = 0;
  EXPECT_THAT(failure([&] { train_small("gpt", small(), how); }), HasSubstr("--accumulate"));
  how.accumulate = 5;
  EXPECT_THAT(failure([&] { train_small("gpt", small(), how); }), HasSubstr("batch of 4"));
  how.accumulate = 1;
  how.save = folder.path("run");
  train_small("gpt", small(), how);
  how.resume = how.save;
  how.steps = 2;
  WorkloadOptions other = small();
  other.seed = 1;
  EXPECT_THAT(failure([&] { train_small("gpt", other, how); }), HasSubstr("--seed 1"));
}

}  // namespace
}  // namespace reprise::workloads
