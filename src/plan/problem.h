// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <reprise/plan.h>

// A StepTrace in the form that the planner computes with: flat arrays, and what can be known
// beforehand.
//
// To encode and to decode are operators here, behind those of the trace; the smaller forms are
// values behind those of the trace. So the simulator knows operators and values only. Behind these
// come the store's operators, and the copies in it as values of no bytes.

namespace reprise::planner {

using Index = int32_t;
inline constexpr Index kNone = -1;

/// A set of results of one operator. Those beyond the 64th share the last bit.
using Mask = uint64_t;
inline constexpr Mask kAll = ~Mask{0};
inline bool has(Mask mask, std::size_t result) {
  return (mask >> (result < 63 ? result : 63) & 1U) != 0;
}
inline Mask bit(std::size_t result) { return Mask{1} << (result < 63 ? result : 63); }

/// Many short lists, one behind the other.
class Lists {
 public:
  std::span<const Index> operator[](Index i) const {
    return {items_.data() + starts_[i], items_.data() + starts_[i + 1]};
  }
  Index size() const { return static_cast<Index>(starts_.size()) - 1; }
  void add(std::span<const Index> list) {
    items_.insert(items_.end(), list.begin(), list.end());
    starts_.push_back(static_cast<Index>(items_.size()));
  }
  void add(std::initializer_list<Index> list) { add(std::span(list.begin(), list.size())); }

 private:
  std::vector<Index> starts_{0};
  std::vector<Index> items_;
};

/// What an operator does.
enum class Role : uint8_t {
  run,
  encode,
  decode,
  send,
  settle,  // a value that was sent may go from here on
  fetch,
};

struct Problem {
  Index operators = 0;  // of the trace
  Index events = 0;
  Index values = 0;  // of the trace

  // By operator; encoders and decoders follow those of the trace.
  std::vector<double> time;
  std::vector<int64_t> scratch;
  Lists reads, makes;
  std::vector<char> replayable;
  std::vector<Index> kind;  // equal for operators of one name
  std::vector<Index> rank;  // in which order operators of one replay run
  std::vector<Role> role;

  // By value; smaller forms follow the values of the trace.
  std::vector<int64_t> bytes;
  std::vector<Index> producer;
  std::vector<Index> encoder, decoder;  // operators, or none
  std::vector<Index> saved_at;          // the operator after which it is encoded
  std::vector<char> fixed;              // must be kept while anyone needs it
  std::vector<Index> last_read;         // by a forward operator, or none
  std::vector<Index> held_until;        // position of the plain step, or none
  Lists needed_at;                      // events, ascending

  // By value, with a store: operators, what they take of its queue, and whether it is any use.
  std::vector<Index> sender, settler, fetcher;
  std::vector<double> send_us, fetch_us;
  std::vector<char> held;     // by the program, in the backward pass: it cannot be sent
  std::vector<char> movable;  // not held, and large enough

  // By event.
  std::vector<double> event_time;
  std::vector<int64_t> event_bytes;       // gradients and scratch
  std::vector<int64_t> gradients_before;  // what replays before it find
  std::vector<char> unpacks;
  std::vector<Index> event_operator;  // the latest forward operator that it has to do with; falling
  Lists needs;

  Lists released_at;   // values, by position of the plain step
  Lists encode_after;  // values, by operator
  Lists send_after;    // values, by operator; with a store
  bool holds_any = false;
  bool has_store = false;

  Index all_operators() const { return static_cast<Index>(time.size()); }
  Index all_values() const { return static_cast<Index>(bytes.size()); }
};

/// Whether a problem knows of the trace's store, if there is one.
enum class Store : uint8_t { leave, take };

/// Checks the trace as check_trace() does. Operators and values have the same indices with a store
/// and without.
Problem compile(const StepTrace& trace, Store store = Store::take);

}  // namespace reprise::planner
