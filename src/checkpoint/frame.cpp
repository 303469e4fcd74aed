// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/frame.h"

#include <optional>
#include <utility>

#include <reprise/error.h>

#include "checkpoint/collector.h"
#include "checkpoint/slot.h"
#include "meter/content_hash.h"
#include "meter/region_log.h"
#include "torch/backward_pass.h"
#include "torch/dispatch_mode.h"
#include "torch/operator_observer.h"
#include "torch/operator_trace.h"
#include "torch/warning.h"

namespace reprise::detail {
namespace {

const char* const kHint =
    "the function must do the same work each time it is run: look for state that changes between "
    "the forward and the backward pass (counters, caches, global flags, train/eval, a TorchScript "
    "module still being optimised in its first calls), or keep that part out of the region";

std::string tensors(std::size_t n) { return std::to_string(n) + (n == 1 ? " tensor" : " tensors"); }

}  // namespace

Frame::Frame(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call)
    : call_(options, std::move(call)),
      early_stop_(early_stop_in_force().value_or(options.early_stop()) && !call_.is_noexcept()),
      under_mode_(dispatch_mode_is_on()) {
  const std::vector<at::Tensor> tensors = call_.take_arguments();
  arguments_.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    arguments_.emplace_back(tensor, options.respect_outer_hooks());
  }
}

std::shared_ptr<PackedTensor> Frame::pack(const at::Tensor& tensor) {
  auto slot = std::make_shared<Slot>(shared_from_this(), tensor);
  // What an operator is about to fill has no contents yet, and statistics that it updates begin
  // elsewhere in the replay; no gradient depends on them.
  if (options().determinism() == Determinism::values) {
    const bool statistics =
        running_operator_updates_statistics() && tensor.is_leaf() && !tensor.requires_grad();
    if (!statistics && !running_operator_fills_arguments()) slot->hash = content_hash(tensor);
  }
  const std::lock_guard<std::mutex> lock(slots_mutex_);
  slots_.push_back(slot);
  return slot;
}

std::vector<std::shared_ptr<Slot>> Frame::slots() const {
  std::vector<std::shared_ptr<Slot>> alive;
  const std::lock_guard<std::mutex> lock(slots_mutex_);
  alive.reserve(slots_.size());
  for (const auto& slot : slots_) alive.push_back(slot.lock());
  return alive;
}

void Frame::end_first_run() {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  call_.end_first_run();
  for (std::size_t i = 0; i < arguments_.size() && !changed_argument_; ++i) {
    if (arguments_[i].changed()) changed_argument_ = i;
  }
  count_dropped();
  log_region(options().name(), dropped_.bytes(), options().preserve_rng());
}

at::Tensor Frame::unpack(Slot& slot) {
  const std::shared_ptr<Frame> alive = shared_from_this();  // outlives the lock
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  slot.stamp.check();
  const int64_t pass = current_pass();
  if (is_group(pass) && slot.unpacked_pass == pass) {
    throw Error(
        label() + ": two backward passes of one execution group want the same saved tensor",
        "let the passes of a group want different tensors, or run one of them outside of it");
  }
  if (!slot.value.defined() || slot.value_pass != pass) replay(pass, slot);
  slot.unpacked_pass = pass;
  return std::exchange(slot.value, at::Tensor());
}

void Frame::replay(int64_t pass, const Slot& asked) {
  // Every slot still alive wants its tensor, but for those that have had it in this backward pass
  // and are asked again; outside a backward pass nobody but the asker does.
  std::vector<std::shared_ptr<Slot>> wanted = slots();
  const std::size_t saved = wanted.size();
  for (std::shared_ptr<Slot>& slot : wanted) {
    const bool waits = slot && pass != kNoPass && slot->unpacked_pass != pass;
    if (!waits && slot.get() != &asked) slot.reset();
  }
  const auto collector = std::make_shared<Collector>(
      std::move(wanted), pass, options().determinism() != Determinism::none, early_stop_);
  const bool look = !savings_known_ && dropped_.memory_is_at_its_peak();
  try {
    run_call(collector);
    check(*collector, saved);
  } catch (...) {
    drop_values(pass);
    throw;
  }
  if (look && pass != kNoPass) look_at_savings();
  savings_known_ = savings_known_ || pass != kNoPass;
  // What this backward pass does not come to ask for (a partial gradient) must not outlive it.
  if (pass != kNoPass) {
    on_pass_end([frame = weak_from_this(), pass] {
      if (const auto alive = frame.lock()) alive->drop_values(pass);
    });
  }
}

void Frame::run_call(const std::shared_ptr<Collector>& collector) {
  if (changed_argument_) {
    throw Error(
        label() + ": its function changes its argument tensor " +
            std::to_string(*changed_argument_) + " in place, so it cannot be run again from it",
        "let the function work on a copy (x.clone()), use the form that is not in place, or "
        "begin the region before the layer that makes the argument");
  }
  // Unpacked first: the regions around this one may have to be replayed for them.
  std::vector<at::Tensor> arguments;
  arguments.reserve(arguments_.size());
  for (const SavedTensor& argument : arguments_) {
    arguments.push_back(collector->stand_in(argument.unpack()));
  }

  const bool same_draws = call_.run_again([&](ReplayCall& function) {
    std::optional<OperatorTrace> trace;
    replay_trace_.clear();
    if (options().debug()) trace.emplace(replay_trace_);
    try {
      const std::shared_ptr<void> context =
          options().replay_context() ? options().replay_context()() : nullptr;
      static PassThroughMode pass_through;  // LibTorch may refer to it after the replay
      std::optional<DispatchModeScope> mode;
      if (under_mode_ && !dispatch_mode_is_on()) mode.emplace(pass_through);
      const HookScope hooks([collector](const at::Tensor& t) { return collector->pack(t); });
      function.run(arguments);
    } catch (...) {
      // Whatever comes out after the replay was stopped is ReplayDone, perhaps in other clothes:
      // TorchScript and user code wrap exceptions that pass through them.
      if (!collector->stopped()) throw;
    }
  });
  if (!same_draws) {
    mismatch("the replay drew random numbers where the forward pass did not", true);
  }
}

void Frame::check(const Collector& collector, std::size_t saved) const {
  if (collector.count() < collector.needed()) {
    mismatch("the forward pass saved " + tensors(saved) + ", the replay only " +
                 std::to_string(collector.count()),
             false);
  }
  if (call_.first_run_ended() && collector.count() > saved && !collector.stopped()) {
    mismatch("the forward pass saved " + tensors(saved) + ", the replay " +
                 std::to_string(collector.count()),
             false);
  }
  if (!collector.mismatch().empty()) mismatch(collector.mismatch(), collector.stopped());
}

void Frame::mismatch(const std::string& what, bool may_end_early) const {
  std::string traces;
  if (options().debug()) {
    traces = first_difference(trace_, replay_trace_, may_end_early);
    if (traces.empty()) traces = "\nboth called the same operators with the same arguments";
  }
  throw RecomputeMismatch(
      label() + ": " + what + traces,
      options().debug() ? kHint : std::string(kHint) + "; debug(true) shows where they part");
}

void Frame::drop_values(int64_t pass) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  for (const auto& slot : slots()) {
    if (slot && slot->value_pass == pass) slot->value = at::Tensor();
  }
}

// What operators made, and nobody but the region's graph is likely to hold.
void Frame::count_dropped() {
  int64_t bytes = 0;
  std::optional<c10::Device> device;
  for (const auto& slot : slots()) {
    if (!slot || !slot->metadata.maker || (device && *device != slot->metadata.device)) continue;
    device = slot->metadata.device;
    bytes += slot->metadata.bytes();
  }
  if (device) dropped_.set(bytes, *device);
}

void Frame::look_at_savings() {
  int64_t bytes = 0;
  for (const auto& slot : slots()) {
    if (slot && slot->value.defined() && slot->metadata.maker) bytes += slot->metadata.bytes();
  }
  if (!dropped_.saved_nothing(bytes)) return;
  log_useless_region(options().name());
  const std::string named = options().name().empty() ? "a checkpointed region" : label();
  warn_once(named, "reprise: " + named + " dropped " + std::to_string(bytes) +
                       " bytes, and all of them came back at once, where memory stood highest: it "
                       "costs time and saves nothing. hint: use several smaller regions, or leave "
                       "the end of the model out of it");
}

}  // namespace reprise::detail
