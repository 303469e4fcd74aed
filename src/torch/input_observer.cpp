// SPDX-License-Identifier: BSD-3-Clause
#include "torch/input_observer.h"

#include <utility>
#include <vector>

#include "torch/ivalues.h"

namespace reprise::detail {
namespace {

struct Watch {
  std::vector<std::function<void(const at::Tensor&)>> visitors;
  int depth = 0;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};

thread_local Watch watch;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  if (watch.depth++ > 0) return nullptr;
  visit_tensors(call.inputs(), [](const at::Tensor& tensor) {
    for (const auto& visit : watch.visitors) visit(tensor);
  });
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) { --watch.depth; }

}  // namespace

InputObserver::InputObserver(std::function<void(const at::Tensor&)> visit) {
  if (watch.visitors.empty()) {
    watch.depth = 0;
    watch.handle = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                                  .scopes({at::RecordScope::FUNCTION})
                                                  .needsInputs(true));
  }
  watch.visitors.push_back(std::move(visit));
}

InputObserver::~InputObserver() {
  watch.visitors.pop_back();
  if (watch.visitors.empty()) at::removeCallback(watch.handle);
}

}  // namespace reprise::detail
