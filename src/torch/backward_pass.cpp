// SPDX-License-Identifier: BSD-3-Clause
#include "torch/backward_pass.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <reprise/error.h>
#include <reprise/execution_group.h>

#include <ATen/ThreadLocalPythonObjects.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include "torch/interpreter.h"

namespace reprise {
namespace detail {
namespace {

/// A group, as LibTorch carries it to the threads of a backward pass.
class Group final : public ForeignObject {
 public:
  int64_t id() const { return id_; }

  void at_end(std::function<void()> callback) {
    const std::lock_guard<std::mutex> lock(mutex_);
    callbacks_.push_back(std::move(callback));
  }

  void end() {
    std::vector<std::function<void()>> callbacks;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      callbacks.swap(callbacks_);
    }
    for (const auto& callback : callbacks) callback();
  }

 private:
  static int64_t next_id() {
    static std::atomic<int64_t> next{kNoPass};
    return --next;
  }

  const int64_t id_ = next_id();
  std::mutex mutex_;
  std::vector<std::function<void()>> callbacks_;
};

using Objects = at::impl::ThreadLocalPythonObjects;
// A string, not a literal: it is looked up at every unpack, and a literal would be copied each
// time.
const std::string& key() {
  static const std::string key = "reprise.execution_group";
  return key;
}

Group* current_group() {
  if (!Objects::contains(key())) return nullptr;
  return &static_cast<Group&>(from_safe_object(Objects::get(key())->ptr(interpreter())));
}

}  // namespace

bool passes_want_all_gradients() {
  return torch::autograd::Engine::get_default_engine().is_checkpoint_valid();
}

bool current_pass_keeps_graph() {
  return torch::autograd::get_current_graph_task_id() != kNoPass &&
         torch::autograd::get_current_graph_task_keep_graph();
}

std::string current_node_name() {
  const auto node = torch::autograd::get_current_node();
  return node ? node->name() : std::string();
}

const void* current_node() { return torch::autograd::get_current_node().get(); }

int64_t current_pass() {
  const int64_t task = torch::autograd::get_current_graph_task_id();
  if (task == kNoPass) return kNoPass;
  const Group* group = current_group();
  return group ? group->id() : task;
}

void on_pass_end(std::function<void()> callback) {
  if (Group* group = current_group()) {
    group->at_end(std::move(callback));
  } else {
    torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
  }
}

}  // namespace detail

ExecutionGroup::ExecutionGroup() {
  using detail::Objects;
  if (Objects::contains(detail::key())) {
    throw UsageError("an execution group inside of another one", "end the outer one first");
  }
  Objects::set(detail::key(), std::make_shared<c10::SafePyObject>(
                                  detail::to_safe_object(std::make_unique<detail::Group>())));
}

ExecutionGroup::~ExecutionGroup() {
  using detail::Objects;
  const std::shared_ptr<c10::SafePyObject> alive = Objects::get(detail::key());
  Objects::erase(detail::key());
  static_cast<detail::Group&>(detail::from_safe_object(alive->ptr(detail::interpreter()))).end();
}

}  // namespace reprise
