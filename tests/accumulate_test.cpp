// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>

#include <reprise/accumulate.h>
#include <reprise/equality.h>
#include <reprise/error.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

// Gradient accumulation: groups of batches give the gradient of their weighted mean.

namespace reprise {
namespace {

using torch::Tensor;

struct Model {
  torch::nn::Linear linear{torch::nn::LinearOptions(3, 1)};
  torch::optim::SGD optimizer{linear->parameters(), 0.1};
  Tensor loss(const Tensor& x) { return linear(x).square().mean(); }
  Tensor gradient() { return linear->weight.grad().clone(); }
};

Tensor whole_gradient(Model& model, const Tensor& x) {
  model.optimizer.zero_grad();
  model.loss(x).backward();
  Tensor gradient = model.gradient();
  model.optimizer.zero_grad();
  return gradient;
}

TEST(GradientAccumulator, a_full_group_of_equal_batches_equals_one_large_batch) {
  Model model;
  const Tensor x = torch::rand({8, 3});
  const Tensor expected = whole_gradient(model, x);
  GradientAccumulator group(4);
  for (const Tensor& part : x.chunk(4)) {
    EXPECT_FALSE(group.full());
    group.backward(model.loss(part));
  }
  EXPECT_TRUE(group.full());
  const Tensor before = model.gradient();
  group.finish(model.optimizer);
  EXPECT_TRUE(bit_equal(before, model.gradient())) << "a full group needs no further scaling";
  EXPECT_TRUE(torch::allclose(model.gradient(), expected, 1e-5, 1e-7));
  EXPECT_TRUE(group.empty());
}

TEST(GradientAccumulator, a_partial_group_is_scaled_by_what_it_has) {
  Model model;
  const Tensor x = torch::rand({4, 3});
  const Tensor expected = whole_gradient(model, x);
  GradientAccumulator group(5);
  for (const Tensor& part : x.chunk(2)) group.backward(model.loss(part));
  EXPECT_FALSE(torch::allclose(model.gradient(), expected, 1e-3));
  group.finish(model.optimizer);
  EXPECT_TRUE(torch::allclose(model.gradient(), expected, 1e-5, 1e-7));
}

TEST(GradientAccumulator, uneven_batches_count_by_their_weight) {
  Model model;
  const Tensor x = torch::rand({10, 3});
  const Tensor expected = whole_gradient(model, x);
  GradientAccumulator group(3);
  for (const Tensor& part : x.split({5, 4, 1})) {
    group.backward(model.loss(part), static_cast<double>(part.size(0)));
  }
  group.finish(model.linear->parameters());
  EXPECT_TRUE(torch::allclose(model.gradient(), expected, 1e-5, 1e-7));
}

TEST(GradientAccumulator, a_group_of_one_changes_not_a_bit) {
  Model model;
  const Tensor x = torch::rand({7, 3});
  const Tensor expected = whole_gradient(model, x);
  GradientAccumulator group(1);
  group.backward(model.loss(x), 7);
  group.finish(model.optimizer);
  EXPECT_TRUE(bit_equal(model.gradient(), expected));
}

TEST(GradientAccumulator, begins_anew_after_a_group_and_after_a_reset) {
  Model model;
  GradientAccumulator group(2);
  for (int round = 0; round < 2; ++round) {
    const Tensor x = torch::rand({6, 3});
    const Tensor expected = whole_gradient(model, x);
    group.backward(model.loss(torch::rand({1, 3})), 100);  // given up
    group.reset();
    model.optimizer.zero_grad();
    for (const Tensor& part : x.chunk(2)) group.backward(model.loss(part), 3);
    group.finish(model.optimizer);
    EXPECT_TRUE(torch::allclose(model.gradient(), expected, 1e-5, 1e-7));
  }
}

TEST(GradientAccumulator, refuses_what_has_no_meaning) {
  Model model;
  const Tensor x = torch::rand({2, 3});
  EXPECT_THROW(GradientAccumulator(0), UsageError);
  GradientAccumulator group(1);
  EXPECT_THROW(group.finish(model.optimizer), UsageError);
  for (const double weight : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW(group.backward(model.loss(x), weight), UsageError) << weight;
  }
  EXPECT_TRUE(group.empty());
  group.backward(model.loss(x));
  EXPECT_THROW(group.backward(model.loss(x)), UsageError);
}

}  // namespace
}  // namespace reprise
