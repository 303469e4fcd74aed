// SPDX-License-Identifier: BSD-3-Clause
#include "torch/call_watch.h"

#include <string>
#include <utility>
#include <vector>

#include <ATen/ThreadLocalPythonObjects.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "torch/interpreter.h"
#include "torch/operator_info.h"

namespace reprise::detail {
namespace {

using Objects = at::impl::ThreadLocalPythonObjects;

/// The listeners of a thread, as LibTorch carries them to the threads of its backward passes.
class Listeners final : public ForeignObject {
 public:
  std::vector<std::shared_ptr<std::atomic<CallListener*>>> list;
};

const std::string& key() {
  static const std::string key = "reprise.call_watch";
  return key;
}

std::shared_ptr<c10::SafePyObject> current_object() {
  return Objects::contains(key()) ? Objects::get(key()) : nullptr;
}

Listeners& listeners_in(const c10::SafePyObject& object) {
  return static_cast<Listeners&>(from_safe_object(object.ptr(interpreter())));
}

template <class Tell>
void tell_all(const Tell& tell) {
  const std::shared_ptr<c10::SafePyObject> object = current_object();
  if (!object) return;  // the watch has ended inside of this call
  for (const auto& each : listeners_in(*object).list) {
    if (CallListener* listener = each->load()) tell(*listener);
  }
}

struct Running {
  const OperatorInfo* op;
  bool below_autograd;
};

// What this thread is in. Calls that began before the watch did are not known.
struct Place {
  std::vector<Running> calls;      // each called by the one before it
  std::vector<std::size_t> nodes;  // how many calls were running when each began
};

thread_local Place place;

bool is_outermost() { return place.calls.size() == (place.nodes.empty() ? 0 : place.nodes.back()); }

bool inside_kernel() {
  const std::size_t first = place.nodes.empty() ? 0 : place.nodes.back();
  for (std::size_t i = first; i < place.calls.size(); ++i) {
    if (place.calls[i].below_autograd) return true;
  }
  return false;
}

WatchedNode node_of(const at::RecordFunction& function) {
  WatchedNode node{function.seqNr(), function.forwardThreadId(), {}};
  const auto current = torch::autograd::get_current_node();
  if (!current) return node;
  if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(&*current)) {
    node.leaf = leaf->variable;
  }
  return node;
}

// What is no operator is passed over: the engine's evaluation of a node, a range of the user's.
std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& function) {
  const OperatorInfo* op = called_operator(function);
  if (op == nullptr) return nullptr;
  const bool outermost = is_outermost();
  const bool below = !op->composed && !inside_kernel();
  place.calls.push_back({op, below});
  const WatchedCall call{function, *op, outermost, below};
  tell_all([&](CallListener& listener) { listener.call_begins(call); });
  return nullptr;
}

void on_call_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (called_operator(function) == nullptr) return;
  const Running running = place.calls.back();
  place.calls.pop_back();
  const WatchedCall call{function, *running.op, is_outermost(), running.below_autograd};
  tell_all([&](CallListener& listener) { listener.call_ends(call); });
}

std::unique_ptr<at::ObserverContext> on_node(const at::RecordFunction& function) {
  place.nodes.push_back(place.calls.size());
  const WatchedNode node = node_of(function);
  tell_all([&](CallListener& listener) { listener.node_begins(node); });
  return nullptr;
}

void on_node_end(const at::RecordFunction& function, at::ObserverContext*) {
  const WatchedNode node = node_of(function);
  tell_all([&](CallListener& listener) { listener.node_ends(node); });
  place.nodes.pop_back();
}

}  // namespace

CallListener::~CallListener() = default;

CallWatch::CallWatch(CallListener& listener)
    : listener_(std::make_shared<std::atomic<CallListener*>>(&listener)) {
  auto listeners = std::make_unique<Listeners>();
  if (const auto outer = current_object()) {
    listeners->list = listeners_in(*outer).list;
    outer_ = outer;
  } else {
    calls_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_call, on_call_end)
                                            .scopes({at::RecordScope::FUNCTION})
                                            .needsInputs(true)
                                            .needsOutputs(true));
    // Without inputs: a second owner of a gradient would keep it from becoming .grad as it is.
    nodes_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_node, on_node_end)
                                            .scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }
  listeners->list.push_back(listener_);
  Objects::set(key(), std::make_shared<c10::SafePyObject>(to_safe_object(std::move(listeners))));
}

CallWatch::~CallWatch() {
  listener_->store(nullptr);
  if (outer_) {
    Objects::set(key(), outer_);
    return;
  }
  Objects::erase(key());
  at::removeCallback(calls_);
  at::removeCallback(nodes_);
}

const OperatorInfo* running_operator() {
  for (std::size_t i = place.calls.size(); i-- > 0;) {
    if (place.calls[i].below_autograd) return place.calls[i].op;
  }
  return place.calls.empty() ? nullptr : place.calls.back().op;
}

}  // namespace reprise::detail
