// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include <torch/script.h>
#include <torch/torch.h>

#include "workloads/strategy.h"

// A TorchScript module from a file, with the face of a torch::nn::Module: it has the same
// submodules, parameters and buffers, and the tensors are the script's own.
//
// The script runs without TorchScript's optimiser, which changes the operators of a function, and
// so the last bits of its results, from one call to the next.

namespace reprise::workloads {

class ScriptModule final : public torch::nn::Module {
 public:
  /// Throws UsageError where there is no such file, and Error for one that holds no TorchScript
  /// module, or one whose forward() takes anything but one tensor, or that has no parameter to
  /// train.
  ScriptModule(const std::string& path, torch::Device device);

  /// A torch.nn.Sequential whose modules take and return one tensor is a chain of them; anything
  /// else is one layer. The last layer returns all the floating-point tensors that the script
  /// returns, at any depth of tuples, lists and dicts.
  const std::vector<StateLayer>& layers() const { return layers_; }

  void train(bool on = true) override;

 private:
  torch::jit::Module script_;
  std::vector<StateLayer> layers_;
};

}  // namespace reprise::workloads
