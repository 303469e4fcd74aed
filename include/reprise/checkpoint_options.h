// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <reprise/export.h>
#include <reprise/policy.h>

// How checkpoint() treats a region: options of one call, and guards for all calls under them.

namespace reprise {

/// How replayed tensors are compared with what the forward pass had saved.
enum class Determinism {
  none,      ///< only that there are enough of them
  metadata,  ///< their number, and each one's shape, dtype, device and operator
  values,    ///< that, and their contents, by a 64-bit hash of each: for debugging, since it reads
             ///< every saved tensor twice, and waits for the accelerator to copy it to the host
};

/// How activations come back.
enum class Replay {
  functions,  ///< the region's function is run again, whole
  operators,  ///< the operators that ran in it are recorded, and those needed are run again: code
              ///< that is not an operator runs once, see docs/tape.md
};

/// How a function that is run again stands in the graph: the two of torch.utils.checkpoint.
enum class Variant {
  non_reentrant,  ///< its operators stand in the graph, and what they save is brought back
  reentrant,  ///< it runs without a graph and stands there as one node, whose backward pass runs
              ///< it again and calls backward() on what comes out
};

/// Options of one region. Setters return the object, so that they chain. Which applies to which
/// (Variant::reentrant goes with Replay::functions only):
///
///     option               functions   reentrant      operators
///     enabled              yes         yes            yes
///     name                 yes         yes            yes
///     policy               no          no             yes
///     preserve_rng         yes         yes            only true: draws are part of the record
///     early_stop           yes         only its end   only true: no more than needed runs again
///     determinism          yes         of results     only metadata: the audit compares values
///     restore_buffers      yes         yes            only true: a replay writes to nothing else
///     debug                yes         no             no: messages name the operator
///     contexts             yes         yes            no: user code does not run again
///     respect_outer_hooks  yes         only true      no: what is kept, the record keeps
///
/// What cannot apply is a UsageError from checkpoint(), whether or not gradients are on. (A
/// reentrant region runs to its end whatever early_stop() says.)
class REPRISE_API CheckpointOptions {
 public:
  /// Makes an object whose lifetime means something: a guard.
  using MakeGuard = std::function<std::shared_ptr<void>()>;

  /// Off: the function is simply called, and every activation is kept. Default: true.
  CheckpointOptions& enabled(bool on) { return enabled_ = on, *this; }
  bool enabled() const { return enabled_; }

  /// Default: Replay::functions.
  CheckpointOptions& replay(Replay replay) { return replay_ = replay, *this; }
  Replay replay() const { return replay_; }

  /// Variant::reentrant does nothing for each saved tensor, and has limits that the default does
  /// not have. These are errors, with a hint:
  ///
  ///   - At least one tensor among the arguments must require a gradient. What else requires one in
  ///     the function must be a parameter or another leaf, not the result of a graph.
  ///   - The function returns tensors, by value, in nothing but what visit_nested() knows.
  ///   - backward() only: not autograd::grad(), no `inputs`, no create_graph.
  ///   - In the replay at least one result must depend on something that requires a gradient.
  ///   - The function must change no argument in place, nor a buffer whose value it saves, and
  ///     parameters must not change before the backward pass. Results that share their memory with
  ///     anything else cannot be changed in place.
  ///   - Hooks inside the function, on what it computes, are LibTorch's error.
  ///
  /// And these nobody can see:
  ///
  ///   - A tensor that leaves the function in another way than as a result has no gradient.
  ///   - Floating-point results all require a gradient.
  ///   - A gradient that comes together from several uses, some of them in a region, is summed in
  ///     another order than plain: equal but for last bits, which in bfloat16 are not small.
  ///     Likewise the few operators that choose another kernel where there is no graph, such as
  ///     linalg_svdvals.
  ///   - Hooks on parameters run once for each region, before the backward pass is over.
  ///
  /// Default: Variant::non_reentrant.
  CheckpointOptions& variant(Variant variant) { return variant_ = variant, *this; }
  Variant variant() const { return variant_; }

  /// What becomes of each value in the region. Default: none, which recomputes all of them, as
  /// Policy::recompute_all() does. Policies audit their first scope in the process (for each name
  /// of a region): that run of the region keeps everything. Policy::audit(false) turns it off.
  CheckpointOptions& policy(Policy policy) { return policy_ = std::move(policy), *this; }
  const std::optional<Policy>& policy() const { return policy_; }

  /// A name for messages and reports. Default: empty; the region is then called by its number.
  CheckpointOptions& name(std::string name) { return name_ = std::move(name), *this; }
  const std::string& name() const { return name_; }

  /// Replay random draws as they fell in the forward pass. The states of the default generators
  /// (5 KB for the CPU's, once and for each operator that draws) and of every at::Generator among
  /// the arguments are kept with the region, and the streams go on after the replay where they
  /// were. Turn it off only where nothing draws, or the gradients are wrong. Default: true.
  CheckpointOptions& preserve_rng(bool on) { return preserve_rng_ = on, *this; }
  bool preserve_rng() const { return preserve_rng_; }

  /// End the replay as soon as the last needed tensor is back, by an exception thrown through the
  /// function. Functions declared noexcept are always run to their end. Turn it off for a function
  /// whose later side effects the replay must reach. An EarlyStopGuard overrides it. Default: true.
  CheckpointOptions& early_stop(bool on) { return early_stop_ = on, *this; }
  bool early_stop() const { return early_stop_; }

  /// Default: Determinism::metadata.
  CheckpointOptions& determinism(Determinism check) { return determinism_ = check, *this; }
  Determinism determinism() const { return determinism_; }

  /// Undo what the replay writes in place to tensors that existed before it: the statistics and
  /// counters of batch and instance norms, caches, moving averages. So they change once in a step,
  /// in the forward pass. Costs nothing where the function writes to nothing; else about a
  /// microsecond for each operator of the replay, and a copy of each tensor written to. Default:
  /// true.
  CheckpointOptions& restore_buffers(bool on) { return restore_buffers_ = on, *this; }
  bool restore_buffers() const { return restore_buffers_; }

  /// Note every operator with its arguments, in the forward pass and in the replay; where they do
  /// not match, the error shows both, side by side, from the first difference on. For debugging: it
  /// costs some microseconds and a line of text for each operator. Default: false.
  CheckpointOptions& debug(bool on) { return debug_ = on, *this; }
  bool debug() const { return debug_; }

  /// Functions that make a guard for the forward run of the region, and one for each replay; the
  /// guard lives while the function runs. For settings that are not captured. Either may be
  /// nullptr. Default: none.
  template <class Forward, class Again>
  CheckpointOptions& contexts(Forward forward, Again again) {
    forward_context_ = guard_maker(std::move(forward));
    replay_context_ = guard_maker(std::move(again));
    return *this;
  }
  const MakeGuard& forward_context() const { return forward_context_; }
  const MakeGuard& replay_context() const { return replay_context_; }

  /// Whether the region's arguments, which it keeps, pass through the saved-tensor hooks that are
  /// in force around it (those of another region, of SavedTensorHooks, of Python). Default: true.
  CheckpointOptions& respect_outer_hooks(bool on) { return respect_outer_hooks_ = on, *this; }
  bool respect_outer_hooks() const { return respect_outer_hooks_.value_or(true); }

  /// Throws UsageError for options that do not go together.
  void check() const;

 private:
  void check_reentrant() const;

  template <class Make>
  static MakeGuard guard_maker(Make make) {
    if constexpr (std::is_null_pointer_v<Make>) {
      return {};
    } else {
      return [make = std::move(make)]() mutable -> std::shared_ptr<void> {
        using Guard = decltype(make());
        return std::shared_ptr<Guard>(new Guard(make()));
      };
    }
  }

  std::string name_;
  std::optional<Policy> policy_;
  Replay replay_ = Replay::functions;
  Variant variant_ = Variant::non_reentrant;
  bool enabled_ = true;
  bool preserve_rng_ = true;
  bool early_stop_ = true;
  bool restore_buffers_ = true;
  bool debug_ = false;
  std::optional<bool> respect_outer_hooks_;
  Determinism determinism_ = Determinism::metadata;
  MakeGuard forward_context_;
  MakeGuard replay_context_;
};

/// While one lives, anywhere in the process, every checkpoint() is a plain call. Guards may overlap
/// and end in any order, on any thread.
class REPRISE_API NoCheckpointGuard {
 public:
  NoCheckpointGuard();
  ~NoCheckpointGuard();
  NoCheckpointGuard(const NoCheckpointGuard&) = delete;
  NoCheckpointGuard& operator=(const NoCheckpointGuard&) = delete;
};

/// Regions that are recorded on this thread while it lives stop early, or not, whatever their
/// options say. Guards nest; the innermost wins.
class REPRISE_API EarlyStopGuard {
 public:
  explicit EarlyStopGuard(bool on);
  ~EarlyStopGuard();
  EarlyStopGuard(const EarlyStopGuard&) = delete;
  EarlyStopGuard& operator=(const EarlyStopGuard&) = delete;

 private:
  std::optional<bool> before_;
};

/// Whether this thread is in a replay, of either kind: so that code in a region can tell it from
/// the forward pass.
REPRISE_API bool is_recomputing();

/// A replay of a region by function begins or ends.
struct ReplayEvent {
  std::string_view region;  ///< the region's name, as messages give it; valid during the call
  bool begins = false;      ///< else it ends, rightly or by an exception
};

/// Regions that are recorded on this thread while it lives call `callback` around each of their
/// replays, on the thread that replays, also after its end. Callbacks nest; the outer one is called
/// first. An exception from `callback` at the beginning ends the replay; at the end it is dropped.
class REPRISE_API ReplayCallback {
 public:
  explicit ReplayCallback(std::function<void(const ReplayEvent&)> callback);
  ~ReplayCallback();
  ReplayCallback(const ReplayCallback&) = delete;
  ReplayCallback& operator=(const ReplayCallback&) = delete;
};

}  // namespace reprise
