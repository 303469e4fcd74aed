// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <reprise/budget_infeasible.h>
#include <reprise/export.h>

// The planner: one training step as measured comes in, a plan that fits a budget goes out. Plain
// data and pure functions: nothing of LibTorch, no clock, no thread, no global state. The same
// input gives the same plan, unless it is stopped. All bytes are above the base (what is live
// before the step), all times in microseconds. docs/planning.md has the method.

namespace reprise {

// --- what comes in ---------------------------------------------------------------------------

/// The smaller lossless form in which a value can be kept.
struct EncodedForm {
  int64_t bytes = 0;
  double encode_us = 0;
  double decode_us = 0;
};

/// The contents of one storage, made by one operator of the step. Parameters, inputs and what else
/// is live anyway have no place here: reading them costs nothing.
struct TracedValue {
  int64_t bytes = 0;

  /// The program itself holds the value (a local, a call's argument) through this position of the
  /// plain step: operators count from 0, backward events go on behind the last operator.
  /// Default: no longer than its last use.
  int32_t held_until = -1;

  /// The operator after which its fate is decided: the first that saves it. An encoded value is
  /// encoded there. Default: the operator that makes it.
  int32_t saved_at = -1;

  std::optional<EncodedForm> encoded;  ///< none: it cannot be encoded
};

/// One operator of the forward pass that makes values. Views are none, and operators that write in
/// place to one storage are merged into the last of them.
struct TracedOperator {
  std::string name;
  double microseconds = 0;
  int64_t scratch_bytes = 0;   ///< largest live bytes while it runs, above what it reads and makes
  std::vector<int32_t> reads;  ///< indices of values, none twice
  std::vector<int32_t> makes;  ///< every value is made by exactly one operator; at most 32
  bool replayable = true;      ///< false: what it makes is kept as long as anyone needs it
};

/// A piece of the backward pass between two unpacks: an operator, or a whole node.
struct BackwardEvent {
  std::string name;
  double microseconds = 0;
  int64_t scratch_bytes = 0;
  int64_t gradient_bytes = 0;         ///< live in gradients, parameters' included, while it runs
  int64_t gradient_bytes_before = 0;  ///< the same as it begins: what a replay before it finds

  /// The forward operator that it differentiates, if known. Helps to cut the step into blocks.
  int32_t belongs_to = -1;

  /// Saved values that autograd asks for as it begins. Replays run before such events only.
  std::vector<int32_t> unpacks;

  /// Values that must be live, beside those: unpacked earlier and still pinned by their node. One
  /// that comes without an unpack is held by the program, and is never dropped before.
  std::vector<int32_t> holds;
};

/// Where values can be sent, and fetched from again: a disk, or the host's memory beside an
/// accelerator. What was measured of it. One queue, first in first out, serves both directions; a
/// transfer takes latency_us + bytes / rate of it, and runs beside the step. What the step loses to
/// it all the same (hashes, copies and the system's work want a processor) is work_us_per_byte.
struct TracedStore {
  double send_bytes_per_us = 0;   ///< above 0
  double fetch_bytes_per_us = 0;  ///< above 0
  double latency_us = 0;          ///< of each transfer
  int64_t least_bytes = 0;        ///< no plan sends a smaller value. Default: none is too small.

  /// By how much each byte that is sent, and each that is fetched, makes the step itself longer.
  /// Default: not at all, as where a core is free for it.
  double work_us_per_byte = 0;
};

/// A step as it ran once with everything kept. Operators and events are in the order in which they
/// ran.
struct StepTrace {
  std::vector<TracedValue> values;
  std::vector<TracedOperator> operators;
  std::vector<BackwardEvent> events;
  std::optional<TracedStore> store;  ///< none: nothing can be sent
};

/// Throws UsageError if an index is out of range, a value has no maker or two, something is read
/// before it is made, or a number is negative or not finite.
REPRISE_API void check_trace(const StepTrace& trace);

/// What a plan is bound to: 16 hexadecimal digits for what is the same each time a step is
/// measured: values' bytes, operators with what they read and make, events with what they unpack,
/// and the order. Times, scratch, gradients, what the program holds and the store do not count.
REPRISE_API std::string key_of(const StepTrace& trace);

// --- what goes out ---------------------------------------------------------------------------

/// What becomes of a value after the forward pass.
enum class Decision {
  none,       ///< nobody asks for it again
  keep,       ///< it stays, until its last unpack or replay that reads it
  encode,     ///< its smaller form stays
  recompute,  ///< it goes, and a replay brings it back
  offload,    ///< it is sent to the store and goes, and is fetched from there
};

/// One entry of a schedule.
struct PlanStep {
  enum class Kind {
    forward,   ///< operator `index` runs for the first time
    encode,    ///< value `index` gets its smaller form
    replay,    ///< operator `index` runs again
    decode,    ///< value `index` is made of its smaller form
    backward,  ///< event `index`
    send,      ///< value `index` begins to be written to the store
    fetch,  ///< value `index` begins to be read from the store, into memory that counts from here
  };
  Kind kind = Kind::forward;
  int32_t index = 0;
  std::vector<int32_t> leaves;         ///< of a replay: the values that stay; others go at once
  std::vector<int32_t> frees;          ///< values that go after this step, once they are written
  std::vector<int32_t> frees_encoded;  ///< values whose smaller form goes after this step

  bool operator==(const PlanStep&) const = default;
};

/// A schedule for the whole step, with what it is predicted to take.
///
/// Transfers run beside the steps, in the order of their entries. Memory waits for them, so bytes
/// are the same at any speed: a value that is being written stays until the step that frees it,
/// which waits until it is written; whoever reads a value that is being fetched waits until it is
/// there. In the store it stays until its last fetch.
struct Plan {
  std::string key;          ///< of the step that it was made for
  std::string measurement;  ///< 16 digits for all of the trace that the predictions are of
  int64_t budget_bytes = 0;
  uint64_t seed = 0;
  std::vector<Decision> decisions;  ///< one for each value of the trace

  /// Forward operators in their order, each once; backward events in theirs; sends in the forward
  /// pass, of each value one at most; replays, decodes and fetches directly before an event that
  /// unpacks.
  std::vector<PlanStep> steps;

  int64_t peak_bytes = 0;   ///< predicted
  double microseconds = 0;  ///< predicted, for the whole step
  int64_t plain_peak_bytes = 0;
  double plain_microseconds = 0;

  /// No schedule that fits the budget takes less time than this. Never below plain. With a store it
  /// is loose: transfers are held against the time before one event only.
  double bound_microseconds = 0;

  /// How far above the bound the plan may be, as a part of a plain step; 0 is proved best.
  double looseness() const {
    return plain_microseconds > 0 ? (microseconds - bound_microseconds) / plain_microseconds : 0;
  }

  /// Whether it needs a store to be followed.
  bool sends() const {
    return std::find(decisions.begin(), decisions.end(), Decision::offload) != decisions.end();
  }

  bool operator==(const Plan&) const = default;
};

/// What a schedule takes: exact, with every byte that the trace knows of.
struct Evaluation {
  double microseconds = 0;
  int64_t peak_bytes = 0;
  std::size_t peak_step = 0;        ///< the first step at which the peak stands
  std::vector<int64_t> live_bytes;  ///< during each step, scratch and gradients included
  std::vector<double> begins_us;    ///< when each step begins to run, having waited for the store
};

/// One linear pass. Values go at their last use before they are made again, whatever the steps say;
/// only a value that was sent goes no earlier than they say. Throws UsageError if the steps are no
/// schedule for this trace: something is read that is not live, or the order is broken.
REPRISE_API Evaluation evaluate(const StepTrace& trace, const std::vector<PlanStep>& steps);

/// Throws UsageError unless `plan` was made for this very trace, keeps its budget, and is what it
/// says: predictions, decisions and frees are worked out again and compared. For plans that come
/// with their trace. Of the bound only the range is checked.
REPRISE_API void check_plan(const StepTrace& trace, const Plan& plan);

/// The same schedule judged by a new measurement of the step that it was made for: predictions,
/// decisions and frees are worked out again. The bound, which is for one measurement, falls to the
/// plain step's time unless nothing has changed. The peak may be above the budget now: compare
/// them. Throws UsageError for another step's plan, and where the schedule has become none: it
/// replays what cannot be replayed any more, it replays or fetches what the program holds, or it
/// sends and there is no store.
REPRISE_API Plan rejudged(const StepTrace& trace, const Plan& plan);

// --- planning --------------------------------------------------------------------------------

struct PlanOptions {
  uint64_t seed = 0;

  /// Schedules that the search tries from each of its starts, fewer for long traces, so that the
  /// time stays in bounds. 0: none, only the chain programme. Default: 30,000.
  int evaluations = 30000;

  /// Steps of memory in the chain programme. Default: 256.
  int slots = 256;

  /// Ways to run one block that the chain programme chooses from. Default: 16.
  int options_per_block = 16;

  /// Compute the bound; without, it is the plain step's time. Default: yes.
  bool bound = true;

  /// Ends planning early, from any thread: the best found so far is returned within about 50 ms, or
  /// Error thrown if there is none yet. Default: never.
  std::stop_token stop = {};
};

/// A plan whose predicted peak is at most `budget_bytes`, as fast as could be found. The plain step
/// where that fits. `known` are plans to start from: for this step, such as the last one, or for
/// the same model at other sizes, as far as their schedules are some for this trace; others are
/// ignored. The result is never slower than one of them that fits. With such plans, few evaluations
/// do. Throws BudgetInfeasible, UsageError for a budget below 1 or a broken trace, Error where it
/// was stopped too early.
REPRISE_API Plan plan(const StepTrace& trace, int64_t budget_bytes, const PlanOptions& options = {},
                      std::span<const Plan> known = {});

/// A plan for each budget, none where nothing fits. Time never rises from one budget to a larger
/// one. Stopped, it has none where none was found yet, too, and throws Error if all are so.
REPRISE_API std::vector<std::optional<Plan>> frontier(const StepTrace& trace,
                                                      std::span<const int64_t> budgets,
                                                      const PlanOptions& options = {});

/// How far down a budget can go.
struct LeastBudget {
  Plan plan;                         ///< its budget is its peak
  int64_t bound_bytes = 0;           ///< no schedule whatever has a lower peak
  std::string pinned_by;             ///< name of the operator or event at which the peak stands
  std::vector<int32_t> live_values;  ///< that are live there, the largest first
};

/// The least budget for which a plan is found. Stopped, the least so far.
REPRISE_API LeastBudget least_budget(const StepTrace& trace, const PlanOptions& options = {});

// --- other batches ---------------------------------------------------------------------------

/// A step as measured, or traced, with one batch.
struct TracedBatch {
  int64_t batch = 0;       ///< samples: 1 to 2^31 - 1
  int64_t base_bytes = 0;  ///< live before the step: parameters, the optimiser's, the batch itself
  StepTrace trace;
};

/// The step at another batch. Every number of bytes and every time lies on the line through the two
/// given, by itself: values, scratch, gradients and the base; bytes are rounded up, and nothing is
/// below 0. What one of the two holds or cannot do counts: replay, encode, send; a store is the
/// slower one of the two. Throws UsageError where
/// the batches are the same, or their steps differ in operators, events or what they read, make or
/// unpack.
REPRISE_API TracedBatch scale_batch(const TracedBatch& a, const TracedBatch& b, int64_t batch);

struct LargestBatch {
  TracedBatch step;  ///< at the largest batch
  Plan plan;         ///< its budget is what the base leaves
};

/// The largest batch, of `most` at most, whose base and plan fit `budget_bytes` together: by
/// bisection, so for sizes that grow with the batch. Throws BudgetInfeasible if a single sample is
/// too large, with its least budget, base included; else as plan() and scale_batch() do.
REPRISE_API LargestBatch largest_batch(const TracedBatch& a, const TracedBatch& b,
                                       int64_t budget_bytes, const PlanOptions& options = {},
                                       int64_t most = int64_t{1} << 20);

// --- files -----------------------------------------------------------------------------------

/// JSON with a newline at the end; docs/planning.md describes it.
REPRISE_API std::string to_json(const StepTrace& trace);
REPRISE_API std::string to_json(const Plan& plan);

/// Throw UsageError, in one line, for text that is cut off, is something else, or is of another
/// version. What is read is well-formed; check_plan() says whether it holds.
REPRISE_API StepTrace trace_from_json(const std::string& text);
REPRISE_API Plan plan_from_json(const std::string& text);

}  // namespace reprise
