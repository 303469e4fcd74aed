// SPDX-License-Identifier: BSD-3-Clause
#include "torch/all_calls.h"

#include <atomic>
#include <utility>

#include <ATen/record_function.h>

#include "torch/operator_info.h"

namespace reprise::detail {
namespace {

std::atomic<AllCalls::Begins> the_function{nullptr};

struct Context final : at::ObserverContext {
  explicit Context(std::unique_ptr<DuringCall> during) : during(std::move(during)) {}
  std::unique_ptr<DuringCall> during;
};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  const OperatorInfo* op = called_operator(call);
  const AllCalls::Begins begins = the_function;
  if (op == nullptr || op->composed || begins == nullptr) return nullptr;
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
