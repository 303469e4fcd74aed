// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/budget_infeasible.h>

// What the process allocator does when a block would pass its limit.

namespace reprise::detail {

/// Makes the process allocator drop what tapes hold, from now on. Thread-safe.
void install_room_maker();

/// Of the process: blocks above the limit that could not be refused.
int64_t overruns();

/// The BudgetInfeasible that this thread has thrown last, and how many there were.
struct LastInfeasible {
  int64_t count = 0;
  BudgetInfeasible error{"", "", 0, 0, ""};
};
LastInfeasible& last_infeasible();

/// "1234 bytes (1.2 KiB)"
std::string text_of_bytes(int64_t bytes);

}  // namespace reprise::detail
