// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <reprise/store.h>

#include <c10/core/Device.h>

namespace reprise::stress {

/// Threads that train small models at once under one budget, with plans made beside them that send
/// to the store if there is one, against plain, bit by bit; in some steps a pass fails. Throws
/// where something differs or is left. Returns how many steps followed a plan.
int64_t check_budgets(unsigned seed, c10::Device device, const Store* store);

}  // namespace reprise::stress
