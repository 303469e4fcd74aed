// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/digits.h"

#include <utility>

#include <reprise/error.h>

#include "workloads/evaluation.h"

namespace reprise::workloads {
namespace {

constexpr int64_t kPixels = 64;
constexpr int64_t kClasses = 10;

std::vector<int64_t> hidden_of(const WorkloadOptions& options) {
  const std::vector<int64_t> sizes =
      options.hidden.value_or(std::vector<int64_t>{256, 512, 512, 128});
  if (sizes.size() < 2) {
    throw UsageError(
        "--hidden: two sizes or more are expected, got " + std::to_string(sizes.size()),
        "the middle of the network lies between them; the default is 256,512,512,128");
  }
  return sizes;
}

DigitsData load_to(const WorkloadOptions& options) {
  const DigitsData data = load_digits(options.data ? *options.data : find_digits());
  return {data.pixels.to(options.device), data.labels.to(options.device)};
}

}  // namespace

Digits::Digits(const WorkloadOptions& options)
    : Workload("digits", options),
      data_(load_to(options)),
      module_(std::make_shared<torch::nn::Module>("digits")),
      first_(nullptr),
      last_(nullptr) {
  const std::vector<int64_t> sizes = hidden_of(options);
  const double dropout = options.dropout.value_or(0);
  first_ = module_->register_module("first", torch::nn::Linear(kPixels, sizes.front()));
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const std::string number = std::to_string(i);
    add_layer("linear" + number, torch::nn::AnyModule(torch::nn::Linear(sizes[i - 1], sizes[i])));
    add_layer("relu" + number, torch::nn::AnyModule(torch::nn::ReLU()));
    if (dropout > 0) {
      add_layer("dropout" + number, torch::nn::AnyModule(torch::nn::Dropout(dropout)));
    }
  }
  last_ = module_->register_module("last", torch::nn::Linear(sizes.back(), kClasses));
  module_->to(options.device);
}

void Digits::add_layer(const std::string& name, torch::nn::AnyModule module) {
  module_->register_module(name, module.ptr());
  layers_.emplace_back(
      [module = std::move(module)](const torch::Tensor& x) mutable { return module.forward(x); });
}

std::vector<Segment> Digits::blocks() const { return {{0, static_cast<int64_t>(layers_.size())}}; }

Batch Digits::batch(int64_t /*step*/) { return {data_.pixels, data_.labels}; }

ForwardResult Digits::forward(const Strategy& strategy, const Batch& batch) {
  torch::Tensor x = torch::relu(first_(batch.input));
  torch::Tensor logits = last_(run_layers(strategy, layers_, blocks(), std::move(x)));
  return {torch::nn::functional::cross_entropy(logits, batch.target), logits};
}

std::optional<Quality> Digits::quality() {
  const Evaluation evaluation(*module_);
  const torch::Tensor logits = forward(parse_strategy("plain"), batch(0)).output;
  return Quality{"accuracy",
                 logits.argmax(1).eq(data_.labels).to(torch::kFloat64).mean().item<double>(), "%"};
}

}  // namespace reprise::workloads
