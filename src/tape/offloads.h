// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include <reprise/offload.h>

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include "tape/stored_storage.h"

// What one tape has in a store. Storages go there in the forward pass, and come back in the order
// in which the last backward pass asked for them, some ahead of it. Used under the tape's lock.

namespace reprise::detail {

struct Destination {
  Store store;
  OffloadOptions options;
};

/// In which order backward passes ask for what was sent; shared by the tapes of like steps. Until
/// one has been seen, the reverse of the order of sending. Thread-safe.
class FetchOrder {
 public:
  std::vector<int32_t> of(std::size_t sent) const;
  void learn(std::vector<int32_t> order);

 private:
  mutable std::mutex mutex_;
  std::vector<int32_t> order_;
};

class Offloads {
 public:
  /// Counts what was sent, from 0.
  using Slot = int32_t;
  static constexpr Slot kNoSlot = -1;

  /// `order` may be null: then nothing is fetched ahead but by fetch_ahead().
  Offloads(Destination destination, std::shared_ptr<FetchOrder> order);

  // The forward pass.

  /// A storage that shall be sent once nobody else has it; false: it is too small, or too much.
  bool admit(int64_t bytes);
  /// Whether enough others were admitted after number `admitted` (from 0) for it to go.
  bool may_go(int64_t admitted) const {
    return admitted_ - admitted > destination_.options.keep_last();
  }
  int64_t admitted() const { return admitted_; }

  /// Whether the store can take so many bytes.
  bool has_room(int64_t bytes);
  /// kNoSlot: the store does not take it. `dtype`: of the numbers in it, mostly. REQUIRES: nobody
  /// else has the storage; below autograd, as all that follows.
  Slot send(c10::Storage contents, c10::ScalarType dtype);

  /// The forward pass is over, and these were not sent.
  void end_forward(int64_t last, int64_t alive);

  /// What comes from a device goes on to the store when it has arrived at the host.
  void go_on();

  /// Whether what the store loses is to be made again.
  bool recomputes() const { return destination_.options.on_failure() == StoreFailure::recompute; }

  // The backward pass.

  /// Waits for the contents. Null if they are lost and are to be made again: see check().
  c10::Storage fetch(Slot slot);
  /// The store did not bring it back.
  bool is_lost(Slot slot) const { return sent_[static_cast<std::size_t>(slot)].lost != nullptr; }
  /// Begins to fetch what will be asked for next, as it was learnt.
  void look_ahead();
  /// Begins to fetch this one. What goes wrong, whoever asks will see.
  void fetch_ahead(Slot slot);
  /// Throws the StoreError of a lost slot unless these are its contents.
  void check(Slot slot, const c10::Storage& contents);
  void begin_pass();
  void end_pass();
  /// Nobody will ask for it any more.
  void release(Slot slot);

  OffloadSummary summary() const;

 private:
  struct Sent {
    std::unique_ptr<StoredStorage> storage;  // null: released, or lost
    uint64_t hash = 0;                       // if it may be made again
    bool asked = false;                      // in this pass
    std::exception_ptr lost;
  };
  Sent& at(Slot slot) { return sent_[static_cast<std::size_t>(slot)]; }
  void begin_fetch(Slot slot);
  void forget_fetch(Slot slot);
  void note_asked(Slot slot);

  const Destination destination_;
  const std::shared_ptr<FetchOrder> order_of_steps_;
  std::vector<Sent> sent_;
  std::size_t arriving_ = 0;  // slots before it have gone on to the store
  int64_t admitted_ = 0, admitted_bytes_ = 0;
  std::vector<Slot> order_;               // that is expected
  std::vector<std::size_t> place_in_it_;  // of each slot
  std::size_t next_ = 0;                  // place of what is to be fetched ahead
  std::vector<Slot> fetching_;            // and not asked for yet
  int64_t ahead_ = 0;                     // bytes of those
  std::vector<Slot> asked_;               // in this pass, in order
  OffloadSummary summary_;
};

}  // namespace reprise::detail
