// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/resnet.h"

#include <algorithm>
#include <limits>

#include <reprise/error.h>

#include "workloads/evaluation.h"

namespace reprise::workloads {
namespace {

using torch::Tensor;

constexpr int64_t kClasses = 1000;
constexpr int64_t kGeneratedClasses = 10;
constexpr int64_t kPatternSize = 4;
constexpr int64_t kSize = 64;
constexpr int64_t kBatch = 8;
constexpr double kLearningRate = 0.003;  // torchvision's 0.1, for a batch of 8 instead of 256
constexpr int64_t kHeldOutBatches = 8;
constexpr int64_t kReduction = 32;  // of height and width, from a picture to the last block
constexpr int64_t kPatternStep = std::numeric_limits<int64_t>::min();

std::vector<int64_t> blocks_of(int64_t depth) {
  if (depth == 50) return {3, 4, 6, 3};
  if (depth == 152) return {3, 8, 36, 3};
  throw UsageError("--depth: there is no ResNet of " + std::to_string(depth) + " layers here",
                   "use 50 or 152");
}

std::optional<ImageFolder> folder_of(const WorkloadOptions& options) {
  if (!options.images) return std::nullopt;
  return ImageFolder(*options.images, options.size);
}

}  // namespace

ResNet::ResNet(const WorkloadOptions& options)
    : Workload("resnet50", options),
      batch_(options.batch.value_or(kBatch)),
      folder_(folder_of(options)),
      height_(folder_ ? folder_->height() : options.size.value_or(kSize)),
      width_(folder_ ? folder_->width() : options.size.value_or(kSize)) {
  require_statistics(batch_);
  model_ = std::make_shared<ResNetModel>(blocks_of(options.depth.value_or(50)),
                                         folder_ ? folder_->classes() : kClasses);
  model_->to(options.device);
  for (const auto& block : model_->blocks()) {
    layers_.emplace_back([block](const Tensor& x) { return block->forward(x); });
  }
  if (!folder_) {
    patterns_ = torch::randn({kGeneratedClasses, 3, kPatternSize, kPatternSize},
                             step_generator(kPatternStep));
  }
}

// LibTorch's own error, from the depths of the model, would name neither option.
void ResNet::require_statistics(int64_t samples) const {
  const auto reduced = [](int64_t size) { return (size + kReduction - 1) / kReduction; };
  if (samples * reduced(height_) * reduced(width_) > 1) return;
  throw UsageError("one picture of " + std::to_string(width_) + "x" + std::to_string(height_) +
                       " leaves the last batch norms one value for each channel, of which there "
                       "is no variance",
                   "use a larger --batch or --size, or fewer parts of a batch");
}

Batch ResNet::batch(int64_t step) {
  at::Generator generator = step_generator(step);
  if (folder_) {
    const Tensor drawn =
        torch::randint(folder_->training_count(), {batch_}, generator, torch::kInt64);
    const auto* begin = drawn.data_ptr<int64_t>();
    const LabelledImages images = folder_->training({begin, begin + batch_});
    return {images.images.to(device()), images.labels.to(device())};
  }
  const Tensor labels = torch::randint(kGeneratedClasses, {batch_}, generator, torch::kInt64);
  const Tensor images =
      torch::randn({batch_, 3, height_, width_}, generator)
          .add_(at::upsample_nearest2d(patterns_.index_select(0, labels), {height_, width_}));
  return {images.to(device()), labels.to(device())};
}

int64_t ResNet::held_out_batches() const {
  return folder_ ? (folder_->held_out_count() + batch_ - 1) / batch_ : kHeldOutBatches;
}

Batch ResNet::held_out(int64_t number) {
  if (!folder_) return batch(-1 - number);
  const int64_t begin = number * batch_;
  const int64_t end = std::min(begin + batch_, folder_->held_out_count());
  const LabelledImages images = folder_->held_out(begin, end);
  return {images.images.to(device()), images.labels.to(device())};
}

ForwardResult ResNet::forward(const Strategy& strategy, const Batch& batch) {
  if (model_->is_training()) require_statistics(batch.input.size(0));
  const Tensor x = run_layers(strategy, layers_, blocks(), model_->stem(batch.input));
  const Tensor logits = model_->head(x);
  return {torch::nn::functional::cross_entropy(logits, batch.target), logits};
}

std::optional<Quality> ResNet::quality() {
  const Evaluation evaluation(*model_);
  int64_t right = 0, all = 0;
  for (int64_t i = 0; i < held_out_batches(); ++i) {
    const Batch batch = held_out(i);
    const Tensor logits = run(parse_strategy("plain"), batch).output;
    right += logits.argmax(1).eq(batch.target).sum().item<int64_t>();
    all += batch.target.numel();
  }
  return Quality{"accuracy", static_cast<double>(right) / static_cast<double>(all), "%"};
}

std::unique_ptr<torch::optim::Optimizer> ResNet::make_optimizer() {
  return std::make_unique<torch::optim::SGD>(
      model_->parameters(),
      torch::optim::SGDOptions(options().learning_rate.value_or(kLearningRate))
          .momentum(0.9)
          .weight_decay(1e-4));
}

}  // namespace reprise::workloads
