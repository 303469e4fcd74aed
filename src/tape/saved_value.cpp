// SPDX-License-Identifier: BSD-3-Clause
#include "tape/saved_value.h"

#include <utility>

namespace reprise::detail {

// tensor_data(), because the tensor may be an output of the very node that is to own this.
SavedValue::SavedValue(const at::Tensor& tensor) : kept_(tensor.tensor_data()) {
  if (!tensor.is_inference()) stamp_.emplace(tensor);
}

SavedValue::~SavedValue() {
  if (ticket_) tape_->release_ticket(*ticket_);
}

at::Tensor SavedValue::unpack() {
  if (stamp_) stamp_->check();
  if (!tape_) return kept_;
  return tape_->unpack(kept_, ticket_);
}

void SavedValue::exchange_for(std::size_t ticket, bool audit) {
  ticket_ = ticket;
  if (!audit) kept_ = at::Tensor();
}

}  // namespace reprise::detail
