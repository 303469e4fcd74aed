// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

// A random program: instructions over a growing pool of tensors. A pure function of its seed.
//
// Each instruction chooses its operands by a hash of its own seed and of the names in the pool, so
// that leaving out another instruction changes as little as possible: that makes programs shrink.

namespace reprise::fuzz {

/// A hash of two numbers.
uint64_t mix(uint64_t a, uint64_t b);

struct Instruction {
  int slot = 0;  // its place in the program as it was generated; names its results
  int op = 0;    // index into operators()
  uint64_t seed = 0;
};

/// Where the tape records.
enum class Cut {
  whole,   // the program and its loss, in one scope
  part,    // the middle of it
  two,     // two scopes, one after the other
  nested,  // all of it, and the middle once more in a scope inside
};

/// What becomes of the graph.
enum class Ending {
  backward,
  twice,         // with a retained graph
  second_order,  // the gradients are differentiated again
  inside,        // the backward pass runs inside the scope
  second_order_inside,
  dropped,  // no backward pass at all
};

struct Program {
  uint64_t seed = 0;
  int length = 0;  // as generated
  std::vector<Instruction> instructions;
  Cut cut = Cut::whole;
  int begin = 0, end = 0;  // slots of the part that the cut is about
  Ending ending = Ending::backward;
  bool late_write = false;  // an input without grad changes between forward and backward
  bool keep_some = false;   // some values of the forward pass stay alive
};

Program generate(uint64_t seed);

/// The same program with only the instructions of these slots.
Program only(const Program& program, const std::set<int>& slots);

/// The scopes that are open around the instruction in `slot`, outermost first.
std::vector<int> scopes_around(const Program& program, int slot);

/// "one scope, backward twice".
std::string describe(const Program& program);

}  // namespace reprise::fuzz
