// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/SmallVector.h>

#include "tape/record.h"

// A step as a tape has seen it, measured: what a planner needs to know. Plain data. All sizes are
// bytes, all times nanoseconds.
//
// Live bytes are counted as a plain step's would be: what a schedule or the allocator has dropped
// counts until the end of the forward pass, what replays make does not count.

namespace reprise::detail {

struct StepRecord {
  struct Node {
    std::string name;
    int64_t time = 0;  // less what was spent on making room
    int64_t peak = 0;  // live bytes of the step while it ran
    c10::SmallVector<ValueId, 4> reads;
    c10::SmallVector<ValueId, 2> makes;
    c10::SmallVector<std::pair<ValueId, ValueId>, 1> writes;  // found, after
    bool repeatable = true;  // all that it reads from outside is still there
  };
  struct Value {
    int32_t storage = kNone;
    NodeId producer = kNone;  // none: external
    int64_t bytes = 0;
    bool lost = false;
    bool latest = false;      // of its storage
    NodeId saved_at = kNone;  // the node after which it was decided on
    /// The program let go of it before this position; nodes count from 0, events go on behind the
    /// last node. None: it still held it when the step ended.
    int32_t released = kNone;
    struct Form {
      int64_t bytes, encode, decode;
    };
    std::optional<Form> encoded;
  };
  /// From an unpack of a node of the graph to the first unpack of another one.
  struct Event {
    std::string name;
    NodeId belongs_to = kNone;
    std::vector<ValueId> unpacks;
    std::vector<ValueId> holds;  // unpacked earlier, and still held by somebody
    int64_t time = 0;
    int64_t before = 0;  // live bytes made since the forward pass ended: gradients
    int64_t after = 0;
    int64_t peak = 0;
  };

  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<Event> events;     // the first one unpacks nothing
  int64_t live_at_seal = 0;      // at the end of the forward pass
  int64_t forward_time = 0;      // of the whole forward pass, less what was spent on making room
  int64_t step_time = 0;         // forward and backward pass, all included
  std::vector<uint64_t> hashes;  // of the sequence of operators, up to each node
  int64_t drops = 0;             // that the allocator made
  bool followed = false;         // a schedule, to the end
};

}  // namespace reprise::detail
