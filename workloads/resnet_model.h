// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/torch.h>

// Residual networks for images (He et al., 2015), in the version that is trained today: bottleneck
// blocks with the stride in their 3x3 convolution ("v1.5"). Parameters and buffers have the names
// and shapes of torchvision's resnet50 and resnet152, and the same initial distributions.

namespace reprise::workloads {

/// relu(shortcut(x) + conv3(conv2(conv1(x)))), each convolution without bias and with a batch norm,
/// 1x1, 3x3 and 1x1, the first two with a ReLU. The shortcut is x itself, or a 1x1 convolution with
/// a batch norm where the shape changes.
class Bottleneck final : public torch::nn::Module {
 public:
  static constexpr int64_t kExpansion = 4;  ///< channels out, over those of the 3x3 convolution

  Bottleneck(int64_t in, int64_t width, int64_t stride);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d conv1_, conv2_, conv3_;
  torch::nn::BatchNorm2d bn1_, bn2_, bn3_;
  torch::nn::Sequential downsample_{nullptr};
};

class ResNetModel final : public torch::nn::Module {
 public:
  /// `counts` are the bottleneck blocks of each of the four stages: {3, 4, 6, 3} in ResNet-50.
  ResNetModel(const std::vector<int64_t>& counts, int64_t classes);

  /// Images, batch x 3 x height x width, to what the first block takes.
  torch::Tensor stem(const torch::Tensor& images);
  const std::vector<std::shared_ptr<Bottleneck>>& blocks() const { return blocks_; }
  /// What the last block returns to logits, batch x classes.
  torch::Tensor head(const torch::Tensor& x);

 private:
  void add_stage(const std::string& name, int64_t count, int64_t width, int64_t stride);

  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::vector<std::shared_ptr<Bottleneck>> blocks_;
  int64_t channels_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace reprise::workloads
