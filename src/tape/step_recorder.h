// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <c10/core/Storage.h>

#include "meter/gauge.h"
#include "meter/limited_memory.h"
#include "tape/dropping_clock.h"
#include "tape/step_record.h"

// Measures a step for its tape. The tape tells what happens; this keeps clock and gauge. Not
// thread-safe: called under the tape's lock, except where it says otherwise.

namespace reprise::detail {

class StepRecorder {
 public:
  /// Nanoseconds from anywhere; empty: the machine's clock, each time that the device has done what
  /// it has to do. Another one where nothing is computed.
  using Clock = std::function<int64_t()>;

  StepRecorder(LimitedMemory& memory, Clock clock);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// Nobody else has begun to measure.
  bool is_valid() const;
  void spoil() { spoilt_ = true; }

  // The forward pass. Without the tape's lock:
  void operator_begins();
  void operator_ends();
  // What was measured between these two belongs to a node:
  void note(std::string name);

  StepRecord& record() { return record_; }

  /// What the forward pass has made that is still there, and will go without being missed.
  void end_forward(const std::vector<c10::Storage>& alive);

  // The backward pass.
  /// An unpack begins, of a node of the graph; true if that is another node than before, so that an
  /// event has ended and a new one begins.
  bool unpack_begins(const void* node, NodeId belongs_to);
  void unpack_ends(ValueId value);
  /// Whether the record is valid.
  bool end_backward();

 private:
  int64_t now() const;
  int64_t dropping() const;
  void close_event();

  LimitedMemory& memory_;
  const Clock clock_;
  Gauge& gauge_;
  Gauge::Epoch epoch_;
  bool spoilt_ = false;
  StepRecord record_;
  int64_t began_ = 0, dropping_at_begin_ = 0;
  int64_t operator_began_ = 0, operator_dropping_ = 0;
  int64_t operator_time_ = 0, operator_peak_ = 0;
  const void* node_ = nullptr;
  int64_t event_began_ = 0, event_dropping_ = 0;
};

}  // namespace reprise::detail
