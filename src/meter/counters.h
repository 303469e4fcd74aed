// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include <reprise/meter.h>

// The counters behind the CPU meter: what an allocator hands out and takes back, from any thread,
// without a lock. Relaxed order is enough, since no other data is published through them.

namespace reprise::detail {

class Counters {
 public:
  void add(int64_t bytes) {
    const int64_t live = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    raise(peak_, live);
    raise(recent_peak_, live);
    allocations_.fetch_add(1, std::memory_order_relaxed);
  }

  /// The same if live bytes stay within `limit`; else nothing changes. What many threads add at
  /// once stays within it together.
  bool try_add(int64_t bytes, int64_t limit) {
    int64_t live = live_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit - live) return false;
    } while (!live_.compare_exchange_weak(live, live + bytes, std::memory_order_relaxed));
    raise(peak_, live + bytes);
    raise(recent_peak_, live + bytes);
    raise(limited_peak_, live + bytes);
    allocations_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  /// Takes back an addition for a block that there will not be.
  void cancel(int64_t bytes) {
    live_.fetch_sub(bytes, std::memory_order_relaxed);
    allocations_.fetch_sub(1, std::memory_order_relaxed);
  }

  void subtract(int64_t bytes) {
    live_.fetch_sub(bytes, std::memory_order_relaxed);
    freed_.fetch_add(bytes, std::memory_order_relaxed);
  }

  /// Makes the peak at least `bytes`.
  void raise_peak(int64_t bytes) { raise(peak_, bytes); }

  /// Starts a new peak at the present live bytes; returns the old one. An allocation that another
  /// thread makes meanwhile is in the old peak, in the new one, or in both; never in neither.
  int64_t reset_peak() { return restart(peak_); }

  /// A second peak, which the library may start anew while its user measures with the first.
  int64_t recent_peak() const { return recent_peak_.load(std::memory_order_relaxed); }
  void reset_recent_peak() { restart(recent_peak_); }

  /// A third one, of what was added under a limit.
  int64_t reset_limited_peak() { return restart(limited_peak_); }

  int64_t live() const { return live_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t allocations() const { return allocations_.load(std::memory_order_relaxed); }

  MemoryStats stats() const {
    MemoryStats stats;
    stats.live = live();
    stats.peak = peak();
    stats.allocations = allocations();
    stats.freed_total = freed_.load(std::memory_order_relaxed);
    // Not counted apart: one atomic addition less on every allocation.
    stats.allocated_total = stats.live + stats.freed_total;
    return stats;
  }

 private:
  static void raise(std::atomic<int64_t>& peak, int64_t bytes) {
    int64_t old = peak.load(std::memory_order_relaxed);
    while (old < bytes && !peak.compare_exchange_weak(old, bytes, std::memory_order_relaxed)) {
    }
  }

  int64_t restart(std::atomic<int64_t>& peak) {
    const int64_t old = peak.exchange(live(), std::memory_order_relaxed);
    raise(peak, live());
    return old;
  }

  // One cache line for all: every allocation touches most of them.
  alignas(64) std::atomic<int64_t> live_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> recent_peak_{0};
  std::atomic<int64_t> limited_peak_{0};
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> freed_{0};
};

}  // namespace reprise::detail
