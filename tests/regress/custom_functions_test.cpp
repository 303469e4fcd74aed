// SPDX-License-Identifier: BSD-3-Clause
#include "tests/parity.h"

// Public reports of checkpointing around the user's own autograd functions. docs/regressions.md has
// a line for each report; P#n is number n of pytorch/pytorch.

namespace reprise::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

class CustomFunctions : public EveryWay {};

/// Saves an intermediate that is a leaf of its own, which dies with the forward function.
struct SavesALeaf : torch::autograd::Function<SavesALeaf> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    const Tensor inner = x.exp().detach().requires_grad_();
    context->save_for_backward({x, inner});
    return inner.detach() * x;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    return {grads[0] * (saved[1].detach() + saved[1].detach() * saved[0])};
  }
};

// P#103726
TEST_P(CustomFunctions, ACustomFunctionMaySaveALeafThatOnlyTheReplayHolds) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) { return SavesALeaf::apply(t.sin()).exp(); };
  expect_equal({x}, [&](const CheckpointOptions& options) { return checkpoint(options, f, x); });
}

/// Keeps a tensor beside those that autograd knows it to save.
struct KeepsOnTheSide : torch::autograd::Function<KeepsOnTheSide> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->saved_data["y"] = x.exp();
    return x.exp() * 2;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return {grads[0] * context->saved_data["y"].toTensor() * 2};
  }
};

// bitsandbytes#2034: nothing can drop such a tensor, but the gradients are right.
TEST_P(CustomFunctions, ACustomFunctionThatKeepsATensorOnTheSideEqualsPlain) {
  const Tensor x = leaf({8});
  const auto f = [](const Tensor& t) { return KeepsOnTheSide::apply(t.sin()).exp(); };
  expect_equal({x}, [&](const CheckpointOptions& options) { return checkpoint(options, f, x); });
}

/// Saves only an intermediate that it has made itself. Its gradient is made up.
struct SavesAnIntermediate : torch::autograd::Function<SavesAnIntermediate> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    const Tensor y = x.sin().exp();
    context->save_for_backward({y});
    return y.tanh();
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return {grads[0] * context->get_saved_variables()[0]};
  }
};

// P#153334, P#102600
TEST_P(CustomFunctions, WhatACustomFunctionSavesIsDroppedToo) {
  const Tensor x = leaf({1 << 14});
  const auto f = [](const Tensor& t) { return SavesAnIntermediate::apply(t.cos()); };
  const Meter meter;
  const int64_t base = meter.live();
  const Tensor y = checkpoint(options(), f, x);
  EXPECT_LE(meter.live() - base, y.numel() * 4 + 8192);  // the result, and a generator's state
  EXPECT_TRUE(
      same_bits(torch::autograd::grad({f(x).sum()}, {x}), torch::autograd::grad({y.sum()}, {x})));
}

INSTANTIATE_IN_EVERY_WAY(CustomFunctions);

}  // namespace
}  // namespace reprise::testing
