// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "offload/engine.h"

namespace reprise::detail {

/// The work of an engine's thread: cuts blocks into pieces, keeps some of them under way, and
/// checks what comes back. Fetches go first, since somebody may be waiting for them.
///
/// A piece goes straight from or to the caller's memory where the channel's alignment allows it;
/// else through a buffer, copied while it is in the cache for its checksum anyway.
class EngineThread {
 public:
  explicit EngineThread(std::shared_ptr<EngineCore> core);

  /// Until the core stops and nothing is under way.
  void run();

 private:
  struct Freer {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  /// A block on its way in one direction.
  struct Job {
    std::shared_ptr<BlockState> block;
    std::shared_ptr<FetchState> fetch;  // null: a send
    int64_t next = 0;                   // piece
    int pending = 0;                    // pieces under way
    std::optional<StoreFault> fault;    // the first

    bool submitted() const { return fault.has_value() || next == block->layout.pieces(); }
  };

  /// Room for one piece under way. `transfer` comes first, and is how the slot is found again.
  struct Slot {
    Transfer transfer;
    std::shared_ptr<Job> job;
    int64_t index = 0;  // of the piece in its block
    Layout::Piece piece;
    int tries = 0;  // that moved nothing
    std::unique_ptr<std::byte[], Freer> buffer;
    bool buffered = false;
  };

  std::shared_ptr<EngineCore> core_;
  Channel* channel_;
  std::vector<Slot> slots_;
  std::vector<Slot*> idle_;
  std::shared_ptr<Job> fetching_, sending_;  // with pieces yet to submit

  std::shared_ptr<Job> next_job();
  std::shared_ptr<Job> begin_fetch();
  std::shared_ptr<Job> begin_send();
  void submit_piece(const std::shared_ptr<Job>& job);
  void reap();
  void check_piece(Slot& slot);
  void finish(Job& job);
  StoreFault io_fault(const Slot& slot) const;
};

}  // namespace reprise::detail
