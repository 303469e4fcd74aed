// SPDX-License-Identifier: BSD-3-Clause
#include "torch/rng.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>

namespace reprise::detail {
namespace {

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

std::vector<at::Generator> default_generators() {
  std::vector<at::Generator> generators{at::globalContext().defaultGenerator(c10::kCPU)};
  if (const auto accelerator = at::accelerator::getAccelerator()) {
    for (c10::DeviceIndex i = 0; i < at::accelerator::deviceCount(); ++i) {
      generators.push_back(at::globalContext().defaultGenerator(c10::Device(*accelerator, i)));
    }
  }
  return generators;
}

}  // namespace

std::recursive_mutex& draw_mutex() {
  static auto& mutex = *new std::recursive_mutex;  // threads may outlive main()
  return mutex;
}

namespace {

thread_local std::vector<std::recursive_mutex*> locked_while_drawing;  // outermost first

}  // namespace

void DrawLock::lock() {
  before_ = locked_while_drawing;
  for (std::recursive_mutex* mutex : before_) mutex->lock();
  draw_mutex().lock();
}

void DrawLock::unlock() {
  draw_mutex().unlock();
  for (auto mutex = before_.rbegin(); mutex != before_.rend(); ++mutex) (*mutex)->unlock();
}

LockedWhileDrawing::LockedWhileDrawing(std::recursive_mutex& mutex) {
  locked_while_drawing.push_back(&mutex);
}

LockedWhileDrawing::~LockedWhileDrawing() { locked_while_drawing.pop_back(); }

RngState RngState::capture(const std::vector<at::Generator>& others) {
  std::vector<at::Generator> generators = default_generators();
  for (const at::Generator& generator : others) {
    const bool known =
        std::find(generators.begin(), generators.end(), generator) != generators.end();
    if (generator.defined() && !known) generators.push_back(generator);
  }
  RngState state;
  for (const at::Generator& generator : generators) {
    state.states_.emplace_back(generator, state_of(generator));
  }
  return state;
}

RngState RngState::of(const at::Generator& generator) {
  RngState state;
  state.states_.emplace_back(generator, state_of(generator));
  return state;
}

RngState RngState::recapture() const {
  RngState now;
  for (const auto& [generator, state] : states_) {
    now.states_.emplace_back(generator, state_of(generator));
  }
  return now;
}

bool RngState::equals(const RngState& other) const {
  return std::equal(states_.begin(), states_.end(), other.states_.begin(), other.states_.end(),
                    [](const auto& a, const auto& b) {
                      return a.first == b.first && a.second.nbytes() == b.second.nbytes() &&
                             std::memcmp(a.second.const_data_ptr(), b.second.const_data_ptr(),
                                         a.second.nbytes()) == 0;
                    });
}

void RngState::restore() const {
  const std::lock_guard<std::recursive_mutex> between_draws(draw_mutex());
  for (const auto& [generator, state] : states_) {
    at::Generator target = generator;
    const std::lock_guard<std::mutex> lock(target.mutex());
    target.set_state(state);
  }
}

}  // namespace reprise::detail
