// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

// State that one strategy must not pass on to the next: weights, buffers, random generators.

namespace reprise::workloads {

/// The contents of tensors at one moment.
class Snapshot {
 public:
  explicit Snapshot(std::vector<torch::Tensor> tensors);

  /// Writes them back.
  void restore() const;

  const std::vector<torch::Tensor>& contents() const { return contents_; }
  int64_t bytes() const;

 private:
  std::vector<torch::Tensor> tensors_;
  std::vector<torch::Tensor> contents_;
};

/// A module's parameters, then its buffers.
std::vector<torch::Tensor> state_of(torch::nn::Module& module);

/// The states of the default generators that work on `device` may draw from: the CPU's, and its
/// own.
std::vector<torch::Tensor> generator_states(torch::Device device);

/// REQUIRES: `states` of the same device.
void set_generator_states(torch::Device device, const std::vector<torch::Tensor>& states);

/// Whether two lists hold the same bits, tensor by tensor.
bool all_bit_equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b);

/// Over tensors of the same place. REQUIRES: equal numbers and shapes.
double max_abs_difference(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b);

}  // namespace reprise::workloads
