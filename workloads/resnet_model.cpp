// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/resnet_model.h"

namespace reprise::workloads {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kStemChannels = 64;

nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  nn::Conv2d layer(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  return layer;
}

}  // namespace

Bottleneck::Bottleneck(int64_t in, int64_t width, int64_t stride)
    : conv1_(register_module("conv1", convolution(in, width, 1, 1))),
      conv2_(register_module("conv2", convolution(width, width, 3, stride))),
      conv3_(register_module("conv3", convolution(width, kExpansion * width, 1, 1))),
      bn1_(register_module("bn1", nn::BatchNorm2d(width))),
      bn2_(register_module("bn2", nn::BatchNorm2d(width))),
      bn3_(register_module("bn3", nn::BatchNorm2d(kExpansion * width))) {
  if (stride == 1 && in == kExpansion * width) return;
  downsample_ =
      register_module("downsample", nn::Sequential(convolution(in, kExpansion * width, 1, stride),
                                                   nn::BatchNorm2d(kExpansion * width)));
}

Tensor Bottleneck::forward(const Tensor& x) {
  const Tensor shortcut = downsample_ ? downsample_->forward(x) : x;
  Tensor branch = torch::relu(bn1_(conv1_(x)));
  branch = torch::relu(bn2_(conv2_(branch)));
  return torch::relu(bn3_(conv3_(branch)) + shortcut);
}

ResNetModel::ResNetModel(const std::vector<int64_t>& counts, int64_t classes)
    : conv1_(register_module("conv1", convolution(3, kStemChannels, 7, 2))),
      bn1_(register_module("bn1", nn::BatchNorm2d(kStemChannels))),
      channels_(kStemChannels) {
  int64_t width = kStemChannels;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    add_stage("layer" + std::to_string(stage + 1), counts[stage], width, stage == 0 ? 1 : 2);
    width *= 2;
  }
  fc_ = register_module("fc", nn::Linear(channels_, classes));
}

void ResNetModel::add_stage(const std::string& name, int64_t count, int64_t width, int64_t stride) {
  nn::Sequential stage;
  for (int64_t i = 0; i < count; ++i) {
    blocks_.push_back(std::make_shared<Bottleneck>(channels_, width, i == 0 ? stride : 1));
    stage->push_back(blocks_.back());
    channels_ = Bottleneck::kExpansion * width;
  }
  register_module(name, stage);
}

Tensor ResNetModel::stem(const Tensor& images) {
  return torch::max_pool2d(torch::relu(bn1_(conv1_(images))), 3, 2, 1);
}

Tensor ResNetModel::head(const Tensor& x) {
  return fc_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

}  // namespace reprise::workloads
