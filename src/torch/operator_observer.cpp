// SPDX-License-Identifier: BSD-3-Clause
#include "torch/operator_observer.h"

#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include "torch/operator_info.h"

namespace reprise::detail {
namespace {

struct Watch {
  int64_t observers = 0;
  int64_t operators = 0;
  std::vector<const at::RecordFunction*> running;  // each called by the one before it
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};

thread_local Watch watch;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  if (watch.running.empty()) ++watch.operators;
  watch.running.push_back(&call);
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) { watch.running.pop_back(); }

}  // namespace

OperatorObserver::OperatorObserver() {
  if (watch.observers++ == 0) {
    watch.handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::FUNCTION}));
  }
  start_ = watch.operators;
}

OperatorObserver::~OperatorObserver() {
  if (--watch.observers == 0) at::removeCallback(watch.handle);
}

int64_t OperatorObserver::count() const { return watch.operators - start_; }

bool running_operator_updates_statistics() {
  if (watch.running.empty()) return false;
  const auto name = watch.running.back()->operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  return op && !operator_info(*op).hidden_writes.empty();
}

bool running_operator_fills_arguments() {
  if (watch.running.empty()) return false;
  const auto name = watch.running.back()->operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!op) return false;
  const auto& arguments = op->schema().arguments();
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    if (alias && alias->isWrite()) return true;
  }
  return false;
}

}  // namespace reprise::detail
