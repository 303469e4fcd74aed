// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "workloads/image_folder.h"
#include "workloads/resnet_model.h"
#include "workloads/workload.h"

// resnet50: ResNet-50, or with --depth 152 its sister ResNet-152, on pictures of 1000 classes;
// cross entropy; SGD with a momentum of 0.9 and a weight decay of 1e-4. A layer of strategies is a
// bottleneck block. The pictures are generated: a coarse pattern for each class and noise upon it.
// Only 10 of the 1000 classes occur, so that a short run learns something. With --images they come
// from a folder, and so does the number of classes.
//
// Takes --depth (50), --batch (8), --size (64; of the images in a folder: their own) and --images.

namespace reprise::workloads {

class ResNet final : public Workload {
 public:
  explicit ResNet(const WorkloadOptions& options);

  torch::nn::Module& module() override { return *model_; }
  const std::vector<Layer>& layers() const override { return layers_; }
  Batch batch(int64_t step) override;
  int64_t samples_per_batch() const override { return batch_; }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;

  /// Accuracy on pictures that are not trained on: those that the folder holds out, or 8 batches.
  std::optional<Quality> quality() override;

  std::unique_ptr<torch::optim::Optimizer> make_optimizer() override;

 private:
  int64_t held_out_batches() const;
  Batch held_out(int64_t number);
  void require_statistics(int64_t samples) const;

  int64_t batch_;
  std::optional<ImageFolder> folder_;
  int64_t height_;
  int64_t width_;
  torch::Tensor patterns_;  // of the classes that are generated
  std::shared_ptr<ResNetModel> model_;
  std::vector<Layer> layers_;
};

}  // namespace reprise::workloads
