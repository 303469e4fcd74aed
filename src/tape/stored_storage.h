// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <reprise/store.h>

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include "tape/in_flight.h"
#include "torch/side_copy.h"

// One storage on its way to a store, in it, and on its way back; from an accelerator by way of the
// host. Nothing waits until it must.

namespace reprise::detail {

class StoredStorage {
 public:
  /// Begins to send. REQUIRES: nobody else has the contents; below autograd.
  StoredStorage(const Store& store, c10::Storage contents, c10::ScalarType dtype);

  int64_t bytes() const { return bytes_; }

  /// Whether it is still on its way from a device to the host.
  bool is_leaving() const { return copy_out_.has_value(); }

  /// What can go on without waiting goes on. To be called now and then.
  void go_on();

  /// Begins to fetch, unless it has begun; false if that was not needed: the bytes are still at
  /// hand. Throws StoreError. REQUIRES: below autograd, as the rest.
  bool begin_fetch();
  bool is_fetching() const { return static_cast<bool>(target_); }

  /// Waits for the contents and hands them out. Throws StoreError. REQUIRES: is_fetching().
  c10::Storage end_fetch();

  /// Gives up a fetch that has begun.
  void cancel_fetch();

  /// Nobody will fetch it any more. False if it could not be sent.
  bool release();

 private:
  void send(c10::Storage host);

  const Store store_;
  const int64_t bytes_;
  const c10::ScalarType dtype_;
  const c10::Device device_;

  // Out: from the device into `leaving_`, and from there into the store, if it takes it.
  c10::Storage leaving_;
  std::optional<SideCopy> copy_out_;
  std::weak_ptr<const Flight> payload_;  // as long as the store holds it
  std::shared_ptr<Block> block_;

  // Back: from the store into `target_` or, for a device, into `host_`, and from there on.
  c10::Storage target_, host_;
  Fetch fetch_;
  std::optional<SideCopy> copy_in_;
};

}  // namespace reprise::detail
