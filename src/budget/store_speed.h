// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include <reprise/plan.h>
#include <reprise/store.h>

namespace reprise::detail {

/// How fast a store is, and what its threads take from the step: measured once, and corrected by
/// what steps have moved. Thread-safe.
class StoreSpeed {
 public:
  explicit StoreSpeed(Store store) : store_(std::move(store)) {}

  /// Measures it first, if nobody has. None for a store that cannot be measured: it fails.
  std::optional<TracedStore> measured();

  /// As it stands, with what has been moved since; none before measured().
  std::optional<TracedStore> known();

 private:
  // With the lock:
  void measure();
  void correct();

  const Store store_;
  std::mutex mutex_;
  bool tried_ = false;
  std::optional<TracedStore> speed_;
  StoreStats seen_;
};

}  // namespace reprise::detail
