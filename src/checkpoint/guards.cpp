// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/guards.h"

#include <atomic>
#include <utility>

#include "meter/replay_clock.h"

namespace reprise {
namespace {

std::atomic<int64_t> no_checkpoint_guards{0};
thread_local std::optional<bool> early_stop;
thread_local std::vector<detail::ReplayListener> listeners;

}  // namespace

namespace detail {

bool checkpoint_is_off() { return no_checkpoint_guards > 0; }
std::optional<bool> early_stop_in_force() { return early_stop; }
const std::vector<ReplayListener>& replay_listeners() { return listeners; }

}  // namespace detail

NoCheckpointGuard::NoCheckpointGuard() { ++no_checkpoint_guards; }
NoCheckpointGuard::~NoCheckpointGuard() { --no_checkpoint_guards; }

EarlyStopGuard::EarlyStopGuard(bool on) : before_(std::exchange(early_stop, on)) {}
EarlyStopGuard::~EarlyStopGuard() { early_stop = before_; }

bool is_recomputing() { return detail::is_replaying(); }

ReplayCallback::ReplayCallback(std::function<void(const ReplayEvent&)> callback) {
  listeners.push_back(
      std::make_shared<const std::function<void(const ReplayEvent&)>>(std::move(callback)));
}
ReplayCallback::~ReplayCallback() { listeners.pop_back(); }

}  // namespace reprise
