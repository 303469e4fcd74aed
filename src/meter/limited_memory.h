// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

// The memory of a device, as far as a limit is concerned. On the CPU the allocator itself keeps it;
// on an accelerator, whose allocator is not ours, it is looked at before each operator.

namespace reprise::detail {

class Gauge;
class LimitedMemory;

/// Asked when bytes to come would pass the limit. Called from any thread, on the CPU in the middle
/// of an operator, with whatever locks that thread holds.
class RoomMaker {
 public:
  virtual ~RoomMaker() = default;

  /// Frees something and reserves the bytes within the limit, or throws. It may reserve them above
  /// the limit where an exception would end the process.
  virtual void make_room(LimitedMemory& memory, int64_t bytes) = 0;

  /// Frees what can be freed until the bytes fit. Does not throw.
  virtual void make_some_room(LimitedMemory& memory, int64_t bytes) noexcept = 0;
};

/// Thread-safe.
class LimitedMemory {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  /// A limit that refuses nothing, so that peaks are kept.
  static constexpr int64_t kWatched = kUnlimited - 1;

  LimitedMemory() = default;
  virtual ~LimitedMemory() = default;
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;

  virtual c10::Device device() const = 0;

  /// Until nothing runs on the device any more.
  virtual void wait() const = 0;

  virtual int64_t live() const = 0;

  /// Measures steps.
  virtual Gauge& gauge() = 0;

  /// The largest live bytes under a limit since this was last called.
  virtual int64_t reset_limited_peak() = 0;

  /// Whether bytes to come are within the limit; an allocator of ours counts them then.
  virtual bool try_reserve(int64_t bytes) = 0;
  virtual void reserve_above(int64_t bytes) = 0;  ///< whatever the limit is
  virtual void cancel(int64_t bytes) = 0;         ///< what was reserved does not come

  /// Whether a block lives here, so that there is room when it is let go of.
  virtual bool owns(const c10::DataPtr& block) const = 0;

  virtual void set_limit(int64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }

  /// `maker` must outlive this.
  void set_room_maker(RoomMaker* maker) { room_maker_.store(maker, std::memory_order_release); }
  RoomMaker* room_maker() const { return room_maker_.load(std::memory_order_acquire); }

  /// Times that live bytes were above the limit and nothing could be done about it.
  void count_overrun() { overruns_.fetch_add(1, std::memory_order_relaxed); }
  int64_t overruns() const { return overruns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> limit_{kUnlimited};
  std::atomic<RoomMaker*> room_maker_{nullptr};
  std::atomic<int64_t> overruns_{0};
};

/// Of the CPU, or of an accelerator with its index; lives for ever. REQUIRES: a device that a Meter
/// can be made for.
LimitedMemory& limited_memory(c10::Device device);

}  // namespace reprise::detail
