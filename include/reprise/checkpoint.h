// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <reprise/detail/bound_call.h>
#include <reprise/detail/region.h>
#include <reprise/export.h>
#include <reprise/policy.h>

// checkpoint(): run a function without keeping what it saves for the backward pass, and run it
// again when the backward pass asks, or the operators that ran in it. The C++ counterpart of
// torch.utils.checkpoint. Safe to call from several threads at once; the backward pass may run on
// another thread.

namespace reprise {

/// How replayed tensors are compared with what the forward pass had saved.
enum class Determinism {
  none,      ///< only that there are enough of them
  metadata,  ///< their number, and each one's shape, dtype, device and operator
};

/// How activations come back.
enum class Replay {
  functions,  ///< the region's function is run again, whole
  operators,  ///< the operators that ran in it are recorded, and those needed are run again: code
              ///< that is not an operator runs once, see docs/tape.md
};

/// Options of one region. Setters return the object, so that they chain. Which applies to which:
///
///     option          Replay::functions   Replay::operators
///     enabled         yes                 yes
///     name            yes                 yes
///     policy          no                  yes
///     preserve_rng    yes                 only true: draws are part of the record
///     early_stop      yes                 only true: no more than what is asked for is run again
///     determinism     yes                 not none: what was made is always compared
///
/// What cannot apply is a UsageError from checkpoint(), whether or not gradients are on.
class REPRISE_API CheckpointOptions {
 public:
  /// Off: the function is simply called, and every activation is kept. Default: true.
  CheckpointOptions& enabled(bool on) { return enabled_ = on, *this; }
  bool enabled() const { return enabled_; }

  /// Default: Replay::functions.
  CheckpointOptions& replay(Replay replay) { return replay_ = replay, *this; }
  Replay replay() const { return replay_; }

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
  /// whose later side effects the replay must reach. Default: true.
  CheckpointOptions& early_stop(bool on) { return early_stop_ = on, *this; }
  bool early_stop() const { return early_stop_; }

  /// Default: Determinism::metadata.
  CheckpointOptions& determinism(Determinism check) { return determinism_ = check, *this; }
  Determinism determinism() const { return determinism_; }

 private:
  std::string name_;
  std::optional<Policy> policy_;
  Replay replay_ = Replay::functions;
  bool enabled_ = true;
  bool preserve_rng_ = true;
  bool early_stop_ = true;
  Determinism determinism_ = Determinism::metadata;
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

/// Returns fn(args...), keeping only the arguments for the backward pass; there, fn is run again.
///
/// `fn` is anything that can be called with `args`, or a module: a holder, a shared_ptr or an
/// AnyModule with forward(). It may return anything. `fn` and `args` are copied, as std::thread
/// copies them: pass std::ref() for what must not be copied, and mind that what a lambda captures
/// by reference must live until the backward pass. Tensors in the arguments, at any depth of
/// nesting (see nested.h), are kept as autograd keeps saved tensors: changing one in place before
/// the backward pass raises autograd's version error, and a function that does so itself (an
/// in-place ReLU as its first layer) raises Error in the backward pass. Spans and array
/// references are copied with what they show; what a pointer points to must live as long as the
/// graph. An argument that can only be moved is taken by const reference. Captured parameters get
/// their gradients too.
///
/// The replay runs with the RNG state, autocast state, default dtype and thread count of the
/// forward pass, and puts back what it found. `fn` must do the same work again: it must not depend
/// on state that changes in between. With gradients off (NoGradGuard, InferenceMode), this is a
/// plain call. Exceptions from `fn` propagate, in the forward pass and in the replay.
///
/// All this is said of Replay::functions. With Replay::operators, `fn` and `args` are not copied
/// and `fn` is not run again: a Scope stands around the call, and it is one of its scopes for
/// named(), boundary() and keep(). What flows in is kept where a replay reads it; changing it in
/// place before the backward pass is an Error there.
///
/// Throws RecomputeMismatch, from the backward pass, when the replay saves other tensors than the
/// forward pass did, and Error when the autograd engine was replaced by another library.
template <class F, class... Args>
decltype(auto) checkpoint(const CheckpointOptions& options, F&& fn, Args&&... args) {
  if (!detail::region_active(options)) {
    return detail::call(std::forward<F>(fn), std::forward<Args>(args)...);
  }
  if (options.replay() == Replay::operators) {
    const detail::RecordedRegion region(options);
    return detail::call(std::forward<F>(fn), std::forward<Args>(args)...);
  }
  using Call = detail::BoundCall<F, Args...>;
  auto call = std::make_shared<Call>(fn, args...);
  detail::RegionScope region(options, call);
  return call->first_call(std::forward<F>(fn), std::forward<Args>(args)...);
}

template <class F, class... Args>
requires(!std::derived_from<std::remove_cvref_t<F>, CheckpointOptions>) decltype(auto)
    checkpoint(F&& fn, Args&&... args) {
  return checkpoint(CheckpointOptions(), std::forward<F>(fn), std::forward<Args>(args)...);
}

}  // namespace reprise
