// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tape/step_record.h"

// What a tape is to keep, and when it is to bring back what: a plan in the tape's own terms. Made
// for one sequence of operators, in which nodes and values have the same numbers each time.

namespace reprise::detail {

struct Schedule {
  enum class Fate : uint8_t {
    none,    // nobody asks for it
    keep,    // held until an event frees it
    encode,  // its smaller form is
    drop,    // it goes when the program lets go of it
    send,    // the same, to the store
  };

  /// One replay: these nodes run again, and of what they make some stays. Or, without nodes, the
  /// smaller form of the one that stays is decoded, or it begins to come back from the store.
  struct Move {
    std::vector<NodeId> nodes;
    std::vector<ValueId> leaves;
    std::vector<ValueId> frees;          // held values that go after it
    std::vector<ValueId> frees_encoded;  // smaller forms
  };

  struct Event {
    std::vector<ValueId> unpacks;  // in any order
    std::vector<Move> before;      // at the first of them
    std::vector<ValueId> frees;    // once all are unpacked: whoever unpacked them holds them
    std::vector<ValueId> frees_encoded;
  };

  std::vector<uint64_t> hashes;  // of the sequence of operators up to each node
  std::vector<Fate> fates;       // by value
  std::vector<Event> events;
};

/// What a tape asks about the step that it records. Called with the tape's lock held; REQUIRES:
/// does not call the tape.
class StepGuide {
 public:
  virtual ~StepGuide() = default;

  /// Whether the step is worth measuring, where that makes it slower.
  virtual bool measures() = 0;

  /// The schedule to begin with; null if there is none.
  virtual std::shared_ptr<const Schedule> first() = 0;

  /// One whose sequence begins with operators of this hash; null if there is none.
  virtual std::shared_ptr<const Schedule> find(uint64_t hash) = 0;

  /// A backward pass has ended that is the first of this tape's, and nothing disturbed the
  /// measurement.
  virtual void ended(StepRecord record) = 0;

  /// The first backward pass has ended, and the step was not measured. `followed`: a schedule, to
  /// the end. `drops`: that were made for want of room.
  virtual void ended_unmeasured(bool followed, int64_t drops) = 0;
};

}  // namespace reprise::detail
