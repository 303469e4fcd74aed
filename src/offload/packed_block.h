// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <reprise/store.h>

#include "offload/completion.h"
#include "offload/encoding.h"
#include "offload/stopwatch.h"

// A compressed store's blocks: encoded by its threads, then sent to the store below.

namespace reprise::detail {

/// What blocks and threads share, and may outlive the store with.
struct CompressCore {
  CompressCore(Store below, const CompressedOptions& options)
      : below(std::move(below)), options(options) {}

  const Store below;
  const CompressedOptions options;
  std::mutex mutex;
  std::condition_variable landed;  // fewer bytes are in flight
  int64_t bytes_in_flight = 0;     // sent and not yet encoded; then the store below counts them
  StoreStats stats;
  BusyTime sending, fetching;
};

struct PackedBlock {
  PackedBlock(std::shared_ptr<CompressCore> core, Payload payload);
  ~PackedBlock();
  PackedBlock(const PackedBlock&) = delete;
  PackedBlock& operator=(const PackedBlock&) = delete;

  const std::shared_ptr<CompressCore> core;
  const int64_t bytes;
  const bool lossy;  ///< rounds this one
  const std::shared_ptr<Completion> encoded = std::make_shared<Completion>();

  // Guarded by core->mutex.
  bool in_flight = false;
  Payload payload;  ///< until it is encoded; stays if that fails

  // Written before `encoded`, only read afterwards.
  Block below;  ///< null: encoding failed
  bool packed = false;
};

struct PackedFetch {
  std::shared_ptr<PackedBlock> block;
  std::shared_ptr<void> target;
  const std::shared_ptr<Completion> arrived = std::make_shared<Completion>();

  // Of the store below; begun as early as can be, so that it works ahead of the threads here.
  Buffer buffer;
  Fetch below;
};

/// Encodes the block and sends it below. Ends its `encoded`, after it has let go of the block.
void encode(std::shared_ptr<PackedBlock> block);

/// Begins to fetch from below. REQUIRES: the block is encoded. Throws std::bad_alloc.
void begin_fetch(PackedFetch& fetch);

/// Waits for what comes from below and decodes it. Ends `arrived`, after it has let go of the
/// fetch.
void decode(std::shared_ptr<PackedFetch> fetch);

}  // namespace reprise::detail
