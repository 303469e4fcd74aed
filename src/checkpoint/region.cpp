// SPDX-License-Identifier: BSD-3-Clause
#include <optional>
#include <utility>

#include <reprise/checkpoint.h>
#include <reprise/hooks.h>
#include <reprise/scope.h>

#include <c10/core/GradMode.h>

#include "checkpoint/frame.h"
#include "checkpoint/guards.h"
#include "meter/replay_clock.h"
#include "torch/operator_observer.h"
#include "torch/operator_trace.h"

namespace reprise::detail {

ReplayCall::~ReplayCall() = default;

bool region_active(const CheckpointOptions& options) {
  options.check();
  return options.enabled() && c10::GradMode::is_enabled() && !checkpoint_is_off();
}

// Members in the order of their beginning.
struct RegionScope::State {
  State(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call)
      : frame(std::make_shared<Frame>(options, std::move(call))), draws(frame->watch_first_run()) {
    if (options.debug()) trace.emplace(frame->trace());
    if (options.determinism() == Determinism::values) observer.emplace();
    if (options.forward_context()) context = options.forward_context()();
    hooks.emplace([frame = frame](const at::Tensor& tensor) { return frame->pack(tensor); });
  }
  ~State() { hooks.reset(), frame->end_first_run(); }

  const std::shared_ptr<Frame> frame;
  const std::unique_ptr<DrawRecorder> draws;
  std::optional<OperatorTrace> trace;
  std::optional<OperatorObserver> observer;
  std::shared_ptr<void> context;
  std::optional<HookScope> hooks;
};

RegionScope::RegionScope(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call)
    : state_(std::make_unique<State>(options, std::move(call))) {}

RegionScope::~RegionScope() = default;

RecordedRegion::RecordedRegion(const CheckpointOptions& options)
    : scope_(std::make_unique<Scope>(options.policy().value_or(Policy::recompute_all()),
                                     ScopeOptions().name(options.name()))) {
  count_region();
}

RecordedRegion::~RecordedRegion() = default;

}  // namespace reprise::detail
