// SPDX-License-Identifier: BSD-3-Clause
#include <functional>
#include <memory>
#include <vector>

#include <reprise/equality.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include "tape/current.h"
#include "tape/decider.h"

// What random programs found, each reduced to a few lines.

namespace reprise::detail {
namespace {

using at::Tensor;

class DropAll final : public Decider {
 public:
  Decision decide(const ValueInfo&) override { return Decision::recompute; }
  bool hold(const ValueInfo&) override { return false; }
  void distrust(const ValueInfo&) override { ++distrusted; }
  int distrusted = 0;
};

/// `loss` runs in a scope when `tape` is there, and backward after it.
std::vector<Tensor> gradients(const std::function<Tensor(const Tensor&)>& loss, const Tensor& input,
                              std::shared_ptr<Tape> tape) {
  torch::manual_seed(5);
  const Tensor x = input.clone().requires_grad_();
  Tensor value;
  {
    std::unique_ptr<Recording> recording;
    if (tape) recording = std::make_unique<Recording>(std::move(tape));
    value = loss(x);
  }
  return {value.detach(), torch::autograd::grad({value}, {x})[0]};
}

void expect_same(const std::function<Tensor(const Tensor&)>& loss, at::IntArrayRef sizes = {4, 4}) {
  torch::manual_seed(3);
  const Tensor input = at::randn(sizes);
  const auto plain = gradients(loss, input, nullptr);
  const auto ours = gradients(loss, input, std::make_shared<Tape>(std::make_shared<DropAll>()));
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(bit_equal(plain[i], ours[i])) << i;
}

// LibTorch's derivatives take other ways under a dispatch mode: the tape stays out of them.
TEST(TapeFuzzRegress, BackwardInsideTheScopeRunsAsWithoutIt) {
  for (const bool create_graph : {false, true}) {
    torch::manual_seed(1);
    const Tensor input = at::randn({8, 3});
    std::vector<Tensor> results;
    for (const bool ours : {false, true}) {
      const Tensor x = input.clone().requires_grad_();
      std::unique_ptr<Recording> recording;
      if (ours) {
        recording =
            std::make_unique<Recording>(std::make_shared<Tape>(std::make_shared<DropAll>()));
      }
      const Tensor y = x.prod(0).sum() + x.cumprod(0).sin().sum();
      results.push_back(
          torch::autograd::grad({y}, {x}, {}, std::nullopt, create_graph)[0].detach());
    }
    EXPECT_TRUE(bit_equal(results[0], results[1])) << create_graph;
  }
}

// Their kernels call other operators that count the versions, and a mode must not keep them from
// it.
TEST(TapeFuzzRegress, ForeachWritesAreCounted) {
  const Tensor x = at::ones({4}).requires_grad_();
  Tensor y;
  {
    const Recording recording(std::make_shared<Tape>(std::make_shared<DropAll>()));
    y = x.sqrt();
    std::vector<Tensor> list{y};
    at::_foreach_mul_(list, 0.5);
    EXPECT_EQ(y._version(), 1);
  }
  EXPECT_ANY_THROW(y.sum().backward());
}

TEST(TapeFuzzRegress, OutOfItsOwnArgument) {
  expect_same([](const Tensor& x) {
    Tensor y = x.detach().exp();
    at::sin_out(y, y);
    at::mul_out(y, y, x.detach());
    return (x * y.cos()).sin().sum();
  });
}

TEST(TapeFuzzRegress, AWriteThatRaises) {
  const Tensor buffer = at::randn({4, 4});
  expect_same([&](const Tensor& x) {
    const Tensor y = (buffer * 2).exp();
    Tensor z = x.detach().sin();
    for (Tensor written : {buffer, z}) EXPECT_ANY_THROW(written.add_(at::ones({7, 5, 3})));
    return (x * y.sin() * z.exp() * (buffer * 3).exp()).sum();
  });
}

TEST(TapeFuzzRegress, WritesToSparseTensors) {
  expect_same([](const Tensor& x) {
    const torch::AutoGradMode grad(false);
    Tensor sparse = at::eye(4).to_sparse();
    const Tensor dense = sparse.to_dense();
    sparse.mul_(0.5);
    const torch::AutoGradMode again(true);
    return (x * dense.exp()).sin().sum();
  });
}

// The workspace of oneDNN's LSTM has bytes that nobody sets.
TEST(TapeFuzzRegress, AuditOfAnLstm) {
  const auto decider = std::make_shared<DropAll>();
  const Tensor h = at::zeros({1, 4, 4}), weight = at::randn({16, 4}).requires_grad_();
  for (int i = 0; i < 8; ++i) {
    const Tensor x = at::randn({2, 4, 4}).requires_grad_();
    Tensor y;
    {
      const Recording recording(std::make_shared<Tape>(decider, TapeOptions{.audit = true}));
      y = std::get<0>(at::lstm(x, {h, h}, {weight, weight}, false, 1, 0., true, false, false));
      y = y.sin().sum();
    }
    y.backward();
  }
  EXPECT_EQ(decider->distrusted, 0);
}

}  // namespace
}  // namespace reprise::detail
