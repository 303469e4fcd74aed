// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Other ways to go backward: twice, differentiably, and in another order than forward.

namespace reprise::matrix {
namespace {

using torch::autograd::grad;

/// Two layers with a norm and dropout.
Tensor net(const Tensor& x, const Tensor& w) {
  const Tensor y = boundary(at::layer_norm(x.matmul(w).sin(), {4}));
  return at::dropout(y.matmul(w.t()).exp().tanh() * x, 0.2, true);
}

TEST(Matrix, DoubleBackward) {
  check("double backward", [](Cell& cell) {
    const Tensor x = cell.leaf({4, 4}), w = cell.leaf({4, 4});
    const Tensor loss = cell.forward([&] { return loss_of(net(x, w)); });
    const auto first = grad({loss}, {x, w}, {}, /*retain_graph=*/true, /*create_graph=*/true);
    (loss + first[0].square().sum() + (first[1].sin() * w).sum()).backward();
    for (const Tensor& t : {loss, first[0], first[1], x.grad(), w.grad()}) cell.note("result", t);
  });
}

// The first gradient is taken inside the scope, as for a gradient penalty.
TEST(Matrix, DoubleBackwardInsideTheScope) {
  check("double backward inside", [](Cell& cell) {
    const Tensor x = cell.leaf({4, 4}), w = cell.leaf({4, 4});
    const Tensor loss = cell.forward([&] {
      const Tensor inner = loss_of(net(x, w));
      const Tensor slope = grad({inner}, {x}, {}, true, true)[0];
      cell.note("slope", slope);
      return inner + (slope.norm() - 1).square();
    });
    loss.backward();
    for (const Tensor& t : {loss, x.grad(), w.grad()}) cell.note("result", t);
  });
}

TEST(Matrix, RetainedGraphThreeTimes) {
  check("retained graph", [](Cell& cell) {
    const Tensor x = cell.leaf({4, 4}), w = cell.leaf({4, 4});
    const Tensor loss = cell.forward([&] { return loss_of(net(x, w)); });
    for (int i = 0; i < 3; ++i) {
      cell.note("gradient", grad({loss}, {i == 1 ? x : w}, {}, /*retain_graph=*/i < 2)[0]);
    }
  });
}

TEST(Matrix, AccumulationWithInterleavedBackwards) {
  check("interleaved accumulation", [](Cell& cell) {
    const Tensor w = cell.leaf({4, 4});
    for (int step = 0; step < 2; ++step) {
      const Tensor a = cell.leaf({3, 4}), b = cell.leaf({5, 4});
      const Tensor first = cell.forward([&] { return loss_of(net(a, w)); });
      const Tensor second = cell.forward([&] { return loss_of(net(b, w)); });
      second.backward({}, /*retain_graph=*/true);
      first.backward();
      second.backward();
      for (const Tensor& t : {first, second, a.grad(), b.grad(), w.grad()}) cell.note("result", t);
    }
  });
}

// What the second scope reads, the first has made.
TEST(Matrix, OneScopeFeedsAnother) {
  check("scope after scope", [](Cell& cell) {
    const Tensor x = cell.leaf({4, 4}), w = cell.leaf({4, 4});
    const Tensor middle = cell.forward([&] { return net(x, w).sin(); });
    const Tensor loss = cell.forward([&] { return loss_of(net(middle.exp(), w)); });
    loss.backward();
    for (const Tensor& t : {loss, x.grad(), w.grad()}) cell.note("result", t);
  });
}

}  // namespace
}  // namespace reprise::matrix
