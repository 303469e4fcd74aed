// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <reprise/plan.h>

#include "tape/held_set.h"
#include "torch/in_place_backward.h"

// The budgets of the process, and when each one's limit is in force. The memory of a device knows
// one number: the least of them.

namespace reprise::detail {

/// What a budget asks for, and where it stands. All but `room` is guarded by Limits.
struct LimitState {
  explicit LimitState(LimitedMemory& memory)
      : memory(memory), room(std::make_shared<Room>(memory)) {}

  LimitedMemory& memory;
  enum class Kind { all_bytes, above_base, share };
  Kind kind = Kind::all_bytes;
  int64_t bytes = 0;  // above base; of a share, once it is known
  double share = 0;

  bool in_force = false;
  bool watching = false;        // in force without a limit: the plain step of a share
  bool pass_has_ended = false;  // since the step began
  int64_t graphs = 0;           // that are alive
  int64_t base = 0;
  int64_t peak = 0;        // above base
  int64_t step_base = 0;   // live bytes when the last step began
  int64_t step_peak = 0;   // above those
  int64_t plain_peak = 0;  // the same, of the plain step
  int64_t forwards = 0;
  int64_t overruns_before = 0;

  const std::shared_ptr<Room> room;
  /// The last step that was measured; none before. Set once, thread-safe.
  std::function<std::optional<StepTrace>()> last_step{};
};

/// Those of one device. Thread-safe.
class Limits {
 public:
  static Limits& of(LimitedMemory& memory);

  /// Calls `function` for those of each device that has had any.
  static void for_each(const std::function<void(Limits&)>& function);

  bool in_force() const { return memory_.limit() != LimitedMemory::kUnlimited; }

  struct Begun {
    bool plainly = false;   ///< without a limit
    bool alone = false;     ///< no graph of an earlier forward pass is alive
    int64_t available = 0;  ///< bytes within all limits
  };
  /// A forward pass begins; its graph counts as alive.
  Begun begin_forward(LimitState& state);

  /// Of the step that a forward pass has begun alone.
  int64_t peak_of_step(LimitState& state);

  /// Of a budget in force that has measured a step: the step, and where it began.
  struct LastStep {
    int64_t base = 0;
    StepTrace trace;
  };
  std::optional<LastStep> last_step();

  /// What begin_forward() counted is gone.
  void end_graph(LimitState& state);

  /// No backward pass runs any more.
  void end_passes();

  /// The budget has ended.
  void retire(LimitState& state);

  /// A copy that is up to date.
  LimitState read(LimitState& state);

 private:
  explicit Limits(LimitedMemory& memory) : memory_(memory) {}
  void settle_peaks();
  void apply();
  void enforce(LimitState& state);
  void lift(LimitState& state);
  void end_step(LimitState& state);

  LimitedMemory& memory_;
  std::mutex mutex_;
  std::vector<LimitState*> in_force_;
  std::optional<InPlaceBackward> in_place_;
};

}  // namespace reprise::detail
