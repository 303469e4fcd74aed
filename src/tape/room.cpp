// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <utility>

#include "meter/gauge.h"
#include "meter/process_allocator.h"
#include "tape/held_set.h"
#include "tape/held_sets.h"
#include "tape/in_flight.h"

// The choice of what goes when there is no room: least time to bring back, for each byte and for
// each operator until the backward pass will ask for it.

namespace reprise::detail {

/// Looks through the sets of all tapes. REQUIRES: one search at a time.
class RoomSearch {
 public:
  explicit RoomSearch(LimitedMemory& memory) : memory_(memory) {}

  /// What can be dropped; counted no further than `enough`.
  int64_t droppable(int64_t enough) const {
    const HeldSetsLock lock;
    int64_t bytes = 0;
    for (HeldSet* set : HeldSetsLock::sets()) {
      if (&set->room().memory != &memory_) continue;
      for (const ValueId id : set->held_) {
        if (bytes >= enough) return bytes;
        if (can_go(*set, id)) bytes += bytes_of(*set, id);
      }
    }
    return bytes;
  }

  /// Ends the hold of the best choice. Null if there is none.
  c10::Storage take(int64_t need) {
    const HeldSetsLock lock;
    set_ = nullptr;
    // Thousands of small values are not worth a look each: a sample, of those that matter.
    look(need / kTooSmall, /*sample=*/true, /*protected_too=*/false);
    if (set_ == nullptr) look(0, false, false);
    // What a running replay will read can be brought back once more, if it must.
    if (set_ == nullptr) look(0, false, true);
    if (set_ == nullptr) return {};
    Room& room = set_->room();
    ++room.drops;
    room.dropped_bytes += bytes_of(*set_, value_);
    c10::Storage chosen = set_->remove(value_);
    memory_.gauge().count_on(chosen);  // a plain step would have it
    return chosen;
  }

 private:
  static constexpr int64_t kTooSmall = 1024;  // parts of the need
  static constexpr std::size_t kSample = 512;
  static constexpr float kLeastCost = 0.1F;  // microseconds: nothing is quite free

  static int64_t bytes_of(HeldSet& set, ValueId id) {
    return static_cast<int64_t>(set.values_[id].storage.nbytes());
  }

  static bool can_go(HeldSet& set, ValueId id) {
    const HeldSet::Entry& entry = set.values_[id];
    return entry.storage.nbytes() > 0 && set.is_droppable(entry) && std::isfinite(set.cost_of(id));
  }

  void look(int64_t least_bytes, bool sample, bool protected_too) {
    std::size_t count = 0;
    for (const HeldSet* set : HeldSetsLock::sets()) count += set->held_.size();
    const std::size_t stride = sample ? count / kSample + 1 : 1;
    static std::size_t offset = 0;
    std::size_t i = sample ? offset++ : 0;
    for (HeldSet* set : HeldSetsLock::sets()) {
      if (&set->room().memory != &memory_) continue;
      const int32_t now =
          set->position_ == kNone ? static_cast<int32_t>(set->nodes_.size()) : set->position_;
      for (const ValueId id : set->held_) {
        if (i++ % stride != 0) continue;
        const HeldSet::Entry& entry = set->values_[id];
        if (entry.protections > 0 && !protected_too) continue;
        const int64_t bytes = bytes_of(*set, id);
        if (bytes < least_bytes || !can_go(*set, id)) continue;
        const auto distance = static_cast<float>(std::max(now - entry.position, 0) + 1);
        const float score = (set->cost_of(id) + kLeastCost) / static_cast<float>(bytes) / distance;
        if (set_ != nullptr && score >= score_) continue;
        set_ = set;
        value_ = id;
        score_ = score;
      }
    }
  }

  LimitedMemory& memory_;
  HeldSet* set_ = nullptr;
  ValueId value_ = kNone;
  float score_ = 0;
};

namespace {

using Clock = std::chrono::steady_clock;

// A replay takes less than that, as a rule.
constexpr std::chrono::milliseconds kPatience(500);

thread_local int64_t spent = 0;

// Held over choice and release: else a thread that finds nothing would fail while another one is
// about to free enough. Only the lock of the sets is taken inside.
std::mutex& one_at_a_time() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

class Stopwatch {
 public:
  ~Stopwatch() {
    spent += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }

 private:
  const Clock::time_point start_ = Clock::now();
};

}  // namespace

int64_t nanoseconds_of_dropping() { return spent; }

bool drop_for(LimitedMemory& memory, int64_t bytes, int64_t& droppable) {
  const Stopwatch stopwatch;
  const std::lock_guard<std::mutex> lock(one_at_a_time());
  RoomSearch search(memory);
  const auto need = [&] { return memory.live() - memory.limit() + bytes; };
  droppable = 0;
  // Nothing goes in vain.
  if (const int64_t missing = need(); missing > 0) {
    droppable = search.droppable(missing);
    if (droppable < missing && !memory.try_reserve(bytes)) return false;
    if (droppable < missing) return true;
  }
  while (!memory.try_reserve(bytes)) {
    // Let go of here, outside of the lock of the sets.
    const c10::Storage chosen = search.take(need());
    if (!chosen) return false;
  }
  return true;
}

bool wait_for_room(LimitedMemory& memory, int64_t bytes) {
  if (&memory != &process_allocator()) return false;  // what is on its way leaves the CPU's
  const Stopwatch stopwatch;
  while (!memory.try_reserve(bytes)) {
    if (bytes_in_flight() < memory.live() - memory.limit() + bytes) return false;
    if (!wait_for_arrival(kPatience)) return false;
  }
  return true;
}

int64_t drop_some(LimitedMemory& memory, int64_t bytes, bool waits) {
  const Stopwatch stopwatch;
  std::unique_lock<std::mutex> lock(one_at_a_time(), std::defer_lock);
  if (waits) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return 0;
  }
  RoomSearch search(memory);
  int64_t dropped = 0;
  while (dropped < bytes) {
    const c10::Storage chosen = search.take(bytes - dropped);
    if (!chosen) break;
    dropped += static_cast<int64_t>(chosen.nbytes());
  }
  return dropped;
}

}  // namespace reprise::detail
