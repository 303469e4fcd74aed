// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace reprise::workloads {

/// While it lives, the module is in evaluation mode and gradients are off: for measuring how well
/// it does without leaving a trace.
class EvalMode {
 public:
  explicit EvalMode(torch::nn::Module& module) : module_(module), training_(module.is_training()) {
    module_.eval();
  }
  ~EvalMode() { module_.train(training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  torch::NoGradGuard no_grad_;
  torch::nn::Module& module_;
  bool training_;
};

}  // namespace reprise::workloads
