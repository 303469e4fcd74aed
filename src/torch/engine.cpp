// SPDX-License-Identifier: BSD-3-Clause
#include "torch/engine.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include <reprise/error.h>

#include <ATen/SavedTensorHooks.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include "torch/dispatch_mode.h"
#include "torch/in_place_backward.h"
#include "torch/interpreter.h"
#include "torch/saved_hooks.h"

namespace reprise::detail {
namespace {

using torch::autograd::Engine;

// LibTorch changed how it owns nodes (shared_ptr, later intrusive_ptr); take the type from it.
using NodePtr = decltype(torch::autograd::NodeTask::fn_);

std::atomic<int64_t> running_passes{0};
std::atomic<int64_t> last_began{0};  // of all threads' passes
std::atomic<void (*)(bool failed, bool last)> pass_ended{nullptr};

int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// Stands around one backward pass.
class RunningPass {
 public:
  RunningPass() {
    ++running_passes;
    innermost() = this;
    last_began = nanoseconds(began_);
  }
  ~RunningPass() {
    innermost() = outer_;
    const bool last = --running_passes == 0;
    const bool failed = std::uncaught_exceptions() > exceptions_;
    if (const auto function = pass_ended.load()) function(failed, last);
  }
  RunningPass(const RunningPass&) = delete;
  RunningPass& operator=(const RunningPass&) = delete;

  /// Of this thread.
  static RunningPass*& innermost() {
    thread_local RunningPass* innermost = nullptr;
    return innermost;
  }

  std::chrono::steady_clock::time_point began() const { return began_; }

 private:
  RunningPass* const outer_ = innermost();
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const int exceptions_ = std::uncaught_exceptions();
};

class HookEngine final : public Engine {
 public:
  explicit HookEngine(Engine& previous) : previous_(previous) {}
  ~HookEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    auto hooks = at::SavedTensorDefaultHooks::get_hooks();
    if (!hooks || &hooks->first.pyinterpreter() != interpreter()) {
      return previous_.get_default_saved_variable_hooks();
    }
    return make_saved_variable_hooks(std::move(hooks->first));
  }

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    const RunningPass running;
    const BackwardModes modes;
    const InPlacePass in_place;
    return previous_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task, NodePtr graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    return previous_.execute_with_graph_task(graph_task, std::move(graph_root),
                                             std::move(input_buffer));
  }

  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return previous_.make_anomaly_metadata();
  }

  void thread_on_exception(const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
                           const NodePtr& fn, std::exception& error) override {
    previous_.thread_on_exception(graph_task, fn, error);
  }

  void thread_init(int device, const std::shared_ptr<torch::autograd::ReadyQueue>& ready_queue,
                   bool should_increment) override {
    previous_.thread_init(device, ready_queue, should_increment);
  }

#if __has_include(<torch/csrc/autograd/node_creation_hook.h>)
  std::vector<std::unique_ptr<torch::autograd::NodeCreationHook>> get_node_creation_hooks()
      override {
    return previous_.get_node_creation_hooks();
  }
#endif

 private:
  Engine& previous_;
};

/// The queue gives out the newest nodes first, and this one after all others.
class LastNode final : public torch::autograd::Node {
 public:
  explicit LastNode(const at::Tensor& input) : Node(/*sequence_nr=*/0) {
    add_input_metadata(input);
  }

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

template <class Pointer>
Pointer make_node(const at::Tensor& input) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<LastNode>(input);
  } else {
    return c10::make_intrusive<LastNode>(input);
  }
}

// Leaked on purpose, like LibTorch's own: a backward pass may still run while the process ends.
std::atomic<HookEngine*> installed{nullptr};

bool install() {
  installed = new HookEngine(Engine::get_default_engine());
  at::SavedTensorDefaultHooks::lazy_initialize();
  torch::autograd::set_default_engine_stub([]() -> Engine& { return *installed.load(); });
  return true;
}

}  // namespace

void ensure_engine() {
  [[maybe_unused]] static const bool once = install();
  if (&Engine::get_default_engine() != installed.load()) {
    throw Error("another library replaced LibTorch's autograd engine after Reprise was set up",
                "load that library (in Python: import torch) before the first use of Reprise");
  }
}

void when_passes_end(void (*function)(bool failed, bool last)) { pass_ended = function; }

bool passes_are_running() { return running_passes > 0; }

int64_t current_pass_began() {
  const RunningPass* pass = RunningPass::innermost();
  if (pass != nullptr) return nanoseconds(pass->began());
  return running_passes == 1 ? last_began.load() : 0;
}

void clear_failed_passes() {
  thread_local bool clearing = false;
  if (clearing || torch::autograd::get_current_graph_task_id() >= 0) return;
  clearing = true;
  try {
    const at::Tensor one = at::ones({});
    const auto last = make_node<NodePtr>(one);
    Engine::get_default_engine().execute({torch::autograd::Edge(last, 0)}, {one}, false, false,
                                         /*accumulate_grad=*/true, {});
  } catch (...) {  // it was worth a try
  }
  clearing = false;
}

}  // namespace reprise::detail
