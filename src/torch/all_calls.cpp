// SPDX-License-Identifier: BSD-3-Clause
#include "torch/all_calls.h"

#include <atomic>
#include <utility>

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/TensorOptions.h>

#include "torch/operator_info.h"

namespace reprise::detail {
namespace {

std::atomic<AllCalls::Begins> the_function{nullptr};

struct Context final : at::ObserverContext {
  explicit Context(std::unique_ptr<DuringCall> during) : during(std::move(during)) {}
  std::unique_ptr<DuringCall> during;
};

/// What is composed of others needs what these need; but an accelerator may have a kernel for it.
bool is_taken_apart(const OperatorInfo& op) {
  if (!op.composed) return false;
  static const auto accelerator = at::accelerator::getAccelerator();
  if (!accelerator) return true;
  return !op.handle->hasKernelForDispatchKey(c10::computeDispatchKey(
      /*dtype=*/std::nullopt, /*layout=*/std::nullopt, c10::Device(*accelerator)));
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  const OperatorInfo* op = called_operator(call);
  const AllCalls::Begins begins = the_function;
  if (op == nullptr || begins == nullptr || is_taken_apart(*op)) return nullptr;
  std::unique_ptr<DuringCall> during = begins(*op, call.inputs());
  return during ? std::make_unique<Context>(std::move(during)) : nullptr;
}

// Here, and not with the function's record, which may go later.
void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr) static_cast<Context*>(context)->during.reset();
}

}  // namespace

DuringCall::~DuringCall() = default;

AllCalls::AllCalls(Begins begins) {
  the_function = begins;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                      .scopes({at::RecordScope::FUNCTION})
                                      .needsInputs(true));
}

AllCalls::~AllCalls() {
  at::removeCallback(handle_);
  the_function = nullptr;
}

}  // namespace reprise::detail
