// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <reprise/profile.h>

#include "meter/module_tracker.h"
#include "profile/flops.h"
#include "torch/call_watch.h"
#include "torch/kernel_clock.h"

// Listens to one step: what each module's operators cost, what they made, and what autograd saved
// of it. Modules are those of the tracker, by index.

namespace reprise::detail {

class StepWatch final : public CallListener {
 public:
  explicit StepWatch(ModuleTracker& tracker) : tracker_(tracker) { tracker_.start_pass(); }

  void call_begins(const WatchedCall& call) override;
  void call_ends(const WatchedCall& call) override;
  void node_begins(const WatchedNode& node) override;
  void node_ends(const WatchedNode& node) override;

  /// To be called by a pack hook: autograd saves this tensor.
  void saves(const at::Tensor& tensor);

  /// What has been saved and is still held, once the forward pass has ended. Adds its bytes to the
  /// modules that made it.
  std::vector<SavedTensorProfile> take_saved();

  /// By module.
  const std::vector<ModuleFigures>& figures() const { return figures_; }

  /// Whether a tensor was saved that has no storage of its own (a sparse one): not counted.
  bool saw_opaque() const { return saw_opaque_; }

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  /// A storage that an operator of this step made.
  struct Made {
    WeakStorage storage;
    const OperatorInfo* op;
    int32_t module;
    bool returned = false;  // by an operator that the program called
    bool counted = false;   // among the saved ones
  };
  struct Saved {
    SavedTensorProfile line;
    WeakStorage storage{c10::intrusive_ptr<c10::StorageImpl>()};
    const c10::StorageImpl* key = nullptr;
    int32_t owner = 0;  // module that it is a parameter of
  };
  /// An operator or a backward function that is being timed.
  struct Timed {
    int32_t module;
    KernelClock clock;
    double inner_ms = 0;  // of backward functions inside of it
  };
  struct Thread {
    std::vector<FlopCount> flops;  // of the running operators below autograd
    std::vector<Timed> calls;      // the running operators that the program called
    std::vector<Timed> nodes;
  };

  static Thread& this_thread();
  ModuleFigures& of(int32_t module);
  Made* find(const c10::StorageImpl* storage);
  void note_outputs(const WatchedCall& call, int32_t module);

  ModuleTracker& tracker_;
  std::mutex mutex_;  // for what follows: a backward pass may have threads of its own
  std::vector<ModuleFigures> figures_;
  std::unordered_map<const c10::StorageImpl*, Made> made_;
  std::vector<Saved> saved_;
  int32_t module_ = 0;  // of the operator that runs in the forward pass
  bool saw_opaque_ = false;
};

}  // namespace reprise::detail
