// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <c10/core/Allocator.h>

#include "meter/counters.h"
#include "meter/gauge.h"

// An allocator for the CPU that counts what it hands out and leaves the work to another one, its
// base. Blocks keep the 64-byte alignment of LibTorch's own. Safe from any thread, as far as the
// base is. REQUIRES: it and its base outlive every block that it handed out.

namespace reprise::detail {

class CountingAllocator;

/// Asked by an allocator when a block would pass its limit. Called from any thread, in the middle
/// of an operator, with whatever locks that thread holds.
class RoomMaker {
 public:
  virtual ~RoomMaker() = default;

  /// Frees something and counts the bytes within the limit, or throws. It may count them above the
  /// limit where an exception would end the process.
  virtual void make_room(CountingAllocator& allocator, int64_t bytes) = 0;
};

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& base) : base_(base) {}
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  /// Throws what the base throws; nothing is counted then.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override;

  /// What is known of a block while it is alive.
  struct Block {
    size_t bytes;
    uint64_t number;       ///< 0 at first; for the block log
    Gauge::Epoch epoch{};  ///< of the gauge that counts it; 0: none does
  };

  /// Null for memory that is not a block of a counting allocator.
  static Block* block_of(const c10::DataPtr& data);

  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  /// Live bytes stay within `limit` from now on; blocks that other threads are just making may
  /// still pass. Without a room maker, a block that does not fit is std::bad_alloc.
  void set_limit(int64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }

  /// `maker` must outlive the allocator.
  void set_room_maker(RoomMaker* maker) { room_maker_.store(maker, std::memory_order_release); }

  /// Counts the bytes of a block to come if they are within the limit.
  bool try_reserve(int64_t bytes) { return counters_.try_add(bytes, limit()); }

  Counters& counters() { return counters_; }
  Gauge& gauge() { return gauge_; }
  c10::Allocator& base() const { return base_; }

  /// Says who frees the blocks that come to raw_deallocate() without being ours. LibTorch's binding
  /// to oneDNN asks whatever allocator is in place, so a block from before we were set reaches us.
  static void set_foreign_deleter(c10::DeleterFnPtr deleter);

 private:
  static void free_block(void* data);
  void reserve(int64_t bytes);

  c10::Allocator& base_;
  std::atomic<int64_t> limit_{kUnlimited};
  std::atomic<RoomMaker*> room_maker_{nullptr};
  Counters counters_;
  Gauge gauge_;
};

}  // namespace reprise::detail
