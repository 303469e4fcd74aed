// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include <reprise/ledger.h>

#include <ATen/core/Tensor.h>

#include "meter/counting_allocator.h"

// What the counting allocator tells while a ledger records: one record for each block, one entry
// for each that is made or freed, in order. The ledger tells what it knows of the blocks besides.

namespace reprise::detail {

struct OperatorInfo;

/// All that is known of a block when it is made; later, what became of it.
struct BlockRecord {
  int64_t bytes = 0;
  int64_t made = -1;  // numbers of events, -1: before or after the recording
  int64_t freed = -1;
  const OperatorInfo* op = nullptr;
  int32_t module = 0;  // see ModuleTracker
  int32_t phase = 0;   // the mark that was last
  int64_t replay = 0;  // the replay that made it, 0 for none
  bool in_backward = false;
  bool freed_in_replay = false;  // in the one that made it
  bool known = false;            // its category is certain, and not to be found by hindsight
  Category category = Category::other;
};

/// One for the process, never destroyed: other threads may be in it when a recording ends.
class BlockLog {
 public:
  static BlockLog& instance();
  static bool recording() { return recording_.load(std::memory_order_relaxed); }

  // For the allocator. Safe from any thread.
  uint64_t made(std::size_t bytes);
  void freed(uint64_t number, int64_t bytes);

  // For the ledger.

  /// False when another recording is running.
  bool begin();
  void end();

  /// The block of this storage is of that category, unless it is known to be of an earlier one.
  /// Blocks from before the recording get a record by it.
  void identify(const at::Tensor& tensor, Category category, int32_t module);

  /// The same for a block from before the recording that is not known; others are left alone.
  void identify_old(const at::Tensor& tensor, Category category);

  /// A backward pass begins: what was made before and is alive has outlived its forward pass.
  void end_of_forward();

  void next_phase();

  /// In which module the operators run that this thread calls from now on.
  static void enter_module(int32_t module);

  struct Entry {
    int64_t block;
    bool made;
    double ms;
  };

  struct Contents {
    int64_t base_bytes = 0;  // of blocks without a record, from before the recording
    std::vector<BlockRecord> blocks;
    std::vector<Entry> events;
    std::vector<int64_t> forward_ends;  // numbers of the first events after them
  };

  /// A copy of all so far.
  Contents contents() const;

  int64_t event_count() const;
  double milliseconds() const;

 private:
  BlockRecord* find(uint64_t number);
  BlockRecord& record_of(CountingAllocator::Block& memory);
  uint64_t add(const BlockRecord& block);
  void note(int64_t block, bool made);

  static std::atomic<bool> recording_;

  mutable std::mutex mutex_;
  uint64_t session_ = 0;
  int32_t phase_ = 0;
  Contents log_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace reprise::detail
