// SPDX-License-Identifier: BSD-3-Clause
#include "torch/dispatch_mode.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <utility>

namespace reprise::detail {
namespace {

using ModeStack = c10::impl::TorchDispatchModeTLS;
using ModeEntry = c10::impl::PyObject_TorchDispatchMode;

class ModeObject final : public ForeignObject {
 public:
  explicit ModeObject(DispatchMode& mode) : mode(mode) {}
  DispatchMode& mode;
};

class WithoutInnermostMode {
 public:
  WithoutInnermostMode() : entry_(ModeStack::pop_stack()) {}
  ~WithoutInnermostMode() { ModeStack::push_non_infra_mode_onto_stack(std::move(entry_)); }
  WithoutInnermostMode(const WithoutInnermostMode&) = delete;
  WithoutInnermostMode& operator=(const WithoutInnermostMode&) = delete;
  DispatchMode& mode() const {
    return static_cast<ModeObject&>(from_safe_object(entry_->ptr(interpreter()))).mode;
  }

 private:
  std::shared_ptr<ModeEntry> entry_;
};

}  // namespace

DispatchMode::~DispatchMode() = default;

DispatchModeScope::DispatchModeScope(DispatchMode& mode) {
  ForeignObject* object = new ModeObject(mode);
  ModeStack::push_non_infra_mode_onto_stack(
      std::make_shared<ModeEntry>(reinterpret_cast<PyObject*>(object), interpreter()));
}

DispatchModeScope::~DispatchModeScope() { ModeStack::pop_stack(); }

void dispatch_to_innermost_mode(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const WithoutInnermostMode outside;
  outside.mode().dispatch(op, stack);
}

}  // namespace reprise::detail
