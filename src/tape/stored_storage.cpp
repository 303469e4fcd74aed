// SPDX-License-Identifier: BSD-3-Clause
#include "tape/stored_storage.h"

#include <utility>

#include "torch/geometry.h"

namespace reprise::detail {

StoredStorage::StoredStorage(const Store& store, c10::Storage contents, c10::ScalarType dtype)
    : store_(store),
      bytes_(static_cast<int64_t>(contents.nbytes())),
      dtype_(dtype),
      device_(contents.device()) {
  if (device_.is_cpu()) {
    send(std::move(contents));
  } else {
    leaving_ = pinned_storage(contents.nbytes());
    copy_out_ = SideCopy::to_host(contents, leaving_);
    go_on();
  }
}

void StoredStorage::send(c10::Storage host) {
  const auto flight = std::make_shared<Flight>(std::move(host));
  payload_ = flight;
  Payload payload;
  payload.data = std::shared_ptr<const void>(flight, flight->contents().data());
  payload.bytes = bytes_;
  payload.element_size = static_cast<int>(c10::elementSize(dtype_));
  payload.copied = !device_.is_cpu();
  payload.float32 = dtype_ == c10::ScalarType::Float;
  block_ = std::make_shared<Block>(store_.send(std::move(payload)));
  flight->is_for(block_);
}

void StoredStorage::go_on() {
  if (copy_out_ && copy_out_->done()) {
    copy_out_.reset();
    try {
      send(leaving_);
      leaving_ = c10::Storage();
    } catch (const StoreError&) {  // it stays on the host
    }
  }
  if (host_ && !copy_in_ && (!fetch_ || fetch_.done())) {
    if (fetch_) fetch_.wait();
    copy_in_ = SideCopy::to_device(host_, target_);
  }
}

bool StoredStorage::begin_fetch() {
  if (target_) return false;
  if (copy_out_) copy_out_->wait();  // it has not even left for the store
  c10::Storage at_hand = leaving_;
  const auto payload = payload_.lock();
  if (payload && block_->payload()) at_hand = payload->contents();
  if (device_.is_cpu() && at_hand) {
    target_ = std::move(at_hand);
    return false;
  }
  const auto size = static_cast<std::size_t>(bytes_);
  target_ = empty_like_storage(size, device_);
  try {
    if (at_hand) {
      host_ = std::move(at_hand);
      go_on();
      return false;
    }
    if (!device_.is_cpu()) host_ = pinned_storage(size);
    const auto into = std::make_shared<c10::Storage>(host_ ? host_ : target_);
    fetch_ = block_->fetch(std::shared_ptr<void>(into, into->mutable_data()));
  } catch (...) {
    cancel_fetch();
    throw;
  }
  return true;
}

c10::Storage StoredStorage::end_fetch() {
  if (fetch_) fetch_.wait();
  go_on();
  if (copy_in_) copy_in_->wait_on_stream();
  c10::Storage contents = target_;
  cancel_fetch();
  return contents;
}

void StoredStorage::cancel_fetch() {
  if (copy_in_ && !has_pinned_memory()) copy_in_->wait();  // the pool sees to that itself
  copy_in_.reset();
  fetch_ = Fetch();
  host_ = c10::Storage();
  target_ = c10::Storage();
}

bool StoredStorage::release() {
  cancel_fetch();
  bool sent = !leaving_ || copy_out_;
  if (copy_out_ && !has_pinned_memory()) copy_out_->wait();
  copy_out_.reset();
  leaving_ = c10::Storage();
  if (block_ && block_->done()) {
    try {
      block_->wait();
    } catch (const StoreError&) {
      sent = false;
    }
  }
  block_.reset();
  return sent;
}

}  // namespace reprise::detail
