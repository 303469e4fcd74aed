// SPDX-License-Identifier: BSD-3-Clause
#include "budget/limits.h"

#include <algorithm>

#include "budget/room.h"
#include "meter/process_allocator.h"
#include "torch/engine.h"

namespace reprise::detail {
namespace {

/// Never destroyed: graphs may outlive main().
struct Registry {
  std::mutex mutex;
  std::vector<Limits*> all;
};

Registry& registry() {
  static auto& registry = *new Registry;
  return registry;
}

}  // namespace

Limits& Limits::of(LimitedMemory& memory) {
  Registry& known = registry();
  const std::lock_guard<std::mutex> lock(known.mutex);
  for (Limits* limits : known.all) {
    if (&limits->memory_ == &memory) return *limits;
  }
  return *known.all.emplace_back(new Limits(memory));
}

void Limits::for_each(const std::function<void(Limits&)>& function) {
  Registry& known = registry();
  std::unique_lock<std::mutex> lock(known.mutex);
  const std::vector<Limits*> all = known.all;
  lock.unlock();
  for (Limits* limits : all) function(*limits);
}

// Peaks are those of the time that a limit was in force.
void Limits::settle_peaks() {
  const int64_t peak = memory_.reset_limited_peak();
  for (LimitState* state : in_force_) {
    state->peak = std::max(state->peak, peak - state->base);
    state->step_peak = std::max(state->step_peak, peak - state->step_base);
  }
}

void Limits::apply() {
  int64_t least = LimitedMemory::kUnlimited;
  bool limiting = false;
  for (const LimitState* state : in_force_) {
    limiting = limiting || !state->watching;
    const int64_t limit = state->watching
                              ? LimitedMemory::kWatched
                              : std::min(state->base + state->bytes, LimitedMemory::kWatched);
    least = std::min(least, limit);
  }
  memory_.set_limit(least);
  if (!limiting || &memory_ != &process_allocator()) {
    in_place_.reset();  // a plain step is plain
  } else if (!in_place_) {
    in_place_.emplace();
  }
}

void Limits::enforce(LimitState& state) {
  settle_peaks();
  if (!state.in_force) in_force_.push_back(&state);
  state.in_force = true;
  apply();
}

void Limits::lift(LimitState& state) {
  if (!state.in_force) return;
  settle_peaks();
  in_force_.erase(std::find(in_force_.begin(), in_force_.end(), &state));
  state.in_force = false;
  apply();
}

Limits::Begun Limits::begin_forward(LimitState& state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A graph that is kept on purpose does not put the end of the plain step off for ever.
  if (state.watching && state.pass_has_ended) end_step(state);
  ++state.forwards;
  Begun begun;
  begun.alone = state.graphs++ == 0;
  if (begun.alone || !state.in_force) {
    state.pass_has_ended = false;
    state.watching = state.kind == LimitState::Kind::share && state.plain_peak == 0;
    if (state.kind != LimitState::Kind::all_bytes) {
      state.base = memory_.live();
      if (state.watching) state.peak = 0;
    }
    enforce(state);
  }
  const int64_t live = memory_.live();
  if (begun.alone) {
    settle_peaks();
    state.step_base = live;
    state.step_peak = 0;
  }
  begun.plainly = state.watching;
  begun.available = memory_.limit() - live;
  return begun;
}

int64_t Limits::peak_of_step(LimitState& state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  settle_peaks();
  return state.step_peak;
}

std::optional<Limits::LastStep> Limits::last_step() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const LimitState* state : in_force_) {
    std::optional<StepTrace> trace = state->last_step ? state->last_step() : std::nullopt;
    if (trace) return LastStep{state->step_base, std::move(*trace)};
  }
  return std::nullopt;
}

void Limits::end_graph(LimitState& state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool in_pass = passes_are_running();  // if so, end_passes() comes after this
  if (--state.graphs > 0) return;
  state.pass_has_ended = state.pass_has_ended || in_pass;
  if (!in_pass) end_step(state);
}

void Limits::end_passes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<LimitState*> states = in_force_;
  for (LimitState* state : states) {
    state->pass_has_ended = true;
    if (state->graphs == 0) end_step(*state);
  }
}

void Limits::end_step(LimitState& state) {
  if (state.kind == LimitState::Kind::all_bytes) return;
  lift(state);
  if (state.watching && state.pass_has_ended && state.peak > 0) {
    state.plain_peak = state.peak;
    state.bytes = static_cast<int64_t>(state.share * static_cast<double>(state.plain_peak));
    state.peak = 0;
  }
  state.watching = false;
}

void Limits::retire(LimitState& state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lift(state);
}

LimitState Limits::read(LimitState& state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  settle_peaks();
  return state;
}

}  // namespace reprise::detail
