// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <reprise/checkpoint.h>
#include <reprise/hooks.h>

#include "checkpoint/recorded_call.h"
#include "meter/dropped_bytes.h"
#include "torch/saved_tensor.h"

// One region: the call that made it, what it needs to run again, and a slot for each tensor that
// autograd saved in it. A slot is empty until a backward pass asks; then the whole region is run
// again, once for each backward pass, and fills every slot that is still wanted.
//
// Ownership: graph node -> Slot -> Frame -> arguments. The frame knows its slots only weakly, so it
// dies with the graph. Thread-safe: one lock for each frame is held while it replays.

namespace reprise::detail {

class Collector;
class Slot;

class Frame : public std::enable_shared_from_this<Frame> {
 public:
  /// Takes the arguments out of `call` and captures what the replay must find again.
  Frame(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call);

  /// See RecordedCall.
  std::unique_ptr<DrawRecorder> watch_first_run() { return call_.watch_first_run(); }

  /// For the operators of the first run, when debugging.
  std::vector<std::string>& trace() { return trace_; }

  /// Makes a slot in the place of a tensor that the first run saves.
  std::shared_ptr<PackedTensor> pack(const at::Tensor& tensor);

  /// The first run is over (or was left by an exception): no more slots will come.
  void end_first_run();

  /// Brings a slot's tensor back, replaying the region if this backward pass has not done so.
  at::Tensor unpack(Slot& slot);

 private:
  void replay(int64_t pass, const Slot& asked);
  void run_call(const std::shared_ptr<Collector>& collector);
  void check(const Collector& collector, std::size_t saved) const;
  [[noreturn]] void mismatch(const std::string& what, bool may_end_early) const;
  void drop_values(int64_t pass);
  void count_dropped();
  void look_at_savings();
  const CheckpointOptions& options() const { return call_.options(); }
  std::string label() const { return call_.label(); }

  RecordedCall call_;
  std::vector<SavedTensor> arguments_;
  std::vector<std::string> trace_, replay_trace_;  // operators, for debugging
  const bool early_stop_;
  const bool under_mode_;  // a dispatch mode, such as a scope's, was on in the first run

  /// Those still alive; null in the place of the others.
  std::vector<std::shared_ptr<Slot>> slots() const;

  // An operator that draws saves tensors while it holds the draw mutex, which a replay takes while
  // it holds mutex_. So there is another one for the slots; nothing is called while it is held.
  std::recursive_mutex mutex_;  // recursive: the function may run backward passes of its own
  mutable std::mutex slots_mutex_;
  std::vector<std::weak_ptr<Slot>> slots_;
  DroppedBytes dropped_;
  bool savings_known_ = false;                   // whether dropping was of any use
  std::optional<std::size_t> changed_argument_;  // the first that the first run changed in place
};

}  // namespace reprise::detail
