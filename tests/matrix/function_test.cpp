// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Autograd functions of the user's own.

namespace reprise::matrix {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// x exp(x), with an intermediate saved that is neither argument nor result.
struct XExp : torch::autograd::Function<XExp> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    const Tensor y = x.exp();
    context->save_for_backward({x, y});
    return y * x;
  }
  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * (saved[1] + saved[1] * saved[0])};
  }
};

/// sin in place; its argument from before is lost, so its cosine is saved.
struct SinInPlace : torch::autograd::Function<SinInPlace> {
  static Tensor forward(AutogradContext* context, Tensor x) {
    context->save_for_backward({x.cos()});
    x.sin_();
    context->mark_dirty({x});
    return x;
  }
  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    return {gradients[0] * context->get_saved_variables()[0]};
  }
};

/// exp and its draws, of which only one is differentiable; the result itself is saved.
struct NoisyExp : torch::autograd::Function<NoisyExp> {
  static tensor_list forward(AutogradContext* context, const Tensor& x) {
    const Tensor noise = at::rand_like(x), y = x.exp() * noise;
    context->save_for_backward({y});
    context->mark_non_differentiable({noise});
    return {y, noise};
  }
  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    return {gradients[0] * context->get_saved_variables()[0]};
  }
};

TEST(Matrix, CustomFunctions) {
  check("custom functions", training([](const Cell& cell) {
          return model_of(cell, {{4, 4}}, {4, 4}, [](const auto& p, const Tensor& input) {
            const Tensor y = XExp::apply(p[0].sin() * input).cos();
            const auto noisy = NoisyExp::apply(y);
            return noisy[0].tanh() * noisy[1];
          });
        }));
}

TEST(Matrix, CustomFunctionsThatMarkTheirArgumentDirty) {
  check("custom functions, mark_dirty", training([](const Cell& cell) {
          return model_of(cell, {{4, 4}}, {4, 4}, [](const auto& p, const Tensor& input) {
            const Tensor x = p[0].exp() * input, before = x.detach().cos();
            const Tensor y = SinInPlace::apply(x);
            return SinInPlace::apply(y * before) * y.exp();
          });
        }));
}

}  // namespace
}  // namespace reprise::matrix
