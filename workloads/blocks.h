// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "workloads/workload.h"

// blocks: a stack of residual blocks of width d,
//
//     x + Linear(4d,d)(ReLU(Linear(d,4d)(LayerNorm(d)(x))))
//
// on random input that requires a gradient, with the mean square of the output as loss. Takes
// --layers (5), --width (128), --batch (512), --context (none: the input is batch × width; else
// batch × context × width) and --dropout (0; on what a block adds).

namespace reprise::workloads {

class Blocks final : public Workload {
 public:
  explicit Blocks(const WorkloadOptions& options);

  torch::nn::Module& module() override { return *module_; }
  const std::vector<Layer>& layers() const override { return layers_; }
  Batch batch(int64_t step) override;
  int64_t samples_per_batch() const override { return shape_.front(); }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;

 private:
  std::vector<int64_t> shape_;
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<Layer> layers_;
};

}  // namespace reprise::workloads
