// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <reprise/store.h>

#include "offload/channel.h"
#include "offload/completion.h"
#include "offload/extents.h"
#include "offload/layout.h"
#include "offload/stopwatch.h"

// What stores of blocks have in common, whatever the channel below is: queues, one thread that
// works on them, room, checksums, limits, statistics.
//
//   BlockEngine (Store, blocks, fetches own it) ── owns the thread
//   EngineCore  (also the thread and the states own it) ── queues, room, channel
//   BlockState  (a block's handle, its fetches, and the thread while it works on it)
//   FetchState  (a fetch's handle, and the thread while it works on it)
//
// Queues know states weakly: what nobody holds any more when its turn comes is skipped.

namespace reprise::detail {

struct EngineCore;

struct BlockState {
  BlockState(std::shared_ptr<EngineCore> core, Payload payload);
  ~BlockState();  // gives the room back
  BlockState(const BlockState&) = delete;
  BlockState& operator=(const BlockState&) = delete;

  const std::shared_ptr<EngineCore> core;
  const int64_t bytes;
  const Layout layout;
  const int64_t room;  ///< bytes of its place
  const std::shared_ptr<Completion> sent = std::make_shared<Completion>();

  // Guarded by core->mutex.
  std::shared_ptr<const void> payload;  ///< until the bytes have arrived
  bool in_flight = false;               ///< counts among the bytes in flight
  bool claims = true;                   ///< its room counts; not that of a block that failed
  int64_t offset = -1;                  ///< of its place; -1: none

  std::vector<uint64_t> checksums;  ///< of each piece; of the thread
};

struct FetchState {
  std::shared_ptr<BlockState> block;
  std::shared_ptr<void> target;
  const std::shared_ptr<Completion> arrived = std::make_shared<Completion>();
};

struct EngineCore {
  EngineCore(std::unique_ptr<Channel> channel, int64_t most_in_flight, int64_t most_held);

  const std::unique_ptr<Channel> channel;  // of the thread, but for what is constant
  const int64_t most_in_flight, most_held;
  const int64_t alignment, memory_alignment;  // of the channel

  mutable std::mutex mutex;
  std::condition_variable work;    // something was queued, or stop
  std::condition_variable landed;  // fewer bytes are in flight
  std::deque<std::weak_ptr<BlockState>> sends;
  std::deque<std::weak_ptr<FetchState>> fetches;
  bool stop = false;
  int64_t bytes_in_flight = 0;
  int64_t bytes_claimed = 0;  ///< room of all blocks that live and did not fail
  int64_t end = 0;            ///< length of the channel
  Extents extents;
  StoreStats stats;
  BusyTime sending, fetching;

  /// Finds a place for a block that is sent, and lets the channel grow for it. For the thread.
  std::optional<StoreFault> place(BlockState& block);

  /// The block failed: it keeps its payload, and nothing else. REQUIRES: the mutex.
  void give_up(BlockState& block);
};

class BlockEngine : public StoreBackend, public std::enable_shared_from_this<BlockEngine> {
 public:
  BlockEngine(std::unique_ptr<Channel> channel, int64_t most_in_flight, int64_t most_held);
  ~BlockEngine() override;
  BlockEngine(const BlockEngine&) = delete;
  BlockEngine& operator=(const BlockEngine&) = delete;

  std::unique_ptr<StoredBlock> send(Payload payload) override;
  StoreStats stats() const override;
  int64_t room() const override;
  std::string advice() const override { return core_->channel->advice(); }

  const std::shared_ptr<EngineCore>& core() const { return core_; }

 private:
  const std::shared_ptr<EngineCore> core_;
  std::thread thread_;
};

}  // namespace reprise::detail
