// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
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

/// A budget that every step fits.
inline constexpr int64_t kAmple = int64_t{1} << 50;

/// Enough tries for small steps.
inline PlanOptions quick() {
  PlanOptions options;
  options.evaluations = 150;
  return options;
}

inline int64_t part_of(int64_t bytes, double part) {
  return static_cast<int64_t>(static_cast<double>(bytes) * part);
}

/// A store of a random speed: some send much of a random step behind it, some hardly a value.
TracedStore random_store(std::mt19937& random);

/// A step of whole microseconds and small sizes. Each operator has one backward event or two.
StepTrace random_trace(std::mt19937& random, const TraceKind& kind = {});

/// Runs a plan's schedule as a runtime would, with memory that is really allocated and contents
/// that are made of those read: nothing is read that is not there or is something else, nothing is
/// made or freed twice. Transfers wait their turn on a clock of its own. Shares nothing with the
/// planner.
class Heap {
 public:
  int64_t peak = 0;  // live bytes, gradients and scratch included
  double time = 0;

  /// Throws std::runtime_error at the first step that cannot run as it says.
  void run(const StepTrace& trace, const std::vector<PlanStep>& steps);

 private:
  class Block {
   public:
    Block(Heap& heap, int64_t bytes);
    Block(Block&& other) noexcept
        : heap_(other.heap_),
          bytes_(other.bytes_),
          memory_(std::exchange(other.memory_, nullptr)) {}
    Block& operator=(Block&&) = delete;
    ~Block();

   private:
    Heap* heap_;
    int64_t bytes_;
    void* memory_;
  };
  struct Value {
    Block block;
    uint64_t contents;
  };

  /// A value's copy in the store, and when it is there.
  struct Copy {
    uint64_t contents;
    double done;
    bool is_used;
  };

  const Value& read(int32_t v);
  void send(const StepTrace& trace, int32_t v);
  void fetch(const StepTrace& trace, int32_t v);
  void free(int32_t v);
  void run_operator(const StepTrace& trace, const PlanStep& step, int64_t gradients);

  int64_t live_ = 0;
  double queue_ = 0;  // when the last transfer is done
  std::map<int32_t, Value> values_, smaller_;
  std::map<int32_t, Copy> copies_;
  std::map<int32_t, double> arrives_;  // values that were fetched, and live
  std::vector<uint64_t> first_;        // contents by value, as first made
};

}  // namespace reprise::tests
