// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <reprise/plan.h>

// Step traces for tests of the planner, measured ones from tests/data/ and random ones, and a heap
// that executes plans.

namespace reprise::tests {

/// "gpt2", "gpt6" or "unet": models of 2 and 6 blocks and a network with skip connections,
/// measured once.
StepTrace measured_trace(const std::string& name);

/// What random steps may have, besides values and operators.
struct TraceKind {
  bool chain = true;          // each operator reads the one before; else any earlier ones
  bool smaller_forms = true;  // some values can be encoded
  bool holds = true;          // the program holds some values, and some cannot be replayed
  int operators = 12;         // at most
};

/// A step of whole microseconds and small sizes. Each operator has one backward event or two.
StepTrace random_trace(std::mt19937& random, const TraceKind& kind = {});

/// Runs a plan's schedule as a runtime would, with a heap of values: nothing is read that is not
/// there, nothing is made twice or freed twice. Shares nothing with the planner.
struct Heap {
  std::map<int32_t, int64_t> values, smaller;  // live bytes
  int64_t peak = 0;
  double time = 0;

  /// Throws std::runtime_error at the first step that cannot run as it says.
  void run(const StepTrace& trace, const std::vector<PlanStep>& steps);

 private:
  void reach(int64_t beside);
};

}  // namespace reprise::tests
