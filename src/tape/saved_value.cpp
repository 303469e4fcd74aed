// SPDX-License-Identifier: BSD-3-Clause
#include "tape/saved_value.h"

#include <utility>

namespace reprise::detail {
namespace {

std::optional<VersionStamp> stamp_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? std::nullopt : std::optional<VersionStamp>(tensor);
}

}  // namespace

// tensor_data(), because the tensor may be an output of the very node that is to own this.
SavedValue::SavedValue(const at::Tensor& tensor)
    : stamp_(stamp_of(tensor)), kept_(tensor.tensor_data()) {}

SavedValue::SavedValue(std::shared_ptr<Tape> tape, std::size_t ticket, const at::Tensor& tensor)
    : stamp_(stamp_of(tensor)), tape_(std::move(tape)), ticket_(ticket), geometry_(tensor) {}

SavedValue::~SavedValue() {
  if (tape_) tape_->release_ticket(ticket_);
}

at::Tensor SavedValue::unpack() {
  if (stamp_) stamp_->check();
  return kept_.defined() ? kept_ : tape_->bring_back(ticket_, *geometry_);
}

}  // namespace reprise::detail
