// SPDX-License-Identifier: BSD-3-Clause
#include "torch/dispatch_mode.h"

#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "torch/operator_info.h"

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

bool dispatch_mode_is_on() { return c10::impl::TorchDispatchModeTLS::stack_len() > 0; }

void PassThroughMode::dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  operator_info(op).call_in_mode(*stack);
}

BackwardModes::BackwardModes() {
  const auto stays_away = [](const ModeEntry& entry) {
    return &entry.pyinterpreter() == interpreter() &&
           !static_cast<ModeObject&>(from_safe_object(entry.ptr(interpreter())))
                .mode.sees_backward();
  };
  // Infrastructure modes of Python are counted with the others, and stay.
  int64_t count = ModeStack::stack_len();
  for (int8_t key = 0; key < static_cast<int8_t>(c10::impl::TorchDispatchModeKey::NUM_MODE_KEYS);
       ++key) {
    if (ModeStack::get_mode(static_cast<c10::impl::TorchDispatchModeKey>(key))) --count;
  }
  if (count == 0) return;
  const ModeStack before = ModeStack::get_state();
  std::vector<std::shared_ptr<ModeEntry>> staying;
  for (int64_t i = 0; i < count; ++i) {
    std::shared_ptr<ModeEntry> entry = ModeStack::pop_stack();
    if (!stays_away(*entry)) staying.push_back(std::move(entry));
  }
  if (static_cast<int64_t>(staying.size()) < count) before_ = before;
  for (auto entry = staying.rbegin(); entry != staying.rend(); ++entry) {
    ModeStack::push_non_infra_mode_onto_stack(std::move(*entry));
  }
}

BackwardModes::~BackwardModes() {
  if (before_) ModeStack::set_state(std::move(*before_));
}

void dispatch_to_innermost_mode(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const WithoutInnermostMode outside;
  outside.mode().dispatch(op, stack);
}

}  // namespace reprise::detail
