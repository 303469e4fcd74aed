// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include <c10/core/Storage.h>

// Memory of the CPU on its way to a store: it goes by itself when the bytes have arrived, so
// whoever needs room may wait for it. Thread-safe.

namespace reprise::detail {

/// The storage counts as in flight until the last owner of this is gone.
std::shared_ptr<c10::Storage> in_flight(c10::Storage storage);

int64_t bytes_in_flight();

/// Waits until something has arrived; false if nothing is in flight, or nothing arrives for long.
bool wait_for_arrival();

}  // namespace reprise::detail
