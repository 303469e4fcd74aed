// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/slot.h"

// Receives the tensors that autograd saves while a region is replayed, and hands them, in order, to
// the slots of the first run.

namespace reprise::detail {

/// Thrown through the replayed function when nothing more is needed from it.
class ReplayDone final : public std::exception {
 public:
  const char* what() const noexcept override;
};

class Collector {
 public:
  /// `wanted[i]` is the slot for the i-th saved tensor, or null. With `stop`, the function is left
  /// by ReplayDone once the last wanted slot is filled.
  Collector(std::vector<std::shared_ptr<Slot>> wanted, int64_t pass, bool check_metadata,
            bool stop);

  /// What the replay is given for an argument: itself, or where it has a place in a graph, another
  /// tensor behind it. So a hook that the function registers on its argument, which the first run
  /// has registered already, stays in the replay.
  at::Tensor stand_in(const at::Tensor& argument);

  /// The pack hook of the replay.
  std::shared_ptr<PackedTensor> pack(const at::Tensor& tensor);

  /// Whether the function was, or is being, left early.
  bool stopped() const { return stopped_; }
  /// How many tensors were saved.
  std::size_t count() const { return count_; }
  /// How many had to be saved for the last wanted slot to be filled.
  std::size_t needed() const { return needed_; }
  /// The first tensor that differs from what was saved, in words; empty if none does.
  const std::string& mismatch() const { return mismatch_; }

 private:
  const at::Tensor& original(const at::Tensor& tensor) const;

  const std::vector<std::shared_ptr<Slot>> wanted_;
  const int64_t pass_;
  const bool check_metadata_;
  const bool stop_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::size_t needed_ = 0;
  std::vector<std::pair<at::Tensor, at::Tensor>> stand_ins_;  // and what they stand for

  std::mutex mutex_;  // the function may save tensors on threads of its own
  std::size_t count_ = 0;
  bool stopped_ = false;
  std::string mismatch_;
};

}  // namespace reprise::detail
