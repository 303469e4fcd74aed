// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include <reprise/budget_infeasible.h>
#include <reprise/export.h>
#include <reprise/plan.h>
#include <reprise/store.h>
#include <reprise/trace_step.h>

#include <c10/core/Device.h>

// Training inside a number of bytes. What autograd saves in a forward pass under a budget is held
// for as long as there is room. When an allocation would pass the limit, the allocator drops what
// is cheapest to bring back, in forward and backward passes alike, and the backward pass replays
// what it misses. Results are bit-identical to those without a budget.
//
//     Budget budget(512_MiB);
//     for (...) {
//       Tensor loss = budget.forward([&] { return loss_of(model(input), target); });
//       loss.backward();
//       optimizer.step();
//     }
//
// The limit is one of the process: of all LibTorch bytes of a device, whoever allocates them. Where
// several are in force, the least holds. On the CPU no moment passes it. On an accelerator, whose
// allocator is not ours, room is made before each operator for what that operator has needed
// before: the first time, and in backward passes, it may be passed, which is counted. See
// docs/budget.md.

namespace reprise {

/// 512_MiB and the like. REQUIRES: below 2^63 bytes.
inline namespace literals {
constexpr int64_t operator""_KiB(unsigned long long n) { return static_cast<int64_t>(n << 10U); }
constexpr int64_t operator""_MiB(unsigned long long n) { return static_cast<int64_t>(n << 20U); }
constexpr int64_t operator""_GiB(unsigned long long n) { return static_cast<int64_t>(n << 30U); }
}  // namespace literals

/// What a budget has done since it was made.
struct BudgetSummary {
  int64_t limit = 0;       ///< bytes above `base`; 0 while a fraction is being measured
  int64_t base = 0;        ///< bytes; 0 for a budget of all bytes, else live before the last step
  int64_t peak = 0;        ///< largest live bytes above `base` while the limit was in force
  int64_t plain_peak = 0;  ///< of the measured plain step, for a fraction; else 0
  int64_t forwards = 0;    ///< forward passes
  int64_t drops = 0;       ///< storages that were dropped to make room
  int64_t dropped_bytes = 0;  ///< of them
  int64_t replays = 0;        ///< times that something was brought back by running operators again
  int64_t operators = 0;      ///< run again
  double replay_ms = 0;       ///< wall time of that
  int64_t overruns = 0;       ///< times that the limit was passed: of allocations that could not be
                              ///< refused, of operators on an accelerator

  int64_t online_steps = 0;   ///< that no plan was followed in to the end
  int64_t planned_steps = 0;  ///< that a plan was followed in
  int64_t plans = 0;          ///< made so far
  int64_t replans = 0;        ///< of these: made again, as a step was not what had been predicted

  int64_t offloaded_bytes = 0;  ///< sent to the store by steps that followed a plan
  int64_t fetched_bytes = 0;    ///< and back

  // Of the last step that followed a plan; 0 before the first. Bytes above the base of the step.
  int64_t predicted_peak = 0;
  int64_t measured_peak = 0;
  double predicted_ms = 0;  ///< forward and backward pass
  double measured_ms = 0;
  double bound_ms = 0;      ///< no schedule that fits takes less, by the measurements of the plan
  double plain_ms = 0;      ///< a step without a budget, predicted from the same measurements
  int64_t plain_bytes = 0;  ///< its peak
};

REPRISE_API std::ostream& operator<<(std::ostream& out, const BudgetSummary& summary);

class BudgetScope;

/// Thread-safe; forward passes may run on several threads. After a move, all but assignment and the
/// destructor throws UsageError.
class REPRISE_API Budget {
 public:
  /// All bytes that LibTorch has allocated on the device, parameters, gradients, optimizer and
  /// data included. In force from the first forward pass until the end of this object. `device` is
  /// the CPU or the accelerator that the model is on (without index: the current one); what is
  /// saved on other devices is kept. Throws UsageError for less than one byte, and for a device
  /// that Meter cannot measure.
  explicit Budget(int64_t bytes, c10::Device device = c10::kCPU);

  /// The bytes above those that are live when a step begins: activations, gradients, scratch. A
  /// step begins with a forward pass while no graph of an earlier one is alive. In force until the
  /// graphs of the step are gone and no backward pass runs, so an optimizer is outside of it.
  static Budget activations(int64_t bytes, c10::Device device = c10::kCPU);

  /// The same, as a part of what a plain step needs: 0 < fraction <= 1. The first step runs plainly
  /// and is measured; it is over when a backward pass has released its graph. Forward passes
  /// without a backward pass are not measured.
  static Budget fraction(double fraction, c10::Device device = c10::kCPU);

  Budget(Budget&&) noexcept;
  Budget& operator=(Budget&&) noexcept;
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// The limit ends; graphs that are still alive stay usable.
  ~Budget();

  /// Runs `work()` under the budget and returns what it returns. Throws BudgetInfeasible when it
  /// does not fit, also out of TorchScript, which makes other exceptions of ours.
  template <class Work>
  auto forward(Work&& work) -> decltype(work());

  /// Safe to call at any time.
  BudgetSummary summary() const;

  /// From now on no plans are made nor followed: values go when there is no room.
  void stay_online();

  /// How plans are searched for from now on. Default: that of PlanOptions.
  void plan_with(const PlanOptions& options);

  /// A plan made before, such as one read from a file. A step whose trace has its key follows it,
  /// if it fits; see followed(). Which steps these are, the first one shows: it goes online. One
  /// that sends needs a store, see into().
  void follow(Plan plan);

  /// The same for a step that was traced in this process, also by its shapes under a MetaScope: it
  /// is known from its first operator on, so that the first step follows the plan, too. Throws
  /// UsageError for a plan of another step, and for one that sends where there is no store yet.
  void follow(const TracedStep& step, Plan plan);

  /// From now on, plans may send values to `store` instead of dropping them, where that takes less
  /// time: its speed is measured before the next plan is made, or one that sends is judged (which
  /// sends and fetches 128 MiB), and again from the steps that use it. What it does not bring back
  /// is replayed. Throws UsageError for a store that rounds, and on an accelerator: there, see
  /// Policy::offload().
  void into(const Store& store);

  /// Waits until the plans are made that have been begun in the background.
  void finish_planning();

  /// The last step that was measured, none before the first has ended, and the plan that the last
  /// step followed, none if it did not follow one.
  std::optional<StepTrace> trace() const;
  std::optional<Plan> followed() const;

 private:
  friend class BudgetScope;
  struct State;
  explicit Budget(std::shared_ptr<State> state);

  static int64_t infeasible_so_far();
  static void rethrow_if_infeasible(int64_t before, const std::exception& error);

  std::shared_ptr<State> state_;
};

/// A forward pass under a budget, on the thread that makes it, until its end. One inside another of
/// the same budget is part of it. Inside one of another budget, the tighter limit holds for both.
class REPRISE_API BudgetScope {
 public:
  /// Throws BudgetInfeasible when what is live already is above the limit, and Error when
  /// saved-tensor hooks are disabled on this thread.
  explicit BudgetScope(Budget& budget);
  ~BudgetScope();
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

 private:
  struct Open;
  std::unique_ptr<Open> open_;
};

template <class Work>
auto Budget::forward(Work&& work) -> decltype(work()) {
  const int64_t before = infeasible_so_far();
  try {
    const BudgetScope scope(*this);
    return std::forward<Work>(work)();
  } catch (const std::exception& error) {
    rethrow_if_infeasible(before, error);
    throw;
  }
}

}  // namespace reprise
