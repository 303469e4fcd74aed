// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>

#include <reprise/accumulate.h>
#include <reprise/error.h>

#include <ATen/ops/mul.h>
#include <c10/core/GradMode.h>
#include <torch/optim/optimizer.h>

namespace reprise {

GradientAccumulator::GradientAccumulator(int64_t size) : size_(size) {
  if (size >= 1) return;
  throw UsageError("GradientAccumulator: a group of " + std::to_string(size) + " batches",
                   "a group has 1 batch or more; 1 accumulates nothing");
}

void GradientAccumulator::backward(const at::Tensor& loss, double weight) {
  if (!(weight > 0) || !std::isfinite(weight)) {
    throw UsageError("GradientAccumulator: a weight of " + std::to_string(weight),
                     "give the number of samples (or tokens) that the loss is the mean of");
  }
  if (full()) {
    throw UsageError(
        "GradientAccumulator: the group is full, with " + std::to_string(size_) + " batches",
        "call finish(), step the optimizer and clear the gradients first");
  }
  const double unit = empty() ? weight : unit_;
  const double factor = weight / (unit * static_cast<double>(size_));
  (factor == 1 ? loss : loss.mul(factor)).backward();
  unit_ = unit;
  total_ += weight;
  ++count_;
}

void GradientAccumulator::finish(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  finish(parameters);
}

void GradientAccumulator::finish(const std::vector<at::Tensor>& parameters) {
  if (empty()) {
    throw UsageError("GradientAccumulator: finish() of an empty group",
                     "call backward() for each batch of the group first");
  }
  const double factor = unit_ * static_cast<double>(size_) / total_;
  reset();
  if (factor == 1) return;
  const c10::AutoGradMode no_grad(false);
  for (const at::Tensor& parameter : parameters) {
    at::Tensor gradient = parameter.grad();
    if (gradient.defined()) gradient.mul_(factor);
  }
}

void GradientAccumulator::reset() {
  count_ = 0;
  unit_ = total_ = 0;
}

}  // namespace reprise
