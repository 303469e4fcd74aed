// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include <reprise/store.h>

namespace reprise::detail {

/// The end of a transfer, which comes once. Thread-safe. The fault is kept as data and thrown anew
/// at each wait, so that no exception object is shared between threads.
class Completion {
 public:
  void complete(std::optional<StoreFault> fault = {}) {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      fault_ = std::move(fault);
      changed_.notify_all();  // under the lock: a waiter may destroy this as soon as it wakes up
    }
  }

  bool done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  /// Throws StoreError.
  void wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    if (fault_) throw StoreError(*fault_);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::optional<StoreFault> fault_;
};

}  // namespace reprise::detail
