// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include "meter/limited_memory.h"
#include "tape/record.h"

// What a tape keeps for as long as there is room. An allocator that has none chooses from the sets
// of all tapes what is cheapest to bring back, in the middle of an operator, on any thread. So a
// set knows in plain numbers all that the choice needs: who made what from what, and how long it
// took. Thread-safe: one lock for all sets of the process. Under it nothing is allocated by
// LibTorch, no storage is let go, nothing of a tape or of the user is called; it is always the last
// lock that a thread takes.

namespace reprise::detail {

/// The room that the sets of one budget share, and what became of them.
struct Room {
  explicit Room(LimitedMemory& memory) : memory(memory) {}
  LimitedMemory& memory;  ///< whose blocks can be dropped
  std::atomic<int64_t> drops{0};
  std::atomic<int64_t> dropped_bytes{0};
  std::atomic<int64_t> replays{0};    // times that something was brought back
  std::atomic<int64_t> operators{0};  // run again for it
  std::atomic<int64_t> nanoseconds{0};
  std::atomic<int64_t> sent_bytes{0};     // to a store
  std::atomic<int64_t> fetched_bytes{0};  // and back
};

class HeldSet {
 public:
  explicit HeldSet(std::shared_ptr<Room> room);
  ~HeldSet();
  HeldSet(const HeldSet&) = delete;
  HeldSet& operator=(const HeldSet&) = delete;

  // The graph, in the order of the record.

  /// The next value. One without a producer is at hand for as long as the tape lives.
  void add_value(NodeId producer);
  /// The next operator: the microseconds that a replay of it takes, what it reads and makes.
  void add_node(float cost, c10::SmallVector<ValueId, 4> inputs,
                c10::SmallVector<ValueId, 2> products);
  /// Nobody can make it again, nor what depends on it.
  void lose(ValueId value);

  std::size_t values() const { return values_.size(); }
  std::size_t nodes() const { return nodes_.size(); }

  // What is held.

  /// Holds the contents of a value until take(), or until the room is needed.
  void hold(ValueId value, c10::Storage contents);
  /// Null if it is not held.
  c10::Storage get(ValueId value) const;
  bool holds(ValueId value) const;
  /// Whether it is at hand in another form, which is never dropped.
  void keep(ValueId value, bool kept);
  /// Ends the hold; the caller lets go of the contents.
  c10::Storage take(ValueId value);

  /// While at least one of these lives for a value, others are dropped first.
  class Protection {
   public:
    explicit Protection(HeldSet& set) : set_(set) {}
    ~Protection();
    Protection(const Protection&) = delete;
    Protection& operator=(const Protection&) = delete;
    void add(ValueId value);

   private:
    HeldSet& set_;
    std::vector<ValueId> values_;
  };

  /// The backward pass has come to this value: it walks the tape in reverse, so what was made long
  /// before will be asked for late.
  void come_to(ValueId value);

  Room& room() { return *room_; }

 private:
  friend class RoomSearch;

  struct Entry {
    explicit Entry(NodeId producer) : producer(producer) {}
    NodeId producer;
    bool lost = false;
    bool kept = false;
    int32_t place = kNone;     // in held_
    int32_t position = kNone;  // on the tape, where it was first held
    int32_t protections = 0;
    uint32_t mark = 0;
    float cost = -1;  // to bring it back, as things stand; -1: not known
    c10::Storage storage;
    c10::SmallVector<NodeId, 2> readers;
    bool at_hand() const { return producer == kNone || kept || storage; }
  };
  struct Operator {
    float cost;
    uint32_t mark = 0;
    c10::SmallVector<ValueId, 4> inputs;
    c10::SmallVector<ValueId, 2> products;
  };

  // Under the lock.
  c10::Storage remove(ValueId value);
  void availability_changed(ValueId value);
  float cost_of(ValueId value);
  bool is_droppable(const Entry& entry) const;

  const std::shared_ptr<Room> room_;
  std::vector<Entry> values_;
  std::vector<Operator> nodes_;
  std::vector<ValueId> held_;
  std::vector<ValueId> open_;  // of the searches, kept for its memory
  uint32_t mark_ = 0;
  int32_t position_ = kNone;  // of the backward pass; none: the forward pass is at the end
};

/// Drops what is cheapest to bring back until `bytes` can be reserved, and reserves them; false,
/// and nothing is dropped, if all that can be dropped is not enough. Then `droppable` is how much
/// that is.
bool drop_for(LimitedMemory& memory, int64_t bytes, int64_t& droppable);

/// Reserves `bytes` as soon as what is on its way to stores has made room for them; false if that
/// is not enough, or takes long.
bool wait_for_room(LimitedMemory& memory, int64_t bytes);

/// Drops `bytes` or more, as far as there are any; nothing where another thread is dropping and
/// `waits` is false. Returns how many it were. For callers that hold an allocator's lock.
int64_t drop_some(LimitedMemory& memory, int64_t bytes, bool waits);

/// What this thread has spent on dropping: not part of the time of the operator that it came in.
int64_t nanoseconds_of_dropping();

/// Whether this thread holds the lock of the sets.
bool in_held_sets();

}  // namespace reprise::detail
