// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Writes through views, to lists of tensors, and to tensors that are given as results.

namespace reprise::matrix {
namespace {

TEST(Matrix, ChainedViews) {
  check("chained views", training([](const Cell& cell) {
          return model_of(cell, {{4, 4}, {4}}, {4, 4}, [](const auto& p, const Tensor& input) {
            Tensor x = p[0] * input.sin();
            x.add_(p[1].sin().relu_());
            x.t().select(0, 1).div_(3);
            const Tensor before = x.detach().cos();
            x.view({2, 2, 4}).transpose(0, 1)[1].narrow(1, 1, 2).mul_(p[1].detach().slice(0, 0, 2));
            const Tensor y = x.exp();
            x.slice(1, 0, 2).copy_(y.slice(1, 2, 4));
            x.diagonal().add_(p[1].tanh());
            const Tensor between = x.detach()[1].sin();
            x.unsqueeze(0).expand({1, 4, 4}).squeeze(0).sigmoid_();
            const Tensor z = x.exp() * y.view({2, 8}).sum(0).view({2, 4}).repeat({2, 1});
            return (z * before * between).sin();
          });
        }));
}

TEST(Matrix, AsStrided) {
  check("as_strided", training([](const Cell& cell) {
          return model_of(cell, {{4, 4}}, {4, 4}, [](const auto& p, const Tensor& input) {
            Tensor x = p[0].exp() * input;
            x.as_strided({2, 2}, {8, 2}, 1).mul_(p[0].detach().slice(0, 0, 2).slice(1, 0, 2).sin());
            const Tensor overlapping = x.detach().as_strided({3, 3}, {4, 1}, 1).cos();
            x.as_strided({4}, {5}).add_(p[0][1].tanh());
            const Tensor y = x.as_strided({3, 3}, {4, 1}, 1).exp() * overlapping;
            return at::cat({x.sin().flatten(), y.flatten()});
          });
        }));
}

TEST(Matrix, ForeachOperators) {
  check(
      "foreach", training([](const Cell& cell) {
        return model_of(cell, {{4, 4}, {3}}, {4, 4}, [](const auto& p, const Tensor& input) {
          std::vector<Tensor> list{p[0].sin() * input, p[1].cos()};
          at::_foreach_mul_(list, 0.5);
          at::_foreach_exp_(list);
          const auto sums = at::_foreach_add(list, list);
          std::vector<Tensor> constants{input.detach().exp(), p[1].detach().exp()};
          at::_foreach_addcmul_(constants, constants, constants, 0.3);
          at::_foreach_sqrt_(constants);
          return at::cat({(sums[0].sin() * constants[0]).flatten(), sums[1].exp() * constants[1]});
        });
      }));
}

TEST(Matrix, OutArguments) {
  check("out=", training([](const Cell& cell) {
          return model_of(cell, {{4, 4}}, {4, 4}, [](const auto& p, const Tensor& input) {
            const Tensor x = p[0].exp();
            Tensor out = at::empty_like(x, x.options().requires_grad(false));
            Tensor half = at::zeros_like(out), empty = at::empty({0}, out.options());
            {
              const torch::NoGradGuard guard;
              at::mul_out(out, x, input);
              at::sin_out(out, out);
              Tensor columns = half.slice(1, 1, 3);
              at::add_out(columns, out.slice(1, 0, 2), out.slice(1, 2, 4));
              at::matmul_out(empty, out, half);
            }
            return (x * out).sin() * (x * half).exp() + (input * empty).tanh();
          });
        }));
}

}  // namespace
}  // namespace reprise::matrix
