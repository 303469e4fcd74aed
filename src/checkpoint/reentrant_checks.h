// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <reprise/error.h>

#include "torch/graph.h"
#include "torch/input_observer.h"
#include "torch/saved_tensor.h"

// What the first run of a reentrant region is watched for. It saves nothing, so that autograd
// cannot notice what would make its gradients wrong.

namespace reprise::detail {

/// Arguments that the function must leave alone.
class UnchangedArguments {
 public:
  explicit UnchangedArguments(const std::vector<at::Tensor>& arguments) {
    for (const at::Tensor& argument : arguments) {
      const bool counted = argument.defined() && !argument.is_inference();
      stamps_.push_back(counted ? std::optional<VersionStamp>(argument) : std::nullopt);
    }
  }

  void check(const std::string& region) const {
    for (std::size_t i = 0; i < stamps_.size(); ++i) {
      if (!stamps_[i] || !stamps_[i]->changed()) continue;
      throw UsageError(region + ": its function changes its argument tensor " + std::to_string(i) +
                           " in place, so it cannot be run again from it",
                       "let the function work on a copy (x.clone()), or use the form that is not "
                       "in place");
    }
  }

 private:
  std::vector<std::optional<VersionStamp>> stamps_;
};

/// What operators read beside the arguments that requires a gradient. Parameters must not change
/// before the backward pass. What has a graph of its own would have a backward pass through that
/// graph for each region that uses it.
class Captures {
 public:
  explicit Captures(const std::vector<at::Tensor>& arguments)
      : observer_([this, &arguments](const at::Tensor& tensor) { see(tensor, arguments); }) {}

  /// Throws UsageError if there was anything but leaves.
  std::vector<VersionStamp> take_leaves(const std::string& region) && {
    if (has_graph_) {
      throw UsageError(region +
                           ": its function uses a tensor that is none of its arguments and "
                           "was computed from what requires a gradient",
                       "pass it as an argument, or use Variant::non_reentrant");
    }
    return std::move(leaves_);
  }

 private:
  void see(const at::Tensor& tensor, const std::vector<at::Tensor>& arguments) {
    if (!tensor.requires_grad()) return;
    const auto same = [&](const at::Tensor& argument) { return tensor.is_same(argument); };
    if (std::any_of(arguments.begin(), arguments.end(), same)) return;
    if (!tensor.is_leaf()) {
      has_graph_ = has_graph_ || is_older(tensor, begin_);
    } else if (!tensor.is_inference() && seen_.insert(tensor.unsafeGetTensorImpl()).second) {
      leaves_.emplace_back(tensor);
    }
  }

  const uint64_t begin_ = graph_time();
  bool has_graph_ = false;
  std::unordered_set<const void*> seen_;
  std::vector<VersionStamp> leaves_;
  const InputObserver observer_;
};

}  // namespace reprise::detail
