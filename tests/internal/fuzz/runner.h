// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "program.h"

// Runs a program plainly and under tapes, and compares bit by bit.

namespace reprise::fuzz {

enum class Verdict { same, both_raise, skipped, differs };

struct Finding {
  Verdict verdict = Verdict::same;
  std::string what;   // what differs, or what plain raised
  std::string trace;  // the program as text, as plain ran it
  int instructions = 0, refused = 0;
  int followed = 0;         // tapes that have followed a plan to the end
  int64_t fetched = 0;      // values that a store without faults brought back
  int64_t faults = 0;       // injected into another one
  bool complained = false;  // a replay said that what it reads was changed, where plain went on
};

/// Gradients, values, buffers, generators, errors and live bytes, of plain and of several deciders.
Finding check(const Program& program);

/// The smallest program found, by leaving out instructions, that differs still.
Program shrink(const Program& program);

/// For a failure: how to run it again, what differs, the shrunken program.
std::string explain(const Program& program);

struct Tally {
  int64_t programs = 0, same = 0, both_raise = 0, skipped = 0, differ = 0;
  int64_t instructions = 0, refused = 0, complained = 0, followed = 0;
  int64_t fetched = 0, faults = 0;
  void add(const Finding& finding);
  std::string str() const;
};

}  // namespace reprise::fuzz
