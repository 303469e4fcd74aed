// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/unet_model.h"
#include "workloads/workload.h"

// unet: segmentation of generated pictures of discs and rectangles by a U-Net: cross entropy of the
// pixels plus Dice loss of the classes, in float32 also under autocast; Adam. A layer of strategies
// is a level of the encoder or of the decoder; `decoder` names the latter.
//
// Takes --layers (4, the levels), --width (16, the channels of the uppermost), --size (64) and
// --batch (8).

namespace reprise::workloads {

class UNet final : public Workload {
 public:
  explicit UNet(const WorkloadOptions& options);

  torch::nn::Module& module() override { return *model_; }
  int64_t layer_count() const override { return static_cast<int64_t>(model_->layers().size()); }
  std::vector<Segment> regions_of(const Strategy& strategy) const override;
  std::vector<std::string> part_names() const override { return {"decoder"}; }
  Batch batch(int64_t step) override;
  int64_t samples_per_batch() const override { return batch_; }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;

  /// Intersection over union of each class, on average over the classes, in 4 batches that are not
  /// trained on.
  std::optional<Quality> quality() override;

  std::unique_ptr<torch::optim::Optimizer> make_optimizer() override;

 private:
  Strategy by_layers(Strategy strategy) const;

  int64_t batch_;
  int64_t size_;
  std::shared_ptr<UNetModel> model_;
};

/// One less the Dice coefficient of each class, on average over classes and samples. `logits` are
/// samples x classes x height x width, `labels` samples x height x width, int64.
torch::Tensor dice_loss(const torch::Tensor& logits, const torch::Tensor& labels);

}  // namespace reprise::workloads
