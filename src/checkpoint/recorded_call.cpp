// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/recorded_call.h"

#include <atomic>
#include <optional>
#include <utility>

#include <c10/core/GradMode.h>

#include "meter/region_log.h"
#include "meter/replay_clock.h"
#include "torch/buffer_guard.h"
#include "torch/operator_observer.h"

namespace reprise::detail {
namespace {

std::atomic<int64_t> next_number{0};

/// Tells the callbacks that a replay begins, and that it ends.
class ReplayNotice {
 public:
  ReplayNotice(const std::vector<ReplayListener>& listeners, std::string region)
      : listeners_(listeners), region_(std::move(region)) {
    for (const ReplayListener& listener : listeners_) (*listener)({region_, true});
  }
  ~ReplayNotice() {
    for (auto listener = listeners_.rbegin(); listener != listeners_.rend(); ++listener) {
      try {
        (**listener)({region_, false});
      } catch (...) {
        // Nobody could catch it: the replay may be ending by another exception.
      }
    }
  }
  ReplayNotice(const ReplayNotice&) = delete;
  ReplayNotice& operator=(const ReplayNotice&) = delete;

 private:
  const std::vector<ReplayListener>& listeners_;
  const std::string region_;
};

}  // namespace

RecordedCall::RecordedCall(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call)
    : options_(options),
      number_(next_number++),
      call_(std::move(call)),
      environment_(Environment::capture()),
      listeners_(replay_listeners()) {
  std::vector<at::Generator> generators;
  call_->take_arguments(arguments_, generators);
  if (options_.preserve_rng()) rng_ = RngState::capture(generators);
  count_region();
}

std::string RecordedCall::label() const {
  return options_.name().empty() ? "checkpointed region #" + std::to_string(number_)
                                 : "checkpointed region '" + options_.name() + "'";
}

std::unique_ptr<DrawRecorder> RecordedCall::watch_first_run() {
  if (!options_.preserve_rng() && !options_.restore_buffers()) return nullptr;
  return std::make_unique<DrawRecorder>(draws_, options_.preserve_rng());
}

bool RecordedCall::run_again(const std::function<void(ReplayCall&)>& work) {
  ReplayClock clock;
  const OperatorObserver observer;
  const c10::AutoGradMode with_grad(true);
  const EnvironmentReplay environment(environment_);
  std::optional<RngReplay> rng;
  std::optional<DrawPlayer> draws;
  if (options_.preserve_rng()) {
    rng.emplace(rng_);
    draws.emplace(draws_, /*open_ended=*/!first_run_ended_);
  }
  const ReplayNotice notice(listeners_, label());
  std::optional<BufferGuard> buffers;
  // A first run that is not over yet (it takes a gradient itself) may write later.
  if ((draws_.writes || !first_run_ended_) && options_.restore_buffers()) buffers.emplace();
  work(*call_);
  clock.count_operators(observer.count());
  log_replay(options_.name(), clock.milliseconds());
  return !draws || !draws->strayed();
}

}  // namespace reprise::detail
