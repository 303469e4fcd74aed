// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace c10 {
struct SafePyObject;
}

// Watches a step as it runs: its operators, at any depth, and the functions of its backward passes,
// on whatever threads these run. Through LibTorch's observer, so that nothing is dispatched
// otherwise than without it.

namespace reprise::detail {

struct OperatorInfo;

/// An operator that is called.
struct WatchedCall {
  const at::RecordFunction& function;
  const OperatorInfo& op;
  bool outermost;       ///< called by the program or by a backward function
  bool below_autograd;  ///< the outermost that is not composed of others: what policies see
};

/// A function of a backward pass.
struct WatchedNode {
  int64_t sequence;         ///< number of the graph node, counted on the thread that made it
  uint64_t forward_thread;  ///< that thread, see at::RecordFunction::currentThreadId()
  at::Tensor leaf;          ///< whose gradient it accumulates; undefined for all other functions
};

/// What a watch tells. Called on the threads that run the operators; must not throw, nor call
/// operators. `inputs()` of a call may be read when it begins, `outputs()` when it ends.
class CallListener {
 public:
  virtual ~CallListener();
  virtual void call_begins(const WatchedCall& call) = 0;
  virtual void call_ends(const WatchedCall& call) = 0;
  virtual void node_begins(const WatchedNode& node) = 0;
  virtual void node_ends(const WatchedNode& node) = 0;
};

/// Tells `listener` of this thread's calls while it lives, and of the backward passes that begin on
/// this thread. Watches nest; each listener hears all. Costs about a microsecond for each operator.
class CallWatch {
 public:
  explicit CallWatch(CallListener& listener);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

 private:
  const at::RecordFunctionGuard observers_on_;
  /// Null when the watch has ended: what LibTorch carries to other threads may outlive it.
  const std::shared_ptr<std::atomic<CallListener*>> listener_;
  std::shared_ptr<c10::SafePyObject> outer_;
  at::CallbackHandle calls_ = at::INVALID_CALLBACK_HANDLE;
  at::CallbackHandle nodes_ = at::INVALID_CALLBACK_HANDLE;
};

/// The operator that this thread is in, as policies see it; null outside of operators, and where no
/// CallWatch watches.
const OperatorInfo* running_operator();

}  // namespace reprise::detail
