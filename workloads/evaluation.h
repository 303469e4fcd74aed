// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace reprise::workloads {

/// While it lives, a module is in evaluation mode and nothing is recorded for a backward pass.
class Evaluation {
 public:
  explicit Evaluation(torch::nn::Module& module)
      : module_(module), training_(module.is_training()) {
    module_.eval();
  }
  ~Evaluation() { module_.train(training_); }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  const torch::NoGradGuard no_grad_;
  torch::nn::Module& module_;
  const bool training_;
};

}  // namespace reprise::workloads
