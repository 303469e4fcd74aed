// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "workloads/script_input.h"
#include "workloads/script_module.h"
#include "workloads/workload.h"

// script:FILE.pt: any TorchScript module that takes one tensor, on random input; SGD 0.01. The loss
// is made of the floating-point tensors that it returns, see ScriptModule: the mean of their
// squares, or with --loss sum their sum, of several tensors added up.
//
// Takes --input, which it needs, and --loss.

namespace reprise::workloads {

class Script final : public Workload {
 public:
  Script(const std::string& path, const WorkloadOptions& options);

  torch::nn::Module& module() override { return *module_; }
  int64_t layer_count() const override { return static_cast<int64_t>(module_->layers().size()); }
  Batch batch(int64_t step) override;
  int64_t samples_per_batch() const override { return input_.sizes.front(); }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;

 private:
  State outputs(const Strategy& strategy, const torch::Tensor& input);
  torch::Tensor loss(const State& outputs, int64_t samples) const;

  std::string path_;
  ScriptInput input_;
  bool sum_;
  std::shared_ptr<ScriptModule> module_;
};

}  // namespace reprise::workloads
