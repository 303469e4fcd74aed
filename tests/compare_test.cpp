// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/compare.h"

#include <cmath>

#include <reprise/equality.h>
#include <reprise/error.h>
#include <reprise/meter.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/one_thread.h"

// Comparisons: that strategies agree to the last bit, and that one which does not is found out.

namespace reprise::workloads {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const char* const kStrategies =
    "plain,checkpoint,sequential:2,sequential:3,segments:2,layers:2,4,layers:0-2,every:2";

std::vector<std::string> names_of(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const StrategyRow& row : comparison.rows) names.push_back(row.strategy);
  return names;
}

Comparison compare_steps(Workload& workload, const std::string& strategies, int64_t steps) {
  CompareOptions options;
  options.steps = steps;
  return compare(workload, parse_strategies(strategies), options);
}

void expect_identical(const std::string& name, const WorkloadOptions& options,
                      const std::string& strategies = kStrategies, int64_t steps = 20) {
  const tests::OneThread quick;
  const auto workload = make_workload(name, options);
  const Comparison comparison = compare_steps(*workload, strategies, steps);
  ASSERT_EQ(comparison.rows.size(), parse_strategies(strategies).size());
  for (const StrategyRow& row : comparison.rows) {
    EXPECT_TRUE(row.grads_bit_equal) << name << " " << row.strategy;
    EXPECT_EQ(row.max_abs_grad_diff, 0) << name << " " << row.strategy;
    EXPECT_TRUE(row.rng_preserved) << name << " " << row.strategy;
    EXPECT_TRUE(row.keeps_promise()) << name << " " << row.strategy;
    EXPECT_EQ(row.loss, comparison.rows.front().loss) << name << " " << row.strategy;
  }
}

TEST(Compare, digits_have_identical_gradients_under_every_strategy_with_and_without_dropout) {
  WorkloadOptions options;
  options.hidden = {32, 48, 48, 16};
  expect_identical("digits", options);
  options.dropout = 0.3;
  expect_identical("digits", options);
}

TEST(Compare, blocks_have_identical_gradients_under_every_strategy_with_and_without_dropout) {
  WorkloadOptions options;
  options.width = 32;
  options.batch = 32;
  expect_identical("blocks", options);
  options.dropout = 0.3;
  options.context = 3;
  expect_identical("blocks", options);
}

TEST(Compare, tape_strategies_have_identical_gradients_on_every_workload) {
  const std::string strategies =
      "plain,tape:full,tape:every_layer,tape:keep_matmuls,tape:advised,tape:classes";
  WorkloadOptions digits;
  digits.hidden = {32, 48, 48, 16};
  digits.dropout = 0.3;
  expect_identical("digits", digits, strategies, 3);
  WorkloadOptions options;
  options.width = 32;
  options.batch = 4;
  options.context = 16;
  options.dropout = 0.3;
  expect_identical("blocks", options, strategies, 3);
  expect_identical("gpt", options, strategies + ",checkpoint,attention,ffn,parts,segments:3", 3);
}

TEST(Compare, options_of_regions_change_no_gradient) {
  WorkloadOptions options;
  options.layers = 3;
  options.width = 32;
  options.batch = 4;
  options.context = 16;
  options.dropout = 0.3;
  const std::string strategies =
      "plain,checkpoint+operators,checkpoint+reentrant,segments:2+reentrant,every:2+operators";
  expect_identical("blocks", options, strategies, 3);
  expect_identical("gpt", options, strategies + ",ffn+operators,attention+reentrant", 3);
}

TEST(Compare, reports_what_the_regions_did_in_one_step) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.layers = 4;
  options.width = 32;
  const auto workload = make_workload("blocks", options);
  const Comparison comparison =
      compare_steps(*workload, "segments:3,every:2+no_rng,tape:full,checkpoint+reentrant", 1);
  EXPECT_THAT(comparison.rows[0].regions, IsEmpty());
  const auto names = [](const StrategyRow& row) {
    std::vector<std::string> names;
    for (const RegionStats& region : row.regions) {
      names.push_back(region.name);
      EXPECT_EQ(region.runs, 1) << region.name;
      EXPECT_GE(region.replays, 1) << region.name;
      EXPECT_EQ(region.preserves_rng, row.strategy != "every:2+no_rng") << region.name;
      EXPECT_EQ(region.dropped_known, row.strategy != "checkpoint+reentrant") << region.name;
      EXPECT_TRUE(!region.dropped_known || region.dropped_bytes > 0) << region.name;
    }
    return names;
  };
  EXPECT_THAT(names(comparison.rows[1]), ElementsAre("layers 0-2", "layer 3"));
  EXPECT_THAT(names(comparison.rows[2]), ElementsAre("layer 1", "layer 3"));
  EXPECT_THAT(names(comparison.rows[3]), ElementsAre("tape:full"));
  EXPECT_THAT(names(comparison.rows[4]), ElementsAre("layer 0", "layer 1", "layer 2", "layer 3"));
}

TEST(Compare, reports_what_each_strategy_holds_and_runs_again) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.layers = 8;
  options.width = 32;
  const auto workload = make_workload("blocks", options);
  const Comparison comparison = compare_steps(*workload, "checkpoint,every:2,segments:4", 2);
  ASSERT_THAT(names_of(comparison), ElementsAre("plain", "checkpoint", "every:2", "segments:4"));
  const StrategyRow& plain = comparison.rows[0];
  const StrategyRow& checkpoint = comparison.rows[1];
  const StrategyRow& every = comparison.rows[2];
  const StrategyRow& segments = comparison.rows[3];
  EXPECT_EQ(comparison.workload, "blocks");
  EXPECT_EQ(comparison.parameters, workload->parameter_count());
  EXPECT_GE(comparison.base_bytes, 4 * comparison.parameters);
  EXPECT_EQ(plain.memory_ratio, 1);
  EXPECT_EQ(plain.time_ratio, 1);
  EXPECT_EQ(plain.recomputed_ops, 0);
  EXPECT_FALSE(plain.segments.has_value());
  EXPECT_FALSE(plain.quality.has_value());
  EXPECT_EQ(checkpoint.segments, 8);
  EXPECT_EQ(checkpoint.longest_segment_layers, 1);
  EXPECT_EQ(every.segments, 4);
  EXPECT_EQ(segments.segments, 2);
  EXPECT_EQ(segments.longest_segment_layers, 4);
  EXPECT_LT(checkpoint.held_bytes, every.held_bytes);
  EXPECT_LT(every.held_bytes, plain.held_bytes);
  EXPECT_LT(checkpoint.peak_bytes, plain.peak_bytes);
  EXPECT_GT(checkpoint.recomputed_ops, every.recomputed_ops);
  EXPECT_GT(every.recomputed_ops, 0);
  EXPECT_GT(checkpoint.recomputed_ms, 0);
  for (const StrategyRow& row : comparison.rows) {
    EXPECT_GE(row.peak_bytes, row.held_bytes);
    EXPECT_LE(row.step_ms_min, row.step_ms_q1);
    EXPECT_LE(row.step_ms_q1, row.step_ms_median);
    EXPECT_LE(row.step_ms_median, row.step_ms_q3);
    EXPECT_LE(row.step_ms_q3, row.step_ms_max);
    EXPECT_NEAR(row.samples_per_second * row.step_ms_median, 512 * 1000, 1);
  }
}

TEST(Compare, parts_of_layers_are_regions_of_their_own) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.layers = 3;
  options.width = 32;
  options.batch = 2;
  options.context = 16;
  const auto workload = make_workload("gpt", options);
  const Comparison comparison = compare_steps(*workload, "checkpoint,attention,ffn,parts", 1);
  const StrategyRow& parts = comparison.rows[4];
  EXPECT_EQ(comparison.rows[3].segments, 3);
  EXPECT_EQ(parts.segments, 6);
  EXPECT_EQ(parts.regions.size(), 6);
  EXPECT_EQ(parts.recomputed_ops,
            comparison.rows[2].recomputed_ops + comparison.rows[3].recomputed_ops);
  EXPECT_LT(parts.peak_bytes, comparison.rows[2].peak_bytes);
}

TEST(Compare, a_ratio_has_an_interval_where_there_are_steps_enough) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.width = 16;
  const auto workload = make_workload("blocks", options);
  const Comparison comparison = compare_steps(*workload, "checkpoint", 6);
  EXPECT_FALSE(comparison.rows[0].time_ratio_low.has_value()) << "plain next to itself";
  const StrategyRow& row = comparison.rows[1];
  ASSERT_TRUE(row.time_ratio_low && row.time_ratio_high);
  EXPECT_LE(*row.time_ratio_low, row.time_ratio);
  EXPECT_GE(*row.time_ratio_high, row.time_ratio);
  EXPECT_FALSE(compare_steps(*workload, "checkpoint", 5).rows[1].time_ratio_low.has_value());
}

TEST(Compare, a_batch_in_parts_needs_less_and_differs_only_by_rounding) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.width = 32;
  options.batch = 10;  // parts of unequal sizes
  options.context = 64;
  const auto workload = make_workload("blocks", options);
  const Comparison comparison = compare_steps(*workload, "accumulate:1,accumulate:4", 2);
  const StrategyRow& plain = comparison.rows[0];
  const StrategyRow& whole = comparison.rows[1];
  const StrategyRow& parts = comparison.rows[2];
  EXPECT_TRUE(whole.exact);
  EXPECT_TRUE(whole.grads_bit_equal);
  EXPECT_EQ(whole.peak_bytes, plain.peak_bytes);
  EXPECT_FALSE(parts.exact);
  EXPECT_TRUE(parts.keeps_promise());
  EXPECT_FALSE(parts.grads_bit_equal);
  EXPECT_GT(parts.max_abs_grad_diff, 0);
  EXPECT_LT(parts.max_abs_grad_diff, 1e-6);
  EXPECT_NEAR(parts.loss, plain.loss, 1e-5);
  EXPECT_LT(parts.held_bytes, plain.held_bytes / 2);
  EXPECT_LT(parts.peak_bytes, plain.peak_bytes / 2);
  EXPECT_EQ(parts.recomputed_ops, 0);
}

TEST(Compare, classes_recompute_what_holds_much_for_little_time) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.layers = 3;
  options.width = 64;
  options.batch = 8;
  options.context = 64;
  const auto workload = make_workload("gpt", options);
  const Comparison comparison = compare_steps(*workload, "tape:full,tape:classes", 2);
  const StrategyRow& classes = comparison.rows[2];
  EXPECT_GT(classes.recomputed_ops, 0);
  EXPECT_LT(classes.recomputed_ops, comparison.rows[1].recomputed_ops);
  EXPECT_LT(classes.held_bytes, comparison.rows[0].held_bytes);
  EXPECT_GT(classes.held_bytes, comparison.rows[1].held_bytes);
}

TEST(SegmentScan, takes_the_smallest_size_for_each_number_of_segments) {
  WorkloadOptions options;
  options.layers = 32;
  options.width = 4;
  std::vector<std::string> names;
  for (const Strategy& strategy : segment_scan(*make_workload("blocks", options))) {
    names.push_back(strategy.text);
  }
  EXPECT_THAT(names, ElementsAre("segments:1", "segments:2", "segments:3", "segments:4",
                                 "segments:5", "segments:6", "segments:7", "segments:8",
                                 "segments:11", "segments:16", "segments:32"));
  options.layers = 1;
  EXPECT_THROW(segment_scan(*make_workload("blocks", options)), UsageError);
}

// A block runs layer_norm, transpose and addmm for each of its two Linear, relu and the sum: seven
// operators. Each region runs all of its own again but the last, the sum that is its result:
// nothing saves that.
TEST(SegmentScan, each_region_replays_once) {
  const tests::OneThread quick;
  constexpr int64_t kOperators = 7, kUnneeded = 1;
  WorkloadOptions options;
  options.layers = 32;
  options.width = 8;
  options.batch = 4;
  const auto workload = make_workload("blocks", options);
  const Comparison comparison =
      compare_steps(*workload, "segments:1,segments:4,segments:32,sequential:8", 1);
  const auto expect = [&](std::size_t row, int64_t regions, int64_t layers) {
    EXPECT_EQ(comparison.rows[row].recomputed_ops, regions * (layers * kOperators - kUnneeded))
        << comparison.rows[row].strategy;
    int64_t replays = 0;
    for (const RegionStats& region : comparison.rows[row].regions) replays += region.replays;
    EXPECT_EQ(replays, regions) << comparison.rows[row].strategy;
  };
  expect(1, 32, 1);
  expect(2, 8, 4);
  expect(3, 1, 32);
  expect(4, 7, 4);  // the last of the eight segments is plain
}

TEST(CompareTraining, every_strategy_ends_with_the_weights_of_plain) {
  const tests::OneThread quick;
  WorkloadOptions settings;
  settings.hidden = {16, 16, 16};
  settings.dropout = 0.3;
  settings.learning_rate = 0.1;
  const auto workload = make_workload("digits", settings);
  const torch::Tensor before =
      torch::nn::utils::parameters_to_vector(workload->module().parameters()).clone();
  CompareOptions options;
  options.steps = 1;
  options.train = 5;
  int64_t told = 0, announced = 0;
  options.progress = [&](int64_t done, int64_t total, const std::string&) {
    EXPECT_EQ(done, told++);
    announced = total;
  };
  const Comparison comparison =
      compare(*workload, parse_strategies("checkpoint,tape:keep_matmuls,accumulate:3"), options);
  EXPECT_EQ(told, announced);
  EXPECT_EQ(comparison.train_steps, 5);
  EXPECT_EQ(comparison.quality_name, "accuracy");
  const TrainingOutcome& plain = *comparison.rows[0].training;
  EXPECT_LT(plain.loss, comparison.rows[0].loss) << "it has learnt";
  for (const StrategyRow& row : comparison.rows) {
    ASSERT_TRUE(row.training.has_value()) << row.strategy;
    EXPECT_GT(row.training->peak_bytes, 0) << row.strategy;
    EXPECT_TRUE(row.training->quality.has_value()) << row.strategy;
    if (!row.exact) continue;
    EXPECT_TRUE(row.training->weights_bit_equal) << row.strategy;
    EXPECT_EQ(row.training->max_abs_weight_diff, 0) << row.strategy;
    EXPECT_EQ(row.training->loss, plain.loss) << row.strategy;
    EXPECT_EQ(row.training->quality, plain.quality) << row.strategy;
  }
  EXPECT_FALSE(comparison.rows[3].training->weights_bit_equal) << "its draws are others";
  EXPECT_TRUE(
      bit_equal(before, torch::nn::utils::parameters_to_vector(workload->module().parameters())));
}

// Its layers hold statistics, and it may let a strategy change them once more than plain does.
class Normed final : public Workload {
 public:
  explicit Normed(bool faulty) : Workload("normed", {}), faulty_(faulty) {
    for (int i = 0; i < 3; ++i) {
      torch::nn::Linear linear(16, 16);
      torch::nn::BatchNorm1d norm(16);
      module_->register_module("linear" + std::to_string(i), linear);
      module_->register_module("norm" + std::to_string(i), norm);
      layers_.emplace_back([linear, norm](const torch::Tensor& x) mutable {
        return torch::relu(norm->forward(linear->forward(x)));
      });
    }
  }
  torch::nn::Module& module() override { return *module_; }
  const std::vector<Layer>& layers() const override { return layers_; }
  Batch batch(int64_t step) override {
    return {torch::ones({8, 16}).cumsum(1).sin() * static_cast<double>(step + 1), {}};
  }
  int64_t samples_per_batch() const override { return 8; }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override {
    torch::Tensor output = run_layers(strategy, layers_, blocks(), batch.input);
    // The count of batches, which no backward pass looks at.
    if (faulty_ && !strategy.is_plain()) module_->buffers().at(2).add_(1);
    return {output.square().mean(), output};
  }

 private:
  bool faulty_;
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>("normed");
  std::vector<Layer> layers_;
};

TEST(Compare, statistics_are_those_of_plain_and_left_as_they_were) {
  Normed workload(/*faulty=*/false);
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& buffer : workload.module().buffers()) before.push_back(buffer.clone());
  CompareOptions options;
  options.steps = 2;
  options.train = 2;
  const Comparison comparison =
      compare(workload,
              parse_strategies("checkpoint,checkpoint+operators,segments:2,tape:full,tape:classes"),
              options);
  for (const StrategyRow& row : comparison.rows) {
    EXPECT_TRUE(row.buffers_bit_equal) << row.strategy;
    EXPECT_TRUE(row.keeps_promise()) << row.strategy;
  }
  const std::vector<torch::Tensor> after = workload.module().buffers();
  ASSERT_EQ(after.size(), 9);
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(bit_equal(before[i], after[i])) << i;
}

TEST(Compare, finds_statistics_that_changed_once_more) {
  Normed workload(/*faulty=*/true);
  const StrategyRow row = compare_steps(workload, "checkpoint", 2).rows.at(1);
  EXPECT_TRUE(row.grads_bit_equal);
  EXPECT_FALSE(row.buffers_bit_equal);
  EXPECT_FALSE(row.keeps_promise());
}

TEST(Compare, puts_plain_first_and_keeps_the_order_of_the_others) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.width = 4;
  const auto workload = make_workload("blocks", options);
  EXPECT_THAT(names_of(compare_steps(*workload, "every:2,plain,checkpoint,plain", 1)),
              ElementsAre("plain", "every:2", "checkpoint", "plain"));
}

TEST(Compare, bytes_do_not_depend_on_the_order_or_the_company) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.width = 16;
  const auto workload = make_workload("blocks", options);
  const Comparison alone = compare_steps(*workload, "checkpoint", 2);
  const Comparison crowd = compare_steps(*workload, "every:2,segments:3,checkpoint", 3);
  EXPECT_EQ(alone.base_bytes, crowd.base_bytes);
  EXPECT_EQ(alone.rows[0].peak_bytes, crowd.rows[0].peak_bytes);
  EXPECT_EQ(alone.rows[1].peak_bytes, crowd.rows[3].peak_bytes);
  EXPECT_EQ(alone.rows[1].held_bytes, crowd.rows[3].held_bytes);
}

TEST(Compare, leaves_weights_and_live_bytes_as_they_were) {
  WorkloadOptions options;
  options.hidden = {16, 16, 16};
  options.dropout = 0.5;
  const auto workload = make_workload("digits", options);
  const auto weights = [&] {
    return torch::nn::utils::parameters_to_vector(workload->module().parameters());
  };
  const torch::Tensor before = weights();
  compare_steps(*workload, "checkpoint", 1);
  const int64_t live = Meter().live();
  const Comparison comparison = compare_steps(*workload, "checkpoint", 2);
  EXPECT_EQ(Meter().live(), live);
  EXPECT_TRUE(bit_equal(before, weights()));
  EXPECT_TRUE(comparison.rows[1].quality.has_value());
}

TEST(Compare, refuses_a_strategy_that_does_not_fit_before_anything_runs) {
  const auto workload = make_workload("blocks", {});
  CompareOptions options;
  options.progress = [](int64_t, int64_t, const std::string&) { FAIL() << "a step was run"; };
  for (const char* text : {"plain,sequential:6", "plain,ffn", "plain,parts", "accumulate:513"}) {
    EXPECT_THROW(compare(*workload, parse_strategies(text), options), UsageError) << text;
  }
  options.steps = 0;
  EXPECT_THROW(compare(*workload, parse_strategies("plain"), options), UsageError);
}

TEST(Compare, tells_its_progress_to_the_end) {
  const tests::OneThread quick;
  WorkloadOptions settings;
  settings.width = 4;
  const auto workload = make_workload("blocks", settings);
  CompareOptions options;
  options.steps = 3;
  std::vector<int64_t> told;
  int64_t announced = 0;
  options.progress = [&](int64_t done, int64_t total, const std::string&) {
    told.push_back(done);
    announced = total;
  };
  compare(*workload, parse_strategies("checkpoint"), options);
  EXPECT_EQ(static_cast<int64_t>(told.size()), announced);
  EXPECT_EQ(told.back(), announced - 1);
}

// A workload that breaks the promise on purpose.
class Faulty final : public Workload {
 public:
  enum class Fault { gradients, output, random_stream, nan };
  explicit Faulty(Fault fault) : Workload("faulty", {}), fault_(fault) {
    linear_->to(torch::kFloat64);
    layers_ = {[this](const torch::Tensor& x) { return linear_(x); }};
  }
  torch::nn::Module& module() override { return *linear_; }
  const std::vector<Layer>& layers() const override { return layers_; }
  Batch batch(int64_t /*step*/) override { return {torch::ones({2, 3}, torch::kFloat64), {}}; }
  int64_t samples_per_batch() const override { return 2; }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override {
    torch::Tensor output = run_layers(strategy, layers_, blocks(), batch.input);
    torch::Tensor loss = output.sum();
    if (fault_ == Fault::nan) return {loss * std::nan(""), output};
    if (strategy.is_plain()) return {loss, output};
    if (fault_ == Fault::gradients) return {loss + (loss - loss.detach()) * 0.25, output};
    if (fault_ == Fault::output) return {loss, output.neg()};
    torch::rand({1});
    return {loss, output};
  }

 private:
  Fault fault_;
  torch::nn::Linear linear_{3, 4};
  std::vector<Layer> layers_;
};

StrategyRow row_with(Faulty::Fault fault) {
  Faulty workload(fault);
  return compare_steps(workload, "checkpoint", 2).rows.at(1);
}

TEST(Compare, finds_gradients_that_differ_though_the_loss_does_not) {
  const StrategyRow row = row_with(Faulty::Fault::gradients);
  EXPECT_FALSE(row.grads_bit_equal);
  EXPECT_NEAR(row.max_abs_grad_diff, 0.5, 1e-12);
  EXPECT_TRUE(row.rng_preserved);
}

TEST(CompareTraining, finds_weights_that_differ) {
  Faulty workload(Faulty::Fault::gradients);
  CompareOptions options;
  options.steps = 1;
  options.train = 2;
  const Comparison comparison = compare(workload, parse_strategies("checkpoint"), options);
  EXPECT_FALSE(comparison.rows.at(1).training->weights_bit_equal);
  EXPECT_NEAR(comparison.rows.at(1).training->max_abs_weight_diff, 2 * 0.01 * 0.5, 1e-12);
}

TEST(Compare, finds_an_output_that_differs) {
  EXPECT_FALSE(row_with(Faulty::Fault::output).grads_bit_equal);
}

TEST(Compare, finds_a_random_stream_that_was_moved) {
  const StrategyRow row = row_with(Faulty::Fault::random_stream);
  EXPECT_TRUE(row.grads_bit_equal);
  EXPECT_FALSE(row.rng_preserved);
}

TEST(Compare, stops_at_a_loss_that_is_not_a_number) {
  EXPECT_THROW(row_with(Faulty::Fault::nan), Error);
}

}  // namespace
}  // namespace reprise::workloads
