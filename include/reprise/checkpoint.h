// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include <reprise/checkpoint_options.h>
#include <reprise/detail/bound_call.h>
#include <reprise/detail/reentrant.h>
#include <reprise/detail/region.h>

// checkpoint(): run a function without keeping what it saves for the backward pass, and run it
// again when the backward pass asks, or the operators that ran in it. The C++ counterpart of
// torch.utils.checkpoint. Safe to call from several threads at once; the backward pass may run on
// another thread.

namespace reprise {

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
/// The replay runs with the RNG state, autocast state, default dtype, current device and thread
/// count of the forward pass, and puts back what it found. `fn` must do the same work again: it
/// must not depend on state that changes in between. With gradients off (NoGradGuard,
/// InferenceMode), this is a plain call. Exceptions from `fn` propagate, in the forward pass and in
/// the replay.
///
/// All this is said of Replay::functions. With Replay::operators, `fn` and `args` are not copied
/// and `fn` is not run again: a Scope stands around the call, and it is one of its scopes for
/// named(), boundary() and keep(). What flows in is kept where a replay reads it; changing it in
/// place before the backward pass is an Error there.
///
/// With Variant::reentrant, the function runs with gradients off, and its results come out as those
/// of one node; see CheckpointOptions::variant() for what it demands.
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
  if (options.variant() == Variant::reentrant) {
    return detail::run_reentrant(options, call, [&]() -> decltype(auto) {
      return call->first_call(std::forward<F>(fn), std::forward<Args>(args)...);
    });
  }
  detail::RegionScope region(options, call);
  return call->first_call(std::forward<F>(fn), std::forward<Args>(args)...);
}

template <class F, class... Args>
requires(!std::derived_from<std::remove_cvref_t<F>, CheckpointOptions>) decltype(auto)
    checkpoint(F&& fn, Args&&... args) {
  return checkpoint(CheckpointOptions(), std::forward<F>(fn), std::forward<Args>(args)...);
}

}  // namespace reprise
