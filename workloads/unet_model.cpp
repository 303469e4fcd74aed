// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/unet_model.h"

#include <memory>
#include <numeric>

namespace reprise::workloads {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kGroups = 8;

nn::Conv2d convolution(int64_t in, int64_t out) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
}

// A group norm, other than a batch norm, makes a batch the same whether it runs whole or in parts.
nn::GroupNorm norm(int64_t channels) {
  return nn::GroupNorm(nn::GroupNormOptions(std::gcd(kGroups, channels), channels));
}

// Twice a 3x3 convolution, a group norm and a ReLU.
class DoubleConvolution final : public nn::Module {
 public:
  DoubleConvolution(int64_t in, int64_t out)
      : conv1_(register_module("conv1", convolution(in, out))),
        norm1_(register_module("norm1", norm(out))),
        conv2_(register_module("conv2", convolution(out, out))),
        norm2_(register_module("norm2", norm(out))) {}

  Tensor forward(const Tensor& x) {
    return torch::relu(norm2_(conv2_(torch::relu(norm1_(conv1_(x))))));
  }

 private:
  nn::Conv2d conv1_;
  nn::GroupNorm norm1_;
  nn::Conv2d conv2_;
  nn::GroupNorm norm2_;
};

class Encoder final : public nn::Module {
 public:
  Encoder(int64_t in, int64_t out, bool halve)
      : halve_(halve),
        convolve_(register_module("convolve", std::make_shared<DoubleConvolution>(in, out))) {}

  Tensor forward(const Tensor& x) {
    return convolve_->forward(halve_ ? torch::max_pool2d(x, 2) : x);
  }

 private:
  bool halve_;
  std::shared_ptr<DoubleConvolution> convolve_;
};

class Decoder final : public nn::Module {
 public:
  explicit Decoder(int64_t width)
      : up_(register_module(
            "up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(2 * width, width, 2).stride(2)))),
        convolve_(
            register_module("convolve", std::make_shared<DoubleConvolution>(2 * width, width))) {}

  Tensor forward(const Tensor& skip, const Tensor& below) {
    return convolve_->forward(torch::cat({skip, up_(below)}, 1));
  }

 private:
  nn::ConvTranspose2d up_;
  std::shared_ptr<DoubleConvolution> convolve_;
};

}  // namespace

UNetModel::UNetModel(int64_t levels, int64_t width, int64_t in_channels, int64_t classes)
    : levels_(levels) {
  add_encoder(0, in_channels, width);
  for (int64_t level = 1; level < levels; ++level) {
    add_encoder(level, width << (level - 1), width << level);
  }
  for (int64_t level = levels - 2; level >= 0; --level) add_decoder(level, width << level);
  head_ = register_module("head", nn::Conv2d(nn::Conv2dOptions(width, classes, 1)));
}

void UNetModel::add_encoder(int64_t level, int64_t in, int64_t out) {
  const auto encoder = std::make_shared<Encoder>(in, out, /*halve=*/level > 0);
  register_module("encoder" + std::to_string(level), encoder);
  layers_.emplace_back([encoder, first = level == 0](const State& stack) {
    State next = first ? State() : stack;
    next.push_back(encoder->forward(stack.back()));
    return next;
  });
}

void UNetModel::add_decoder(int64_t level, int64_t width) {
  const auto decoder = std::make_shared<Decoder>(width);
  register_module("decoder" + std::to_string(level), decoder);
  layers_.emplace_back([decoder](const State& stack) {
    State next(stack.begin(), stack.end() - 2);
    next.push_back(decoder->forward(stack.end()[-2], stack.back()));
    return next;
  });
}

Segment UNetModel::decoder() const { return {levels_, static_cast<int64_t>(layers_.size())}; }

}  // namespace reprise::workloads
