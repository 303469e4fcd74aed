// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <reprise/checkpoint.h>

#include "checkpoint/guards.h"
#include "torch/draws.h"
#include "torch/environment.h"
#include "torch/rng.h"

// A region's function, and all that it needs to run again as it ran first: settings, random
// streams, who wants to be told. What comes of it in a graph is the caller's concern.

namespace reprise::detail {

class RecordedCall {
 public:
  /// Captures what is in force now, before the first run.
  RecordedCall(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call);

  const CheckpointOptions& options() const { return options_; }
  bool is_noexcept() const { return call_->is_noexcept(); }

  /// "checkpointed region 'name'", or its number.
  std::string label() const;

  /// The tensors among the arguments, which it does not keep.
  std::vector<at::Tensor> take_arguments() { return std::move(arguments_); }

  /// To live around the first run, and to end with it, on its thread; null when the options leave
  /// nothing to note.
  std::unique_ptr<DrawRecorder> watch_first_run();
  void end_first_run() { first_run_ended_ = true; }
  bool first_run_ended() const { return first_run_ended_; }

  /// Calls `work` with the function, in the state of the first run, and counts it as a replay. What
  /// the function writes to is put back afterwards, and so is the state. Returns whether draws fell
  /// as they did in the first run.
  bool run_again(const std::function<void(ReplayCall&)>& work);

 private:
  const CheckpointOptions options_;
  const int64_t number_;
  const std::shared_ptr<ReplayCall> call_;
  const Environment environment_;
  const std::vector<ReplayListener> listeners_;
  std::vector<at::Tensor> arguments_;
  RngState rng_;   // when the first run began; unless draws need not be preserved
  DrawLog draws_;  // and before each draw in it
  bool first_run_ended_ = false;
};

}  // namespace reprise::detail
