// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/frame.h"

#include <reprise/checkpoint.h>

#include <c10/core/GradMode.h>

#include <atomic>
#include <utility>

namespace reprise {
namespace {

std::atomic<int64_t> no_checkpoint_guards{0};

}  // namespace

NoCheckpointGuard::NoCheckpointGuard() { ++no_checkpoint_guards; }
NoCheckpointGuard::~NoCheckpointGuard() { --no_checkpoint_guards; }

namespace detail {

ReplayCall::~ReplayCall() = default;

bool region_active(const CheckpointOptions& options) {
  return options.enabled() && c10::GradMode::is_enabled() && no_checkpoint_guards == 0;
}

RegionScope::RegionScope(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call)
    : frame_(std::make_shared<Frame>(options, std::move(call))),
      hooks_([frame = frame_](const at::Tensor& tensor) { return frame->pack(tensor); }) {}

RegionScope::~RegionScope() { frame_->end_first_run(); }

}  // namespace detail
}  // namespace reprise
