// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/unet.h"

#include <utility>

#include <reprise/error.h>

#include "workloads/evaluation.h"
#include "workloads/shapes.h"

namespace reprise::workloads {
namespace {

using torch::Tensor;

constexpr int64_t kChannels = 1;
constexpr int64_t kHeldOutBatches = 4;
constexpr int64_t kMostLevels = 16;

int64_t levels_of(const WorkloadOptions& options, int64_t size) {
  const int64_t levels = options.layers.value_or(4);
  if (levels < 2) {
    throw UsageError("--layers 1: a U-Net of one level has no decoder", "use 2 or more");
  }
  const bool fits = levels <= kMostLevels && size % (int64_t{1} << (levels - 1)) == 0;
  if (fits) return levels;
  throw UsageError("--size " + std::to_string(size) + " cannot be halved from level to level of " +
                       std::to_string(levels),
                   "--size must be a multiple of 2 to the power of --layers less 1");
}

}  // namespace

UNet::UNet(const WorkloadOptions& options)
    : Workload("unet", options),
      batch_(options.batch.value_or(8)),
      size_(options.size.value_or(64)),
      model_(std::make_shared<UNetModel>(levels_of(options, size_), options.width.value_or(16),
                                         kChannels, kShapeClasses)) {
  model_->to(options.device);
}

// `decoder` is a part of the chain, not of each layer.
Strategy UNet::by_layers(Strategy strategy) const {
  const Segment decoder = model_->decoder();
  if (part_of(strategy) == "decoder") {
    strategy.kind = LayerRange{decoder.begin, decoder.end - 1};
  }
  return strategy;
}

std::vector<Segment> UNet::regions_of(const Strategy& strategy) const {
  return Workload::regions_of(by_layers(strategy));
}

Batch UNet::batch(int64_t step) {
  const ShapeImages drawn = draw_shapes(batch_, size_, step_generator(step));
  return {drawn.images.to(device()), drawn.labels.to(device())};
}

Tensor dice_loss(const Tensor& logits, const Tensor& labels) {
  const Tensor shares = logits.softmax(1);
  const Tensor classes = torch::arange(logits.size(1), labels.options()).view({1, -1, 1, 1});
  const Tensor truth = labels.unsqueeze(1).eq(classes).to(shares.dtype());
  const Tensor both = (shares * truth).sum({2, 3});
  const Tensor total = shares.sum({2, 3}) + truth.sum({2, 3});
  return 1 - ((2 * both + 1) / (total + 1)).mean();
}

ForwardResult UNet::forward(const Strategy& strategy, const Batch& batch) {
  const State top = run_layers(by_layers(strategy), model_->layers(), blocks(), {batch.input});
  const Tensor logits = model_->head(top.front()).to(torch::kFloat32);
  const Tensor labels = batch.target.to(torch::kInt64);
  return {torch::nn::functional::cross_entropy(logits, labels) + dice_loss(logits, labels), logits};
}

std::optional<Quality> UNet::quality() {
  const Evaluation evaluation(*model_);
  std::vector<double> both(kShapeClasses, 0), either(kShapeClasses, 0);
  for (int64_t i = 0; i < kHeldOutBatches; ++i) {
    const Batch held_out = batch(-1 - i);
    const Tensor guess = run(parse_strategy("plain"), held_out).output.argmax(1);
    for (std::size_t c = 0; c < both.size(); ++c) {
      const Tensor guessed = guess.eq(static_cast<int64_t>(c));
      const Tensor truth = held_out.target.eq(static_cast<int64_t>(c));
      both[c] += guessed.logical_and(truth).sum().item<double>();
      either[c] += guessed.logical_or(truth).sum().item<double>();
    }
  }
  double sum = 0;
  for (std::size_t c = 0; c < both.size(); ++c) sum += either[c] > 0 ? both[c] / either[c] : 1;
  return Quality{"mean IoU", sum / static_cast<double>(both.size()), "%"};
}

std::unique_ptr<torch::optim::Optimizer> UNet::make_optimizer() {
  return std::make_unique<torch::optim::Adam>(model_->parameters(),
                                              options().learning_rate.value_or(1e-3));
}

}  // namespace reprise::workloads
