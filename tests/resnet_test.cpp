// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/resnet.h"

#include <cmath>

#include <reprise/equality.h>
#include <reprise/error.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model_workload.h"

// resnet50: that it is ResNet-50, that statistics of its batch norms change as in a plain step
// whatever is replayed, and that it learns.

namespace reprise::workloads {
namespace {

using ::testing::HasSubstr;

WorkloadOptions small() {
  WorkloadOptions options;
  options.batch = 2;
  options.size = 32;
  return options;
}

TEST(ResNet, has_the_parameters_and_names_of_resnet50) {
  const auto workload = make_workload("resnet50", small());
  EXPECT_EQ(workload->parameter_count(), 25557032);
  EXPECT_EQ(workload->layer_count(), 16);
  const auto parameters = workload->module().named_parameters();
  EXPECT_EQ(parameters.size(), 161);
  EXPECT_EQ(parameters["conv1.weight"].sizes(), at::IntArrayRef({64, 3, 7, 7}));
  EXPECT_EQ(parameters["layer1.0.downsample.0.weight"].sizes(), at::IntArrayRef({256, 64, 1, 1}));
  EXPECT_EQ(parameters["layer4.2.bn3.weight"].sizes(), at::IntArrayRef({2048}));
  EXPECT_EQ(parameters["fc.weight"].sizes(), at::IntArrayRef({1000, 2048}));
  const auto buffers = workload->module().named_buffers();
  EXPECT_EQ(buffers.size(), 3 * 53);
  EXPECT_TRUE(buffers.contains("layer3.5.bn2.running_var"));
}

// Kaiming's deviation for a ReLU, by the values that go out.
TEST(ResNet, begins_with_the_weights_of_kaiming) {
  ResNetModel model({1, 1, 1, 1}, 10);
  for (const auto& parameter : model.named_parameters()) {
    const torch::Tensor& weight = parameter.value();
    if (weight.dim() != 4) continue;
    const auto out = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
    EXPECT_NEAR(weight.std().item<double>() * std::sqrt(out / 2), 1, 0.05) << parameter.key();
  }
}

TEST(ResNet, of_152_layers_is_its_sister) {
  WorkloadOptions options = small();
  options.depth = 152;
  const auto workload = make_workload("resnet50", options);
  EXPECT_EQ(workload->parameter_count(), 60192808);
  EXPECT_EQ(workload->layer_count(), 50);
}

TEST(ResNet, halves_its_pictures_five_times) {
  ResNetModel model({1, 1, 1, 1}, 10);
  torch::Tensor x = model.stem(torch::zeros({2, 3, 33, 64}));
  EXPECT_EQ(x.sizes(), at::IntArrayRef({2, 64, 9, 16}));
  for (const auto& block : model.blocks()) x = block->forward(x);
  EXPECT_EQ(x.sizes(), at::IntArrayRef({2, 2048, 2, 2}));
  EXPECT_EQ(model.head(x).sizes(), at::IntArrayRef({2, 10}));
}

TEST(ResNet, draws_equal_pictures_for_equal_seeds) {
  tests::expect_batches_follow_seed_and_step("resnet50", small());
}

TEST(ResNet, strategies_by_function_leave_gradients_and_statistics_as_plain) {
  tests::expect_identical_steps("resnet50", small(), {"checkpoint", "sequential:3", "segments:5"});
}

TEST(ResNet, strategies_by_operator_leave_gradients_and_statistics_as_plain) {
  tests::expect_identical_steps(
      "resnet50", small(),
      {"checkpoint+operators", "tape:full", "tape:every_layer", "tape:keep_matmuls"});
}

TEST(ResNet, strategies_under_autocast_leave_gradients_and_statistics_as_plain) {
  WorkloadOptions options = small();
  options.autocast = c10::kBFloat16;
  tests::expect_identical_steps("resnet50", options, {"checkpoint", "tape:full"});
}

TEST(ResNet, measures_its_quality_without_a_trace) {
  tests::expect_quality_leaves_no_trace("resnet50", small());
}

// To know ten classes apart takes longer than a test may; which ten of the thousand there are, not.
TEST(ResNet, learns) {
  WorkloadOptions options = small();
  options.batch = 8;
  tests::expect_learns("resnet50", options, 12, 0.03);
}

TEST(ResNet, refuses_what_it_cannot_be_or_normalise) {
  WorkloadOptions options = small();
  options.depth = 101;
  EXPECT_THAT(tests::usage_error("resnet50", options), HasSubstr("no ResNet of 101 layers"));
  options = small();
  options.batch = 1;
  EXPECT_THAT(tests::usage_error("resnet50", options), HasSubstr("one picture of 32x32"));
  const auto workload = make_workload("resnet50", small());
  const Batch half = workload->split(workload->batch(0), 2).front();
  EXPECT_THROW(workload->run(parse_strategy("plain"), half), UsageError);
}

}  // namespace
}  // namespace reprise::workloads
