// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Convolutional nets: batch-norm statistics, operators in place, skips that are added or joined.

namespace reprise::matrix {
namespace {

nn::Conv2d conv(int in, int out) { return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)); }

struct Residual : nn::Module {
  Residual() {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("head", head);
  }
  Tensor forward(const Tensor& input) {
    Tensor x = norm1(conv1(input));
    boundary(x.relu_());
    Tensor y = norm2(conv2(x));
    y += x;
    boundary(y.relu_());
    return head(at::adaptive_avg_pool2d(y, {1, 1}).flatten(1));
  }
  nn::Conv2d conv1 = conv(3, 4), conv2 = conv(4, 4);
  nn::BatchNorm2d norm1{nn::BatchNorm2dOptions(4)};
  nn::BatchNorm2d norm2{nn::BatchNorm2dOptions(4).momentum(std::nullopt)};
  nn::Linear head{nn::LinearOptions(4, 2)};
};

TEST(Matrix, ResidualNetWithBatchNormAndInPlaceOperators) {
  check("residual net", training([](const Cell& cell) {
          const auto net = std::make_shared<Residual>();
          return model_of(cell, net, {2, 3, 6, 6},
                          [=](const Tensor& x, int) { return net->forward(x); });
        }));
}

TEST(Matrix, ResidualNetThatChangesBetweenTrainingAndEvaluation) {
  check("residual net, train and eval", training([](const Cell& cell) {
          const auto net = std::make_shared<Residual>();
          return model_of(cell, net, {2, 3, 6, 6}, [=](const Tensor& x, int step) {
            net->train(step == 1);
            const Tensor y = net->forward(x);
            net->train(step != 1);
            return y + net->forward(x);
          });
        }));
}

struct UNet : nn::Module {
  UNet() {
    register_module("down", down);
    register_module("middle", middle);
    register_module("up", up);
    register_module("out", out);
  }
  Tensor forward(const Tensor& x) {
    const Tensor skip = boundary(down(x).relu());
    const Tensor low = boundary(at::leaky_relu(middle(at::max_pool2d(skip, 2)), 0.1));
    const Tensor wide = at::upsample_bilinear2d(low, {8, 8}, false);
    const Tensor near =
        nn::functional::interpolate(low, nn::functional::InterpolateFuncOptions()
                                             .scale_factor(std::vector<double>{2, 2})
                                             .mode(torch::kNearest));
    return out(at::silu(at::cat({skip, up(low), wide * near.sigmoid()}, 1)));
  }
  nn::Conv2d down = conv(2, 4), middle = conv(4, 4), out = conv(12, 1);
  nn::ConvTranspose2d up{nn::ConvTranspose2dOptions(4, 4, 2).stride(2)};
};

TEST(Matrix, UNet) {
  check("U-Net", training([](const Cell& cell) {
          const auto net = std::make_shared<UNet>();
          return model_of(cell, net, {2, 2, 8, 8},
                          [=](const Tensor& x, int) { return net->forward(x); });
        }));
}

}  // namespace
}  // namespace reprise::matrix
