// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <reprise/store.h>

#include <c10/core/Storage.h>

// Memory of the CPU on its way to a store: it goes by itself when the bytes have arrived, so
// whoever needs room may wait for it. Thread-safe.

namespace reprise::detail {

/// A storage on its way. It counts as in flight until the store has let go of this, or has failed
/// to take it.
class Flight {
 public:
  explicit Flight(c10::Storage contents);
  ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  const c10::Storage& contents() const { return contents_; }

  /// Tells which block it is for, by which one sees whether that has failed.
  void is_for(const std::shared_ptr<Block>& block);

 private:
  friend struct Flights;

  c10::Storage contents_;
  const int64_t bytes_;
  const bool counts_;
  const OwnProcess process_;

  // Under the lock of all flights:
  int64_t number_ = 0;
  std::weak_ptr<Block> block_;
  bool failed_ = false;
};

int64_t bytes_in_flight();

/// Waits until something has arrived; false if nothing is in flight (any more: it has failed), or
/// if nothing arrives for so long.
bool wait_for_arrival(std::chrono::milliseconds most);

}  // namespace reprise::detail
