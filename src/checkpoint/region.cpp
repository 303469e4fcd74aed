// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <utility>

#include <reprise/checkpoint.h>

#include <c10/core/GradMode.h>

#include "checkpoint/frame.h"

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
      draws_(frame_->draws() ? std::make_unique<DrawRecorder>(*frame_->draws()) : nullptr),
      hooks_([frame = frame_](const at::Tensor& tensor) { return frame->pack(tensor); }) {}

RegionScope::~RegionScope() { frame_->end_first_run(); }

}  // namespace detail
}  // namespace reprise
