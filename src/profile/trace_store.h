// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <reprise/store.h>

namespace reprise::detail {

/// By how much each byte that a store moved between the two makes a step longer, in microseconds.
/// What the store's threads take of the processor is lost to a step that computes on all cores, for
/// an operator waits for the slowest of its threads; else nothing is. 0 if none
/// were moved.
double work_per_byte(const StoreStats& before, const StoreStats& now);

}  // namespace reprise::detail
