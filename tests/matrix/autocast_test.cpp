// SPDX-License-Identifier: BSD-3-Clause

#include "tests/matrix/matrix.h"

// Autocast to bfloat16. Replays run below it, on what it has cast.

namespace reprise::matrix {
namespace {

/// The weights are used twice, so that the second use finds them in autocast's cache.
struct Net : nn::Module {
  Net() {
    register_module("up", up);
    register_module("down", down);
    register_module("norm", norm);
  }
  Tensor forward(Tensor x) {
    for (int i = 0; i < 2; ++i) {
      const Tensor y = down(at::gelu(up(norm(x))));
      x = boundary(x + at::dropout(y, 0.2, true));
    }
    return at::softmax(at::matmul(x, x.transpose(0, 1)), -1);
  }
  nn::Linear up{8, 16}, down{16, 8};
  nn::LayerNorm norm{nn::LayerNormOptions({8})};
};

TEST(Matrix, AutocastInTheForwardPass) {
  check("autocast in forward", training([](const Cell& cell) {
          const auto net = std::make_shared<Net>();
          return model_of(cell, net, {4, 8}, [=](const Tensor& x, int) {
            const Autocast autocast(at::kCPU);
            return net->forward(x);
          });
        }));
}

// The cache outlives the steps, since the outer guard does: what the first scope cast flows into
// the others. (So the weights of the later steps are stale, in plain as well.)
TEST(Matrix, AutocastInForwardAndBackwardWithItsCacheOverThreeSteps) {
  const Program steps = training([](const Cell& cell) {
    const auto net = std::make_shared<Net>();
    return model_of(cell, net, {4, 8}, [=](const Tensor& x, int) {
      const Autocast inner(at::kCPU);
      return net->forward(x);
    });
  });
  check("autocast in forward and backward", [&](Cell& cell) {
    const Autocast outer(at::kCPU);
    steps(cell);
  });
}

// As where a part of a model wants full precision. The scope begins under autocast, and its replays
// with it: they must not cast what was not cast.
TEST(Matrix, AutocastThatIsOffForAPart) {
  const Program steps = training([](const Cell& cell) {
    const auto net = std::make_shared<Net>();
    return model_of(cell, net, {4, 8}, [=](const Tensor& x, int) {
      const Tensor y = net->forward(x);
      const Autocast off(at::kCPU, at::kBFloat16, false);
      const Tensor wide = y.to(at::kFloat).exp();
      return at::matmul(wide.sin(), wide).tanh();
    });
  });
  check("autocast off for a part", [&](Cell& cell) {
    const Autocast on(at::kCPU);
    steps(cell);
  });
}

TEST(Matrix, AutocastInTheBackwardPassOnly) {
  check("autocast in backward", [](Cell& cell) {
    const auto net = std::make_shared<Net>();
    const Model model = model_of(cell, net, {4, 8}, {});
    const Tensor x = cell.leaf(model.input);
    const Tensor loss = cell.forward([&] { return loss_of(net->forward(x)); });
    {
      const Autocast autocast(at::kCPU);
      loss.backward();
    }
    cell.note("loss", loss);
    cell.note("gradient of the input", x.grad());
    for (const Tensor& parameter : model.parameters) cell.note("gradient", parameter.grad());
  });
}

}  // namespace
}  // namespace reprise::matrix
