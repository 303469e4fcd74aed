// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace reprise::stress {

/// Threads that train small models at once under one budget, with plans made beside them, against
/// plain, bit by bit; in some steps a pass fails. Throws where something differs or is left.
/// Returns how many steps followed a plan.
int64_t check_budgets(unsigned seed);

}  // namespace reprise::stress
