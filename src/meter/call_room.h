// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include "torch/operator_info.h"

// Room on an accelerator for one operator: before it runs, as much is made as it has needed before.
// What an operator needs, results and scratch together, is learnt for each combination of operator,
// sizes and whole numbers: the most of the last three times. The first time it is guessed, from the
// bytes of the arguments and from what the operator has needed at other sizes.

namespace reprise::detail {

class AcceleratorMemory;

class CallRoom {
 public:
  /// `refuses`: throws BudgetInfeasible where an operator that has been measured will not fit.
  /// Does nothing unless a limit is in force where the operator runs.
  CallRoom(const OperatorInfo& op, c10::ArrayRef<c10::IValue> arguments, bool refuses);
  ~CallRoom();
  CallRoom(const CallRoom&) = delete;
  CallRoom& operator=(const CallRoom&) = delete;

  /// Whether it has been measured fewer than three times.
  bool is_new() const { return is_new_; }

  /// The memory's live bytes have been as many since somebody last looked.
  static void saw(const AcceleratorMemory& memory, int64_t peak);

  /// What the operator that this thread runs is taken to need; 0 outside of all.
  static int64_t needed_now();

  /// Whether there may be something to do.
  static bool in_force() { return watches_.load(std::memory_order_relaxed) > 0; }

  /// From now on a room is made for every operator that the program or a backward pass calls on any
  /// thread, without refusing. Calls count.
  static void watch(bool on);

 private:
  bool look_up();

  static std::atomic<int> watches_;

  AcceleratorMemory* memory_ = nullptr;  // null: nothing to do
  CallRoom* const outer_;                // that this one is in, on this thread
  const OperatorInfo& op_;
  bool is_new_ = false;
  bool repeated_ = false;
  uint64_t key_ = 0;
  int64_t argument_bytes_ = 0;
  int64_t needed_ = 0;
  int64_t live_ = 0;  // before
  int64_t peak_ = 0;  // so far
};

}  // namespace reprise::detail
