// SPDX-License-Identifier: BSD-3-Clause
#include "tape/step_recorder.h"

#include <chrono>
#include <utility>

#include "torch/backward_pass.h"
#include "torch/engine.h"

namespace reprise::detail {

StepRecorder::StepRecorder(LimitedMemory& memory, Clock clock)
    : memory_(memory),
      clock_(std::move(clock)),
      gauge_(memory.gauge()),
      epoch_(gauge_.start()),
      began_(now()),
      dropping_at_begin_(dropping()) {}

StepRecorder::~StepRecorder() { gauge_.stop(epoch_); }

bool StepRecorder::is_valid() const { return !spoilt_ && gauge_.is_running(epoch_); }

int64_t StepRecorder::now() const {
  if (clock_) return clock_();
  memory_.wait();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Time of another clock is not spent on anything.
int64_t StepRecorder::dropping() const { return clock_ ? 0 : nanoseconds_of_dropping(); }

void StepRecorder::operator_begins() {
  gauge_.reset_peak();
  operator_dropping_ = dropping();
  operator_began_ = now();
}

void StepRecorder::operator_ends() {
  operator_time_ = now() - operator_began_ - (dropping() - operator_dropping_);
  operator_peak_ = gauge_.peak();
}

void StepRecorder::note(std::string name) {
  StepRecord::Node& node = record_.nodes.emplace_back();
  node.name = std::move(name);
  node.time = operator_time_;
  node.peak = operator_peak_;
}

void StepRecorder::end_forward(const std::vector<c10::Storage>& alive) {
  record_.forward_time = now() - began_ - (dropping() - dropping_at_begin_);
  record_.live_at_seal = gauge_.live();
  record_.step_time = now() - began_;
  if (!gauge_.is_running(epoch_)) return spoil();
  epoch_ = gauge_.start();
  for (const c10::Storage& contents : alive) gauge_.count_on(contents);
}

bool StepRecorder::unpack_begins(const void* node, NodeId belongs_to) {
  if (record_.events.empty()) {  // of what ran before anything was unpacked
    record_.events.emplace_back();
    const int64_t began = clock_ ? 0 : current_pass_began();
    event_began_ = began != 0 ? began : now();
    event_dropping_ = dropping();
    began_ = event_began_ - record_.step_time;
  }
  if (node == node_ && node != nullptr) return false;
  node_ = node;
  close_event();
  StepRecord::Event& event = record_.events.emplace_back();
  event.name = current_node_name();
  event.belongs_to = belongs_to;
  return true;
}

void StepRecorder::unpack_ends(ValueId value) {
  StepRecord::Event& event = record_.events.back();
  // Nothing happens between the unpacks of one node.
  event.unpacks.push_back(value);
  event.before = gauge_.live();
  gauge_.reset_peak();
  event_dropping_ = dropping();
  event_began_ = now();
}

void StepRecorder::close_event() {
  StepRecord::Event& event = record_.events.back();
  event.time += now() - event_began_ - (dropping() - event_dropping_);
  event.after = gauge_.live();
  event.peak = gauge_.peak();
}

bool StepRecorder::end_backward() {
  if (!record_.events.empty()) close_event();
  record_.step_time = now() - began_;
  const bool valid = is_valid();
  gauge_.stop(epoch_);
  return valid;
}

}  // namespace reprise::detail
