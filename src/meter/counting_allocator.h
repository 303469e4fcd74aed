// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <c10/core/Allocator.h>

#include "meter/block_gauge.h"
#include "meter/counters.h"
#include "meter/limited_memory.h"

// An allocator for the CPU that counts what it hands out and leaves the work to another one, its
// base. Blocks keep the 64-byte alignment of LibTorch's own. Safe from any thread, as far as the
// base is. REQUIRES: it and its base outlive every block that it handed out.

namespace reprise::detail {

class CountingAllocator final : public c10::Allocator, public LimitedMemory {
 public:
  explicit CountingAllocator(c10::Allocator& base) : base_(base) {}

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

  // Live bytes stay within the limit; blocks that other threads are just making as it is set may
  // still pass. Without a room maker, a block that does not fit is std::bad_alloc.
  c10::Device device() const override { return c10::kCPU; }
  void wait() const override {}
  int64_t live() const override { return counters_.live(); }
  BlockGauge& gauge() override { return gauge_; }
  int64_t reset_limited_peak() override { return counters_.reset_limited_peak(); }
  bool try_reserve(int64_t bytes) override { return counters_.try_add(bytes, limit()); }
  void reserve_above(int64_t bytes) override { counters_.add(bytes); }
  void cancel(int64_t bytes) override { counters_.cancel(bytes); }
  bool owns(const c10::DataPtr& block) const override { return block_of(block) != nullptr; }

  Counters& counters() { return counters_; }
  c10::Allocator& base() const { return base_; }

  /// Says who frees the blocks that come to raw_deallocate() without being ours. LibTorch's binding
  /// to oneDNN asks whatever allocator is in place, so a block from before we were set reaches us.
  static void set_foreign_deleter(c10::DeleterFnPtr deleter);

 private:
  static void free_block(void* data);
  void reserve(int64_t bytes);

  c10::Allocator& base_;
  Counters counters_;
  BlockGauge gauge_;
};

}  // namespace reprise::detail
