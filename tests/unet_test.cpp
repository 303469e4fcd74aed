// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/unet.h"

#include <reprise/equality.h>
#include <reprise/error.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model_workload.h"
#include "workloads/compare.h"
#include "workloads/shapes.h"

// unet: its shapes, its loss, the chain of its levels under every strategy, and that it learns.

namespace reprise::workloads {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

WorkloadOptions small() {
  WorkloadOptions options;
  options.layers = 3;
  options.width = 4;
  options.size = 16;
  options.batch = 2;
  return options;
}

TEST(UNet, halves_and_doubles_from_level_to_level_and_back) {
  UNetModel model(3, 4, 1, 3);
  ASSERT_EQ(model.layers().size(), 5);
  State stack{torch::zeros({2, 1, 16, 16})};
  std::vector<int64_t> depths, channels, sizes;
  for (const StateLayer& layer : model.layers()) {
    stack = layer(stack);
    depths.push_back(static_cast<int64_t>(stack.size()));
    channels.push_back(stack.back().size(1));
    sizes.push_back(stack.back().size(3));
  }
  EXPECT_THAT(depths, ElementsAre(1, 2, 3, 2, 1));
  EXPECT_THAT(channels, ElementsAre(4, 8, 16, 8, 4));
  EXPECT_THAT(sizes, ElementsAre(16, 8, 4, 8, 16));
  EXPECT_EQ(model.head(stack.back()).sizes(), at::IntArrayRef({2, 3, 16, 16}));
  EXPECT_EQ(model.decoder(), (Segment{3, 5}));
}

// Nine per 3x3 kernel, twice for each level of the encoder and the decoder, and so on.
TEST(UNet, has_the_parameters_of_its_levels) {
  WorkloadOptions options = small();
  options.layers = 2;
  const int64_t encoder = (9 * 1 * 4 + 9 * 4 * 4 + 4 * 4) + (9 * 4 * 8 + 9 * 8 * 8 + 4 * 8);
  const int64_t decoder = (4 * 8 * 4 + 4) + (9 * 8 * 4 + 9 * 4 * 4 + 4 * 4);
  EXPECT_EQ(make_workload("unet", options)->parameter_count(), encoder + decoder + 4 * 3 + 3);
}

TEST(UNet, draws_equal_pictures_for_equal_seeds) {
  tests::expect_batches_follow_seed_and_step("unet", small());
}

TEST(Shapes, are_of_three_classes_with_shades_that_do_not_tell_them_apart) {
  const ShapeImages drawn =
      draw_shapes(1024, 32, at::globalContext().defaultGenerator(torch::kCPU).clone());
  EXPECT_EQ(drawn.images.sizes(), at::IntArrayRef({1024, 1, 32, 32}));
  EXPECT_EQ(drawn.labels.sizes(), at::IntArrayRef({1024, 32, 32}));
  const torch::Tensor counts = drawn.labels.flatten().to(torch::kInt64).bincount();
  ASSERT_EQ(counts.numel(), kShapeClasses);
  EXPECT_GT(counts.min().item<int64_t>(), drawn.labels.numel() / 20);
  const auto shade = [&](int64_t c) {
    return drawn.images.squeeze(1).masked_select(drawn.labels.eq(c)).mean().item<double>();
  };
  EXPECT_NEAR(shade(0), 0, 0.01);
  // Each is the mean of some 1,500 shapes whose shades deviate by 0.29: they differ by some 0.01.
  EXPECT_NEAR(shade(1), shade(2), 0.1);
}

TEST(DiceLoss, is_none_for_certainty_and_counts_what_two_regions_share) {
  const torch::Tensor labels = torch::tensor({0, 0, 1, 1}).view({1, 2, 2});
  const auto certain = [](const torch::Tensor& guess) {
    return 1000 * torch::one_hot(guess, 2).permute({0, 3, 1, 2}).to(torch::kFloat32);
  };
  EXPECT_EQ(dice_loss(certain(labels), labels).item<double>(), 0);
  // Class 0: 1 of 1 and 2; class 1: 2 of 3 and 2.
  const torch::Tensor guess = torch::tensor({0, 1, 1, 1}).view({1, 2, 2});
  EXPECT_NEAR(dice_loss(certain(guess), labels).item<double>(),
              1 - ((2 * 1 + 1) / (1.0 + 2 + 1) + (2 * 2 + 1) / (3.0 + 2 + 1)) / 2, 1e-6);
}

TEST(UNet, has_a_loss_in_float32_under_autocast) {
  WorkloadOptions options = small();
  options.autocast = c10::kBFloat16;
  const auto workload = make_workload("unet", options);
  const ForwardResult result = workload->run(parse_strategy("plain"), workload->batch(0));
  EXPECT_EQ(result.loss.scalar_type(), torch::kFloat32);
  EXPECT_EQ(result.output.scalar_type(), torch::kFloat32);
}

const std::vector<std::string> kStrategies = {"checkpoint",        "decoder",
                                              "sequential:3",      "segments:2",
                                              "layers:2,4",        "layers:1-3",
                                              "every:2",           "checkpoint+operators",
                                              "tape:full",         "tape:every_layer",
                                              "decoder+operators", "tape:keep_matmuls",
                                              "decoder+no_rng",    "checkpoint+reentrant"};

TEST(UNet, has_the_gradients_of_plain_under_every_strategy) {
  tests::expect_identical_steps("unet", small(), kStrategies);
}

TEST(UNet, has_the_gradients_of_plain_under_every_strategy_with_autocast) {
  WorkloadOptions options = small();
  options.autocast = c10::kBFloat16;
  std::vector<std::string> strategies = kStrategies;
  strategies.pop_back();  // reentrant: gradients of bfloat16 are summed in another order
  tests::expect_identical_steps("unet", options, strategies);
}

TEST(UNet, checkpoints_only_its_decoder_by_decoder) {
  const tests::OneThread quick;
  const auto workload = make_workload("unet", small());
  EXPECT_THAT(workload->regions_of(parse_strategy("decoder")),
              ElementsAre(Segment{3, 4}, Segment{4, 5}));
  EXPECT_EQ(workload->regions_of(parse_strategy("checkpoint")).size(), 5);
  CompareOptions once;
  once.steps = 1;
  const Comparison comparison =
      compare(*workload, parse_strategies("plain,decoder,checkpoint"), once);
  const StrategyRow& plain = comparison.rows[0];
  const StrategyRow& decoder = comparison.rows[1];
  const StrategyRow& all = comparison.rows[2];
  EXPECT_EQ(decoder.segments, 2);
  EXPECT_EQ(decoder.regions.size(), 2);
  EXPECT_TRUE(decoder.grads_bit_equal);
  EXPECT_TRUE(all.grads_bit_equal);
  EXPECT_LT(decoder.held_bytes, plain.held_bytes);
  EXPECT_LT(all.held_bytes, decoder.held_bytes);
  EXPECT_THROW(workload->run(parse_strategy("ffn"), workload->batch(0)), UsageError);
}

TEST(UNet, measures_its_quality_without_a_trace) {
  tests::expect_quality_leaves_no_trace("unet", small());
}

TEST(UNet, learns) {
  WorkloadOptions options = small();
  options.width = 8;
  options.size = 32;
  options.batch = 4;
  options.learning_rate = 1e-2;
  tests::expect_learns("unet", options, 60, 0.1);
}

TEST(UNet, refuses_levels_that_its_pictures_do_not_have) {
  WorkloadOptions options = small();
  options.size = 18;
  EXPECT_THAT(tests::usage_error("unet", options), HasSubstr("--size 18 cannot be halved"));
  options.layers = 100;
  EXPECT_THAT(tests::usage_error("unet", options), HasSubstr("level of 100"));
  options.layers = 1;
  EXPECT_THAT(tests::usage_error("unet", options), HasSubstr("--layers 1"));
}

}  // namespace
}  // namespace reprise::workloads
