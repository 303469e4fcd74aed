// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/blocks.h"

#include <utility>

namespace reprise::workloads {
namespace {

class Block final : public torch::nn::Module {
 public:
  Block(int64_t width, double dropout)
      : norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up_(register_module("up", torch::nn::Linear(width, 4 * width))),
        down_(register_module("down", torch::nn::Linear(4 * width, width))) {
    if (dropout > 0) dropout_ = register_module("dropout", torch::nn::Dropout(dropout));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor branch = down_(torch::relu(up_(norm_(x))));
    return x + (dropout_ ? dropout_(branch) : branch);
  }

 private:
  torch::nn::LayerNorm norm_;
  torch::nn::Linear up_;
  torch::nn::Linear down_;
  torch::nn::Dropout dropout_{nullptr};
};

std::vector<int64_t> shape_of(const WorkloadOptions& options) {
  std::vector<int64_t> shape = {options.batch.value_or(512)};
  if (options.context) shape.push_back(*options.context);
  shape.push_back(options.width.value_or(128));
  return shape;
}

}  // namespace

Blocks::Blocks(const WorkloadOptions& options)
    : Workload("blocks", options),
      shape_(shape_of(options)),
      module_(std::make_shared<torch::nn::Module>("blocks")) {
  const int64_t count = options.layers.value_or(5);
  for (int64_t i = 0; i < count; ++i) {
    const auto block = std::make_shared<Block>(shape_.back(), options.dropout.value_or(0));
    module_->register_module("block" + std::to_string(i), block);
    layers_.emplace_back([block](const torch::Tensor& x) { return block->forward(x); });
  }
  module_->to(options.device);
}

Batch Blocks::batch(int64_t step) {
  const torch::Tensor input = torch::randn(shape_, step_generator(step)).to(device());
  return {input.detach().requires_grad_(), torch::Tensor()};
}

ForwardResult Blocks::forward(const Strategy& strategy, const Batch& batch) {
  torch::Tensor output = run_layers(strategy, layers_, blocks(), batch.input);
  return {output.square().mean(), output};
}

}  // namespace reprise::workloads
