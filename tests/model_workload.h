// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <reprise/equality.h>
#include <reprise/error.h>

#include <gtest/gtest.h>

#include "tests/one_thread.h"
#include "workloads/workload.h"

// What is expected of every workload that is a model with data of its own.

namespace reprise::tests {

/// The message of the Error with which a workload is refused; empty, and a failure, if it is not.
template <class Expected = Error>
std::string error_of(const std::string& name, const workloads::WorkloadOptions& options) {
  try {
    workloads::make_workload(name, options);
  } catch (const Expected& error) {
    return error.what();
  }
  ADD_FAILURE() << "'" << name << "' was made";
  return {};
}

inline std::string usage_error(const std::string& name, const workloads::WorkloadOptions& options) {
  return error_of<UsageError>(name, options);
}

inline std::vector<torch::Tensor> copies(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> result;
  for (const torch::Tensor& tensor : tensors) result.push_back(tensor.detach().clone());
  return result;
}

inline torch::Tensor generator_state() {
  return at::globalContext().defaultGenerator(torch::kCPU).get_state();
}

/// All that a step leaves behind, by what it is.
inline std::vector<std::pair<std::string, torch::Tensor>> step_results(
    workloads::Workload& workload, const std::string& strategy, int64_t step) {
  workload.module().zero_grad();
  torch::manual_seed(workload.step_seed(step));
  const workloads::ForwardResult result =
      workload.run(workloads::parse_strategy(strategy), workload.batch(step));
  result.loss.backward();
  std::vector<std::pair<std::string, torch::Tensor>> all = {{"loss", result.loss.detach()},
                                                            {"output", result.output.detach()},
                                                            {"generator", generator_state()}};
  for (const auto& parameter : workload.module().named_parameters()) {
    all.emplace_back("gradient of " + parameter.key(), parameter->grad().clone());
  }
  for (const auto& buffer : workload.module().named_buffers()) {
    all.emplace_back("buffer " + buffer.key(), buffer->clone());
  }
  return all;
}

inline void put_back(workloads::Workload& workload, const std::vector<torch::Tensor>& buffers) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> own = workload.module().buffers();
  for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_(buffers[i]);
}

/// From one set of weights and buffers, each strategy's steps give plain's loss, output, gradients,
/// buffers and generator state, bit by bit. Two steps, as the first one that replays operators is
/// audited, and so keeps everything.
inline void expect_identical_steps(const std::string& name,
                                   const workloads::WorkloadOptions& options,
                                   const std::vector<std::string>& strategies) {
  const OneThread quick;
  const auto workload = workloads::make_workload(name, options);
  const std::vector<torch::Tensor> buffers = copies(workload->module().buffers());
  for (const int64_t step : {0, 1}) {
    put_back(*workload, buffers);
    const auto expected = step_results(*workload, "plain", step);
    for (const std::string& strategy : strategies) {
      put_back(*workload, buffers);
      const auto results = step_results(*workload, strategy, step);
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(results[i].first, expected[i].first);
        EXPECT_TRUE(bit_equal(results[i].second, expected[i].second))
            << strategy << ", step " << step << ": " << results[i].first;
      }
    }
  }
}

inline void expect_batches_follow_seed_and_step(const std::string& name,
                                                workloads::WorkloadOptions options) {
  const auto a = workloads::make_workload(name, options);
  const auto b = workloads::make_workload(name, options);
  options.seed = 1;
  const auto other = workloads::make_workload(name, options);
  const workloads::Batch batch = a->batch(3);
  EXPECT_EQ(batch.input.size(0), a->samples_per_batch());
  EXPECT_TRUE(bit_equal(batch.input, b->batch(3).input));
  if (batch.target.defined()) {
    EXPECT_TRUE(bit_equal(batch.target, b->batch(3).target));
  }
  EXPECT_FALSE(torch::equal(batch.input, a->batch(4).input));
  EXPECT_FALSE(torch::equal(batch.input, other->batch(3).input));
  const auto weights = [](workloads::Workload& workload) {
    return torch::nn::utils::parameters_to_vector(workload.module().parameters());
  };
  EXPECT_TRUE(bit_equal(weights(*a), weights(*b)));
  EXPECT_FALSE(torch::equal(weights(*a), weights(*other)));
}

inline void expect_quality_leaves_no_trace(const std::string& name,
                                           const workloads::WorkloadOptions& options) {
  const OneThread quick;
  const auto workload = workloads::make_workload(name, options);
  const std::vector<torch::Tensor> buffers = copies(workload->module().buffers());
  const torch::Tensor generator = generator_state();
  const auto first = workload->quality();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->unit, "%");
  EXPECT_EQ(first->value, workload->quality()->value);
  EXPECT_TRUE(workload->module().is_training());
  EXPECT_TRUE(bit_equal(generator, generator_state()));
  const std::vector<torch::Tensor> after = workload->module().buffers();
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(bit_equal(after[i], buffers[i])) << i;
}

/// Some plain steps lower the loss by a fifth or more, and raise the quality by more than `rise`.
inline void expect_learns(const std::string& name, const workloads::WorkloadOptions& options,
                          int64_t steps, double rise) {
  const OneThread quick;
  const auto workload = workloads::make_workload(name, options);
  const auto optimizer = workload->make_optimizer();
  const double before = workload->quality()->value;
  double first = 0, last = 0;
  for (int64_t step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    const torch::Tensor loss =
        workload->run(workloads::parse_strategy("plain"), workload->batch(step)).loss;
    loss.backward();
    optimizer->step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, 0.8 * first);
  EXPECT_GT(workload->quality()->value, before + rise) << "before: " << before;
}

}  // namespace reprise::tests
