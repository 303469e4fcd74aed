// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <string>
#include <utility>

#include <reprise/checkpoint.h>
#include <reprise/error.h>
#include <reprise/scope.h>

#include <c10/core/GradMode.h>

#include "checkpoint/frame.h"
#include "meter/replay_clock.h"

namespace reprise {
namespace {

std::atomic<int64_t> no_checkpoint_guards{0};

void check_options(const CheckpointOptions& options) {
  const auto require = [&](bool applies, const std::string& option, const std::string& hint) {
    if (applies) return;
    throw UsageError("checkpoint(): " + option + " does not go with Replay::" +
                         (options.replay() == Replay::operators ? "operators" : "functions"),
                     hint);
  };
  if (options.replay() == Replay::functions) {
    require(!options.policy(), "a policy",
            "a function is run again whole: set replay(Replay::operators)");
    return;
  }
  require(options.preserve_rng(), "preserve_rng(false)",
          "draws are part of what is recorded: leave it on, or use Replay::functions");
  require(options.early_stop(), "early_stop(false)",
          "only the operators that are needed are run again: leave it on, or use "
          "Replay::functions");
  require(options.determinism() != Determinism::none, "Determinism::none",
          "what an operator makes again is always compared: leave it at metadata, or use "
          "Replay::functions");
}

}  // namespace

NoCheckpointGuard::NoCheckpointGuard() { ++no_checkpoint_guards; }
NoCheckpointGuard::~NoCheckpointGuard() { --no_checkpoint_guards; }

namespace detail {

ReplayCall::~ReplayCall() = default;

bool region_active(const CheckpointOptions& options) {
  check_options(options);
  return options.enabled() && c10::GradMode::is_enabled() && no_checkpoint_guards == 0;
}

RegionScope::RegionScope(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call)
    : frame_(std::make_shared<Frame>(options, std::move(call))),
      draws_(frame_->draws() ? std::make_unique<DrawRecorder>(*frame_->draws()) : nullptr),
      hooks_([frame = frame_](const at::Tensor& tensor) { return frame->pack(tensor); }) {}

RegionScope::~RegionScope() { frame_->end_first_run(); }

RecordedRegion::RecordedRegion(const CheckpointOptions& options)
    : scope_(std::make_unique<Scope>(options.policy().value_or(Policy::recompute_all()),
                                     ScopeOptions().name(options.name()))) {
  count_region();
}

RecordedRegion::~RecordedRegion() = default;

}  // namespace detail
}  // namespace reprise
