// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <vector>

#include <reprise/export.h>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

// The part of checkpoint() that needs no templates: a recorded call, and the scope around its
// first run.

namespace reprise {
class CheckpointOptions;
class Scope;
}  // namespace reprise

namespace reprise::detail {

/// A function with its arguments, able to run again. The tensors are taken out once, kept by the
/// region as autograd keeps saved tensors, and handed back for each run.
class REPRISE_API ReplayCall {
 public:
  virtual ~ReplayCall();

  /// Moves every tensor out of the arguments into `tensors` (undefined ones too, to keep the order)
  /// and copies every generator into `generators`.
  virtual void take_arguments(std::vector<at::Tensor>& tensors,
                              std::vector<at::Generator>& generators) = 0;

  /// Calls the function with `tensors` put back where they were. Returns the tensors of its result,
  /// in order, where they can be found: see returns_tensors().
  virtual std::vector<at::Tensor> run(const std::vector<at::Tensor>& tensors) = 0;

  /// Whether no exception may be thrown through the function.
  virtual bool is_noexcept() const = 0;
};

/// Whether a region would be recorded: not switched off, and gradients are on. Throws UsageError
/// for options that do not go together.
REPRISE_API bool region_active(const CheckpointOptions& options);

/// Records everything that autograd saves on this thread, while it lives, as one region.
class REPRISE_API RegionScope {
 public:
  RegionScope(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same with Replay::operators: a Scope with the region's policy and name.
class REPRISE_API RecordedRegion {
 public:
  explicit RecordedRegion(const CheckpointOptions& options);
  ~RecordedRegion();
  RecordedRegion(const RecordedRegion&) = delete;
  RecordedRegion& operator=(const RecordedRegion&) = delete;

 private:
  std::unique_ptr<Scope> scope_;
};

}  // namespace reprise::detail
