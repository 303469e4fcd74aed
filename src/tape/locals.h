// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tape/held_set.h"
#include "tape/tape.h"

// What a replay works on.

namespace reprise::detail {

/// Contents at hand in one replay, with the number of reads that are still to come.
struct Tape::Local {
  c10::Storage storage;
  int reads = 0;
  bool made_here = false;
};

/// A replay that holds only what it has made. What it reads it fetches when it comes to it; if that
/// has been dropped meanwhile, by a replay inside this one.
struct Tape::LazyReplay {
  LazyReplay(HeldSet& set, const LazyReplay* outer) : outer(outer), sources(set) {}

  /// Runs an operator again: fetches what it reads and is not here, and lets go of what has been
  /// read for the last time.
  void run(Tape& tape, NodeId id);

  Locals locals;
  const LazyReplay* outer;
  HeldSet::Protection sources;
};

}  // namespace reprise::detail
