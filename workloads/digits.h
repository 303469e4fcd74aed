// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "workloads/digits_data.h"
#include "workloads/workload.h"

// digits: handwritten digits, the whole set as one batch, and a small fully connected network
//
//     Linear(64,256) ReLU | Linear(256,512) ReLU Linear(512,512) ReLU Linear(512,128) ReLU |
//     Linear(128,10), cross entropy, SGD 0.01
//
// between whose bars lies the middle, which strategies act upon. Takes --hidden (the sizes between
// 64 and 10), --dropout (after each ReLU of the middle) and --data.

namespace reprise::workloads {

class Digits final : public Workload {
 public:
  explicit Digits(const WorkloadOptions& options);

  torch::nn::Module& module() override { return *module_; }
  const std::vector<Layer>& layers() const override { return layers_; }

  /// One block: the whole middle. To checkpoint each Linear with its ReLU alone would save nothing,
  /// as what a ReLU saves, its output, is what the next region keeps, its input.
  std::vector<Segment> blocks() const override;

  Batch batch(int64_t step) override;
  int64_t samples_per_batch() const override { return data_.labels.numel(); }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;
  std::optional<Quality> quality() override;
  std::optional<double> target_loss() const override { return 1e-3; }

 private:
  void add_layer(const std::string& name, torch::nn::AnyModule module);

  DigitsData data_;
  std::shared_ptr<torch::nn::Module> module_;
  torch::nn::Linear first_;
  std::vector<Layer> layers_;
  torch::nn::Linear last_;
};

}  // namespace reprise::workloads
