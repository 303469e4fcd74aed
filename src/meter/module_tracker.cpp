// SPDX-License-Identifier: BSD-3-Clause
#include "meter/module_tracker.h"

#include <iterator>

#include "meter/replay_clock.h"
#include "torch/backward_pass.h"
#include "torch/graph.h"
#include "torch/ivalues.h"
#include "torch/module_path.h"

namespace reprise::detail {

int32_t ModuleTracker::index_of(const std::string& path) {
  const auto [entry, fresh] = indices_.try_emplace(path, count());
  if (fresh) paths_.push_back(path);
  return entry->second;
}

void ModuleTracker::know(const at::Tensor& tensor, int32_t module) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  known_.try_emplace(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), module);
}

int32_t ModuleTracker::module_of(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) return -1;
  const auto found =
      known_.find(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  return found == known_.end() ? -1 : found->second;
}

int32_t ModuleTracker::call_begins(const WatchedCall& call) {
  const bool replay = is_replaying();
  int32_t read = -1;
  visit_tensors(call.function.inputs(), [&](const at::Tensor& tensor) {
    const int32_t module = module_of(tensor);
    if (module >= 0) read = module;
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  Thread& thread = threads_[graph_thread()];
  int32_t module = 0;
  if (!replay && current_pass() != kNoPass) {
    // A sum of gradients runs between two backward functions: it belongs to the one before.
    module = thread.nodes.empty() ? thread.last_node : thread.nodes.back();
  } else {
    if (read >= 0) thread.last_read = read;
    const std::string& scope = current_module();
    module = scope.empty() ? thread.last_read : index_of(scope);
  }
  thread.made.insert_or_assign(thread.made.end(), static_cast<int64_t>(graph_time()), module);
  return module;
}

int32_t ModuleTracker::node_begins(const WatchedNode& node) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int32_t module = module_of_node(node);
  Thread& thread = threads_[graph_thread()];
  thread.nodes.push_back(module);
  return module;
}

int32_t ModuleTracker::node_ends() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Thread& thread = threads_[graph_thread()];
  thread.last_node = thread.nodes.back();
  thread.nodes.pop_back();
  return thread.nodes.empty() ? thread.last_node : thread.nodes.back();
}

void ModuleTracker::start_pass() {
  const std::lock_guard<std::mutex> lock(mutex_);
  threads_.clear();
}

int32_t ModuleTracker::module_of_node(const WatchedNode& node) const {
  if (const int32_t module = module_of(node.leaf); module >= 0) return module;
  const auto thread = threads_.find(node.forward_thread);
  if (thread == threads_.end()) return 0;
  const auto after = thread->second.made.upper_bound(node.sequence);
  return after == thread->second.made.begin() ? 0 : std::prev(after)->second;
}

}  // namespace reprise::detail
