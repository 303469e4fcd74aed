// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/workload.h"

#include <cmath>

#include <reprise/equality.h>
#include <reprise/error.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/one_thread.h"
#include "workloads/libtorch.h"
#include "workloads/measured_step.h"
#include "workloads/train.h"

// Workloads: options, how memory grows, and that training is the same under every strategy.

namespace reprise::workloads {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Expected = UsageError>
std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Expected& error) {
    return error.what();
  }
  return "nothing of the expected kind was thrown";
}

std::string make_failure(const std::string& name, const WorkloadOptions& options = {}) {
  return message_of([&] { make_workload(name, options); });
}

TEST(MakeWorkload, names_the_nearest_for_an_unknown_one) {
  EXPECT_THAT(make_failure("digit"), AllOf(HasSubstr("'digit'"), HasSubstr("mean 'digits'?")));
  EXPECT_THAT(make_failure(""), HasSubstr("workloads: digits, blocks"));
}

TEST(MakeWorkload, refuses_an_option_that_would_do_nothing) {
  WorkloadOptions options;
  options.layers = 3;
  EXPECT_THAT(make_failure("digits", options), HasSubstr("--layers does nothing"));
  options = {};
  options.hidden = {8, 8};
  EXPECT_THAT(make_failure("blocks", options), HasSubstr("--hidden does nothing"));
}

TEST(MakeWorkload, refuses_sizes_and_probabilities_that_make_no_sense) {
  for (const int64_t size : {0, -1}) {
    WorkloadOptions options;
    options.width = size;
    EXPECT_THAT(make_failure("blocks", options), HasSubstr("--width"));
  }
  for (const double probability : {-0.1, 1.0, std::nan("")}) {
    WorkloadOptions options;
    options.dropout = probability;
    EXPECT_THAT(make_failure("blocks", options), HasSubstr("--dropout"));
  }
}

TEST(MakeWorkload, gives_equal_weights_and_batches_for_equal_options) {
  WorkloadOptions options;
  options.width = 8;
  const auto a = make_workload("blocks", options);
  torch::rand({7});
  const auto b = make_workload("blocks", options);
  options.seed = 1;
  const auto other = make_workload("blocks", options);
  const auto weights = [](const auto& workload) {
    return torch::nn::utils::parameters_to_vector(workload->module().parameters());
  };
  EXPECT_TRUE(bit_equal(weights(a), weights(b)));
  EXPECT_FALSE(bit_equal(weights(a), weights(other)));
  EXPECT_TRUE(bit_equal(a->batch(3).input, b->batch(3).input));
  EXPECT_FALSE(bit_equal(a->batch(3).input, a->batch(4).input));
  EXPECT_FALSE(bit_equal(a->batch(3).input, other->batch(3).input));
}

TEST(ParseDevice, knows_the_cpu_and_refuses_what_is_not_there) {
  EXPECT_EQ(parse_device("cpu"), torch::Device(torch::kCPU));
  for (const char* text : {"", "gpu", "cuda:99", "cpu:x", "CPU"}) {
    EXPECT_THAT(message_of([&] { parse_device(text); }),
                AllOf(HasSubstr("--device"), HasSubstr("hint: devices here: cpu")))
        << text;
  }
}

TEST(RequireLibtorch, refuses_what_is_below_the_floor) {
  EXPECT_THAT(message_of<Error>([] {
                require_libtorch({2, 10, 9});
              }),
              AllOf(HasSubstr("2.10.9"), HasSubstr("2.11.0"), HasSubstr("\nhint: ")));
  EXPECT_THAT(message_of<Error>([] { require_libtorch({}); }), HasSubstr("unknown"));
  EXPECT_NO_THROW(require_libtorch({2, 11, 0}));
  EXPECT_NO_THROW(require_libtorch({3, 0, 0}));
  EXPECT_NO_THROW(require_libtorch(loaded_libtorch()));
  EXPECT_EQ(loaded_libtorch(), built_against_libtorch());
  EXPECT_THAT(libtorch_path(), HasSubstr("libtorch"));
}

int64_t held(const WorkloadOptions& options, const std::string& strategy) {
  return measure_step(*make_workload("blocks", options), parse_strategy(strategy), 0).held_bytes;
}

// Three evenly spaced sizes whose held bytes lie on one line.
void expect_linear(std::optional<int64_t> WorkloadOptions::*size, int64_t step,
                   const std::string& strategy) {
  WorkloadOptions options;
  options.layers = 3;
  options.width = 16;
  options.context = 5;
  options.batch = 4;
  std::vector<int64_t> bytes;
  for (int64_t i = 1; i <= 3; ++i) {
    options.*size = i * step;
    bytes.push_back(held(options, strategy));
  }
  EXPECT_GT(bytes[1], bytes[0]);
  EXPECT_EQ(bytes[2] - bytes[1], bytes[1] - bytes[0])
      << bytes[0] << " " << bytes[1] << " " << bytes[2];
}

TEST(Blocks, activation_bytes_grow_linearly) {
  const tests::OneThread quick;
  for (const char* strategy : {"plain", "checkpoint"}) {
    SCOPED_TRACE(strategy);
    expect_linear(&WorkloadOptions::layers, 2, strategy);
    expect_linear(&WorkloadOptions::batch, 8, strategy);
    expect_linear(&WorkloadOptions::context, 8, strategy);
    expect_linear(&WorkloadOptions::width, 32, strategy);
  }
}

TEST(Blocks, of_24_layers_hold_a_fifth_when_checkpointed_and_less_in_segments_of_5) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.layers = 24;
  const int64_t plain = held(options, "plain");
  const int64_t checkpoint = held(options, "checkpoint");
  const int64_t segments = held(options, "segments:5");
  EXPECT_GE(plain, 5 * checkpoint) << plain << " " << checkpoint;
  EXPECT_LT(2 * segments, checkpoint) << segments << " " << checkpoint;
}

struct Trained {
  std::vector<double> losses;
  torch::Tensor weights;
};

Trained trained(const std::string& name, const WorkloadOptions& options,
                const std::string& strategy) {
  const auto workload = make_workload(name, options);
  TrainOptions settings;
  settings.strategy = parse_strategy(strategy);
  settings.steps = 20;
  settings.log_every = 1;
  Trained result;
  for (const TrainingStep& step : train(*workload, settings).log)
    result.losses.push_back(step.loss);
  result.weights = torch::nn::utils::parameters_to_vector(workload->module().parameters());
  return result;
}

void expect_same_training(const std::string& name, const WorkloadOptions& options) {
  const tests::OneThread quick;
  const Trained plain = trained(name, options, "plain");
  ASSERT_EQ(plain.losses.size(), 20);
  EXPECT_LT(plain.losses.back(), plain.losses.front());
  for (const char* strategy :
       {"checkpoint", "sequential:3", "segments:2", "layers:1,4", "layers:0-2", "every:2"}) {
    const Trained other = trained(name, options, strategy);
    EXPECT_EQ(other.losses, plain.losses) << name << " " << strategy;
    EXPECT_TRUE(bit_equal(other.weights, plain.weights)) << name << " " << strategy;
  }
}

TEST(Train, digits_are_learnt_identically_under_every_strategy) {
  WorkloadOptions options;
  options.hidden = {32, 48, 48, 16};
  expect_same_training("digits", options);
  options.dropout = 0.2;
  expect_same_training("digits", options);
}

TEST(Train, blocks_are_trained_identically_under_every_strategy) {
  WorkloadOptions options;
  options.width = 16;
  options.batch = 64;
  options.learning_rate = 0.1;
  expect_same_training("blocks", options);
  options.dropout = 0.2;
  expect_same_training("blocks", options);
}

TEST(Train, logs_the_first_step_every_nth_and_the_last) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.width = 4;
  const auto workload = make_workload("blocks", options);
  TrainOptions settings;
  settings.steps = 7;
  settings.log_every = 3;
  std::vector<int64_t> told;
  settings.on_log = [&](const TrainingStep& step) { told.push_back(step.step); };
  const Training training = train(*workload, settings);
  EXPECT_THAT(told, ::testing::ElementsAre(1, 3, 6, 7));
  EXPECT_EQ(training.log.size(), 4);
  EXPECT_EQ(training.steps, 7);
  EXPECT_FALSE(training.reached_loss);
  EXPECT_GT(training.peak_bytes, 0);
  EXPECT_EQ(training.log.back().total_peak_bytes,
            training.base_bytes + training.log.back().peak_bytes);
}

TEST(Train, stops_at_the_loss) {
  WorkloadOptions options;
  options.hidden = {16, 16};
  const auto workload = make_workload("digits", options);
  TrainOptions settings;
  settings.until_loss = 100;
  const Training training = train(*workload, settings);
  EXPECT_EQ(training.steps, 1);
  EXPECT_TRUE(training.reached_loss);
  EXPECT_EQ(training.quality_name, "accuracy");
  EXPECT_TRUE(training.quality.has_value());
}

TEST(Train, refuses_settings_that_never_end_or_do_not_fit) {
  WorkloadOptions options;
  options.width = 4;
  const auto workload = make_workload("blocks", options);
  TrainOptions settings;
  EXPECT_THROW(train(*workload, settings), UsageError);
  settings.steps = 0;
  EXPECT_THROW(train(*workload, settings), UsageError);
  settings.steps = 1;
  settings.log_every = 0;
  EXPECT_THROW(train(*workload, settings), UsageError);
  settings.log_every = 1;
  settings.strategy = parse_strategy("sequential:6");
  EXPECT_THROW(train(*workload, settings), UsageError);
}

TEST(Train, stops_with_one_error_when_the_loss_is_not_finite) {
  const tests::OneThread quick;
  WorkloadOptions options;
  options.width = 4;
  const auto at_once = make_workload("blocks", options);
  {
    const torch::NoGradGuard no_grad;
    at_once->module().parameters().front().fill_(std::nan(""));
  }
  TrainOptions settings;
  settings.steps = 1000;
  EXPECT_THAT(message_of<Error>([&] { train(*at_once, settings); }),
              AllOf(HasSubstr("the loss is nan at step 1\nhint: "), HasSubstr("before any")));
  options.learning_rate = 1e30;
  const auto later = make_workload("blocks", options);
  EXPECT_THAT(message_of<Error>([&] { train(*later, settings); }),
              AllOf(HasSubstr("the loss is "), HasSubstr("--learning-rate")));
}

}  // namespace
}  // namespace reprise::workloads
