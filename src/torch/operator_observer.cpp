// SPDX-License-Identifier: BSD-3-Clause
#include "torch/operator_observer.h"

#include <algorithm>
#include <vector>

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
  const OperatorInfo* op = watch.running.empty() ? nullptr : called_operator(*watch.running.back());
  return op != nullptr && !op->hidden_writes.empty();
}

bool running_operator_fills_arguments() {
  const OperatorInfo* op = watch.running.empty() ? nullptr : called_operator(*watch.running.back());
  return op != nullptr && std::any_of(op->writes.begin(), op->writes.end(),
                                      [](int argument) { return argument > 0; });
}

}  // namespace reprise::detail
