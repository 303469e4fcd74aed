// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>

#include <reprise/export.h>
#include <reprise/store.h>

// How saved tensors go to a store and come back: see Policy::offload() and Policy::into().

namespace reprise {

/// What becomes of a value that a store does not bring back.
enum class StoreFailure {
  error,      ///< the backward pass throws the StoreError
  recompute,  ///< its operators are replayed; throws the StoreError if that gives other bits
};

/// Setters return the object, so that they chain.
class REPRISE_API OffloadOptions {
 public:
  /// Smaller values are kept: a transfer costs more than they weigh. Default: 64 KiB.
  OffloadOptions& min_bytes(int64_t bytes);
  int64_t min_bytes() const { return min_bytes_; }

  /// The last values that a rule offloads in a forward pass are kept: the backward pass wants them
  /// first. Default: 1.
  OffloadOptions& keep_last(int64_t values);
  int64_t keep_last() const { return keep_last_; }

  /// Part of the bytes that rules offload which does go, spread evenly over the forward pass; 0 to
  /// 1. Default: 1.
  OffloadOptions& fraction(double part);
  double fraction() const { return fraction_; }

  /// Bytes fetched ahead of the backward pass at most; one value at least. Default: an eighth of
  /// what was sent in the forward pass, but no more than 32 MiB.
  OffloadOptions& fetch_ahead(int64_t bytes);
  /// None: the default.
  std::optional<int64_t> fetch_ahead() const { return fetch_ahead_; }

  /// Default: StoreFailure::error. With recompute, what the replays need is held for longer.
  /// Either way a value that cannot be sent is kept.
  OffloadOptions& on_failure(StoreFailure failure) { return on_failure_ = failure, *this; }
  StoreFailure on_failure() const { return on_failure_; }

 private:
  int64_t min_bytes_ = int64_t{64} << 10;
  int64_t keep_last_ = 1;
  double fraction_ = 1;
  std::optional<int64_t> fetch_ahead_;
  StoreFailure on_failure_ = StoreFailure::error;
};

/// What became of the values that rules offload. Counts are of storages: what several saved tensors
/// share goes once. What flows into a scope (parameters, buffers, the batch) is never among them.
struct OffloadSummary {
  int64_t seen = 0;  ///< that a rule wanted to offload
  int64_t seen_bytes = 0;

  int64_t moved = 0;  ///< sent, and let go of in memory
  int64_t moved_bytes = 0;
  int64_t failed = 0;  ///<   of these: did not arrive, and are kept

  // Not sent, and kept:
  int64_t skipped_small = 0;     ///< below min_bytes
  int64_t skipped_fraction = 0;  ///< beyond the fraction
  int64_t skipped_last = 0;      ///< among the last
  int64_t skipped_alive = 0;     ///< the program still has them: sending frees nothing
  int64_t skipped_full = 0;      ///< the store has no room, or takes nothing

  int64_t fetched = 0;  ///< brought back, again for each backward pass
  int64_t fetched_bytes = 0;
  int64_t returned = 0;    ///< brought back out of memory, as they had not arrived yet
  int64_t recomputed = 0;  ///< replayed, as the store did not bring them back

  double forward_wait_ms = 0;   ///< the forward pass waited for the store to take bytes
  double backward_wait_ms = 0;  ///< the backward pass waited for bytes to come back
  double send_bandwidth = 0;    ///< bytes per second of the store so far, 0 before any
  double fetch_bandwidth = 0;
};

REPRISE_API std::ostream& operator<<(std::ostream& out, const OffloadSummary& summary);

}  // namespace reprise
