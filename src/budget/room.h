// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/budget_infeasible.h>

#include "meter/limited_memory.h"

// What happens when bytes to come would pass the limit of a device.

namespace reprise::detail {

/// From now on, what tapes hold there is dropped then. Thread-safe.
void install_room_maker(LimitedMemory& memory);

/// The BudgetInfeasible that this thread has thrown last, and how many there were.
struct LastInfeasible {
  int64_t count = 0;
  BudgetInfeasible error{"", "", 0, 0, ""};
};
LastInfeasible& last_infeasible();

/// "1234 bytes (1.2 KiB)"
std::string text_of_bytes(int64_t bytes);

}  // namespace reprise::detail
