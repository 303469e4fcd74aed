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
  const std::string strategies = "plain,tape:full,tape:every_layer,tape:keep_matmuls";
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
  expect_identical("gpt", options, strategies + ",checkpoint,attention,ffn,segments:3", 3);
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
    EXPECT_LE(row.step_ms_min, row.step_ms_median);
    EXPECT_NEAR(row.samples_per_second * row.step_ms_median, 512 * 1000, 1);
  }
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
  EXPECT_THROW(compare(*workload, parse_strategies("plain,sequential:6"), options), UsageError);
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
