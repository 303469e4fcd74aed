// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include <ATen/core/stack.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "torch/interpreter.h"

namespace c10 {
class OperatorHandle;
}

// Dispatch modes: a look at every operator that runs on this thread, below autograd and autocast,
// before its kernel. Modes nest, ours and Python's in any order; each passes the operator on to the
// next one out.

namespace reprise::detail {

class DispatchMode {
 public:
  virtual ~DispatchMode();

  /// Called for each operator with its arguments on the stack; must leave its results there,
  /// usually by `op.callBoxed(stack)`. This mode is off meanwhile, the modes around it are on.
  virtual void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) = 0;

  /// Whether it looks at backward passes too. LibTorch's derivatives take other ways under a mode,
  /// with results that differ in the last bits.
  virtual bool sees_backward() const { return true; }
};

/// Puts a mode on this thread's stack of modes for its lifetime. The mode must outlive it, and
/// whatever at::ThreadLocalState captured meanwhile.
class DispatchModeScope {
 public:
  explicit DispatchModeScope(DispatchMode& mode);
  ~DispatchModeScope();
  DispatchModeScope(const DispatchModeScope&) = delete;
  DispatchModeScope& operator=(const DispatchModeScope&) = delete;
};

/// Whether a mode, ours or another's, is on this thread's stack.
bool dispatch_mode_is_on();

/// Calls every operator as it would be called. Under a mode, LibTorch's own functions take other
/// ways to the same values (reshape() calls view()): what was recorded under one is replayed under
/// one.
class PassThroughMode final : public DispatchMode {
 public:
  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) override;
  bool sees_backward() const override { return false; }
};

/// Takes modes that do not see backward passes off this thread's stack while it lives.
class BackwardModes {
 public:
  BackwardModes();
  ~BackwardModes();
  BackwardModes(const BackwardModes&) = delete;
  BackwardModes& operator=(const BackwardModes&) = delete;

 private:
  std::optional<c10::impl::TorchDispatchModeTLS> before_;
};

/// What the interpreter table calls: runs the innermost mode with itself taken off the stack.
void dispatch_to_innermost_mode(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace reprise::detail
