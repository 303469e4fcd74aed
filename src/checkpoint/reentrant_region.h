// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <ATen/core/ivalue.h>

#include "checkpoint/recorded_call.h"
#include "torch/saved_tensor.h"

namespace reprise::detail {

/// A reentrant region, as its node keeps it: the call, and what the first run showed.
class ReentrantRegion : public torch::CustomClassHolder {
 public:
  ReentrantRegion(const CheckpointOptions& options, std::shared_ptr<ReplayCall> function)
      : call_(options, std::move(function)) {}

  std::string label() const { return call_.label(); }
  std::vector<at::Tensor> take_arguments() { return call_.take_arguments(); }

  /// The first run, by `first`. Returns the results that can have a gradient, as they may become
  /// results of the node. Throws UsageError for what a reentrant region cannot do.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& arguments,
                              const std::function<std::vector<at::Tensor>()>& first);

  /// All results of the first run, with those of the node put in their places.
  std::vector<at::Tensor> results(const std::vector<at::Tensor>& of_node) &&;

  /// Runs the function again, with gradients on; returns the same results as run() did. Throws
  /// RecomputeMismatch when they are others.
  std::vector<at::Tensor> run_again(const std::vector<at::Tensor>& arguments);

 private:
  /// As far as two runs must agree on a result. The operator that made it does not count: the first
  /// run has no graph.
  struct ResultStamp {
    ResultStamp(const at::Tensor& tensor, Determinism check);
    bool operator==(const ResultStamp&) const = default;

    std::optional<SavedMetadata> metadata;
    std::optional<uint64_t> hash;
  };
  std::vector<ResultStamp> stamps_of(const std::vector<at::Tensor>& results) const;

  RecordedCall call_;
  std::vector<at::Tensor> results_;     // until they are handed out
  std::vector<ResultStamp> stamps_;     // of results
  std::vector<bool> differentiable_;    // which results the node has
  std::vector<VersionStamp> captured_;  // parameters, and other leaves
  std::recursive_mutex mutex_;          // replays take turns; the function may run backward passes
};

}  // namespace reprise::detail
