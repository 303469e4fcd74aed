// SPDX-License-Identifier: BSD-3-Clause
#include "profile/step_watch.h"

#include <algorithm>
#include <utility>

#include "torch/backward_pass.h"
#include "torch/ivalues.h"
#include "torch/operator_info.h"

namespace reprise::detail {
namespace {

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

/// Tensor::backward() is an operator, too: its time is that of the functions in it.
bool is_backward_pass(const WatchedCall& call) { return call.op.name == "aten::_backward"; }

// As in Python: "float32".
std::string dtype_name(c10::ScalarType type) { return std::string(c10::getDtypeNames(type).first); }

}  // namespace

// A backward pass inside of the forward pass, of a gradient that is part of the loss, is none of
// it.
bool StepWatch::in_forward() const { return !forward_ended_ && current_pass() == kNoPass; }

StepWatch::Thread& StepWatch::this_thread() {
  thread_local Thread thread;
  return thread;
}

ModuleFigures& StepWatch::of(int32_t module) {
  const auto index = static_cast<std::size_t>(module);
  if (index >= figures_.size()) figures_.resize(index + 1);
  return figures_[index];
}

StepWatch::Made* StepWatch::find(const c10::StorageImpl* storage) {
  const auto found = made_.find(storage);
  return found == made_.end() || found->second.storage.expired() ? nullptr : &found->second;
}

void StepWatch::call_begins(const WatchedCall& call) {
  if (is_backward_pass(call)) return;
  Thread& thread = this_thread();
  if (call.below_autograd) thread.flops.push_back(count_flops(call));
  if (!call.outermost) return;
  const int32_t module = tracker_.call_begins(call);
  if (in_forward()) module_ = module;
  thread.calls.push_back({module, KernelClock()});
}

void StepWatch::call_ends(const WatchedCall& call) {
  if (is_backward_pass(call)) return;
  Thread& thread = this_thread();
  const bool forward = in_forward();
  double milliseconds = 0;
  int32_t module = module_;
  if (call.outermost) {
    milliseconds = thread.calls.back().clock.milliseconds();
    module = thread.calls.back().module;
    thread.calls.pop_back();
  } else if (!thread.calls.empty()) {
    module = thread.calls.back().module;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ModuleFigures& figures = of(module);
  if (call.below_autograd) {
    const int64_t flops = thread.flops.back().total(call);
    thread.flops.pop_back();
    (forward ? figures.forward_flops : figures.backward_flops) += flops;
  }
  if (forward) note_outputs(call, module);
  if (!call.outermost) return;
  if (forward) {
    ++figures.operators;
    figures.forward_ms += milliseconds;
  } else if (thread.nodes.empty()) {  // else it is part of a backward function's time
    figures.backward_ms += milliseconds;
  }
}

void StepWatch::node_begins(const WatchedNode& node) {
  this_thread().nodes.push_back({tracker_.node_begins(node), KernelClock()});
}

// A backward pass inside of a backward function (a reentrant region's) is timed by its own.
void StepWatch::node_ends(const WatchedNode&) {
  Thread& thread = this_thread();
  const Timed timed = thread.nodes.back();
  thread.nodes.pop_back();
  tracker_.node_ends();
  const double milliseconds = timed.clock.milliseconds();
  if (!thread.nodes.empty()) thread.nodes.back().inner_ms += milliseconds;
  const std::lock_guard<std::mutex> lock(mutex_);
  of(timed.module).backward_ms += milliseconds - timed.inner_ms;
}

void StepWatch::note_outputs(const WatchedCall& call, int32_t module) {
  const auto& outputs = call.function.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool alias = call.op.is_alias(static_cast<int>(i));
    visit_tensors(c10::ArrayRef<c10::IValue>(outputs[i]), [&](const at::Tensor& tensor) {
      const c10::StorageImpl* const key = storage_of(tensor);
      if (key == nullptr) return;
      Made* made = find(key);
      if (call.below_autograd && !alias && made == nullptr) {
        Made fresh{WeakStorage(tensor.storage().getWeakStorageImpl()), &call.op, module};
        made = &made_.insert_or_assign(key, std::move(fresh)).first->second;
      }
      if (made == nullptr) return;  // from before the step
      if (alias && made->op->leaves_garbage && !call.op.writes.empty()) {
        made->op = &call.op;  // who fills the memory is its maker
      }
      if (call.outermost && !std::exchange(made->returned, true)) {
        of(made->module).output_bytes += static_cast<int64_t>(tensor.storage().nbytes());
      }
    });
  }
}

void StepWatch::saves(const at::Tensor& tensor) {
  Saved saved;
  SavedTensorProfile& line = saved.line;
  line.shape = tensor.sizes().vec();
  line.dtype = dtype_name(tensor.scalar_type());
  if (const OperatorInfo* op = running_operator()) line.saved_by = op->name;
  const std::lock_guard<std::mutex> lock(mutex_);
  line.saved_in = tracker_.path(module_);
  saved.key = storage_of(tensor);
  if (saved.key == nullptr) {
    saw_opaque_ = true;
    return;
  }
  line.bytes = static_cast<int64_t>(tensor.nbytes());
  saved.owner = std::max(0, tracker_.module_of(tensor));
  saved.storage = WeakStorage(tensor.storage().getWeakStorageImpl());
  saved_.push_back(std::move(saved));
}

std::vector<SavedTensorProfile> StepWatch::take_saved() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SavedTensorProfile> lines;
  for (Saved& saved : saved_) {
    const auto storage = saved.storage.lock();
    if (!storage) continue;  // its part of the graph is gone
    SavedTensorProfile& line = saved.line;
    Made* made = find(saved.key);
    line.external = made == nullptr;
    line.module = tracker_.path(made ? made->module : saved.owner);
    if (made != nullptr) {
      line.op = made->op->name;
      if (!std::exchange(made->counted, true)) {
        line.held_bytes = static_cast<int64_t>(storage->nbytes());
        of(made->module).saved_bytes += line.held_bytes;
      }
    }
    lines.push_back(std::move(line));
  }
  saved_.clear();
  return lines;
}

}  // namespace reprise::detail
