// SPDX-License-Identifier: BSD-3-Clause
#include "tape/tape.h"
#include "torch/backward_pass.h"
#include "torch/below_autograd.h"

// What goes to a store: storages that the tape made, whole, whatever views were saved of them; each
// once, when the program has let go of it, for else nothing would be freed.

namespace reprise::detail {

/// False: it is kept.
bool Tape::offload(ValueId id, const at::Tensor& tensor) {
  Value& value = values_[id];
  StorageRecord& record = storages_[value.storage];
  if (!offloads_ || value.bytes != tensor.storage().nbytes()) return false;
  if (tensor.storage().data() == nullptr) return false;  // no bytes: of size zero, or on meta
  if (!record.offloading) {
    if (!offloads_->admit(static_cast<int64_t>(value.bytes))) return false;
    record.offloading = true;
    leaving_.push_back({value.storage, offloads_->admitted() - 1});
  }
  if (value.slot == kNone) value.held = tensor.storage();
  return true;
}

void Tape::send_released() {
  const BelowAutograd below;
  offloads_->go_on();
  std::erase_if(leaving_, [&](const Leaving& leaving) {
    StorageRecord& record = storages_[leaving.storage];
    Value& value = values_[record.versions.back()];
    // The graph has let go of it, or somebody unseen has written to it.
    if (!value.held || value.producer == kNone || record.tickets == 0) return true;
    if (!offloads_->may_go(leaving.admitted) || value.held.use_count() > 1) return false;
    if (!offloads_->has_room(static_cast<int64_t>(value.bytes))) return true;
    value.slot = offloads_->send(value.held, record.dtype);
    if (value.slot == Offloads::kNoSlot) return true;
    value.held = c10::Storage();
    value.stored = !offloads_->recomputes();
    return true;
  });
}

/// By a schedule. What the store does not take stays held.
void Tape::send_held(ValueId id) {
  Value& value = values_[id];
  c10::Storage contents = yielding_->take(id);
  if (!contents) return;
  gauge().count_on(contents);  // in a plain step it would stay
  const auto bytes = static_cast<int64_t>(value.bytes);
  const BelowAutograd below;
  if (contents.use_count() == 1 && offloads_->has_room(bytes)) {
    value.slot = offloads_->send(contents, storages_[value.storage].dtype);
  }
  if (value.slot == kNone) return yielding_->hold(id, std::move(contents));
  options_.room->sent_bytes += bytes;
  yielding_->keep(id, true);
}

/// The forward pass is over; what has not been sent by now stays.
void Tape::end_sending() {
  send_released();
  int64_t last = 0, alive = 0;
  for (const Leaving& leaving : leaving_) {
    ++(offloads_->may_go(leaving.admitted) ? alive : last);
  }
  offloads_->end_forward(last, alive);
  leaving_.clear();
}

c10::Storage Tape::bring_from_store(ValueId id) {
  Value& value = values_[id];
  c10::Storage storage = offloads_->fetch(value.slot);
  if (!yielding_) {
    if (storage && value.waiting > 1) value.cached = storage;
  } else if (storage) {
    options_.room->fetched_bytes += static_cast<int64_t>(value.bytes);
    yielding_->hold(id, storage);
  } else {
    yielding_->keep(id, false);  // lost
  }
  return storage;
}

/// A kept tensor is asked for: the backward pass goes on, and will come to others.
void Tape::look_ahead_in_store() {
  const int64_t pass = current_pass();
  if (pass == kNoPass) return;
  if (pass != pass_) count_waiting(pass);
  const BelowAutograd below;
  offloads_->look_ahead();
}

OffloadSummary Tape::offload_summary() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  return offloads_->summary();
}

}  // namespace reprise::detail
