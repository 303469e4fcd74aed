// SPDX-License-Identifier: BSD-3-Clause
#include "torch/draws.h"

#include <memory>

#include "torch/operator_info.h"

namespace reprise::detail {
namespace {

struct Watch {
  std::vector<DrawScope*> scopes;  // innermost last
  int64_t depth = 0;               // drawing operators inside each other; the outermost counts
  DrawLock lock;                   // held by the outermost
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};

thread_local Watch watch;

/// The scopes that see a draw: from the innermost player inwards.
std::size_t first_in_force() {
  for (std::size_t i = watch.scopes.size(); i > 0; --i) {
    if (watch.scopes[i - 1]->plays()) return i - 1;
  }
  return 0;
}

/// Marks, for the end of the operator, that its start was seen.
struct Drawing final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  const OperatorInfo* op = called_operator(call);
  if (op == nullptr) return nullptr;
  if (!op->writes.empty() || !op->hidden_writes.empty()) {
    for (DrawScope* scope : watch.scopes) scope->note_write();
  }
  if (!op->draws) return nullptr;
  if (watch.depth++ == 0) {
    watch.lock.lock();
    for (std::size_t i = first_in_force(); i < watch.scopes.size(); ++i) {
      watch.scopes[i]->before_draw(call.name());
    }
  }
  return std::make_unique<Drawing>();
}

void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr || --watch.depth > 0) return;
  for (std::size_t i = first_in_force(); i < watch.scopes.size(); ++i) {
    watch.scopes[i]->after_draw();
  }
  watch.lock.unlock();
}

}  // namespace

DrawScope::DrawScope() {
  if (watch.scopes.empty()) {
    watch.handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::FUNCTION}));
  }
  watch.scopes.push_back(this);
}

DrawScope::~DrawScope() {
  watch.scopes.pop_back();
  if (watch.scopes.empty()) at::removeCallback(watch.handle);
}

void DrawRecorder::before_draw(const char* op) {
  if (!states_) return;
  RngState state = RngState::capture({});
  // Many operators may draw and do not; share what has not moved.
  if (!log_.draws.empty() && log_.draws.back().before.equals(state)) {
    state = log_.draws.back().before;
  }
  log_.draws.push_back({op, std::move(state)});
}

void DrawPlayer::before_draw(const char* op) {
  if (open_ended_ && next_ >= log_.draws.size()) return;
  if (next_ >= log_.draws.size() || log_.draws[next_].op != op) {
    strayed_ = true;
    return;
  }
  outside_ = log_.draws[next_].before.recapture();
  log_.draws[next_++].before.restore();
}

void DrawPlayer::after_draw() {
  if (outside_) outside_->restore();
  outside_.reset();
}

}  // namespace reprise::detail
